//! The requests that a session has under way, and how far it is with its rings.

use core::fmt;
use gyre_line::Message;
use gyre_split_disk::{Ask, SLOTS};

/// A line that makes no sense: the zone's kernel is wrong, or lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nonsense {
    /// It is no request, or does not fit into its slot.
    Line(Message),
    /// It asks in a slot whose request is not answered yet.
    Busy(usize),
    /// It names a disk that there is not.
    Disk(usize),
    /// It does not take the answers of its own requests.
    Unread,
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nonsense::Line(line) => {
                write!(f, "it wrote a line of kind {} in slot {} that is no request", line.kind, line.token)
            }
            Nonsense::Busy(slot) => write!(f, "it asked again in slot {slot}, which is not answered yet"),
            Nonsense::Disk(disk) => write!(f, "it asked for its disk {disk}, which there is not"),
            Nonsense::Unread => f.write_str("it does not take its answers"),
        }
    }
}

/// Whether a session serves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Service {
    #[default]
    Open,
    Closed(Nonsense),
    Ended,
}

/// The state of a session.
#[derive(Default)]
pub(crate) struct Ledger {
    pub received: u32,
    pub sent: u32,
    /// Slots with a request, a bit each.
    busy: u64,
    pub service: Service,
}

impl Ledger {
    /// Takes a line as a request of one of so many disks.
    ///
    /// # Errors
    /// [`Nonsense`].
    pub(crate) fn begin(&mut self, line: &Message, disks: usize) -> Result<Ask, Nonsense> {
        let ask = Ask::read(line).ok_or(Nonsense::Line(*line))?;
        let bit = bit(ask.slot);
        if self.busy & bit != 0 {
            return Err(Nonsense::Busy(ask.slot));
        }
        if ask.disk >= disks {
            return Err(Nonsense::Disk(ask.disk));
        }
        self.busy |= bit;
        Ok(ask)
    }

    pub(crate) fn end(&mut self, slot: usize) {
        self.busy &= !bit(slot);
    }

    /// Counts requests under way.
    pub(crate) fn under_way(&self) -> u32 {
        self.busy.count_ones()
    }
}

const _: () = assert!(SLOTS < u64::BITS as usize);

fn bit(slot: usize) -> u64 {
    1_u64.checked_shl(slot as u32).unwrap_or(0)
}
