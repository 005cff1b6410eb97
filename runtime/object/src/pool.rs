//! Typed pools of objects: a limit and counts that a user can see (paper section IV-A).
//!
//! An object is a [`Pooled`]: counted references, freed with the last one. Memory comes from the kernel heap, whose size
//! classes already are slabs; a second free list per pool would only keep memory from others.

use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The pool has given out as many objects as it may. Later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolFull;

/// Counts of a pool since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolStatistics {
    /// Objects alive.
    pub live: usize,
    /// Most objects alive at once.
    pub live_max: usize,
    /// Objects made in all.
    pub made: u64,
    /// Requests refused.
    pub refused: u64,
    /// Objects that may be alive at once.
    pub limit: usize,
    /// Size of one object, bytes.
    pub object_bytes: usize,
}

impl PoolStatistics {
    /// Adds the counts of another pool of the same type; what was most at once is then an upper bound.
    pub fn add(&mut self, other: &PoolStatistics) {
        self.live += other.live;
        self.live_max += other.live_max;
        self.made += other.made;
        self.refused += other.refused;
        self.limit = self.limit.saturating_add(other.limit);
    }
}

/// A pool that can tell its counts, for any type of object.
pub trait Counted: Sync {
    /// Its counts since its start.
    fn statistics(&self) -> PoolStatistics;
}

/// Objects of one type, at most `limit` alive at once.
pub struct Pool<T: 'static> {
    limit: usize,
    live: AtomicUsize,
    live_max: AtomicUsize,
    made: AtomicU64,
    refused: AtomicU64,
    /// Says which type; the objects themselves are held by their references.
    of: PhantomData<fn() -> T>,
}

/// The part that all references share: the object, and the duty to count it out when the last one goes.
struct Cell<T: 'static> {
    object: T,
    pool: &'static Pool<T>,
}

impl<T> Drop for Cell<T> {
    fn drop(&mut self) {
        self.pool.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A counted reference to an object of a [`Pool`].
pub struct Pooled<T: 'static>(Arc<Cell<T>>);

impl<T> Pool<T> {
    /// Makes an empty pool.
    pub const fn new(limit: usize) -> Pool<T> {
        Pool {
            limit,
            live: AtomicUsize::new(0),
            live_max: AtomicUsize::new(0),
            made: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            of: PhantomData,
        }
    }

    /// Puts an object into the pool.
    ///
    /// # Errors
    /// [`PoolFull`] at the limit; the object is dropped.
    pub fn insert(&'static self, object: T) -> Result<Pooled<T>, PoolFull> {
        let live = self.live.fetch_add(1, Ordering::Relaxed) + 1;
        if live > self.limit {
            self.live.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(PoolFull);
        }
        self.live_max.fetch_max(live, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Pooled(Arc::new(Cell { object, pool: self })))
    }
}

impl<T> Counted for Pool<T> {
    fn statistics(&self) -> PoolStatistics {
        PoolStatistics {
            live: self.live.load(Ordering::Relaxed),
            live_max: self.live_max.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            limit: self.limit,
            object_bytes: size_of::<T>(),
        }
    }
}

impl<T> Pooled<T> {
    /// Returns how many references there are.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Returns true if both are the same object.
    pub fn same(&self, other: &Pooled<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Clone for Pooled<T> {
    fn clone(&self) -> Self {
        Pooled(self.0.clone())
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reference_frees_and_the_limit_holds() {
        static POOL: Pool<u32> = Pool::new(2);
        let first = POOL.insert(1).unwrap();
        let second = POOL.insert(2).unwrap();
        assert!(POOL.insert(3).is_err());
        let again = first.clone();
        drop(first);
        assert_eq!((*again, POOL.statistics().live), (1, 2));
        drop(again);
        assert!(POOL.insert(4).is_ok());
        drop(second);
        let counts = POOL.statistics();
        assert_eq!((counts.live, counts.live_max, counts.made, counts.refused), (0, 2, 3, 1));
    }
}
