//! The commands of the program.

pub(crate) mod deadlines;
pub(crate) mod hand_over;
mod kernel_deadlines;
pub(crate) mod overrun;
pub(crate) mod policies;
pub(crate) mod share;
pub(crate) mod ticks;
