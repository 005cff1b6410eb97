//! The protocol of UDP, and of UDP-Lite.

use crate::tcp::{NetError, Socket, SocketAddress, SocketId};
use gyre_message::protocol;
use gyre_object::Bytes;

/// Longest datagram, bytes of payload.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Which of the two protocols of datagrams a socket speaks. Each has its own ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Kind {
    /// UDP (RFC 768): the checksum covers all of a datagram.
    #[default]
    Udp,
    /// UDP-Lite (RFC 3828): it covers as much as the sender says, see [`Coverage`].
    Lite,
}

/// Whether others may have a socket with the same port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortUse {
    /// The socket has its port alone.
    #[default]
    Alone,
    /// Sockets that say so divide the senders among them.
    Shared,
}

/// A socket that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Its own end; port 0 takes a free one.
    pub local: SocketAddress,
    /// Its protocol.
    pub kind: Kind,
    /// Its port's use.
    pub port_use: PortUse,
}

impl Binding {
    /// One of UDP that has its port alone.
    pub fn udp(local: SocketAddress) -> Binding {
        Binding { local, kind: Kind::Udp, port_use: PortUse::Alone }
    }
}

/// The bytes of a datagram of UDP-Lite that its checksum covers, from the beginning of the header on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Bytes covered of each datagram sent, 8 or more; 0 covers all.
    pub sent_bytes: u16,
    /// Datagrams that cover a part only, and fewer bytes than this, are not received; 0 takes none that covers a part. `None` takes all.
    pub received_bytes_min: Option<u16>,
}

protocol! {
    /// The requests of UDP. None of these waits.
    pub mod udp {
        /// Opens a socket of the current activity.
        async fn bind(wanted: Binding) -> Result<Socket, NetError>;
        /// Says what checksums of a socket of UDP-Lite cover; `Invalid` for one of UDP.
        async fn cover(socket: SocketId, coverage: Coverage) -> Result<(), NetError>;
        /// Sends a datagram; `WouldBlock` if the send queue is full.
        async fn send(socket: SocketId, to: SocketAddress, data: Bytes) -> Result<(), NetError>;
        /// Takes a datagram and its sender, or `WouldBlock`.
        async fn receive(socket: SocketId) -> Result<(SocketAddress, Bytes), NetError>;
        /// Looks at the next datagram without taking it.
        async fn peek(socket: SocketId) -> Result<(SocketAddress, Bytes), NetError>;
        /// Closes.
        async fn close(socket: SocketId) -> Result<(), NetError>;
    }
}
