//! Cells: processes that own cores, memory and their page table. The list, the log, and what the owner takes back.
//!
//! * [`Seats`] is the answer to [`crate::native::CELL_LIST`]; [`Record`]s are those of [`crate::native::CELL_LOG`].
//! * [`Revoke`] is the request of [`crate::native::CELL_REVOKE`], [`Answer`] its answer; [`Offer`] that of [`crate::native::CELL_OFFER`],
//!   [`OfferAnswer`] its answer.
//!
//! A cell here is a process, not a cell in time ([`crate::cells`]). It is known by its tenant and the number of its process; its own number is
//! used again.
//!
//! Times are nanoseconds; moments count from the kernel's start.

use crate::zones::DeviceAddress;
use alloc::{string::String, vec::Vec};
use core::fmt;
use serde::{Deserialize, Serialize};

/// Records that the log keeps.
pub const RECORDS_MAX: usize = 256;
/// The longest time that a cell can be given to give back, ns.
pub const WITHIN_NS_MAX: u64 = 60_000_000_000;

/// All cells, and what none of them has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seats {
    /// Now.
    pub now_ns: u64,
    /// Memory that is kept for cells, bytes.
    pub pool_bytes: u64,
    /// Of that, bytes that no cell has.
    pub free_bytes: u64,
    /// Cores that a cell could have, by slot.
    pub free_cores: Vec<u32>,
    /// The cells.
    pub seats: Vec<Seat>,
    /// The devices of cells, by number.
    pub devices: Vec<Device>,
}

/// A device that cells can have, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its place.
    pub address: DeviceAddress,
    /// Its kind.
    pub kind: DeviceKind,
    /// The address of a card.
    pub mac: Option<[u8; 6]>,
    /// The number of the cell that has it.
    pub cell: Option<u16>,
    /// Bytes that this cell has read or received.
    pub read_bytes: u64,
    /// Bytes that it has written or sent.
    pub written_bytes: u64,
    /// Frames for which it offered no room, or which it may not send.
    pub lost_frames: u64,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A disk.
    Disk,
    /// A network card.
    Card,
}

impl DeviceKind {
    /// Returns its name in lists.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Card => "card",
        }
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Its number among the cells that there are.
    pub cell: u16,
    /// Its kind.
    pub kind: Kind,
    /// The tenant of its process.
    pub tenant: String,
    /// Its process.
    pub process: i32,
    /// Its cores, by slot.
    pub cores: Vec<u32>,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// Since when it has them.
    pub since_ns: u64,
    /// Its state.
    pub state: State,
    /// The file that holds the code which made the process a cell: `sha256:` and 64 digits.
    pub runtime: String,
    /// The number of times that one of its cores left it for the kernel.
    pub exits: u64,
    /// Cycles of its own cores.
    pub own_cycles: u64,
    /// Cycles of other cores that served it since it began.
    pub serving_cycles: u64,
}

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It has a machine of its own, at ring 0.
    Privileged,
    /// It runs at ring 3.
    Plain,
}

impl Kind {
    /// Returns its name in lists.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Plain => "plain",
        }
    }
}

/// The state of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its memory is made ready, or its cores are on their way.
    Preparing,
    /// Its cores are in it.
    Runs,
    /// It was asked for parts and has time to give them.
    Asked,
    /// Its cores leave it, and its memory is cleared.
    Ends,
}

impl State {
    /// Returns its name in lists.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Runs => "runs",
            Self::Asked => "asked",
            Self::Ends => "ends",
        }
    }
}

/// An order of the owner: a cell is to give back parts, or all that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    /// The tenant.
    pub tenant: String,
    /// The cell's process.
    pub process: i32,
    /// Cores; the first one stays unless all is taken.
    pub cores: u32,
    /// Bytes, whole lots of 2 MiB.
    pub memory_bytes: u64,
    /// The time that it has; then it is ended. At most [`WITHIN_NS_MAX`].
    pub within_ns: u64,
}

impl Revoke {
    /// Returns true if the whole cell is to end.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.cores == 0 && self.memory_bytes == 0
    }
}

/// The answer to an order.
pub type Answer = Result<Returned, Refusal>;

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Whether it was in time.
    pub outcome: Outcome,
    /// How long it took, ns.
    pub took_ns: u64,
}

/// Whether a cell gave back what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It did, in time.
    Given,
    /// It did not, and was ended.
    Ended,
}

/// An order of the owner: a cell may have cores again in the place of those that it gave back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The tenant.
    pub tenant: String,
    /// The cell's process.
    pub process: i32,
    /// Cores, 1 at least.
    pub cores: u32,
    /// The time for which they are offered. At most [`WITHIN_NS_MAX`].
    pub within_ns: u64,
}

/// The answer to an offer.
pub type OfferAnswer = Result<Taken, Refusal>;

/// The outcome of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Cores that the cell has taken.
    pub cores: u32,
    /// How long it took, ns.
    pub took_ns: u64,
}

/// The reason why nothing was asked of a cell, or offered to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// There is no cell of that process in that tenant.
    NoCell,
    /// It has not so much beside the core and the lot that it began with.
    TooMuch {
        /// Cores that it can give.
        cores: u32,
        /// Bytes that it can give.
        memory_bytes: u64,
    },
    /// Memory in parts of lots, an offer of nothing, or a time of nothing or more than a minute.
    Wild,
    /// Something was asked of it or offered to it already.
    Busy,
    /// A cell has no more cores than it began with.
    NotMissing {
        /// Cores that it has given back.
        cores: u32,
    },
    /// Others have the cores.
    NotFree {
        /// Cores that are free.
        cores: u32,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCell => f.write_str("no such process of that tenant is a cell"),
            Self::TooMuch { cores, memory_bytes } => {
                let mib = memory_bytes >> 20;
                write!(
                    f,
                    "it can give {cores} cores and {mib} MiB, and keeps what it began with; end the whole cell, or ask for less"
                )
            }
            Self::Wild => {
                f.write_str("memory is asked for in lots of 2 MiB, cores are offered from 1 on, within 1 ms to 60 s")
            }
            Self::Busy => f.write_str("an order to it stands already, and its time is not over"),
            Self::NotMissing { cores } => {
                write!(f, "cores that it has given back: {cores}; it gets no more than it began with")
            }
            Self::NotFree { cores } => write!(f, "cores that are free: {cores}"),
        }
    }
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number, from 0.
    pub number: u64,
    /// When it was complete.
    pub at_ns: u64,
    /// The cell's number; `None` if there was none yet.
    pub cell: Option<u16>,
    /// The tenant.
    pub tenant: String,
    /// The process.
    pub process: i32,
    /// The kind of event.
    pub deed: Deed,
    /// Cores that moved, by slot.
    pub cores: Vec<u32>,
    /// Memory that moved, bytes.
    pub memory_bytes: u64,
    /// By whose order.
    pub by: By,
    /// How long it took, ns.
    pub took_ns: u64,
    /// The result in words.
    pub result: String,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// Parts were granted to a process, or refused.
    Grant,
    /// Its cores came into it.
    Enter,
    /// More memory or another core was granted, or refused.
    More,
    /// It gave parts back.
    Give,
    /// It was asked for parts.
    Revoke,
    /// It is over, for the reason that the result says.
    Exit,
    /// All that it had is back in the pool.
    Return,
}

impl Deed {
    /// Returns its name in lists.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Enter => "enter",
            Self::More => "more",
            Self::Give => "give",
            Self::Revoke => "revoke",
            Self::Exit => "exit",
            Self::Return => "return",
        }
    }
}

/// The one who ordered something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The process itself.
    Process,
    /// The machine's owner.
    Owner,
    /// The kernel.
    Kernel,
}

impl By {
    /// Returns its name in lists.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Owner => "owner",
            Self::Kernel => "kernel",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_order_without_parts_is_for_the_whole_cell() {
        let order = Revoke { tenant: "gold".into(), process: 7, cores: 0, memory_bytes: 0, within_ns: 1 };
        assert!(order.is_all());
        assert!(!Revoke { memory_bytes: 2 << 20, ..order.clone() }.is_all() && !Revoke { cores: 1, ..order }.is_all());
    }

    #[test]
    fn a_refusal_says_how_much_there_is() {
        let text = Refusal::TooMuch { cores: 1, memory_bytes: 62 << 20 }.to_string();
        assert!(text.contains("1 cores and 62 MiB"), "{text}");
    }
}
