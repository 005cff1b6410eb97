//! A UDP socket: datagrams that wait to be read, and room for those to be sent.

use crate::shared::Shared;
use crate::tcp::Store;
use crate::tenant::Tenant;
use crate::wire::Ip;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use gyre_interface::tcp::{Endpoint, NetError, Socket, SocketId};
use gyre_interface::{Readiness, Ready};
use gyre_object::{Bytes, SpinLock};

/// What a datagram costs beside its bytes: a full queue of empty ones is bounded too.
const DATAGRAM_COST_BYTES: usize = 512;

/// What changes.
#[derive(Default)]
pub(crate) struct Inbox {
    waiting: VecDeque<(Endpoint, Bytes)>,
    cost_bytes: usize,
    error: Option<NetError>,
    /// Copies small datagrams together, so that each does not pin a buffer of the device.
    copies: Store,
}

/// See the module.
pub(crate) struct UdpSocket {
    pub id: SocketId,
    pub tenant: &'static Tenant,
    pub local: Endpoint,
    pub shares_port: bool,
    pub label: u64,
    pub readiness: Arc<Readiness>,
    pub inbox: SpinLock<Inbox>,
    /// Bytes handed to the writer that the device has not taken.
    pub outstanding: AtomicUsize,
    pub blocked: AtomicBool,
}

impl UdpSocket {
    pub(crate) fn new(
        id: SocketId,
        tenant: &'static Tenant,
        local: Endpoint,
        shares_port: bool,
        label: u64,
    ) -> UdpSocket {
        UdpSocket {
            id,
            tenant,
            local,
            shares_port,
            label,
            readiness: Readiness::new(Ready::WRITE),
            inbox: SpinLock::default(),
            outstanding: AtomicUsize::new(0),
            blocked: AtomicBool::new(false),
        }
    }

    /// True where it takes datagrams for an address.
    pub(crate) fn takes(&self, address: Ip) -> bool {
        self.local.address == [0; 4] || self.local.address == address
    }

    /// What its user gets.
    pub(crate) fn socket(&self) -> Socket {
        Socket {
            id: self.id,
            local: self.local,
            remote: Endpoint { address: [0; 4], port: 0 },
            readiness: self.readiness.clone(),
            label: self.label,
        }
    }

    /// Queues a datagram; false where the queue is full.
    pub(crate) fn put(&self, from: Endpoint, data: Bytes) -> bool {
        let mut inbox = self.inbox.lock();
        let cost_bytes = inbox.cost_bytes.saturating_add(cost_of(&data));
        if cost_bytes > self.tenant.limits.datagram_bytes_max {
            return false;
        }
        inbox.cost_bytes = cost_bytes;
        let data = inbox.kept(data);
        inbox.waiting.push_back((from, data));
        true
    }

    /// The next datagram, taken or only looked at. Readiness follows under the same lock.
    pub(crate) fn next(&self, take: bool) -> Result<(Endpoint, Bytes), NetError> {
        let mut inbox = self.inbox.lock();
        if let Some(error) = inbox.error.take() {
            self.readiness.clear(Ready::ERROR);
            return Err(error);
        }
        let next = match take {
            true => inbox.waiting.pop_front(),
            false => inbox.waiting.front().cloned(),
        };
        if let (Some((_, data)), true) = (&next, take) {
            inbox.cost_bytes = inbox.cost_bytes.saturating_sub(cost_of(data));
        }
        if inbox.waiting.is_empty() {
            self.readiness.clear(Ready::READ);
        }
        next.ok_or(NetError::WouldBlock)
    }

    /// A host said that it does not want our datagrams.
    pub(crate) fn fail(&self, error: NetError) {
        self.inbox.lock().error = Some(error);
        self.readiness.set(Ready::ERROR);
    }

    /// Takes an error that a host has reported since the last request.
    pub(crate) fn take_error(&self) -> Option<NetError> {
        let error = self.inbox.lock().error.take()?;
        self.readiness.clear(Ready::ERROR);
        Some(error)
    }

    /// True where another datagram may go down; else the socket is marked and becomes ready when there is room.
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

    /// The device has taken a datagram of this socket.
    pub(crate) fn on_room(&self) {
        let room = self.outstanding.load(Ordering::Acquire) <= self.tenant.limits.connection_sent_bytes_max / 2;
        if room && self.blocked.swap(false, Ordering::AcqRel) {
            self.readiness.set(Ready::WRITE);
        }
    }
}

/// What a datagram counts in the queue, bytes.
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
