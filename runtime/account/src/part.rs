//! The sum of an activity's parts of pages that it shows with others.

use crate::ActivityId;
use crate::limits::ACTIVITIES_MAX;
use crate::tree::Activities;
use crate::viewers::Set;
use alloc::vec::Vec;

/// Parts of the pages of sets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: i64,
    /// Bytes x ms up to now.
    pub(crate) integral: i64,
}

impl Part {
    fn add(&mut self, bytes: i64, integral: i64) {
        self.bytes = self.bytes.wrapping_add(bytes);
        self.integral = self.integral.wrapping_add(integral);
    }
}

impl Activities {
    /// Returns the parts of one activity.
    pub(crate) fn part_of(&self, id: ActivityId, ms: u64) -> Part {
        let mut part = Part::default();
        let shard = self.viewers.of_lead(id.lead_index());
        for set in shard.used().filter(|set| set.lead == Some(id.lead_index())) {
            self.each_part(set, ms, |viewer, bytes, integral| {
                if viewer == id.index() {
                    part.add(bytes, integral);
                }
            });
        }
        part
    }

    /// Returns the parts of all, by slot.
    pub(crate) fn parts(&self, ms: u64) -> Vec<Part> {
        let mut parts = alloc::vec![Part::default(); ACTIVITIES_MAX];
        self.viewers.each(|shard| {
            for set in shard.used() {
                self.each_part(set, ms, |viewer, bytes, integral| {
                    if let Some(part) = parts.get_mut(viewer) {
                        part.add(bytes, integral);
                    }
                });
            }
        });
        parts
    }

    /// Calls `each` with the slots of those who hold a set: those of viewers that exist, the tenant's for others.
    fn each_part(&self, set: &Set, ms: u64, mut each: impl FnMut(usize, i64, i64)) {
        let Some(lead) = set.lead.filter(|_| !set.is_left) else { return };
        let holder = |viewer: ActivityId| if self.exists(viewer) { viewer.index() } else { lead };
        set.divide(set.bytes.cast_signed(), |viewer, bytes| each(holder(viewer), bytes, 0));
        set.divide(set.integral(ms), |viewer, integral| each(holder(viewer), 0, integral));
    }
}
