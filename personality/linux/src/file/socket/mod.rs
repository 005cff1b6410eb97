//! Sockets: TCP, UDP and ICMP through their resources, local ones and those of netlink made up here.
//!
//! [`Socket`] is an enum of the five; each method dispatches to [`tcp`], [`udp`], [`echo`], [`unix`] or [`netlink`]. [`list`] tells of a
//! tenant's sockets. Nothing here waits for
//! a peer: calls answer EAGAIN, and their callers wait on [`Socket::readiness`], which a socket may exchange when it
//! connects, listens or is bound.
//!
//! Data to send is [`Data`]: a few bytes of the caller's stack, or pages by reference. A large send goes in chunks of
//! [`CHUNK_BYTES`]; a small one is copied once ([`SMALL_BYTES`]).
//!
//! Addresses are in [`address`], ancillary data in [`Ancillary`], options that every socket keeps in [`options`].

pub mod address;
pub mod echo;
pub mod list;
pub mod netlink;
pub mod options;
pub mod tcp;
pub mod udp;
pub mod unix;
pub mod unix_inbox;
pub mod unix_names;

pub use address::{Address, UnixName};
pub use options::Options;

use super::buffer::UserBuffer;
use super::object::{CHUNK_BYTES, SMALL_BYTES};
use super::open_file::OpenFile;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use echo::EchoSocket;
use gyre_interface::Readiness;
use gyre_interface::tcp::Direction;
use gyre_object::{Bytes, SmallCopies, TenantLock};
use netlink::NetlinkSocket;
use tcp::TcpSocket;
use udp::UdpSocket;
use unix::UnixSocket;

/// Data to send.
pub enum Data<'a> {
    /// A few bytes, to be copied.
    Small(&'a [u8]),
    /// Pages, by reference.
    Pieces(Vec<Bytes>),
}

impl Data<'_> {
    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Data::Small(bytes) => bytes.len(),
            Data::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Converts it to pieces.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn into_pieces(self) -> Result<Vec<Bytes>, Errno> {
        match self {
            Data::Small(bytes) => Ok(alloc::vec![Bytes::copy_from(bytes)?]),
            Data::Pieces(pieces) => Ok(pieces),
        }
    }

    /// Converts it to pieces; a few bytes share a page with those of other sends.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn into_pieces_of(self, small: &TenantLock<SmallCopies>) -> Result<Vec<Bytes>, Errno> {
        match self {
            Data::Small(bytes) => Ok(alloc::vec![small.lock().copy(bytes)?]),
            Data::Pieces(pieces) => Ok(pieces),
        }
    }

    /// Converts it to one piece.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn into_one(self) -> Result<Bytes, Errno> {
        let mut pieces = self.into_pieces()?;
        if pieces.len() == 1
            && let Some(piece) = pieces.pop()
        {
            return Ok(piece);
        }
        let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.as_slice()).copied().collect();
        Ok(Bytes::copy_from(&joined)?)
    }
}

/// The sender of a message: process, user, group (`struct ucred`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PeerCredentials {
    /// Process.
    pub process: i32,
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
}

/// The ancillary data of a message (cmsg(3)).
#[derive(Clone, Default)]
pub struct Ancillary {
    /// Open files (SCM_RIGHTS).
    pub rights: Vec<Arc<OpenFile>>,
    /// Whom the sender names in its own place (SCM_CREDENTIALS).
    pub sender: Option<PeerCredentials>,
}

/// A message to send.
pub struct Outgoing<'a> {
    /// Contents.
    pub data: Data<'a>,
    /// The destination; `None` goes to the peer.
    pub to: Option<Address>,
    /// Open files that go along (SCM_RIGHTS).
    pub rights: Vec<Arc<OpenFile>>,
    /// The credentials of the sender.
    pub sender: PeerCredentials,
}

/// A message received.
#[derive(Default)]
pub struct Incoming {
    /// Contents, at most as long as asked for.
    pub data: Vec<Bytes>,
    /// The source address.
    pub from: Option<Address>,
    /// Open files that came along.
    pub rights: Vec<Arc<OpenFile>>,
    /// The credentials of the sender, if the receiver asked for them (SO_PASSCRED).
    pub sender: Option<PeerCredentials>,
    /// Length of the whole datagram, which may be longer than the data.
    pub whole_bytes: usize,
    /// True for a whole record (MSG_EOR).
    pub ends_record: bool,
}

/// How to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receive {
    /// Take it.
    Take,
    /// Only look (MSG_PEEK).
    Peek,
}

/// A socket.
pub enum Socket {
    /// A TCP socket.
    Tcp(TcpSocket),
    /// A UDP socket.
    Udp(UdpSocket),
    /// A local socket.
    Unix(UnixSocket),
    /// A socket of ICMP.
    Echo(EchoSocket),
    /// A netlink socket.
    Netlink(NetlinkSocket),
}

impl Socket {
    /// Returns its readiness; another object after connect, listen or the first bind.
    pub fn readiness(&self) -> Arc<Readiness> {
        match self {
            Socket::Tcp(socket) => socket.readiness(),
            Socket::Udp(socket) => socket.readiness(),
            Socket::Unix(socket) => socket.readiness(),
            Socket::Echo(socket) => socket.readiness(),
            Socket::Netlink(socket) => socket.readiness(),
        }
    }

    /// Options that all kinds have.
    pub fn options(&self) -> &Options {
        match self {
            Socket::Tcp(socket) => socket.options(),
            Socket::Udp(socket) => socket.options(),
            Socket::Unix(socket) => socket.options(),
            Socket::Echo(socket) => socket.options(),
            Socket::Netlink(socket) => socket.options(),
        }
    }

    /// Gives it a local address.
    ///
    /// # Errors
    /// EINVAL if it has one, EADDRINUSE, EADDRNOTAVAIL.
    pub async fn bind(&self, address: Address) -> Result<(), Errno> {
        match (self, address) {
            (Socket::Tcp(socket), Address::Inet(end)) => socket.bind(end).await,
            (Socket::Udp(socket), Address::Inet(end)) => socket.bind(end).await,
            (Socket::Unix(socket), Address::Unix(name)) => socket.bind(name),
            (Socket::Echo(socket), Address::Inet(end)) => socket.bind(end).await,
            (Socket::Netlink(socket), Address::Netlink { port, groups }) => socket.bind(port, groups),
            (Socket::Netlink(_), _) => Err(Errno::EINVAL),
            (Socket::Unix(_), Address::Inet(_)) => Err(Errno::EINVAL),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// Waits for connections from now on.
    ///
    /// # Errors
    /// EOPNOTSUPP; EINVAL; EADDRINUSE.
    pub async fn listen(&self, backlog: u32) -> Result<(), Errno> {
        match self {
            Socket::Tcp(socket) => socket.listen(backlog).await,
            Socket::Udp(_) | Socket::Echo(_) | Socket::Netlink(_) => Err(Errno::EOPNOTSUPP),
            Socket::Unix(socket) => socket.listen(backlog),
        }
    }

    /// Takes a connection.
    ///
    /// # Errors
    /// EAGAIN without one; EINVAL if it does not listen.
    pub async fn accept(&self) -> Result<(Socket, Address), Errno> {
        match self {
            Socket::Tcp(socket) => socket.accept().await,
            Socket::Udp(_) | Socket::Echo(_) | Socket::Netlink(_) => Err(Errno::EOPNOTSUPP),
            Socket::Unix(socket) => socket.accept(),
        }
    }

    /// Starts or finishes connecting.
    ///
    /// # Errors
    /// EINPROGRESS or EALREADY while under way; EISCONN; those of the protocol.
    pub async fn connect(&self, address: Address, sender: PeerCredentials) -> Result<(), Errno> {
        match (self, address) {
            (Socket::Tcp(socket), Address::Inet(end)) => socket.connect(end).await,
            (Socket::Udp(socket), Address::Inet(end)) => socket.connect(Some(end)).await,
            (Socket::Udp(socket), Address::Unspecified) => socket.connect(None).await,
            (Socket::Unix(socket), Address::Unix(name)) => socket.connect(&name, sender),
            (Socket::Unix(socket), Address::Unspecified) => socket.disconnect(),
            (Socket::Echo(socket), Address::Inet(end)) => socket.connect(Some(end)).await,
            (Socket::Echo(socket), Address::Unspecified) => socket.connect(None).await,
            (Socket::Netlink(socket), Address::Netlink { port, .. }) => socket.connect(port),
            (Socket::Netlink(socket), Address::Unspecified) => socket.connect(0),
            (Socket::Netlink(_), _) => Err(Errno::EINVAL),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// Returns the local listener at an address, whose backlog may be full.
    pub fn listener(&self, address: &Address) -> Option<Arc<unix::UnixPeer>> {
        match (self, address) {
            (Socket::Unix(socket), Address::Unix(name)) => socket.listener(name),
            _ => None,
        }
    }

    /// Sends a message; returns the bytes taken.
    ///
    /// # Errors
    /// EAGAIN without room; EPIPE, ENOTCONN, EDESTADDRREQ, EMSGSIZE, those of the protocol.
    pub async fn send(&self, message: Outgoing<'_>) -> Result<usize, Errno> {
        match self {
            Socket::Tcp(socket) => socket.send(message.data).await,
            Socket::Udp(socket) => socket.send(message.data, message.to).await,
            Socket::Unix(socket) => socket.send(message),
            Socket::Echo(socket) => socket.send(message.data, message.to).await,
            Socket::Netlink(socket) => socket.send(message.data, message.to).await,
        }
    }

    /// Receives up to `bytes_max` bytes; no data is the end of a stream.
    ///
    /// # Errors
    /// EAGAIN if nothing is there; ENOTCONN, those of the protocol.
    pub async fn receive(&self, bytes_max: usize, how: Receive) -> Result<Incoming, Errno> {
        match self {
            Socket::Tcp(socket) => socket.receive(bytes_max, how).await,
            Socket::Udp(socket) => socket.receive(bytes_max, how).await,
            Socket::Unix(socket) => socket.receive(bytes_max, how),
            Socket::Echo(socket) => socket.receive(bytes_max, how).await,
            Socket::Netlink(socket) => socket.receive(bytes_max, how),
        }
    }

    /// Ends directions.
    ///
    /// # Errors
    /// ENOTCONN.
    pub async fn shut_down(&self, direction: Direction) -> Result<(), Errno> {
        match self {
            Socket::Tcp(socket) => socket.shut_down(direction).await,
            Socket::Udp(socket) => socket.shut_down(direction),
            Socket::Unix(socket) => socket.shut_down(direction),
            // as Linux: a socket of ICMP that has no peer is not connected, and one of netlink has nothing to end
            Socket::Echo(socket) => socket.remote().map(|_| ()),
            Socket::Netlink(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Returns its own address.
    pub fn local_name(&self) -> Address {
        match self {
            Socket::Tcp(socket) => Address::Inet(socket.local()),
            Socket::Udp(socket) => Address::Inet(socket.local()),
            Socket::Unix(socket) => Address::Unix(socket.name()),
            Socket::Echo(socket) => Address::Inet(socket.local()),
            Socket::Netlink(socket) => socket.name(),
        }
    }

    /// Returns the other end's address.
    ///
    /// # Errors
    /// ENOTCONN.
    pub async fn peer_name(&self) -> Result<Address, Errno> {
        match self {
            Socket::Tcp(socket) => socket.peer().await.map(Address::Inet),
            Socket::Udp(socket) => socket.remote().map(Address::Inet),
            Socket::Unix(socket) => socket.peer_name().map(Address::Unix),
            Socket::Echo(socket) => socket.remote().map(Address::Inet),
            Socket::Netlink(_) => Ok(Address::Netlink { port: 0, groups: 0 }),
        }
    }

    /// Returns the pending error, taken (SO_ERROR).
    pub async fn take_error(&self) -> Option<Errno> {
        match self {
            Socket::Tcp(socket) => socket.take_error().await,
            Socket::Unix(socket) => socket.take_error(),
            Socket::Udp(_) | Socket::Echo(_) | Socket::Netlink(_) => None,
        }
    }

    /// Returns the bytes that can be read now (FIONREAD).
    pub async fn readable_bytes(&self) -> usize {
        match self {
            Socket::Tcp(socket) => socket.status().await.map_or(0, |status| status.receive_queued_bytes),
            Socket::Udp(socket) => socket.readable_bytes().await,
            Socket::Unix(socket) => socket.readable_bytes(),
            Socket::Echo(socket) => socket.readable_bytes().await,
            Socket::Netlink(socket) => socket.readable_bytes(),
        }
    }

    /// Returns whether its messages keep their borders.
    pub fn keeps_borders(&self) -> bool {
        match self {
            Socket::Tcp(_) => false,
            Socket::Udp(_) | Socket::Echo(_) | Socket::Netlink(_) => true,
            Socket::Unix(socket) => socket.keeps_borders(),
        }
    }

    /// Closes as [`Socket::close`] does, and waits until the resource has closed it.
    pub(super) async fn close_and_wait(&self) {
        match self {
            Socket::Tcp(socket) => socket.close_and_wait().await,
            Socket::Udp(socket) => socket.close_and_wait().await,
            Socket::Unix(socket) => socket.close(),
            Socket::Echo(socket) => socket.close_and_wait().await,
            Socket::Netlink(_) => {}
        }
    }

    /// Ends it when its descriptor is closed for good.
    pub(super) fn close(&self) {
        match self {
            Socket::Tcp(socket) => socket.close(),
            Socket::Udp(socket) => socket.close(),
            Socket::Unix(socket) => socket.close(),
            Socket::Echo(socket) => socket.close(),
            Socket::Netlink(_) => {}
        }
    }

    /// Fails early if a send could not go on, before data is copied for nothing.
    fn check_room(&self) -> Result<(), Errno> {
        use gyre_interface::Ready;
        let open = Ready::WRITE | Ready::ERROR | Ready::HANG_UP;
        if self.readiness().now().intersects(open) { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// `read` on a socket.
    pub(super) async fn read(&self, buffer: &mut UserBuffer<'_>) -> Result<usize, Errno> {
        if buffer.left() == 0 && !self.keeps_borders() {
            return Ok(0);
        }
        let message = self.receive(buffer.left(), Receive::Take).await?;
        buffer.put_pieces(&message.data).await
    }

    /// `write` on a socket.
    pub(super) async fn write(&self, _file: &OpenFile, buffer: &mut UserBuffer<'_>) -> Result<usize, Errno> {
        self.send_buffer(buffer, None, Ancillary::default()).await
    }

    /// Sends the bytes of a program's buffer: once, as many as fit.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub async fn send_buffer(
        &self,
        buffer: &mut UserBuffer<'_>,
        to: Option<Address>,
        along: Ancillary,
    ) -> Result<usize, Errno> {
        self.check_room()?;
        let Ancillary { rights, sender } = along;
        let sender = sender.unwrap_or_else(|| super::credentials_of(buffer.thread()));
        let bytes = buffer.left();
        let mut small = [0; SMALL_BYTES];
        let data = if bytes <= SMALL_BYTES {
            let into = small.get_mut(..bytes).unwrap_or_default();
            let count = buffer.get(into).await?;
            Data::Small(small.get(..count).unwrap_or(&[]))
        } else if self.keeps_borders() {
            Data::Pieces(buffer.gather(bytes).await?)
        } else {
            Data::Pieces(buffer.gather(bytes.min(CHUNK_BYTES)).await?)
        };
        let gathered = data.len();
        let message = Outgoing { data, to, rights, sender };
        let sent = self.send(message).await;
        buffer.give_back(gathered.saturating_sub(sent.unwrap_or(0)));
        sent
    }

    /// Receives by reference, for splice.
    pub(super) async fn take(&self, bytes: usize) -> Result<Vec<Bytes>, Errno> {
        Ok(self.receive(bytes, Receive::Take).await?.data)
    }

    /// Sends by reference, for sendfile and splice.
    pub(super) async fn give(&self, data: Vec<Bytes>) -> Result<usize, Errno> {
        self.check_room()?;
        let message =
            Outgoing { data: Data::Pieces(data), to: None, rights: Vec::new(), sender: PeerCredentials::default() };
        self.send(message).await
    }
}
