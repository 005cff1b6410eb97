//! An activity with an address: its counters, ports and bytes on the way.
//!
//! * Its counters, and how long its servers take to answer, are read by the monitor.
//! * Its ports name listeners and datagram sockets.
//! * Its line holds connections that wait until the device has taken some of its frames.
//! * Its guard, if it has one, decides about connections from outside.
//!
//! Everything that a packet or a program can make grow here has a bound in [`NetLimits`].

use crate::answers::{Answers, Question};
use crate::door::Door;
use crate::guard::{Guard, Protection, Refusal, Visit};
use crate::headers::Headers;
use crate::limits::{COMPLAINTS_PER_SECOND, NetLimits};
use crate::shared::{Shared, is_loopback};
use crate::statistics::{Counters, NetStatistics};
use crate::tcp_resource::{Connection, Listener};
use crate::udp::UdpSocket;
use crate::wire::tcp::{self, Flags};
use crate::wire::{Ip, ipv4};
use alloc::collections::BTreeMap;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_account::ActivityId;
use gyre_interface::tcp::NetError;
use gyre_interface::udp::Kind;
use gyre_object::{Bytes, SpinLock};

/// The listeners of ports. Addresses are told apart at look-up.
#[derive(Default)]
pub(crate) struct Ports {
    pub listeners: BTreeMap<u16, Vec<Arc<Listener>>>,
    pub datagrams: BTreeMap<(Kind, u16), Vec<Arc<UdpSocket>>>,
    /// Sockets of echoes, by identifier.
    pub echoes: BTreeMap<u16, Arc<UdpSocket>>,
    /// Sockets of all messages of ICMP.
    pub raw: Vec<Arc<UdpSocket>>,
}

/// Limits answers to packets for no socket.
#[derive(Default)]
struct Complaints {
    second: u64,
    count: u32,
}

/// An activity that owns an address, or the one that pays for unowned packets.
pub struct Tenant {
    /// The activity that pays.
    pub activity: ActivityId,
    /// Its address; zeros for the one without.
    pub address: Ip,
    /// Position in the table of tenants.
    pub(crate) index: u16,
    pub(crate) limits: NetLimits,
    /// Its overload controller, if its owner wants one.
    pub(crate) guard: Option<Guard>,
    /// The neighbours that it reaches, and that reach it.
    pub(crate) door: Door,
    /// How long its servers take to answer.
    pub(crate) answers: Answers,
    pub(crate) counters: Counters,
    /// Received packets that wait for its protocols.
    pub(crate) waiting: AtomicUsize,
    /// Bytes of its frames that the device has not taken yet.
    pub(crate) outstanding: AtomicUsize,
    /// Granted bytes that connections called out of the line have not used yet.
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
            guard: None,
            door: Door::Open,
            answers: Answers::default(),
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

    /// Adds an overload controller.
    pub(crate) fn guarded(self, protection: Option<Protection>) -> Tenant {
        Tenant { guard: protection.map(|protection| Guard::new(protection, self.index)), ..self }
    }

    /// Sets its neighbours.
    pub(crate) fn behind(self, door: Option<Door>) -> Tenant {
        Tenant { door: door.unwrap_or_default(), ..self }
    }

    /// The controller that a connection from an address is subject to; one within the tenant is to none.
    pub(crate) fn guard_for(&self, remote: Ip) -> Option<&Guard> {
        self.guard.as_ref().filter(|_| remote != self.address && !is_loopback(remote))
    }

    /// Returns true for the first segment of a connection that the controller refuses by silence: it is dropped where its owner is
    /// found, so a refusal costs no message. A segment that asks for a connection to a closed port gets no answer then either.
    pub(crate) fn is_refused(&self, header: &ipv4::Header, body: &[u8]) -> bool {
        let is_full = |guard: &Guard| guard.refusal == Refusal::Silence && !guard.admits();
        self.guard_for(header.source).is_some_and(is_full)
            && header.protocol == ipv4::PROTOCOL_TCP
            && !header.is_fragment()
            && tcp::flags(body).is_some_and(|flags| flags & (Flags::SYN | Flags::ACK | Flags::RST) == Flags::SYN)
    }

    /// Returns the measure of a connection that comes now, if there is a controller for it.
    pub(crate) fn visit(&'static self, remote: Ip, now_ns: u64) -> Option<Visit> {
        self.guard_for(remote).map(|guard| Visit::new(guard, now_ns))
    }

    /// Returns the measure of answers on a connection that comes now; one within the tenant has none.
    pub(crate) fn question(&'static self, remote: Ip) -> Option<Question> {
        (remote != self.address && !is_loopback(remote)).then(|| Question::new(&self.answers))
    }

    /// Returns its figures.
    pub fn statistics(&self) -> NetStatistics {
        NetStatistics {
            sockets: self.sockets.load(Ordering::Relaxed) as u64,
            load: self.guard.as_ref().map(Guard::load),
            ..self.counters.read()
        }
    }

    /// Places headers in memory that a device can read.
    pub(crate) fn header(&self, bytes: &[u8]) -> Option<Bytes> {
        self.headers.lock().place(bytes)
    }

    /// Returns whether it may hand down another frame.
    pub(crate) fn may_send(&self, shared: &Shared) -> bool {
        self.room_bytes(shared) > 0
    }

    /// Returns the bytes that it may hand down.
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

    /// Returns whether connections stand in line.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.line_len.load(Ordering::Acquire) > 0
    }

    fn next_in_line(&self) -> Option<Weak<Connection>> {
        let mut line = self.blocked.lock();
        let next = line.pop_front();
        self.line_len.store(line.len(), Ordering::Release);
        next
    }

    /// Calls waiting connections after room was given back: first come first served, while there is granted room for
    /// each. Bytes granted to connections called before are not granted again: one that is called and finds no room
    /// would stand behind all others.
    pub(crate) fn on_room(&self, shared: &'static Shared) {
        let room = shared.pace.send_room_bytes().min(shared.pace.scaled(self.limits.sent_bytes_max) / 2).max(1);
        // each once: a connection that cannot be told stands in line again
        for _ in 0..self.line_len.load(Ordering::Acquire) {
            if self.free_bytes(shared) < room {
                return;
            }
            let Some(connection) = self.next_in_line().and_then(|next| next.upgrade()) else {
                continue;
            };
            connection.in_line.store(false, Ordering::Release);
            connection.grant_send_room(room);
            // one that has gone on meanwhile takes no room
            if !connection.resume(shared) {
                connection.end_send_room();
            }
        }
    }

    /// Returns the bytes that are neither in use nor granted.
    pub(crate) fn free_bytes(&self, shared: &Shared) -> usize {
        self.room_bytes(shared).saturating_sub(self.promised.load(Ordering::Acquire))
    }

    /// Returns whether a packet for no socket may be answered now.
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
