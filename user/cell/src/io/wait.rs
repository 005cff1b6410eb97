//! Wait: the core is left at once. Others can have its cycles; an answer costs a wake-up.

use super::{Io, Rest};

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Wait;

impl Io for Wait {
    fn rest(&mut self) -> Rest {
        Rest::Idle
    }

    fn answered(&mut self) {}
}
