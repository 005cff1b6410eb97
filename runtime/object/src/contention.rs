//! Contention by the type of the protected value: for locks of objects that come and go, which are not listed one by one.
//!
//! It is written only when a core had to wait, so it costs nothing without waits.

use crate::lock::LockProfile;
use crate::{SetOnce, per_instance};
use core::sync::atomic::{AtomicU64, Ordering};

/// Types that are told apart; what comes later is counted together.
const TYPES_MAX: usize = 64;
/// The name of all the others.
const OTHERS: &str = "other types";

struct Entry {
    name: SetOnce<&'static str>,
    contended: AtomicU64,
    waited_cycles: AtomicU64,
}

impl Entry {
    const fn new() -> Entry {
        Entry { name: SetOnce::new(), contended: AtomicU64::new(0), waited_cycles: AtomicU64::new(0) }
    }

    /// True for the entry of this type, which a free one becomes.
    fn is_of(&self, name: &'static str) -> bool {
        if self.name.get().is_none() {
            self.name.set(name);
        }
        self.name.get() == Some(name)
    }
}

per_instance! {
    static TABLE: [Entry; TYPES_MAX] = [const { Entry::new() }; TYPES_MAX];
    static REST: Entry = Entry::new();
}

/// Counts that a core waited so long for a lock of this type.
#[cold]
pub(crate) fn count<T: ?Sized>(waited_cycles: u64) {
    let entry = entry(core::any::type_name::<T>());
    entry.contended.fetch_add(1, Ordering::Relaxed);
    entry.waited_cycles.fetch_add(waited_cycles, Ordering::Relaxed);
}

fn entry(name: &'static str) -> &'static Entry {
    let rest: &'static Entry = &REST;
    TABLE.iter().find(|entry| entry.is_of(name)).unwrap_or(rest)
}

/// Lists how often, and how long, cores waited for locks of each type. Each lock itself counts how often it was taken, so that is 0 here.
pub(crate) fn by_type() -> impl Iterator<Item = (&'static str, LockProfile)> {
    let profile = |entry: &'static Entry| {
        let contended = entry.contended.load(Ordering::Relaxed);
        let waited_cycles = entry.waited_cycles.load(Ordering::Relaxed);
        (entry.name.get().unwrap_or(OTHERS), LockProfile { taken: 0, contended, waited_cycles })
    };
    let rest: &'static Entry = &REST;
    TABLE.iter().chain([rest]).map(profile).filter(|(_, profile)| profile.contended > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Wanted;
    struct Unwanted;

    #[test]
    fn each_type_has_its_own_sum() {
        count::<Wanted>(5);
        count::<Wanted>(7);
        let of = |name: &str| by_type().find(|(known, _)| known.ends_with(name)).map(|(_, profile)| profile);
        assert_eq!(of("::Wanted"), Some(LockProfile { taken: 0, contended: 2, waited_cycles: 12 }));
        assert_eq!(of("::Unwanted"), None);
        let _ = Unwanted;
    }
}
