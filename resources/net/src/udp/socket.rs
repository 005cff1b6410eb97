//! A UDP socket: datagrams that wait to be read, and room for those to be sent. Echoes and raw messages have the same ones.
//!
//! * Its queue is bounded in bytes, with a cost for each datagram; a full one loses what comes.
//! * Its room is bounded in bytes that the device has not taken yet; a program that finds none waits until there is.
//! * Readiness follows the queue under the queue's lock.
//!
//! Its locks guard only what is the socket's alone, and only work in its tenant's name takes them. So a failure under one ends a process, and the
//! socket stays closed: datagrams for it are lost as if it were full, and a program that reads from it meets the failure, too.

use crate::shared::Shared;
use crate::tcp::Store;
use crate::tenant::Tenant;
use crate::wire::Ip;
use crate::wire::udp::Header;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use gyre_interface::tcp::{NetError, Socket, SocketAddress, SocketId};
use gyre_interface::udp::{Binding, Coverage, Kind, PortUse};
use gyre_interface::{Readiness, Ready};
use gyre_object::{Bytes, ObjectLock};

/// Cost of a datagram beside its bytes: a full queue of empty ones is bounded too.
const DATAGRAM_COST_BYTES: usize = 512;

/// The changing part.
#[derive(Default)]
pub(crate) struct Inbox {
    waiting: VecDeque<(SocketAddress, Bytes)>,
    cost_bytes: usize,
    error: Option<NetError>,
    /// Copies small datagrams together, so that each does not pin a buffer of the device.
    copies: Store,
}

/// See the module.
pub(crate) struct UdpSocket {
    pub id: SocketId,
    pub tenant: &'static Tenant,
    pub local: SocketAddress,
    pub kind: Kind,
    pub port_use: PortUse,
    /// Of UDP-Lite.
    pub coverage: ObjectLock<Coverage>,
    pub label: u64,
    pub readiness: Arc<Readiness>,
    pub inbox: ObjectLock<Inbox>,
    /// Bytes handed to the writer that the device has not taken.
    pub outstanding: AtomicUsize,
    pub blocked: AtomicBool,
}

/// How the next datagram is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// It leaves the queue.
    Take,
    /// It stays.
    Peek,
}

impl UdpSocket {
    pub(crate) fn new(id: SocketId, tenant: &'static Tenant, wanted: Binding, label: u64) -> UdpSocket {
        UdpSocket {
            id,
            tenant,
            local: wanted.local,
            kind: wanted.kind,
            port_use: wanted.port_use,
            coverage: ObjectLock::default(),
            label,
            readiness: Readiness::new(Ready::WRITE),
            inbox: ObjectLock::default(),
            outstanding: AtomicUsize::new(0),
            blocked: AtomicBool::new(false),
        }
    }

    /// Returns whether it takes datagrams for an address.
    pub(crate) fn takes(&self, address: Ip) -> bool {
        self.local.address == [0; 4] || self.local.address == address
    }

    /// Returns how many of a datagram's bytes its checksum covers.
    pub(crate) fn covered_bytes(&self, total_bytes: usize) -> usize {
        match self.kind {
            Kind::Udp => total_bytes,
            Kind::Lite => match usize::from(self.coverage.lock().sent_bytes) {
                0 => total_bytes,
                covered => covered.min(total_bytes),
            },
        }
    }

    /// Returns whether it wants a datagram of which so much is covered.
    pub(crate) fn accepts(&self, header: &Header) -> bool {
        if !header.covers_a_part() || self.kind == Kind::Udp {
            return true;
        }
        let Some(coverage) = self.coverage.lock_unless_lost() else { return false };
        match coverage.received_bytes_min {
            None => true,
            Some(0) => false,
            Some(least) => header.covered_bytes >= usize::from(least),
        }
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

    /// Queues a datagram; false if the queue is full, or lost by a failure.
    pub(crate) fn put(&self, from: SocketAddress, data: Bytes) -> bool {
        let Some(mut inbox) = self.inbox.lock_unless_lost() else { return false };
        let cost_bytes = inbox.cost_bytes.saturating_add(cost_of(&data));
        if cost_bytes > self.tenant.limits.datagram_bytes_max {
            return false;
        }
        inbox.cost_bytes = cost_bytes;
        let data = inbox.kept(data);
        inbox.waiting.push_back((from, data));
        true
    }

    /// Returns the next datagram. Readiness follows under the same lock.
    pub(crate) fn next(&self, look: Look) -> Result<(SocketAddress, Bytes), NetError> {
        let mut inbox = self.inbox.lock();
        if let Some(error) = inbox.error.take() {
            self.readiness.clear(Ready::ERROR);
            return Err(error);
        }
        let next = match look {
            Look::Take => inbox.waiting.pop_front(),
            Look::Peek => inbox.waiting.front().cloned(),
        };
        if let (Some((_, data)), Look::Take) = (&next, look) {
            inbox.cost_bytes = inbox.cost_bytes.saturating_sub(cost_of(data));
        }
        if inbox.waiting.is_empty() {
            self.readiness.clear(Ready::READ);
        }
        next.ok_or(NetError::WouldBlock)
    }

    /// Takes note that a host refuses our datagrams.
    pub(crate) fn fail(&self, error: NetError) {
        let Some(mut inbox) = self.inbox.lock_unless_lost() else { return };
        inbox.error = Some(error);
        drop(inbox);
        self.readiness.set(Ready::ERROR);
    }

    /// Takes an error that a host has reported since the last request.
    pub(crate) fn take_error(&self) -> Option<NetError> {
        let error = self.inbox.lock().error.take()?;
        self.readiness.clear(Ready::ERROR);
        Some(error)
    }

    /// Returns whether another datagram may go down; else the socket is marked and becomes ready when there is room.
    pub(crate) fn may_send(&self, shared: &Shared) -> bool {
        if self.has_room(shared) {
            return true;
        }
        self.readiness.clear(Ready::WRITE);
        self.blocked.store(true, Ordering::Release);
        if self.has_room(shared) {
            self.on_room();
            return true;
        }
        false
    }

    fn has_room(&self, shared: &Shared) -> bool {
        let own = self.outstanding.load(Ordering::Acquire);
        // with nothing of its own on the way nothing would wake it, and one datagram more does no harm
        own == 0 || own < self.tenant.limits.connection_sent_bytes_max && self.tenant.may_send(shared)
    }

    /// Takes note that the device has taken a datagram of this socket.
    pub(crate) fn on_room(&self) {
        let room = self.outstanding.load(Ordering::Acquire) <= self.tenant.limits.connection_sent_bytes_max / 2;
        if room && self.blocked.swap(false, Ordering::AcqRel) {
            self.readiness.set(Ready::WRITE);
        }
    }
}

/// Returns the cost of a datagram in the queue, bytes.
fn cost_of(data: &Bytes) -> usize {
    data.len().saturating_add(DATAGRAM_COST_BYTES)
}

impl Inbox {
    fn kept(&mut self, data: Bytes) -> Bytes {
        if data.len() > crate::tcp::COPY_BYTES_MAX || data.is_empty() {
            return data;
        }
        self.copies.push(data.clone());
        let length = self.copies.len();
        self.copies.take(length).into_iter().next().unwrap_or(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::NetLimits;
    use gyre_account::ActivityId;
    use std::boxed::Box;

    fn socket() -> UdpSocket {
        let tenant = Box::leak(Box::new(Tenant::new(ActivityId(1), [10, 0, 0, 1], 0, NetLimits::default())));
        let local = SocketAddress { address: [10, 0, 0, 1], port: 7 };
        UdpSocket::new(SocketId(1), tenant, Binding { local, kind: Kind::Lite, port_use: PortUse::Alone }, 0)
    }

    #[test]
    fn a_socket_that_a_failure_has_closed_loses_datagrams_and_fails_its_reader_alone() {
        let (lost, other) = (socket(), socket());
        let from = SocketAddress { address: [10, 0, 0, 2], port: 8 };
        core::mem::forget((lost.inbox.lock(), lost.coverage.lock()));
        gyre_object::give_up_locks();
        assert!(
            !lost.put(from, Bytes::copy_from(b"one").unwrap()) && other.put(from, Bytes::copy_from(b"one").unwrap())
        );
        lost.fail(NetError::Refused);
        let read = |socket: &UdpSocket| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| socket.next(Look::Take).is_ok()))
        };
        assert!(read(&lost).is_err() && read(&other).unwrap());
        assert_eq!(gyre_object::locks_held(), 0);
    }
}
