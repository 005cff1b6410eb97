//! Counts of objects by type, if they are made all over and no pool bounds them: each holds a [`Counter`] and is counted
//! out when it is dropped.

use crate::pool::{Counted, PoolStatistics};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The objects of a type.
pub struct Census {
    live: AtomicUsize,
    live_max: AtomicUsize,
    made: AtomicU64,
    object_bytes: usize,
}

/// Held by an object for as long as it lives.
pub struct Counter(&'static Census);

impl Census {
    /// No objects of type `T` yet.
    pub const fn of<T>() -> Census {
        Census {
            live: AtomicUsize::new(0),
            live_max: AtomicUsize::new(0),
            made: AtomicU64::new(0),
            object_bytes: size_of::<T>(),
        }
    }

    /// Counts an object in.
    pub fn count(&'static self) -> Counter {
        let live = self.live.fetch_add(1, Ordering::Relaxed) + 1;
        self.live_max.fetch_max(live, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
        Counter(self)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counted for Census {
    fn statistics(&self) -> PoolStatistics {
        PoolStatistics {
            live: self.live.load(Ordering::Relaxed),
            live_max: self.live_max.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
            refused: 0,
            limit: usize::MAX,
            object_bytes: self.object_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_counted_as_long_as_it_lives() {
        static CENSUS: Census = Census::of::<u64>();
        let first = CENSUS.count();
        drop(CENSUS.count());
        assert_eq!(CENSUS.statistics().live, 1);
        drop(first);
        let counts = CENSUS.statistics();
        assert_eq!((counts.live, counts.live_max, counts.made, counts.object_bytes), (0, 2, 2, 8));
    }
}
