//! The protocol of TCP. Its requests never block: the caller waits on a socket's readiness and asks again.

use crate::Readiness;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_message::{Gone, protocol};
use gyre_object::Bytes;

/// An IPv4 address and a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketAddress {
    /// The address; 0.0.0.0 is any of the activity's own.
    pub address: [u8; 4],
    /// The port; 0 lets the resource choose.
    pub port: u16,
}

/// Names a connection or a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u64);

/// The reason why a network request failed. The Linux personality maps each to one errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetError {
    /// Nothing there yet, or no room (EAGAIN): wait for readiness.
    WouldBlock,
    /// The address is not this activity's, or taken (EADDRNOTAVAIL).
    NotAvailable,
    /// The port is taken (EADDRINUSE).
    InUse,
    /// No socket listens there (ECONNREFUSED).
    Refused,
    /// The peer reset the connection (ECONNRESET).
    Reset,
    /// The peer does not answer (ETIMEDOUT).
    TimedOut,
    /// No way there (ENETUNREACH).
    Unreachable,
    /// Sending after shutdown or to a closed peer (EPIPE).
    Closed,
    /// Not connected (ENOTCONN).
    NotConnected,
    /// The datagram is too long (EMSGSIZE).
    TooLong,
    /// The activity may have no more sockets or buffers (ENOBUFS).
    OutOfMemory,
    /// No such socket (EBADF).
    Unknown,
    /// Arguments that make no sense (EINVAL).
    Invalid,
    /// The resource is gone (EIO).
    Gone,
}

impl From<Gone> for NetError {
    fn from(_: Gone) -> NetError {
        NetError::Gone
    }
}

/// An open socket: its name, both ends and its readiness.
#[derive(Clone)]
pub struct Socket {
    /// Its name in further requests.
    pub id: SocketId,
    /// This end.
    pub local: SocketAddress,
    /// The other end; zeros for listeners.
    pub remote: SocketAddress,
    /// The events that it is ready for.
    pub readiness: Arc<Readiness>,
    /// The affinity and dependency label of its whole path: requests about it carry it.
    pub label: u64,
}

/// The direction to shut down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// No more receiving.
    Receive,
    /// No more sending: FIN after the queued data.
    Send,
    /// Both.
    Both,
}

/// Options of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOption {
    /// Send small segments at once (TCP_NODELAY).
    NoDelay(bool),
    /// Hold partial segments back (TCP_CORK).
    Cork(bool),
    /// Probe idle peers (SO_KEEPALIVE).
    KeepAlive(bool),
    /// Receive buffer, bytes.
    ReceiveBuffer(usize),
    /// Send buffer, bytes.
    SendBuffer(usize),
    /// Seconds that close waits for unsent data (SO_LINGER); `Some(0)` resets.
    Linger(Option<u16>),
}

/// The figures of TCP_INFO and getsockopt.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpStatus {
    /// The state's number in Linux's enumeration (1 established ... 10 listen).
    pub state: u8,
    /// Bytes in the receive queue.
    pub receive_queued_bytes: usize,
    /// Bytes not yet acknowledged or sent.
    pub send_queued_bytes: usize,
    /// Free room for sending, bytes.
    pub send_room_bytes: usize,
    /// Smoothed round trip, us.
    pub round_trip_us: u32,
    /// Congestion window, bytes.
    pub congestion_window_bytes: u32,
    /// Segments retransmitted.
    pub retransmissions: u32,
    /// Maximum segment size, bytes.
    pub segment_bytes_max: u16,
}

protocol! {
    /// The requests of TCP. None of these waits for the peer.
    pub mod tcp {
        /// Opens a listener of the current activity; at most `backlog` connections wait to be accepted.
        async fn listen(local: SocketAddress, backlog: u32, share_port: bool) -> Result<Socket, NetError>;
        /// Takes a connection from the backlog, or `WouldBlock`.
        async fn accept(listener: SocketId) -> Result<Socket, NetError>;
        /// Starts to connect; readiness WRITE or ERROR follows.
        async fn connect(local: SocketAddress, remote: SocketAddress) -> Result<Socket, NetError>;
        /// Queues data by reference. Answers the bytes taken, or `WouldBlock` if there is no room.
        async fn send(socket: SocketId, data: Vec<Bytes>) -> Result<usize, NetError>;
        /// Takes up to `bytes_max` received bytes; none at the end of the stream; `WouldBlock` if nothing has arrived
        /// yet.
        async fn receive(socket: SocketId, bytes_max: usize) -> Result<Vec<Bytes>, NetError>;
        /// Looks at received bytes without taking them.
        async fn peek(socket: SocketId, bytes_max: usize) -> Result<Vec<Bytes>, NetError>;
        /// Ends one or both directions.
        async fn shut_down(socket: SocketId, direction: Direction) -> Result<(), NetError>;
        /// Closes; queued data is still sent.
        async fn close(socket: SocketId) -> Result<(), NetError>;
        /// Sets an option.
        async fn set_option(socket: SocketId, option: TcpOption) -> Result<(), NetError>;
        /// Takes the pending error.
        async fn take_error(socket: SocketId) -> Result<Option<NetError>, NetError>;
        /// Returns state and figures.
        async fn status(socket: SocketId) -> Result<TcpStatus, NetError>;
    }
}
