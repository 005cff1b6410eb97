//! Long work in pieces: after each, the core is given to others if it was held long enough.

use crate::time::ns_to_cycles;

/// The time that one turn of long work holds the core, nanoseconds.
const TURN_NS: u64 = 200_000;
/// Most pieces of one turn, even if they are short.
const TURN_PIECES: u32 = 1024;

/// The rest of one turn of long work.
pub struct Pace {
    until_cycles: u64,
    pieces: u32,
}

impl Pace {
    /// Makes a turn that begins now.
    pub fn new() -> Pace {
        Pace { until_cycles: gyre_machine::now().saturating_add(ns_to_cycles(TURN_NS)), pieces: 0 }
    }

    /// Counts a piece; true if the turn is over.
    pub fn is_over(&mut self) -> bool {
        self.pieces = self.pieces.saturating_add(1);
        self.pieces >= TURN_PIECES || gyre_machine::now() >= self.until_cycles
    }

    /// Counts a piece; if the turn is over, lets other tasks go first.
    pub async fn step(&mut self) {
        if self.is_over() {
            gyre_message::yield_now().await;
            *self = Pace::new();
        }
    }
}
