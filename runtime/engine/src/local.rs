//! State that belongs to one core: no lock, no atomic instruction.

use alloc::boxed::Box;
use core::cell::RefCell;
use gyre_machine::CORES_MAX;

/// Keeps the state of two cores out of one line of cache.
#[repr(align(64))]
struct PerCore<T>(T);

/// One value per core, each touched by its core only.
pub(crate) struct CoreLocal<T> {
    values: Box<[PerCore<T>; CORES_MAX]>,
}

// SAFETY: `here` gives out the value of the calling core only. One thread plays a core, on the machine by nature and on a host by
// the contract of `select_core`, `Machine::select` and `Machine::join`, so no value is touched by two threads at once.
unsafe impl<T> Sync for CoreLocal<T> {}
// SAFETY: as above; moving the whole table moves values that are not touched meanwhile.
unsafe impl<T> Send for CoreLocal<T> {}

impl<T> CoreLocal<T> {
    pub(crate) fn new(make: impl FnMut(usize) -> T) -> CoreLocal<T> {
        let values: Box<[PerCore<T>]> = (0..CORES_MAX).map(make).map(PerCore).collect();
        // A fixed number, and the index of a core is below it: no bound is checked. Turned in place, it is too large for a stack.
        let Ok(values) = values.try_into() else { unreachable!("there are as many as cores") };
        CoreLocal { values }
    }

    /// Returns the value of the core that calls.
    #[inline]
    pub(crate) fn here(&self) -> &T {
        &self.values[gyre_machine::core_index()].0
    }
}

/// State that a core borrows for moments in which no foreign code runs.
pub(crate) type Borrowed<T> = CoreLocal<RefCell<T>>;
