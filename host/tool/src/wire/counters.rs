//! Bytes and frames of each tenant in each direction.

use std::sync::{
    RwLock,
    atomic::{AtomicU64, Ordering},
};

use gyre_contract::address::Address;
use serde::Serialize;

use super::frame;

/// The direction of a frame.
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
    /// Of a spare place it changes once a tenant has it.
    name: RwLock<String>,
    address: Option<Address>,
    sent: Cell,
    received: Cell,
}

/// Counters of a wire: one row per tenant, and a last one for everything else; one for each card.
pub struct Counters {
    rows: Vec<Row>,
    cards: Vec<Row>,
}

/// The figures of one tenant so far, sent and received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// The tenant, or "other"; of a card its instance.
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
        let mut rows: Vec<Row> = tenants.into_iter().map(|(name, address)| Row::new(name, Some(address))).collect();
        rows.push(Row::new("other", None));
        Self { rows, cards: vec![] }
    }

    /// Counts also what each card sends and receives; in the order of the cards.
    pub fn with_cards<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.cards = names.into_iter().map(|name| Row::new(name, None)).collect();
        self
    }

    /// Counts one frame.
    pub fn count(&self, direction: Direction, frame: &[u8]) {
        let address = frame::tenant_address(frame, direction == Direction::FromMachine);
        let found = self.rows.iter().find(|row| address.is_some() && row.address == address);
        let Some(row) = found.or(self.rows.last()) else {
            return;
        };
        row.count(direction, frame);
    }

    /// Counts one frame of a card.
    pub fn count_at(&self, card: usize, direction: Direction, frame: &[u8]) {
        self.count(direction, frame);
        if let Some(row) = self.cards.get(card) {
            row.count(direction, frame);
        }
    }

    /// Gives the row of an address the name of the tenant that has it now.
    pub fn rename(&self, address: Address, name: &str) {
        let row = self.rows.iter().find(|row| row.address == Some(address));
        if let Some(mut place) = row.and_then(|row| row.name.write().ok()) {
            name.clone_into(&mut place);
        }
    }

    /// Reads the rows of all tenants.
    pub fn read(&self) -> Vec<Figures> {
        self.rows.iter().map(Row::figures).collect()
    }

    /// Reads the rows of all cards.
    pub fn read_cards(&self) -> Vec<Figures> {
        self.cards.iter().map(Row::figures).collect()
    }
}

impl Row {
    fn new(name: &str, address: Option<Address>) -> Self {
        Self { name: RwLock::new(name.into()), address, sent: Cell::default(), received: Cell::default() }
    }

    fn count(&self, direction: Direction, frame: &[u8]) {
        let cell = if direction == Direction::FromMachine { &self.sent } else { &self.received };
        cell.bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
        cell.frames.fetch_add(1, Ordering::Relaxed);
    }

    fn figures(&self) -> Figures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            name: self.name.read().map(|name| name.clone()).unwrap_or_default(),
            sent_bytes: load(&self.sent.bytes),
            sent_frames: load(&self.sent.frames),
            received_bytes: load(&self.received.bytes),
            received_frames: load(&self.received.frames),
        }
    }
}
