//! Bytes and frames of each tenant in each direction.

use std::sync::atomic::{AtomicU64, Ordering};

use gyre_config::address::Address;
use serde::Serialize;

use super::frame;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sent by the machine.
    FromMachine,
    /// Received by the machine.
    ToMachine,
}

#[derive(Default)]
struct Cell {
    bytes: AtomicU64,
    frames: AtomicU64,
}

struct Row {
    name: String,
    address: Option<Address>,
    sent: Cell,
    received: Cell,
}

/// Counters of a wire: one row per tenant, and a last one for everything else.
pub struct Counters {
    rows: Vec<Row>,
}

/// What one tenant sent and received so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// The tenant, or "other".
    pub name: String,
    /// Bytes from the machine.
    pub sent_bytes: u64,
    /// Frames from the machine.
    pub sent_frames: u64,
    /// Bytes to the machine.
    pub received_bytes: u64,
    /// Frames to the machine.
    pub received_frames: u64,
}

impl Counters {
    /// Makes counters at zero.
    pub fn new<'a>(tenants: impl IntoIterator<Item = (&'a str, Address)>) -> Self {
        let row =
            |name: &str, address| Row { name: name.into(), address, sent: Cell::default(), received: Cell::default() };
        let mut rows: Vec<Row> = tenants.into_iter().map(|(name, address)| row(name, Some(address))).collect();
        rows.push(row("other", None));
        Self { rows }
    }

    /// Counts one frame.
    pub fn count(&self, direction: Direction, frame: &[u8]) {
        let address = frame::tenant_address(frame, direction == Direction::FromMachine);
        let found = self.rows.iter().find(|row| address.is_some() && row.address == address);
        let Some(row) = found.or(self.rows.last()) else {
            return;
        };
        let cell = if direction == Direction::FromMachine { &row.sent } else { &row.received };
        cell.bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
        cell.frames.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads all rows.
    pub fn read(&self) -> Vec<Figures> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let figures = |row: &Row| Figures {
            name: row.name.clone(),
            sent_bytes: load(&row.sent.bytes),
            sent_frames: load(&row.sent.frames),
            received_bytes: load(&row.received.bytes),
            received_frames: load(&row.received.frames),
        };
        self.rows.iter().map(figures).collect()
    }
}
