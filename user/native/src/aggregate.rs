//! CPU aggregates: a program divides its own processor time, and what its flows read, among groups of its threads.

use std::io;

use gyre_contract::native::{self, AggregateFigures};
use zerocopy::FromBytes as _;

use crate::call;

/// A group of threads with a share of the process's time.
#[derive(Debug, PartialEq, Eq)]
pub struct Aggregate {
    number: u64,
}

/// The order of the threads of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In turn.
    RoundRobin,
    /// The most urgent one, always.
    Priority,
    /// In proportion to their shares.
    Shares,
    /// Budgets in periods, the nearest deadline first.
    Deadlines,
}

/// The word by which an aggregate's policy knows a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing: in turn.
    InTurn,
    /// A larger number goes first.
    Urgency(u8),
    /// 1 to 1,000,000.
    Share(u32),
    /// So much in each period, both 1 us to 10 s.
    Budget {
        /// The time that it gets, ns.
        ns: u64,
        /// Of so much time, ns.
        period_ns: u64,
    },
}

impl Policy {
    fn number(self) -> u64 {
        match self {
            Policy::RoundRobin => native::AGGREGATE_ROUND_ROBIN,
            Policy::Priority => native::AGGREGATE_PRIORITY,
            Policy::Shares => native::AGGREGATE_SHARES,
            Policy::Deadlines => native::AGGREGATE_DEADLINES,
        }
    }
}

impl Aggregate {
    /// Makes an aggregate with a share (1 to 1,000,000) of this process's time.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on Linux.
    pub fn new(share: u32, policy: Policy) -> io::Result<Aggregate> {
        let words = [0, i64::from(share), policy.number() as i64];
        let number = call::numbers(native::AGGREGATE, words)?;
        u64::try_from(number).map(|number| Aggregate { number }).map_err(io::Error::other)
    }

    /// Gives it another share.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_share(&self, share: u32) -> io::Result<()> {
        let words = [self.number as i64, i64::from(share), native::AGGREGATE_SAME as i64];
        call::numbers(native::AGGREGATE, words).map(drop)
    }

    /// Has the calling thread stand in it; threads that it starts from now on do so too.
    ///
    /// # Errors
    /// The kernel's error: `InvalidInput` for a place that its policy does not know.
    pub fn join(&self, place: Place) -> io::Result<()> {
        let (first, second) = match place {
            Place::InTurn => (0, 0),
            Place::Urgency(urgency) => (u64::from(urgency), 0),
            Place::Share(share) => (u64::from(share), 0),
            Place::Budget { ns, period_ns } => (ns, period_ns),
        };
        call::numbers(native::AGGREGATE_JOIN, [self.number as i64, first as i64, second as i64]).map(drop)
    }

    /// Reads what its threads have used.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn figures(&self) -> io::Result<AggregateFigures> {
        let mut bytes = [0; size_of::<AggregateFigures>()];
        call::with_output(native::AGGREGATE_FIGURES, [self.number as i64], &mut bytes)?;
        AggregateFigures::read_from_bytes(&bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Ends it; no thread may stand in it.
    ///
    /// # Errors
    /// The kernel's error and the aggregate: `ResourceBusy` while a thread stands in it.
    pub fn close(self) -> Result<(), (io::Error, Aggregate)> {
        call::numbers(native::AGGREGATE_CLOSE, [self.number as i64]).map(drop).map_err(|error| (error, self))
    }
}

/// Has the calling thread stand in no aggregate.
///
/// # Errors
/// The kernel's error; `Unsupported` on Linux.
pub fn leave() -> io::Result<()> {
    call::numbers(native::AGGREGATE_JOIN, [0, 0, 0]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_has_no_aggregates_and_says_so() {
        let error = Aggregate::new(1, Policy::Shares).unwrap_err();
        assert_eq!(
            (error.raw_os_error(), leave().unwrap_err().raw_os_error()),
            (Some(libc::ENOSYS), Some(libc::ENOSYS))
        );
    }
}
