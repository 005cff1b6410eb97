//! Sockets of ICMP over the requests of `interface::icmp`: those of echoes (`SOCK_DGRAM`, icmp(7)) and raw ones (raw(7)).
//!
//! * A socket of echoes opens at its first use or at bind, which may choose the identifier: it stands in the place of a port. It sends
//!   echo requests only, and gets their answers without the IP header.
//! * A raw one opens at once, so that it misses nothing. It gets every message to the tenant, behind its IP header.
//!
//! Nothing here waits: calls answer EAGAIN, and their callers wait on [`EchoSocket::readiness`]. A connected one drops the messages of
//! strangers.

use super::tcp::ANY;
use super::{Address, Data, Incoming, Options, Receive};
use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::icmp::{Wanted, icmp};
use gyre_interface::tcp::{self, SocketAddress};
use gyre_interface::{Readiness, Ready};
use gyre_object::ObjectLock;

/// ICMP's echo request, and the bytes of its header.
const ECHO_REQUEST: u8 = 8;
const HEADER_BYTES: usize = 8;
const MESSAGE_BYTES_MAX: usize = 65_507;

/// Which messages it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EchoKind {
    /// Answers to its own echo requests.
    Echoes,
    /// All.
    Raw,
}

#[derive(Default)]
struct State {
    socket: Option<tcp::Socket>,
    peer: Option<[u8; 4]>,
}

/// A socket of ICMP.
// recursion: at most 1, because the socket that it names is the network path's own
pub struct EchoSocket {
    client: icmp::Client,
    kind: EchoKind,
    state: ObjectLock<State>,
    fresh: Arc<Readiness>,
    options: Options,
}

impl EchoSocket {
    /// Makes a socket.
    pub fn new(client: icmp::Client, kind: EchoKind) -> EchoSocket {
        let (state, options) = (ObjectLock::default(), Options::default());
        EchoSocket { client, kind, state, fresh: Readiness::new(Ready::WRITE), options }
    }

    /// Returns the common options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns its kind.
    pub fn kind(&self) -> EchoKind {
        self.kind
    }

    fn socket(&self) -> Option<tcp::Socket> {
        self.state.lock().socket.clone()
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> Arc<Readiness> {
        self.socket().map_or_else(|| self.fresh.clone(), |socket| socket.readiness)
    }

    /// Does bind(2): the port is the identifier.
    pub(super) async fn bind(&self, local: SocketAddress) -> Result<(), Errno> {
        match (self.kind, self.socket()) {
            (EchoKind::Echoes, Some(_)) => Err(Errno::EINVAL),
            (EchoKind::Echoes, None) => self.open(local.port).await.map(|_| ()),
            (EchoKind::Raw, _) => self.opened().await.map(|_| ()),
        }
    }

    async fn open(&self, identifier: u16) -> Result<tcp::Socket, Errno> {
        let wanted = match self.kind {
            EchoKind::Echoes => Wanted::Echoes(identifier),
            EchoKind::Raw => Wanted::All,
        };
        let socket = self.client.open(wanted).await?;
        let kept = {
            let mut state = self.state.lock();
            state.socket.get_or_insert_with(|| socket.clone()).clone()
        };
        if kept.id != socket.id {
            // Another thread was faster: its socket stays, ours goes.
            self.client.close(socket.id).await?;
            return Ok(kept);
        }
        self.fresh.hand_over(&socket.readiness);
        Ok(socket)
    }

    /// Opens it if it is not open.
    ///
    /// # Errors
    /// Those of the resource.
    pub async fn opened(&self) -> Result<tcp::Socket, Errno> {
        match self.socket() {
            Some(socket) => Ok(socket),
            None => self.open(0).await,
        }
    }

    /// Sets or forgets the peer.
    pub(super) async fn connect(&self, peer: Option<SocketAddress>) -> Result<(), Errno> {
        self.opened().await?;
        self.state.lock().peer = peer.map(|peer| peer.address);
        Ok(())
    }

    /// Sends one message.
    pub(super) async fn send(&self, data: Data<'_>, to: Option<Address>) -> Result<usize, Errno> {
        let to = match to {
            Some(Address::Inet(to)) => to.address,
            Some(Address::Unspecified) | None => self.state.lock().peer.ok_or(Errno::EDESTADDRREQ)?,
            Some(_) => return Err(Errno::EAFNOSUPPORT),
        };
        let bytes = data.len();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let message = data.into_one()?.as_slice().to_vec();
        let is_request = message.get(..2) == Some(&[ECHO_REQUEST, 0]);
        if message.len() < HEADER_BYTES || self.kind == EchoKind::Echoes && !is_request {
            return Err(Errno::EINVAL);
        }
        let socket = self.opened().await?;
        self.client.send(socket.id, to, message).await?;
        Ok(bytes)
    }

    /// Takes or looks at one message; those of strangers to a connected socket are dropped.
    pub(super) async fn receive(&self, bytes_max: usize, how: Receive) -> Result<Incoming, Errno> {
        let Some(socket) = self.socket() else {
            return Err(Errno::EAGAIN);
        };
        loop {
            let arrived = match how {
                Receive::Take => self.client.receive(socket.id).await?,
                Receive::Peek => self.client.peek(socket.id).await?,
            };
            let peer = self.state.lock().peer;
            if peer.is_none_or(|peer| peer == arrived.from) {
                let from = SocketAddress { address: arrived.from, port: 0 };
                return Ok(Incoming {
                    whole_bytes: arrived.message.len(),
                    data: alloc::vec![arrived.message.slice(0, bytes_max)],
                    from: Some(Address::Inet(from)),
                    ..Incoming::default()
                });
            }
            if how == Receive::Peek {
                self.client.receive(socket.id).await?;
            }
        }
    }

    /// Returns the length of the next message.
    pub(super) async fn readable_bytes(&self) -> usize {
        let Some(socket) = self.socket() else {
            return 0;
        };
        self.client.peek(socket.id).await.map_or(0, |arrived| arrived.message.len())
    }

    /// Returns its own end: the identifier in the place of a port.
    pub fn local(&self) -> SocketAddress {
        self.socket().map_or(ANY, |socket| socket.local)
    }

    /// Returns the peer.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn remote(&self) -> Result<SocketAddress, Errno> {
        self.state.lock().peer.map(|address| SocketAddress { address, port: 0 }).ok_or(Errno::ENOTCONN)
    }

    /// Closes as [`EchoSocket::close`] does, and waits until the resource has closed it.
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
