//! Sockets of UDP and UDP-Lite over the requests of `interface::udp`.
//!
//! A socket is fresh, open once it has an address (by bind(2), or by the first sending, which takes a free port), and closed with
//! its last descriptor. Two threads may open it at the same time: the first one's stays.
//!
//! Its peer and the ends that were shut down are known here alone: the resource knows ports, and takes datagrams from everybody.
//! Those of strangers to a connected socket are dropped when they are read. The coverage of UDP-Lite's checksums is kept for who asks
//! before there is an open socket.

use super::tcp::ANY;
use super::{Address, Data, Incoming, Options, Receive};
use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::tcp::{self, Direction, NetError, SocketAddress};
use gyre_interface::udp::{Binding, Coverage, DATAGRAM_BYTES_MAX, Kind, PortUse, udp};
use gyre_interface::{Readiness, Ready};
use gyre_object::ObjectLock;

#[derive(Default)]
struct State {
    socket: Option<tcp::Socket>,
    peer: Option<SocketAddress>,
    shut_read: bool,
    shut_write: bool,
    coverage: Coverage,
}

/// A UDP socket.
pub struct UdpSocket {
    client: udp::Client,
    kind: Kind,
    state: ObjectLock<State>,
    fresh: Arc<Readiness>,
    options: Options,
}

impl UdpSocket {
    /// Makes a socket without an address.
    pub fn new(client: udp::Client, kind: Kind) -> UdpSocket {
        UdpSocket {
            client,
            kind,
            state: ObjectLock::default(),
            fresh: Readiness::new(Ready::WRITE),
            options: Options::default(),
        }
    }

    /// Returns the common options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns its protocol.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns what its checksums cover.
    pub fn coverage(&self) -> Coverage {
        self.state.lock().coverage
    }

    /// Changes what its checksums cover.
    ///
    /// # Errors
    /// ENOPROTOOPT if it is one of UDP.
    pub async fn set_coverage(&self, coverage: Coverage) -> Result<(), Errno> {
        if self.kind != Kind::Lite {
            return Err(Errno::ENOPROTOOPT);
        }
        self.state.lock().coverage = coverage;
        match self.socket() {
            Some(socket) => Ok(self.client.cover(socket.id, coverage).await?),
            None => Ok(()),
        }
    }

    fn socket(&self) -> Option<tcp::Socket> {
        self.state.lock().socket.clone()
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> Arc<Readiness> {
        self.socket().map_or_else(|| self.fresh.clone(), |socket| socket.readiness)
    }

    /// Does bind(2).
    pub(super) async fn bind(&self, local: SocketAddress) -> Result<(), Errno> {
        if self.socket().is_some() {
            return Err(Errno::EINVAL);
        }
        self.open(local).await.map(|_| ())
    }

    async fn open(&self, local: SocketAddress) -> Result<tcp::Socket, Errno> {
        let share = Options::flag(&self.options.reuse_port) || Options::flag(&self.options.reuse_address);
        let port_use = if share { PortUse::Shared } else { PortUse::Alone };
        let socket = self.client.bind(Binding { local, kind: self.kind, port_use }).await?;
        let coverage = self.coverage();
        if coverage != Coverage::default() {
            self.client.cover(socket.id, coverage).await?;
        }
        let earlier = {
            let mut state = self.state.lock();
            if state.socket.is_none() {
                state.socket = Some(socket.clone());
            }
            state.socket.clone().filter(|kept| kept.id != socket.id)
        };
        if let Some(earlier) = earlier {
            // Another thread was faster: its socket stays, ours goes.
            self.client.close(socket.id).await?;
            return Ok(earlier);
        }
        self.fresh.hand_over(&socket.readiness);
        Ok(socket)
    }

    async fn opened(&self) -> Result<tcp::Socket, Errno> {
        match self.socket() {
            Some(socket) => Ok(socket),
            None => self.open(ANY).await,
        }
    }

    /// Sets or forgets the peer.
    pub(super) async fn connect(&self, peer: Option<SocketAddress>) -> Result<(), Errno> {
        self.opened().await?;
        self.state.lock().peer = peer;
        Ok(())
    }

    /// Sends one datagram.
    pub(super) async fn send(&self, data: Data<'_>, to: Option<Address>) -> Result<usize, Errno> {
        let to = match to {
            Some(Address::Inet(to)) => to,
            Some(Address::Unix(_) | Address::Netlink { .. }) => return Err(Errno::EAFNOSUPPORT),
            Some(Address::Unspecified) | None => self.state.lock().peer.ok_or(Errno::EDESTADDRREQ)?,
        };
        if self.state.lock().shut_write {
            return Err(Errno::EPIPE);
        }
        let bytes = data.len();
        if bytes > DATAGRAM_BYTES_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let socket = self.opened().await?;
        self.client.send(socket.id, to, data.into_one()?).await?;
        Ok(bytes)
    }

    /// Takes or looks at one datagram; those of strangers to a connected socket are dropped.
    pub(super) async fn receive(&self, bytes_max: usize, how: Receive) -> Result<Incoming, Errno> {
        let Some(socket) = self.socket() else {
            return Err(Errno::EAGAIN);
        };
        loop {
            if self.state.lock().shut_read {
                return Ok(Incoming::default());
            }
            let answer = match how {
                Receive::Take => self.client.receive(socket.id).await,
                Receive::Peek => self.client.peek(socket.id).await,
            };
            let (from, data) = answer?;
            let peer = self.state.lock().peer;
            if peer.is_none_or(|peer| peer == from) {
                return Ok(Incoming {
                    whole_bytes: data.len(),
                    data: alloc::vec![data.slice(0, bytes_max)],
                    from: Some(Address::Inet(from)),
                    ..Incoming::default()
                });
            }
            if how == Receive::Peek {
                self.client.receive(socket.id).await?;
            }
        }
    }

    /// Returns the length of the next datagram.
    pub(super) async fn readable_bytes(&self) -> usize {
        let Some(socket) = self.socket() else {
            return 0;
        };
        let next: Result<_, NetError> = self.client.peek(socket.id).await;
        next.map_or(0, |(_, data)| data.len())
    }

    /// Does shutdown(2).
    pub(super) fn shut_down(&self, direction: Direction) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.peer.is_none() {
            return Err(Errno::ENOTCONN);
        }
        state.shut_read |= direction != Direction::Send;
        state.shut_write |= direction != Direction::Receive;
        let socket = state.socket.clone();
        drop(state);
        if let Some(socket) = socket.filter(|_| direction != Direction::Send) {
            socket.readiness.set(Ready::READ | Ready::READ_HANG_UP);
        }
        Ok(())
    }

    /// Returns its own end.
    pub fn local(&self) -> SocketAddress {
        self.socket().map_or(ANY, |socket| socket.local)
    }

    /// Returns the peer.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn remote(&self) -> Result<SocketAddress, Errno> {
        self.state.lock().peer.ok_or(Errno::ENOTCONN)
    }

    /// Closes as [`UdpSocket::close`] does, and waits until the resource has closed it.
    pub(super) async fn close_and_wait(&self) {
        if let Some(socket) = self.socket() {
            // A resource that is gone has closed everything already.
            let _ = self.client.close(socket.id).await;
        }
    }

    /// Ends it when its descriptor is closed for good.
    pub(super) fn close(&self) {
        if let Some(socket) = self.socket() {
            // The answer is not needed: a resource that is gone has closed everything already.
            drop(self.client.close(socket.id));
        }
    }
}
