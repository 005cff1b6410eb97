//! The words between a program's scheduler and its virtual cores.

use crate::Held;

/// The number of a virtual core, from 0. It stays with it while it moves between processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vcore(pub usize);

/// A policy. Each function is called on a virtual core with ticks masked; it takes no memory, does not block and returns soon: a virtual core that
/// masks ticks for longer than [`crate::Options::limit`] ends the program by SIGXCPU. Several virtual cores call at the same time: state lies in
/// [`crate::Spin`].
pub trait Scheduler: Sync {
    /// A thread is new, or goes on after it was blocked.
    fn ready(&self, core: Vcore, held: Held);
    /// A virtual core has nothing to run. `None` leaves it idle until a thread is ready.
    fn enter(&self, core: Vcore) -> Option<Held>;
    /// A tick has come while `running` ran.
    fn tick(&self, core: Vcore, running: Held) -> Option<Held>;
    /// The thread that ran gives its core up.
    fn yielded(&self, core: Vcore, running: Held) -> Option<Held>;
    /// The thread that ran has ended, or is blocked.
    fn done(&self, core: Vcore) -> Option<Held> {
        self.enter(core)
    }
    /// The program has another number of virtual cores from now on: those from `after` on ask for nothing. Called after [`crate::resize`], and
    /// by [`crate::Follows::Share`] when the processors that the program may use have changed.
    fn adapt(&self, _before: usize, _after: usize) {}
}
