//! An activity with an address: its counters, ports and what it has on the way.

use crate::headers::Headers;
use crate::limits::{COMPLAINTS_PER_SECOND, NetLimits};
use crate::shared::Shared;
use crate::statistics::{Counters, NetStatistics};
use crate::tcp_resource::{Connection, Listener};
use crate::udp::UdpSocket;
use crate::wire::Ip;
use alloc::collections::BTreeMap;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_account::ActivityId;
use gyre_interface::tcp::NetError;
use gyre_object::{Bytes, SpinLock};

/// Who listens on a port. Addresses are told apart at look-up.
#[derive(Default)]
pub(crate) struct Ports {
    pub listeners: BTreeMap<u16, Vec<Arc<Listener>>>,
    pub datagrams: BTreeMap<u16, Vec<Arc<UdpSocket>>>,
}

/// Limits answers to packets that nobody wanted.
#[derive(Default)]
struct Complaints {
    second: u64,
    count: u32,
}

/// An activity that owns an address, or the one that pays for what nobody owns.
pub struct Tenant {
    /// Who pays.
    pub activity: ActivityId,
    /// Its address; zeros for the one without.
    pub address: Ip,
    /// Position in the table of tenants.
    pub(crate) index: u16,
    pub(crate) limits: NetLimits,
    pub(crate) counters: Counters,
    /// Received packets that wait for its protocols.
    pub(crate) waiting: AtomicUsize,
    /// Bytes of its frames that the device has not taken yet.
    pub(crate) outstanding: AtomicUsize,
    /// Bytes of turns that connections called out of the line have not used yet.
    pub(crate) promised: AtomicUsize,
    pub(crate) sockets: AtomicUsize,
    pub(crate) time_waits: AtomicUsize,
    pub(crate) ports: SpinLock<Ports>,
    headers: SpinLock<Headers>,
    blocked: SpinLock<VecDeque<Weak<Connection>>>,
    /// How many these are.
    line_len: AtomicUsize,
    complaints: SpinLock<Complaints>,
}

impl Tenant {
    pub(crate) fn new(activity: ActivityId, address: Ip, index: u16, limits: NetLimits) -> Tenant {
        Tenant {
            activity,
            address,
            index,
            limits,
            counters: Counters::default(),
            waiting: AtomicUsize::new(0),
            outstanding: AtomicUsize::new(0),
            promised: AtomicUsize::new(0),
            sockets: AtomicUsize::new(0),
            time_waits: AtomicUsize::new(0),
            ports: SpinLock::default(),
            headers: SpinLock::default(),
            blocked: SpinLock::default(),
            line_len: AtomicUsize::new(0),
            complaints: SpinLock::default(),
        }
    }

    /// Its figures.
    pub fn statistics(&self) -> NetStatistics {
        NetStatistics { sockets: self.sockets.load(Ordering::Relaxed) as u64, ..self.counters.read() }
    }

    /// Places headers in memory that a device can read.
    pub(crate) fn header(&self, bytes: &[u8]) -> Option<Bytes> {
        self.headers.lock().place(bytes)
    }

    /// True where it may hand down another frame.
    pub(crate) fn may_send(&self, shared: &Shared) -> bool {
        self.room_bytes(shared) > 0
    }

    /// Bytes that it may hand down.
    pub(crate) fn room_bytes(&self, shared: &Shared) -> usize {
        shared.pace.scaled(self.limits.sent_bytes_max).saturating_sub(self.outstanding.load(Ordering::Acquire))
    }

    /// Puts a connection at the end of the line of those that wait until the tenant may send again, unless it stands there.
    pub(crate) fn wait_for_room(&self, connection: &Arc<Connection>) {
        if !connection.in_line.swap(true, Ordering::AcqRel) {
            let mut line = self.blocked.lock();
            line.push_back(Arc::downgrade(connection));
            self.line_len.store(line.len(), Ordering::Release);
        }
    }

    /// True where connections stand in line.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.line_len.load(Ordering::Acquire) > 0
    }

    fn next_in_line(&self) -> Option<Weak<Connection>> {
        let mut line = self.blocked.lock();
        let next = line.pop_front();
        self.line_len.store(line.len(), Ordering::Release);
        next
    }

    /// Room was given back: connections that wait go on, first come first served, while there is room for a turn of each. What was
    /// promised to those called before is not promised again: who is called and finds no room would stand behind all others.
    pub(crate) fn on_room(&self, shared: &'static Shared) {
        let turn = shared.pace.turn_bytes().min(shared.pace.scaled(self.limits.sent_bytes_max) / 2).max(1);
        // each once: who cannot be told stands in line again
        for _ in 0..self.line_len.load(Ordering::Acquire) {
            if self.free_bytes(shared) < turn {
                return;
            }
            let Some(connection) = self.next_in_line().and_then(|next| next.upgrade()) else {
                continue;
            };
            connection.in_line.store(false, Ordering::Release);
            connection.begin_turn(turn);
            // one that has gone on meanwhile takes no room
            if !connection.resume(shared) {
                connection.end_turn();
            }
        }
    }

    /// Bytes that nobody uses and nobody was promised.
    pub(crate) fn free_bytes(&self, shared: &Shared) -> usize {
        self.room_bytes(shared).saturating_sub(self.promised.load(Ordering::Acquire))
    }

    /// True where a packet that nobody wanted may be answered now.
    pub(crate) fn may_complain(&self, now_ns: u64) -> bool {
        let mut complaints = self.complaints.lock();
        let second = now_ns / 1_000_000_000;
        if complaints.second != second {
            *complaints = Complaints { second, count: 0 };
        }
        complaints.count = complaints.count.saturating_add(1);
        complaints.count <= COMPLAINTS_PER_SECOND
    }

    /// Takes a place for a socket.
    pub(crate) fn take_socket(&self) -> Result<(), NetError> {
        let before = self.sockets.fetch_add(1, Ordering::Relaxed);
        if before >= self.limits.sockets_max {
            self.give_socket();
            return Err(NetError::OutOfMemory);
        }
        Ok(())
    }

    pub(crate) fn give_socket(&self) {
        self.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}
