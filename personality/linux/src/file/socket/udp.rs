//! UDP sockets over the requests of `interface::udp`.

use super::tcp::ANY;
use super::{Address, Data, Incoming, Options, Receive};
use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::tcp::{self, Direction, Endpoint, NetError};
use gyre_interface::udp::{DATAGRAM_BYTES_MAX, udp};
use gyre_interface::{Readiness, Ready};
use gyre_object::ObjectLock;

#[derive(Default)]
struct State {
    socket: Option<tcp::Socket>,
    peer: Option<Endpoint>,
    shut_read: bool,
    shut_write: bool,
}

/// A UDP socket.
pub struct UdpSocket {
    client: udp::Client,
    state: ObjectLock<State>,
    fresh: Arc<Readiness>,
    options: Options,
}

impl UdpSocket {
    /// A socket without an address.
    pub fn new(client: udp::Client) -> UdpSocket {
        UdpSocket {
            client,
            state: ObjectLock::default(),
            fresh: Readiness::new(Ready::WRITE),
            options: Options::default(),
        }
    }

    /// Common options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    fn socket(&self) -> Option<tcp::Socket> {
        self.state.lock().socket.clone()
    }

    /// What it is ready for.
    pub fn readiness(&self) -> Arc<Readiness> {
        self.socket().map_or_else(|| self.fresh.clone(), |socket| socket.readiness)
    }

    /// See bind(2).
    pub(super) async fn bind(&self, local: Endpoint) -> Result<(), Errno> {
        if self.socket().is_some() {
            return Err(Errno::EINVAL);
        }
        self.open(local).await.map(|_| ())
    }

    async fn open(&self, local: Endpoint) -> Result<tcp::Socket, Errno> {
        let share = Options::flag(&self.options.reuse_port) || Options::flag(&self.options.reuse_address);
        let socket = self.client.bind(local, share).await?;
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
    pub(super) async fn connect(&self, peer: Option<Endpoint>) -> Result<(), Errno> {
        self.opened().await?;
        self.state.lock().peer = peer;
        Ok(())
    }

    /// Sends one datagram.
    pub(super) async fn send(&self, data: Data<'_>, to: Option<Address>) -> Result<usize, Errno> {
        let to = match to {
            Some(Address::Inet(to)) => to,
            Some(Address::Unix(_)) => return Err(Errno::EAFNOSUPPORT),
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

    /// Length of the next datagram.
    pub(super) async fn readable_bytes(&self) -> usize {
        let Some(socket) = self.socket() else {
            return 0;
        };
        let next: Result<_, NetError> = self.client.peek(socket.id).await;
        next.map_or(0, |(_, data)| data.len())
    }

    /// See shutdown(2).
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

    /// Its own end.
    pub fn local(&self) -> Endpoint {
        self.socket().map_or(ANY, |socket| socket.local)
    }

    /// The peer.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn remote(&self) -> Result<Endpoint, Errno> {
        self.state.lock().peer.ok_or(Errno::ENOTCONN)
    }

    /// As [`UdpSocket::close`], done when the resource has closed it.
    pub(super) async fn close_and_wait(&self) {
        if let Some(socket) = self.socket() {
            // A resource that is gone has closed everything already.
            let _ = self.client.close(socket.id).await;
        }
    }

    /// Its descriptor is closed for good.
    pub(super) fn close(&self) {
        if let Some(socket) = self.socket() {
            // Nobody waits for the answer: a resource that is gone has closed everything already.
            drop(self.client.close(socket.id));
        }
    }
}
