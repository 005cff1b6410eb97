//! Virtual cores: threads that a program's own scheduler divides (T4, Tessellation's PULSE).
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | the native calls; numbers, arguments and errors are in `gyre_contract::native` |
//! | [`vcore`] | a virtual core: its area, its ticks, its limit |
//! | [`upcall`] | a tick on its way to the program |
//! | [`context`] | saved registers, which are checked when they come back |
//! | [`hand_over`] | a thread that runs in another one's place |
//!
//! States of a virtual core: ticks let in, masked, masked with a tick that waits, overrun (it is an ordinary thread then). Only the thread's own
//! task changes them, on its way to the program.

pub mod calls;
pub mod context;
pub mod hand_over;
pub mod upcall;
pub mod vcore;

pub use hand_over::Turn;
pub(crate) use upcall::{before_handler, look, look_at_once};
pub use vcore::Vcore;

use crate::Outcome;
use crate::run::Running;

/// Another program knows nothing of the virtual core.
pub(crate) fn unless_replaced(outcome: Outcome, running: &mut Running) -> Outcome {
    if outcome.is_ok() {
        running.pulse = None;
    }
    outcome
}
