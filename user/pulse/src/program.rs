//! The commands of the program.

pub(crate) mod deadlines;
pub(crate) mod hand_over;
pub(crate) mod overrun;
pub(crate) mod policies;
pub(crate) mod ticks;
