//! UDP for others.

use crate::tcp::{Endpoint, NetError, Socket, SocketId};
use gyre_message::protocol;
use gyre_object::Bytes;

/// Longest datagram, bytes of payload.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

protocol! {
    /// What UDP does for others. None of these waits.
    pub mod udp {
        /// Opens a socket of the current activity.
        async fn bind(local: Endpoint, share_port: bool) -> Result<Socket, NetError>;
        /// Sends a datagram; `WouldBlock` where the send queue is full.
        async fn send(socket: SocketId, to: Endpoint, data: Bytes) -> Result<(), NetError>;
        /// Takes a datagram and its sender, or `WouldBlock`.
        async fn receive(socket: SocketId) -> Result<(Endpoint, Bytes), NetError>;
        /// Looks at the next datagram without taking it.
        async fn peek(socket: SocketId) -> Result<(Endpoint, Bytes), NetError>;
        /// Closes.
        async fn close(socket: SocketId) -> Result<(), NetError>;
    }
}
