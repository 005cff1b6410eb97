//! Local sockets: stream, datagram and record (unix(7)).
//!
//! A message lies in the receiver's inbox until it is read. WRITE of a sender is set and cleared under the lock of
//! the inbox that it writes to, so that a reader that makes room never misses a sender that found none. One peer's
//! lock is never taken while another's is held.
//!
//! A descriptor holds a [`UnixSocket`]; peers and names reach the [`UnixPeer`] in it. Phases of a stream: fresh,
//! listening (with a backlog of peers to accept), connected; flags say which directions have ended. Files in
//! messages are entered in a table of the tenant, which finds rings of sockets that hold each other
//! ([`crate::file::in_flight`]).
//!
//! Closing drops the inbox in pieces ([`crate::file::remains`]). Paths are made and resolved by the callers.

mod connect;

use super::list::{CLOSED, ESTABLISHED, LISTENING};
use super::unix_inbox::{Borders, Inbox};
use super::{Address, Incoming, Options, Outgoing, PeerCredentials, Receive, UnixName};
use crate::Errno;
use crate::file::in_flight::Ticket;
use crate::file::remains::Remain;
use crate::file::tenant_files::TenantFiles;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::future::Future;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_interface::tcp::Direction;
use gyre_interface::{Readiness, Ready};
use gyre_message::WaitQueue;
use gyre_object::ObjectLock;

/// SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum UnixKind {
    /// A connected stream of bytes.
    Stream,
    /// Messages without a connection.
    Datagram,
    /// A connected stream of messages.
    Record,
}

enum Phase {
    Fresh,
    Listening { backlog: VecDeque<Arc<UnixPeer>>, limit: usize },
    Connected { peer: Weak<UnixPeer>, name: UnixName, credentials: PeerCredentials },
}

/// How a peer has ended (unix_release_sock in Linux' net/unix/af_unix.c).
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerEnd {
    /// It sends no more.
    Sent,
    /// It has gone, and has read everything.
    Gone,
    /// It has gone and leaves something unread, or was never accepted.
    Reset,
}

struct State {
    phase: Phase,
    name: UnixName,
    inbox: Inbox,
    /// No more will come, or be read.
    shut_read: bool,
    shut_write: bool,
    closed: bool,
    /// The peer has gone without reading everything: told once.
    was_reset: bool,
    /// Senders that found the inbox full.
    senders: Vec<Weak<UnixPeer>>,
}

/// The object behind a descriptor, reached by peers and by name.
// recursion: at most 2, because what waits in a backlog has never listened
pub struct UnixPeer {
    pub(super) kind: UnixKind,
    state: ObjectLock<State>,
    readiness: Arc<Readiness>,
    /// The listener in whose backlog it waits, by address; 0 for none.
    listener: AtomicUsize,
    /// A listener's backlog has room again, or there is no listener any more.
    room: WaitQueue,
}

impl UnixPeer {
    /// Completes when a connection can be tried again that found the backlog full after this call.
    pub fn room(&self) -> impl Future<Output = ()> + '_ {
        self.room.wait()
    }

    fn new(kind: UnixKind) -> Arc<UnixPeer> {
        let initial = match kind {
            UnixKind::Datagram => Ready::WRITE,
            UnixKind::Stream | UnixKind::Record => Ready::WRITE | Ready::HANG_UP,
        };
        Arc::new(UnixPeer {
            kind,
            state: ObjectLock::new(State {
                phase: Phase::Fresh,
                name: UnixName::Unnamed,
                inbox: Inbox::default(),
                shut_read: false,
                shut_write: false,
                closed: false,
                was_reset: false,
                senders: Vec::new(),
            }),
            readiness: Readiness::new(initial),
            listener: AtomicUsize::new(0),
            room: WaitQueue::new(),
        })
    }

    /// Returns the address of the peer whose descriptor reads its inbox: itself, or its listener while it waits to be
    /// accepted.
    pub(in crate::file) fn receiver(self: &Arc<Self>) -> usize {
        match self.listener.load(Ordering::Acquire) {
            0 => Arc::as_ptr(self) as usize,
            listener => listener,
        }
    }

    fn borders(&self) -> Borders {
        if self.kind == UnixKind::Stream { Borders::None } else { Borders::Kept }
    }

    fn join(&self, peer: &Arc<UnixPeer>, name: UnixName, credentials: PeerCredentials) {
        self.state.lock().phase = Phase::Connected { peer: Arc::downgrade(peer), name, credentials };
        self.readiness.clear(Ready::HANG_UP);
        self.readiness.set(Ready::WRITE);
    }

    /// Puts a message into this endpoint's inbox for `sender`.
    fn deliver(
        &self,
        from: &Arc<UnixPeer>,
        name: UnixName,
        message: Outgoing<'_>,
        rights: &mut Option<Ticket>,
    ) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        if state.closed || state.shut_read {
            return Err(if self.kind == UnixKind::Datagram { Errno::ECONNREFUSED } else { Errno::EPIPE });
        }
        let count = match state.inbox.admit(message.data.len(), self.borders()) {
            Err(Errno::EAGAIN) => {
                from.readiness.clear(Ready::WRITE);
                let known = state.senders.iter().any(|other| core::ptr::eq(other.as_ptr(), Arc::as_ptr(from)));
                if !known {
                    state.senders.push(Arc::downgrade(from));
                }
                return Err(Errno::EAGAIN);
            }
            answer => answer?,
        };
        state.inbox.push(&message.data, count, self.borders(), rights, message.sender, name)?;
        self.readiness.set(Ready::READ);
        Ok(count)
    }

    /// Notes how a peer's end was.
    fn peer_ended(&self, end: PeerEnd) {
        let mut state = self.state.lock();
        state.shut_read = true;
        state.shut_write |= end != PeerEnd::Sent;
        let mut bits = Ready::READ | Ready::READ_HANG_UP;
        if state.shut_write {
            bits |= Ready::HANG_UP | Ready::WRITE;
        }
        if end == PeerEnd::Reset {
            state.was_reset = true;
            bits |= Ready::ERROR;
        }
        self.readiness.set(bits);
    }

    /// Takes the error that waits to be told.
    fn take_error(&self, state: &mut State) -> Option<Errno> {
        let was_reset = core::mem::take(&mut state.was_reset);
        was_reset.then(|| {
            self.readiness.clear(Ready::ERROR);
            Errno::ECONNRESET
        })
    }
}

/// A local socket as others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnixLook {
    /// Its state, in TCP's words.
    pub state: u8,
    /// The other end's address in memory, which only names it.
    pub peer: Option<usize>,
    /// Messages, or connections, that wait to be taken.
    pub receive_queued: usize,
}

/// A local socket.
pub struct UnixSocket {
    end: Arc<UnixPeer>,
    tenant: Arc<TenantFiles>,
    options: Options,
}

impl UnixSocket {
    /// Makes a socket without name and peer.
    pub fn new(kind: UnixKind, tenant: &Arc<TenantFiles>) -> UnixSocket {
        UnixSocket::of(UnixPeer::new(kind), tenant)
    }

    fn of(end: Arc<UnixPeer>, tenant: &Arc<TenantFiles>) -> UnixSocket {
        UnixSocket { end, tenant: tenant.clone(), options: Options::default() }
    }

    /// Makes two sockets connected to each other (socketpair(2)).
    pub fn pair(kind: UnixKind, tenant: &Arc<TenantFiles>, credentials: PeerCredentials) -> (UnixSocket, UnixSocket) {
        let (first, second) = (UnixPeer::new(kind), UnixPeer::new(kind));
        first.join(&second, UnixName::Unnamed, credentials);
        second.join(&first, UnixName::Unnamed, credentials);
        (UnixSocket::of(first, tenant), UnixSocket::of(second, tenant))
    }

    /// Returns the part that peers reach.
    pub(in crate::file) fn peer_part(&self) -> &Arc<UnixPeer> {
        &self.end
    }

    /// Returns its kind.
    pub fn kind(&self) -> UnixKind {
        self.end.kind
    }

    /// Returns the common options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> Arc<Readiness> {
        self.end.readiness.clone()
    }

    /// Does bind(2). Paths are made and resolved by the caller.
    pub(super) fn bind(&self, name: UnixName) -> Result<(), Errno> {
        if self.end.state.lock().name != UnixName::Unnamed {
            return Err(Errno::EINVAL);
        }
        let name = match name {
            UnixName::Unnamed => self.tenant.unix_names.choose(&self.end)?,
            name => {
                self.tenant.unix_names.bind(&name, &self.end)?;
                name
            }
        };
        self.end.state.lock().name = name;
        Ok(())
    }

    /// Forgets the peer of a datagram socket.
    pub(super) fn disconnect(&self) -> Result<(), Errno> {
        if self.end.kind != UnixKind::Datagram {
            return Err(Errno::EINVAL);
        }
        self.end.state.lock().phase = Phase::Fresh;
        Ok(())
    }

    fn receiver(&self, to: Option<Address>) -> Result<Arc<UnixPeer>, Errno> {
        let connected = self.end.kind != UnixKind::Datagram;
        match to {
            Some(Address::Unix(name)) if !connected => self.tenant.unix_names.find(&name, self.end.kind),
            Some(_) if !connected => Err(Errno::EAFNOSUPPORT),
            Some(_) => Err(Errno::EISCONN),
            None => {
                let state = self.end.state.lock();
                if state.shut_write {
                    return Err(Errno::EPIPE);
                }
                match &state.phase {
                    Phase::Connected { peer, .. } => {
                        peer.upgrade().ok_or(if connected { Errno::EPIPE } else { Errno::ECONNREFUSED })
                    }
                    _ if connected => Err(Errno::ENOTCONN),
                    _ => Err(Errno::ENOTCONN),
                }
            }
        }
    }

    /// Returns the pending error, taken (SO_ERROR).
    pub(super) fn take_error(&self) -> Option<Errno> {
        self.end.take_error(&mut self.end.state.lock())
    }

    /// Sends a message; returns the bytes taken.
    pub(super) fn send(&self, mut message: Outgoing<'_>) -> Result<usize, Errno> {
        if self.end.kind == UnixKind::Record
            && let Some(error) = self.take_error()
        {
            return Err(error);
        }
        let to = self.receiver(message.to.take())?;
        if to.kind != self.end.kind {
            return Err(Errno::EPROTOTYPE);
        }
        if message.data.is_empty() && self.end.kind == UnixKind::Stream {
            return Ok(0);
        }
        let name = self.end.state.lock().name.clone();
        let files = core::mem::take(&mut message.rights);
        let mut ticket = self.tenant.send_files(&to, files)?;
        let sent = to.deliver(&self.end, name, message, &mut ticket);
        // If it was not delivered the sender still has the files.
        drop(ticket.map(Ticket::take));
        sent
    }

    /// Receives a message, or bytes of a stream.
    pub(super) fn receive(&self, bytes_max: usize, how: Receive) -> Result<Incoming, Errno> {
        let mut state = self.end.state.lock();
        if self.end.kind != UnixKind::Datagram && !matches!(state.phase, Phase::Connected { .. }) {
            return Err(if matches!(state.phase, Phase::Listening { .. }) { Errno::EINVAL } else { Errno::ENOTCONN });
        }
        // A stream gives what came before the error; messages do not.
        if self.end.kind == UnixKind::Record
            && let Some(error) = self.end.take_error(&mut state)
        {
            return Err(error);
        }
        let Some(mut message) = state.inbox.pop(bytes_max, self.end.borders(), how) else {
            if let Some(error) = self.end.take_error(&mut state) {
                return Err(error);
            }
            return if state.shut_read || bytes_max == 0 && self.end.kind == UnixKind::Stream {
                Ok(Incoming::default())
            } else {
                Err(Errno::EAGAIN)
            };
        };
        if state.inbox.is_empty() && !state.shut_read {
            self.end.readiness.clear(Ready::READ);
        }
        if state.inbox.has_room() {
            let senders = core::mem::take(&mut state.senders);
            for sender in senders.iter().filter_map(Weak::upgrade) {
                sender.readiness.set(Ready::WRITE);
            }
        }
        drop(state);
        if !Options::flag(&self.options.pass_credentials) {
            message.sender = None;
        }
        Ok(message)
    }

    /// Does shutdown(2).
    pub(super) fn shut_down(&self, direction: Direction) -> Result<(), Errno> {
        let peer = {
            let mut state = self.end.state.lock();
            let peer = match &state.phase {
                Phase::Connected { peer, .. } => peer.upgrade(),
                Phase::Listening { .. } => {
                    self.end.room.wake_all();
                    None
                }
                Phase::Fresh => return Err(Errno::ENOTCONN),
            };
            state.shut_read |= direction != Direction::Send;
            state.shut_write |= direction != Direction::Receive;
            if direction != Direction::Send {
                self.end.readiness.set(Ready::READ | Ready::READ_HANG_UP);
            }
            if state.shut_read && state.shut_write {
                self.end.readiness.set(Ready::HANG_UP);
            }
            peer
        };
        if let Some(peer) = peer.filter(|_| self.end.kind != UnixKind::Datagram) {
            if direction != Direction::Receive {
                peer.peer_ended(PeerEnd::Sent);
            }
            if direction != Direction::Send {
                peer.state.lock().shut_write = true;
                peer.readiness.set(Ready::WRITE);
            }
        }
        Ok(())
    }

    /// Returns what others may see of it.
    pub fn look(&self) -> UnixLook {
        let state = self.end.state.lock();
        let (name, peer, waiting) = match &state.phase {
            Phase::Fresh => (CLOSED, None, state.inbox.len()),
            Phase::Listening { backlog, .. } => (LISTENING, None, backlog.len()),
            Phase::Connected { peer, .. } => (ESTABLISHED, Some(peer.as_ptr() as usize), state.inbox.len()),
        };
        UnixLook { state: name, peer, receive_queued: waiting }
    }

    /// Returns its name.
    pub fn name(&self) -> UnixName {
        self.end.state.lock().name.clone()
    }

    /// Returns the peer's name.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn peer_name(&self) -> Result<UnixName, Errno> {
        match &self.end.state.lock().phase {
            Phase::Connected { name, .. } => Ok(name.clone()),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// Returns the credentials of the process that connected (SO_PEERCRED).
    pub fn peer_credentials(&self) -> Option<PeerCredentials> {
        match &self.end.state.lock().phase {
            Phase::Connected { credentials, .. } => Some(*credentials),
            _ => None,
        }
    }

    /// Returns whether it listens (SO_ACCEPTCONN).
    pub fn is_listening(&self) -> bool {
        matches!(self.end.state.lock().phase, Phase::Listening { .. })
    }

    /// Returns whether messages keep their borders.
    pub fn keeps_borders(&self) -> bool {
        self.end.kind != UnixKind::Stream
    }

    /// Returns the bytes that can be read now.
    pub(super) fn readable_bytes(&self) -> usize {
        let state = self.end.state.lock();
        if self.keeps_borders() { state.inbox.first_bytes() } else { state.inbox.len() }
    }

    /// Ends it when its descriptor is closed for good: the peer and the waiting connections are told, and the inbox
    /// is dropped.
    pub(super) fn close(&self) {
        self.tenant.close_in_pieces(|| {
            self.end_use();
            if self.tenant.in_flight.wants_rings() {
                self.tenant.leave_behind(Remain::Rings);
            }
        });
    }

    fn end_use(&self) {
        let mut state = self.end.state.lock();
        state.closed = true;
        let phase = core::mem::replace(&mut state.phase, Phase::Fresh);
        let inbox = core::mem::take(&mut state.inbox);
        let senders = core::mem::take(&mut state.senders);
        let name = core::mem::take(&mut state.name);
        drop(state);
        let end = if inbox.is_empty() { PeerEnd::Gone } else { PeerEnd::Reset };
        drop(inbox);
        self.tenant.unix_names.release(&name, self.end.kind);
        for sender in senders.iter().filter_map(Weak::upgrade) {
            sender.readiness.set(Ready::WRITE);
        }
        match phase {
            Phase::Connected { peer, .. } if self.end.kind != UnixKind::Datagram => {
                if let Some(peer) = peer.upgrade() {
                    peer.peer_ended(end);
                }
            }
            Phase::Listening { backlog, .. } => {
                backlog.iter().for_each(|end| refuse(end));
                self.end.room.wake_all();
            }
            _ => {}
        }
    }
}

/// Ends a connection that was not accepted.
fn refuse(end: &Arc<UnixPeer>) {
    let phase = core::mem::replace(&mut end.state.lock().phase, Phase::Fresh);
    if let Phase::Connected { peer, .. } = phase
        && let Some(peer) = peer.upgrade()
    {
        peer.peer_ended(PeerEnd::Reset);
    }
}
