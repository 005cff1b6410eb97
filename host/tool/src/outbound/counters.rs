//! Counters of a tenant's way out.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Counters of one tenant.
#[derive(Default)]
pub struct Counters {
    connections: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    questions: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

/// Something that is counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection, or a flow of datagrams, was made.
    Connected,
    /// A destination is not on the tenant's list.
    Refused,
    /// The tenant has too many under way or sends too fast.
    Dropped,
    /// The destination could not be reached.
    Failed,
    /// A question of DNS.
    Asked,
}

/// The figures so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// The tenant.
    pub tenant: String,
    /// Connections and flows of datagrams.
    pub connections: u64,
    /// Packets and connections that its list does not allow.
    pub refused: u64,
    /// Packets and connections above its limits.
    pub dropped: u64,
    /// Connections that the destination did not take.
    pub failed: u64,
    /// Questions of DNS.
    pub questions: u64,
    /// Bytes of contents to destinations.
    pub sent_bytes: u64,
    /// Bytes of contents from destinations.
    pub received_bytes: u64,
}

impl Counters {
    /// Counts an event.
    pub fn count(&self, event: Event) {
        let counter = match event {
            Event::Connected => &self.connections,
            Event::Refused => &self.refused,
            Event::Dropped => &self.dropped,
            Event::Failed => &self.failed,
            Event::Asked => &self.questions,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes to a destination.
    pub fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes from a destination.
    pub fn received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the figures so far.
    pub fn read(&self, tenant: &str) -> Figures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            tenant: tenant.into(),
            connections: get(&self.connections),
            refused: get(&self.refused),
            dropped: get(&self.dropped),
            failed: get(&self.failed),
            questions: get(&self.questions),
            sent_bytes: get(&self.sent_bytes),
            received_bytes: get(&self.received_bytes),
        }
    }
}
