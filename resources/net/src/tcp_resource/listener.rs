//! A listener: half-open connections as a few words each, and connections that wait to be accepted.

use super::Connection;
use crate::alarm::Alarm;
use crate::connection_key::{ConnectionKey, Hashed};
use crate::guard::Guard;
use crate::tcp::{Outgoing, Peer, Seq};
use crate::tenant::Tenant;
use crate::wire::Ip;
use crate::wire::tcp::{Flags, Options};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use gyre_interface::Readiness;
use gyre_interface::tcp::{Socket, SocketAddress, SocketId};
use gyre_object::SpinLock;
use hashbrown::HashMap;

/// Repetitions of SYN and acknowledgment before a half-open connection is forgotten.
const RETRIES_MAX: u32 = 4;
/// Time before the first repetition, ns.
pub(crate) const RETRY_NS: u64 = 1_000_000_000;
/// How long after the last overflow cookies are still believed, ns.
pub(crate) const COOKIE_NS: u64 = 120_000_000_000;

/// A connection whose SYN was answered and not yet acknowledged.
#[derive(Clone, Copy)]
pub(crate) struct HalfOpen {
    pub first: Seq,
    pub peer: Peer,
    pub stamp_offset: u32,
    pub remote: SocketAddress,
    pub local: SocketAddress,
    answered_ns: u64,
    retry_ns: u64,
    retries: u32,
}

impl HalfOpen {
    pub(crate) fn new(
        first: Seq,
        peer: Peer,
        stamp_offset: u32,
        local: SocketAddress,
        remote: SocketAddress,
        now_ns: u64,
    ) -> HalfOpen {
        HalfOpen {
            first,
            peer,
            stamp_offset,
            remote,
            local,
            answered_ns: now_ns,
            retry_ns: now_ns.saturating_add(RETRY_NS),
            retries: 0,
        }
    }

    /// Returns how long the answer took to be acknowledged, if it was sent once and remembered (Karn's rule), ns.
    pub(crate) fn round_trip_ns(&self, now_ns: u64) -> Option<u64> {
        let ns = now_ns.saturating_sub(self.answered_ns);
        (self.retries == 0 && ns > 0).then_some(ns)
    }

    /// Returns the answer to the SYN.
    pub(crate) fn answer(&self, segment_bytes_max: u16, window: u16, scale: u8, now_ns: u64) -> Outgoing {
        let stamp = self.stamp_offset.wrapping_add((now_ns / 1_000_000) as u32);
        let options = Options {
            segment_bytes_max: Some(segment_bytes_max),
            window_scale: self.peer.window_scale.map(|_| scale),
            sack_permitted: self.peer.sack,
            timestamps: self.peer.stamp.map(|recent| (stamp, recent)),
            ..Options::default()
        };
        Outgoing {
            sequence: self.first,
            acknowledgment: self.peer.first + 1,
            flags: Flags::SYN | Flags::ACK,
            window,
            ..Outgoing::empty(options)
        }
    }
}

/// The changing part.
#[derive(Default)]
pub(crate) struct ListenerState {
    pub half_open: HashMap<ConnectionKey, HalfOpen, Hashed>,
    pub ready: VecDeque<Arc<Connection>>,
    /// When a SYN last found no place.
    pub overflowed_ns: Option<u64>,
    pub is_closed: bool,
}

impl ListenerState {
    /// Returns half-open connections whose answer must be repeated now; those repeated often enough are forgotten.
    pub(crate) fn due(&mut self, now_ns: u64) -> alloc::vec::Vec<(ConnectionKey, HalfOpen)> {
        let mut due = alloc::vec::Vec::new();
        self.half_open.retain(|key, half| {
            if half.retry_ns > now_ns {
                return true;
            }
            half.retries = half.retries.saturating_add(1);
            half.retry_ns = now_ns.saturating_add(RETRY_NS << half.retries.min(8));
            if half.retries <= RETRIES_MAX {
                due.push((*key, *half));
            }
            half.retries <= RETRIES_MAX
        });
        due
    }

    /// Returns when the next answer must be repeated.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.half_open.values().map(|half| half.retry_ns).min()
    }
}

/// See the module.
pub(crate) struct Listener {
    pub id: SocketId,
    pub tenant: &'static Tenant,
    pub local: SocketAddress,
    pub backlog: usize,
    pub shares_port: bool,
    pub label: u64,
    pub readiness: Arc<Readiness>,
    pub state: SpinLock<ListenerState>,
    pub alarm: Arc<Alarm>,
}

impl Listener {
    /// Returns whether it listens on an address.
    pub(crate) fn takes(&self, address: Ip) -> bool {
        self.local.address == [0; 4] || self.local.address == address
    }

    /// Returns true if its tenant's overload controller lets another peer in.
    pub(crate) fn admits(&self, remote: Ip) -> bool {
        self.tenant.guard_for(remote).is_none_or(Guard::admits)
    }

    /// Returns the socket that its user gets.
    pub(crate) fn socket(&self) -> Socket {
        Socket {
            id: self.id,
            local: self.local,
            remote: SocketAddress { address: [0; 4], port: 0 },
            readiness: self.readiness.clone(),
            label: self.label,
        }
    }
}
