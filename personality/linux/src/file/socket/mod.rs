//! Sockets: TCP and UDP through their resources, local ones made up here.

pub mod address;
pub mod options;
pub mod tcp;
pub mod udp;
pub mod unix;
pub mod unix_inbox;
pub mod unix_names;

pub use address::{Address, UnixName};
pub use options::Options;

use super::open_file::OpenFile;
use super::transfer::UserBuffer;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::Readiness;
use gyre_interface::tcp::Direction;
use gyre_object::{Bytes, SmallCopies, TenantLock};
use tcp::TcpSocket;
use udp::UdpSocket;
use unix::UnixSocket;

/// Sends up to here go through the stack, bytes.
const SMALL_BYTES: usize = 512;
/// Bytes of one turn of a large send.
const TURN_BYTES: usize = 128 * 1024;

/// Data to send.
pub enum Data<'a> {
    /// A few bytes, to be copied.
    Small(&'a [u8]),
    /// Pages, by reference.
    Pieces(Vec<Bytes>),
}

impl Data<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Data::Small(bytes) => bytes.len(),
            Data::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    /// True where there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As pieces.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn into_pieces(self) -> Result<Vec<Bytes>, Errno> {
        match self {
            Data::Small(bytes) => Ok(alloc::vec![Bytes::copy_from(bytes)?]),
            Data::Pieces(pieces) => Ok(pieces),
        }
    }

    /// As pieces, where few bytes share a page with those of others.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn into_pieces_of(self, small: &TenantLock<SmallCopies>) -> Result<Vec<Bytes>, Errno> {
        match self {
            Data::Small(bytes) => Ok(alloc::vec![small.lock().copy(bytes)?]),
            Data::Pieces(pieces) => Ok(pieces),
        }
    }

    /// As one piece.
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

/// Who sent something: process, user, group (`struct ucred`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PeerCredentials {
    /// Process.
    pub process: i32,
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
}

/// What goes along with a message beside its contents (cmsg(3)).
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
    /// Where to; `None` goes to the peer.
    pub to: Option<Address>,
    /// Open files that go along (SCM_RIGHTS).
    pub rights: Vec<Arc<OpenFile>>,
    /// Who sends.
    pub sender: PeerCredentials,
}

/// A message received.
#[derive(Default)]
pub struct Incoming {
    /// Contents, at most as long as asked for.
    pub data: Vec<Bytes>,
    /// From where.
    pub from: Option<Address>,
    /// Open files that came along.
    pub rights: Vec<Arc<OpenFile>>,
    /// Who sent it, where the receiver asked for that (SO_PASSCRED).
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
}

impl Socket {
    /// What it is ready for; another object after connect, listen or the first bind.
    pub fn readiness(&self) -> Arc<Readiness> {
        match self {
            Socket::Tcp(socket) => socket.readiness(),
            Socket::Udp(socket) => socket.readiness(),
            Socket::Unix(socket) => socket.readiness(),
        }
    }

    /// Options that all kinds have.
    pub fn options(&self) -> &Options {
        match self {
            Socket::Tcp(socket) => socket.options(),
            Socket::Udp(socket) => socket.options(),
            Socket::Unix(socket) => socket.options(),
        }
    }

    /// Gives it a local address.
    ///
    /// # Errors
    /// EINVAL where it has one, EADDRINUSE, EADDRNOTAVAIL.
    pub async fn bind(&self, address: Address) -> Result<(), Errno> {
        match (self, address) {
            (Socket::Tcp(socket), Address::Inet(end)) => socket.bind(end).await,
            (Socket::Udp(socket), Address::Inet(end)) => socket.bind(end).await,
            (Socket::Unix(socket), Address::Unix(name)) => socket.bind(name),
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
            Socket::Udp(_) => Err(Errno::EOPNOTSUPP),
            Socket::Unix(socket) => socket.listen(backlog),
        }
    }

    /// Takes a connection.
    ///
    /// # Errors
    /// EAGAIN without one; EINVAL where it does not listen.
    pub async fn accept(&self) -> Result<(Socket, Address), Errno> {
        match self {
            Socket::Tcp(socket) => socket.accept().await,
            Socket::Udp(_) => Err(Errno::EOPNOTSUPP),
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
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// The local listener at an address, whose backlog may be full.
    pub fn listener(&self, address: &Address) -> Option<Arc<unix::Endpoint>> {
        match (self, address) {
            (Socket::Unix(socket), Address::Unix(name)) => socket.listener(name),
            _ => None,
        }
    }

    /// Sends; answers the bytes taken.
    ///
    /// # Errors
    /// EAGAIN without room; EPIPE, ENOTCONN, EDESTADDRREQ, EMSGSIZE, those of the protocol.
    pub async fn send(&self, message: Outgoing<'_>) -> Result<usize, Errno> {
        match self {
            Socket::Tcp(socket) => socket.send(message.data).await,
            Socket::Udp(socket) => socket.send(message.data, message.to).await,
            Socket::Unix(socket) => socket.send(message),
        }
    }

    /// Receives up to `bytes_max` bytes; no data is the end of a stream.
    ///
    /// # Errors
    /// EAGAIN where nothing is there; ENOTCONN, those of the protocol.
    pub async fn receive(&self, bytes_max: usize, how: Receive) -> Result<Incoming, Errno> {
        match self {
            Socket::Tcp(socket) => socket.receive(bytes_max, how).await,
            Socket::Udp(socket) => socket.receive(bytes_max, how).await,
            Socket::Unix(socket) => socket.receive(bytes_max, how),
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
        }
    }

    /// Its own address.
    pub fn local_name(&self) -> Address {
        match self {
            Socket::Tcp(socket) => Address::Inet(socket.local()),
            Socket::Udp(socket) => Address::Inet(socket.local()),
            Socket::Unix(socket) => Address::Unix(socket.name()),
        }
    }

    /// The other end's address.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn peer_name(&self) -> Result<Address, Errno> {
        match self {
            Socket::Tcp(socket) => socket.remote().map(Address::Inet),
            Socket::Udp(socket) => socket.remote().map(Address::Inet),
            Socket::Unix(socket) => socket.peer_name().map(Address::Unix),
        }
    }

    /// The pending error, taken (SO_ERROR).
    pub async fn take_error(&self) -> Option<Errno> {
        match self {
            Socket::Tcp(socket) => socket.take_error().await,
            Socket::Udp(_) | Socket::Unix(_) => None,
        }
    }

    /// Bytes that can be read now (FIONREAD).
    pub async fn readable_bytes(&self) -> usize {
        match self {
            Socket::Tcp(socket) => socket.status().await.map_or(0, |status| status.receive_queued_bytes),
            Socket::Udp(socket) => socket.readable_bytes().await,
            Socket::Unix(socket) => socket.readable_bytes(),
        }
    }

    /// True for sockets whose messages keep their borders.
    pub fn keeps_borders(&self) -> bool {
        match self {
            Socket::Tcp(_) => false,
            Socket::Udp(_) => true,
            Socket::Unix(socket) => socket.keeps_borders(),
        }
    }

    /// As [`Socket::close`], done when the resource has closed it.
    pub(super) async fn close_and_wait(&self) {
        match self {
            Socket::Tcp(socket) => socket.close_and_wait().await,
            Socket::Udp(socket) => socket.close_and_wait().await,
            Socket::Unix(socket) => socket.close(),
        }
    }

    /// Its descriptor is closed for good.
    pub(super) fn close(&self) {
        match self {
            Socket::Tcp(socket) => socket.close(),
            Socket::Udp(socket) => socket.close(),
            Socket::Unix(socket) => socket.close(),
        }
    }

    /// Fails early where a send could not go on, before data are copied for nothing.
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

    /// Sends what a program's buffer holds: once, as much as fits.
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
            Data::Pieces(buffer.gather(bytes.min(TURN_BYTES)).await?)
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
