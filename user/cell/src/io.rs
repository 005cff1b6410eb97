//! Cores of a cell while all fibers wait for lines. A policy is a file.

mod poll;
mod wait;

pub use poll::Poll;
pub use wait::Wait;

/// The next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Look at the lines again.
    Look,
    /// Leave the core to the kernel until a line is answered.
    Idle,
}

/// A policy.
pub trait Io {
    /// All fibers wait, and no line was answered since the last question.
    fn rest(&mut self) -> Rest;

    /// A line was answered.
    fn answered(&mut self);
}
