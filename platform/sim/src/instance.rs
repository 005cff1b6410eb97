//! Statics of an image, one value for each instance.

use crate::machine::Machine;
use std::any::Any;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Statics that all crates and tests of a process may declare.
const STATICS_MAX: usize = 128;
/// The number of the next one that is looked at for the first time.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A static of which each instance has its own value, made when the instance looks at it for the first time.
///
/// Declare it by `gyre_object::per_instance!`, which makes a plain static of it on the machine. The value lives as long as the instance.
pub struct PerInstance<T: Sync + 'static> {
    make: fn() -> T,
    number: OnceLock<usize>,
}

impl<T: Sync + 'static> PerInstance<T> {
    /// A static whose value is made by `make`.
    pub const fn new(make: fn() -> T) -> PerInstance<T> {
        PerInstance { make, number: OnceLock::new() }
    }

    fn make(&self) -> &'static (dyn Any + Sync) {
        let value: &'static T = Box::leak(Box::new((self.make)()));
        value
    }
}

impl<T: Sync + 'static> Deref for PerInstance<T> {
    type Target = T;

    /// The value of the instance that this thread plays.
    #[inline]
    fn deref(&self) -> &T {
        let number = *self.number.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed));
        let slot = Machine::current().statics.0.get(number).expect("there are more statics than STATICS_MAX");
        let value: &'static dyn Any = *slot.get_or_init(|| self.make());
        value.downcast_ref().expect("a number belongs to one static")
    }
}

/// The values of one machine's statics.
pub(crate) struct Statics([OnceLock<&'static (dyn Any + Sync)>; STATICS_MAX]);

impl Statics {
    pub(crate) const fn new() -> Statics {
        Statics([const { OnceLock::new() }; STATICS_MAX])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COUNT: PerInstance<AtomicUsize> = PerInstance::new(|| AtomicUsize::new(7));
    static TABLE: PerInstance<[AtomicUsize; 2]> = PerInstance::new(|| [const { AtomicUsize::new(0) }; 2]);

    fn add() -> usize {
        COUNT.fetch_add(1, Ordering::Relaxed)
    }

    #[test]
    fn each_instance_has_its_own_value() {
        let (one, other) = (Machine::new(), Machine::new());
        assert_eq!((one.within(add), one.within(add), other.within(add), add()), (7, 8, 7, 7));
        one.within(|| TABLE[1].store(5, Ordering::Relaxed));
        assert_eq!(other.within(|| TABLE[1].load(Ordering::Relaxed)), 0);
    }

    #[test]
    fn threads_of_one_instance_share_the_value() {
        let machine = Machine::new();
        std::thread::scope(|threads| {
            for core in 0..4 {
                threads.spawn(move || {
                    Machine::join(machine, core);
                    add();
                });
            }
        });
        assert_eq!(machine.within(add), 11);
        // A thread that never chose has an instance of its own.
        assert_eq!(std::thread::spawn(add).join().unwrap(), 7);
    }
}
