//! Doubling: each request is twice the one before, as long as the program reads on.

use super::Ahead;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Doubling;

impl Ahead for Doubling {
    fn bytes(&mut self, before: u64, count: u64) -> u64 {
        match before {
            0 => count,
            _ => before.saturating_mul(2).max(count),
        }
    }
}
