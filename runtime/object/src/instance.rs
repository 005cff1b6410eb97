//! Statics of an instance: state that each kernel has once, even if several kernels run in one process of the simulator.
//!
//! On the machine an instance is an image with its own copy of all statics, so such a static is a plain one. On a host all instances share
//! one image, so each machine of the simulator keeps a value of its own (see `gyre_sim::PerInstance`).

#[cfg(not(target_os = "none"))]
pub use gyre_machine::PerInstance;

/// A static of an instance. On the machine it is the value itself, and a look costs nothing.
#[cfg(target_os = "none")]
#[repr(transparent)]
pub struct PerInstance<T: Sync + 'static>(T);

#[cfg(target_os = "none")]
impl<T: Sync + 'static> PerInstance<T> {
    /// Makes a static with this value.
    pub const fn new(value: T) -> PerInstance<T> {
        PerInstance(value)
    }
}

#[cfg(target_os = "none")]
impl<T: Sync + 'static> core::ops::Deref for PerInstance<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Declares statics of which each instance has its own value. The values must be constants; `NAME` derefs to the value.
///
/// A plain `static` that holds state is a mistake in a crate that the simulator runs: two instances would share it.
///
/// ```ignore
/// gyre_object::per_instance! {
///     /// Requests so far.
///     static REQUESTS: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
/// }
/// REQUESTS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
/// ```
#[macro_export]
macro_rules! per_instance {
    ($($(#[$meta:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)+) => {$(
        #[cfg(target_os = "none")]
        $(#[$meta])*
        $visibility static $name: $crate::PerInstance<$type> = $crate::PerInstance::new($value);
        #[cfg(not(target_os = "none"))]
        $(#[$meta])*
        $visibility static $name: $crate::PerInstance<$type> = $crate::PerInstance::new(|| const { $value });
    )+};
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};
    use gyre_machine::Machine;

    // By its public path, with a comment, as another crate writes it.
    extern crate self as gyre_object;

    gyre_object::per_instance! {
        /// Requests so far.
        static COUNT: AtomicU32 = AtomicU32::new(3);
        static TABLE: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    }

    #[test]
    fn each_instance_counts_for_itself() {
        let (one, other) = (Machine::new(), Machine::new());
        let count = || COUNT.fetch_add(1, Ordering::Relaxed);
        assert_eq!((one.within(count), one.within(count), other.within(count)), (3, 4, 3));
        one.within(|| TABLE[1].store(9, Ordering::Relaxed));
        assert_eq!(other.within(|| TABLE.iter().map(|word| word.load(Ordering::Relaxed)).sum::<u32>()), 0);
    }
}
