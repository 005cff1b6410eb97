//! One set of viewers, and what its pages amount to.

use crate::ActivityId;
use alloc::vec::Vec;

/// The viewers of a set's pages, and how often each of them shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Viewer {
    pub(crate) id: ActivityId,
    /// Mappings of each page in its address space.
    pub(crate) times: u32,
}

impl Viewer {
    pub(crate) fn once(id: ActivityId) -> Viewer {
        Viewer { id, times: 1 }
    }
}

/// Pages with the same viewers. By `bytes` and `moment` as for an activity (see [`crate::memory`]).
#[derive(Default)]
pub(crate) struct Set {
    pub(crate) generation: u16,
    /// The slot of the tenant; `None` for a free place.
    pub(crate) lead: Option<usize>,
    /// In order of their ids.
    pub(crate) viewers: Vec<Viewer>,
    pub(crate) hash: u32,
    /// Changes under way that lead here.
    pub(crate) pins: u32,
    pub(crate) bytes: u64,
    pub(crate) moment: u64,
    /// Its tenant is gone, and has left what is here.
    pub(crate) is_left: bool,
}

impl Set {
    /// Returns true if a viewer may come (`by` 1), or is there to go (-1).
    pub(crate) fn may_change(&self, who: ActivityId, by: i32) -> bool {
        match by {
            1 => self.lead == Some(who.lead_index()) && !self.is_left,
            _ => self.viewers.binary_search_by_key(&who, |viewer| viewer.id).is_ok(),
        }
    }

    /// Nothing is in it and nothing comes.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes == 0 && self.pins == 0
    }

    pub(crate) fn add(&mut self, bytes: u64, ms: u64) {
        self.bytes = self.bytes.wrapping_add(bytes);
        self.moment = self.moment.wrapping_add(bytes.wrapping_mul(ms));
    }

    pub(crate) fn remove(&mut self, bytes: u64, ms: u64) {
        self.bytes = self.bytes.wrapping_sub(bytes);
        self.moment = self.moment.wrapping_sub(bytes.wrapping_mul(ms));
    }

    /// Returns the bytes x ms up to now.
    pub(crate) fn integral(&self, ms: u64) -> i64 {
        self.bytes.wrapping_mul(ms).wrapping_sub(self.moment).cast_signed()
    }

    /// Divides an amount among the viewers, the remainder to the first.
    pub(crate) fn divide(&self, amount: i64, mut each: impl FnMut(ActivityId, i64)) {
        let all: i64 = self.viewers.iter().map(|viewer| i64::from(viewer.times)).sum();
        let Some((first, others)) = self.viewers.split_first() else { return };
        let mut left = amount;
        for viewer in others {
            let part = part_of(amount, i64::from(viewer.times), all.max(1));
            left = left.wrapping_sub(part);
            each(viewer.id, part);
        }
        each(first.id, left);
    }
}

fn part_of(amount: i64, times: i64, all: i64) -> i64 {
    match amount.checked_mul(times) {
        Some(product) => product / all,
        None => (i128::from(amount) * i128::from(times) / i128::from(all)) as i64,
    }
}

/// The viewers after one has come (`by` 1) or gone (-1). One who was not there does not go.
pub(crate) fn changed(viewers: &[Viewer], who: ActivityId, by: i32) -> impl Iterator<Item = Viewer> + Clone {
    let at = viewers.partition_point(|viewer| viewer.id < who);
    let (below, above) = viewers.split_at(at);
    let (times, above) = match above.split_first() {
        Some((own, above)) if own.id == who => (own.times, above),
        _ => (0, above),
    };
    let own = times.checked_add_signed(by).filter(|times| *times > 0).map(|times| Viewer { id: who, times });
    below.iter().copied().chain(own).chain(above.iter().copied())
}

/// Returns a viewer's part of the hash of a set, which is the sum over all.
pub(crate) fn hash_of(id: ActivityId) -> u32 {
    let mixed = (id.0 ^ id.0 >> 16).wrapping_mul(0x9e37_79b1);
    mixed ^ mixed >> 15
}
