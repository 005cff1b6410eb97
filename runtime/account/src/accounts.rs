//! The books of an instance: its activities and, per core, time line and ledger.

use crate::timeline::TimeLine;
use crate::tree::Activities;
use alloc::boxed::Box;

/// Activities, and the time line of each core.
pub struct Accounts {
    /// The activities that exist.
    pub activities: Activities,
    lines: Box<[TimeLine]>,
}

impl Accounts {
    /// Books for `cores` cores.
    pub fn new(cores: usize) -> Accounts {
        Accounts {
            activities: Activities::new(),
            lines: (0..cores.max(1)).map(|_| TimeLine::new(crate::limits::ACTIVITIES_MAX)).collect(),
        }
    }

    /// Returns the time line of a core; that of the last core for a number that is too large.
    #[inline]
    pub fn line(&self, core: usize) -> &TimeLine {
        &self.lines[core.min(self.lines.len() - 1)]
    }

    /// Returns the time lines of all cores.
    pub fn lines(&self) -> &[TimeLine] {
        &self.lines
    }
}
