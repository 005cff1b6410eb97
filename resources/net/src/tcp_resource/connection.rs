//! A connection: the pure machine behind a lock, and what belongs to it outside.

use crate::alarm::Alarm;
use crate::flow::Flow;
use crate::shared::{Shared, labels};
use crate::tcp::Machine;
use crate::tenant::Tenant;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use gyre_account::{set_current_activity, set_current_tenant};
use gyre_interface::tcp::{Endpoint, Socket, SocketId};
use gyre_interface::{Readiness, Ready};
use gyre_object::SpinLock;
use gyre_object::{Census, Counter};

/// The connections that there are, for the list of objects.
pub static CONNECTIONS: Census = Census::of::<Connection>();

/// See the module.
pub(crate) struct Connection {
    _count: Counter,
    pub id: SocketId,
    pub flow: Flow,
    pub tenant: &'static Tenant,
    pub local: Endpoint,
    pub remote: Endpoint,
    pub readiness: Arc<Readiness>,
    pub machine: SpinLock<Machine>,
    /// Bytes handed to the writer that the device has not taken.
    pub outstanding: AtomicUsize,
    /// Has something to send and waits for room.
    pub blocked: AtomicBool,
    /// Stands in its tenant's line.
    pub in_line: AtomicBool,
    /// Bytes that it may still hand down although others wait.
    pub turn: AtomicUsize,
    /// Its deadline.
    pub alarm: Arc<Alarm>,
    /// The user has closed it.
    pub is_orphan: AtomicBool,
    /// It is in no table any more.
    pub is_over: AtomicBool,
    /// Close resets.
    pub resets: AtomicBool,
}

impl Connection {
    pub(crate) fn new(
        id: SocketId,
        flow: Flow,
        tenant: &'static Tenant,
        local: Endpoint,
        remote: Endpoint,
        machine: Machine,
    ) -> Arc<Connection> {
        Arc::new(Connection {
            _count: CONNECTIONS.count(),
            id,
            flow,
            tenant,
            local,
            remote,
            readiness: Readiness::new(machine.ready()),
            machine: SpinLock::new(machine),
            outstanding: AtomicUsize::new(0),
            blocked: AtomicBool::new(false),
            in_line: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            alarm: Arc::default(),
            is_orphan: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            resets: AtomicBool::new(false),
        })
    }

    /// What its user gets.
    pub(crate) fn socket(&self) -> Socket {
        Socket {
            id: self.id,
            local: self.local,
            remote: self.remote,
            readiness: self.readiness.clone(),
            label: self.flow.label,
        }
    }

    /// True where another frame may go down; else the connection is marked, and resumed when there is room. Where others of its tenant
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
        let may = match self.turn.load(Ordering::Acquire) {
            0 => !self.tenant.is_waited_for() && self.tenant.free_bytes(shared) > 0,
            _ => self.tenant.may_send(shared),
        };
        may && self.room_bytes(shared) > 0
    }

    /// It is called out of the line.
    pub(crate) fn begin_turn(&self, bytes: usize) {
        self.tenant.promised.fetch_add(bytes, Ordering::AcqRel);
        let left = self.turn.swap(bytes, Ordering::AcqRel);
        self.tenant.promised.fetch_sub(left, Ordering::AcqRel);
    }

    /// It has handed down so much of what its turn allows.
    pub(crate) fn spend_turn(&self, bytes: usize) {
        let spend = |left: usize| Some(left.saturating_sub(bytes));
        let before = self.turn.fetch_update(Ordering::AcqRel, Ordering::Acquire, spend).unwrap_or(0);
        self.tenant.promised.fetch_sub(before.min(bytes), Ordering::AcqRel);
    }

    /// What is left of its turn is the next one's.
    pub(crate) fn end_turn(&self) {
        let left = self.turn.swap(0, Ordering::AcqRel);
        self.tenant.promised.fetch_sub(left, Ordering::AcqRel);
    }

    /// Bytes that it may hand down, but for those of its tenant's other connections.
    fn room_bytes(&self, shared: &Shared) -> usize {
        self.limit_bytes(shared).saturating_sub(self.outstanding.load(Ordering::Acquire))
    }

    fn limit_bytes(&self, shared: &Shared) -> usize {
        shared.pace.scaled(self.tenant.limits.connection_sent_bytes_max)
    }

    /// How long a segment it may hand down in one piece: what there is room for at the link's pace, and while others wait, its turn.
    pub(crate) fn burst_bytes(&self, shared: &Shared) -> usize {
        let room = self.room_bytes(shared).min(self.tenant.room_bytes(shared));
        let room = room.min(shared.pace.segment_bytes());
        match self.turn.load(Ordering::Relaxed) {
            0 => room,
            turn => room.min(turn),
        }
    }

    /// The device has taken a frame of this connection.
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

    /// Lets the connection send again, by a message of its own activity; false where it did not wait.
    pub(crate) fn resume(self: &Arc<Connection>, shared: &'static Shared) -> bool {
        if !self.blocked.swap(false, Ordering::AcqRel) {
            return false;
        }
        let turn = Turn(Some(self.clone()));
        if let Some(ports) = shared.ports.get() {
            let before = set_current_tenant(self.tenant.activity);
            drop(ports.tcp_input.labelled(labels(self.flow.label)).resume(turn));
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

    /// Tells those who wait; called without the lock. `again` names bits that are news although they were set.
    pub(crate) fn tell(&self, ready: Ready, again: Ready) {
        let news = ready.difference(self.readiness.now()) | (ready & again);
        if !news.is_empty() {
            self.readiness.set(news);
        }
    }
}

/// A connection on its way to its turn. Where the message that carries it is not handled, it stands in line again.
pub struct Turn(Option<Arc<Connection>>);

impl Turn {
    /// Its connection, which must end its turn.
    pub(super) fn begin(mut self) -> Option<Arc<Connection>> {
        self.0.take()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.end_turn();
            connection.blocked.store(true, Ordering::Release);
            connection.tenant.wait_for_room(&connection);
        }
    }
}
