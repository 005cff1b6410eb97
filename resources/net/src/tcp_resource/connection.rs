//! A connection: the pure machine behind a lock, and its surroundings: readiness, alarm, bytes on the way, place in
//! its tenant's line.
//!
//! A connection without room on the way to the device stands in its tenant's line. When room comes back it is called
//! with a [`SendRoom`] of some bytes, sends within that, and stands in line again if it has more. `is_orphan`: its
//! user has closed. `is_over`: it has left the tables. Flags and counts are atomic, since the device's answers change
//! them without the machine's lock.
//!
//! Bits that subscribers see are set after the lock is free ([`Connection::tell`]) and cleared under it
//! ([`Connection::untell`]), so that none is lost for newer state.

use crate::alarm::Alarm;
use crate::answers::Question;
use crate::connection_key::ConnectionKey;
use crate::guard::Visit;
use crate::shared::{Shared, labels};
use crate::tcp::Machine;
use crate::tenant::Tenant;
use crate::wire::Ip;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use gyre_account::{set_current_activity, set_current_tenant};
use gyre_interface::tcp::{Socket, SocketAddress, SocketId};
use gyre_interface::{Readiness, Ready};
use gyre_object::SpinLock;
use gyre_object::{Census, Counter};

gyre_object::per_instance! {
    /// The connections that there are, for the list of objects.
    pub static CONNECTIONS: Census = Census::of::<Connection>();
}

/// See the module.
pub(crate) struct Connection {
    _count: Counter,
    pub id: SocketId,
    pub key: ConnectionKey,
    pub tenant: &'static Tenant,
    pub local: SocketAddress,
    pub remote: SocketAddress,
    pub readiness: Arc<Readiness>,
    pub machine: SpinLock<Machine>,
    /// Bytes handed to the writer that the device has not taken.
    pub outstanding: AtomicUsize,
    /// Has something to send and waits for room.
    pub blocked: AtomicBool,
    /// Stands in its tenant's line.
    pub in_line: AtomicBool,
    /// Bytes that it may still hand down although others wait.
    pub send_room: AtomicUsize,
    /// Its deadline.
    pub alarm: Arc<Alarm>,
    /// The user has closed it.
    pub is_orphan: AtomicBool,
    /// It is in no table any more.
    pub is_over: AtomicBool,
    /// Close resets.
    pub resets: AtomicBool,
    /// It came through a listener that an overload controller guards.
    pub visit: Option<Visit>,
    /// It came through a listener from outside: its answers are measured.
    pub question: Option<Question>,
}

/// The measures of a connection that came from outside; none of one that was opened here.
#[derive(Default)]
pub(crate) struct Measures {
    pub visit: Option<Visit>,
    pub question: Option<Question>,
}

impl Measures {
    /// Returns those of a connection that comes now.
    pub(crate) fn of(tenant: &'static Tenant, remote: Ip, now_ns: u64) -> Measures {
        Measures { visit: tenant.visit(remote, now_ns), question: tenant.question(remote) }
    }
}

impl Connection {
    pub(crate) fn new(
        id: SocketId,
        key: ConnectionKey,
        tenant: &'static Tenant,
        local: SocketAddress,
        remote: SocketAddress,
        machine: Machine,
        measures: Measures,
    ) -> Arc<Connection> {
        Arc::new(Connection {
            _count: CONNECTIONS.count(),
            id,
            key,
            tenant,
            local,
            remote,
            readiness: Readiness::new(machine.ready()),
            machine: SpinLock::new(machine),
            outstanding: AtomicUsize::new(0),
            blocked: AtomicBool::new(false),
            in_line: AtomicBool::new(false),
            send_room: AtomicUsize::new(0),
            alarm: Arc::default(),
            is_orphan: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            resets: AtomicBool::new(false),
            visit: measures.visit,
            question: measures.question,
        })
    }

    /// Returns the socket that its user gets.
    pub(crate) fn socket(&self) -> Socket {
        Socket {
            id: self.id,
            local: self.local,
            remote: self.remote,
            readiness: self.readiness.clone(),
            label: self.key.label,
        }
    }

    /// Returns whether another frame may go down; else the connection is marked, and resumed when there is room. If others of its tenant
    /// wait it stands in line behind them: an acknowledgement that comes just now must not take the room that they wait for.
    pub(crate) fn may_send(self: &Arc<Connection>, shared: &Shared) -> bool {
        if self.may_go_on(shared) {
            return true;
        }
        self.blocked.swap(true, Ordering::AcqRel);
        // room may have been given back before the mark was seen
        if self.may_go_on(shared) {
            return self.blocked.swap(false, Ordering::AcqRel);
        }
        if self.room_bytes(shared) > 0 {
            self.tenant.wait_for_room(self);
        }
        false
    }

    fn may_go_on(&self, shared: &Shared) -> bool {
        let may = match self.send_room.load(Ordering::Acquire) {
            0 => !self.tenant.is_waited_for() && self.tenant.free_bytes(shared) > 0,
            _ => self.tenant.may_send(shared),
        };
        may && self.room_bytes(shared) > 0
    }

    /// Grants the bytes that it may send, as it is called out of the line.
    pub(crate) fn grant_send_room(&self, bytes: usize) {
        self.tenant.promised.fetch_add(bytes, Ordering::AcqRel);
        let left = self.send_room.swap(bytes, Ordering::AcqRel);
        self.tenant.promised.fetch_sub(left, Ordering::AcqRel);
    }

    /// Counts bytes handed down against its granted room.
    pub(crate) fn spend_send_room(&self, bytes: usize) {
        let spend = |left: usize| Some(left.saturating_sub(bytes));
        let before = self.send_room.fetch_update(Ordering::AcqRel, Ordering::Acquire, spend).unwrap_or(0);
        self.tenant.promised.fetch_sub(before.min(bytes), Ordering::AcqRel);
    }

    /// Returns the rest of its granted room to the tenant.
    pub(crate) fn end_send_room(&self) {
        let left = self.send_room.swap(0, Ordering::AcqRel);
        self.tenant.promised.fetch_sub(left, Ordering::AcqRel);
    }

    /// Returns the bytes that it may hand down, but for those of its tenant's other connections.
    fn room_bytes(&self, shared: &Shared) -> usize {
        self.limit_bytes(shared).saturating_sub(self.outstanding.load(Ordering::Acquire))
    }

    fn limit_bytes(&self, shared: &Shared) -> usize {
        shared.pace.scaled(self.tenant.limits.connection_sent_bytes_max)
    }

    /// Returns how long a segment it may hand down in one piece: as there is room for at the link's pace, and while
    /// others wait, its granted room.
    pub(crate) fn burst_bytes(&self, shared: &Shared) -> usize {
        let room = self.room_bytes(shared).min(self.tenant.room_bytes(shared));
        let room = room.min(shared.pace.segment_bytes());
        match self.send_room.load(Ordering::Relaxed) {
            0 => room,
            granted => room.min(granted),
        }
    }

    /// Takes note that the device has taken a frame of this connection.
    pub(crate) fn on_room(self: &Arc<Connection>, shared: &'static Shared) {
        if !self.blocked.load(Ordering::Acquire) {
            return;
        }
        // half of the room, so that a resumption is worth its message
        let room = self.outstanding.load(Ordering::Acquire) <= self.limit_bytes(shared) / 2;
        if room && self.tenant.may_send(shared) && !self.tenant.is_waited_for() {
            self.resume(shared);
        } else if room {
            self.tenant.wait_for_room(self);
        }
    }

    /// Lets the connection send again, by a message of its own activity; false if it did not wait.
    pub(crate) fn resume(self: &Arc<Connection>, shared: &'static Shared) -> bool {
        if !self.blocked.swap(false, Ordering::AcqRel) {
            return false;
        }
        let room = SendRoom(Some(self.clone()));
        if let Some(ports) = shared.ports.get() {
            let before = set_current_tenant(self.tenant.activity);
            drop(ports.tcp_input.labelled(labels(self.key.label)).resume(room));
            set_current_activity(before);
        }
        true
    }

    /// Takes bits away; called under the machine's lock, so that no [`Connection::tell`] for newer state is lost.
    pub(crate) fn untell(&self, machine: &Machine) {
        let gone = self.readiness.now().difference(machine.ready());
        if !gone.is_empty() {
            self.readiness.clear(gone);
        }
    }

    /// Tells its subscribers; called without the lock. `again` names bits that are news although they were set.
    pub(crate) fn tell(&self, ready: Ready, again: Ready) {
        let news = ready.difference(self.readiness.now()) | (ready & again);
        if !news.is_empty() {
            self.readiness.set(news);
        }
    }
}

/// A connection called out of the line to send. If the message that carries it is not handled, it stands in line
/// again.
pub struct SendRoom(Option<Arc<Connection>>);

impl SendRoom {
    /// Returns its connection, which must end its granted room.
    pub(super) fn begin(mut self) -> Option<Arc<Connection>> {
        self.0.take()
    }
}

impl Drop for SendRoom {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.end_send_room();
            connection.blocked.store(true, Ordering::Release);
            connection.tenant.wait_for_room(&connection);
        }
    }
}
