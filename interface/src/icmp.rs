//! The protocol of ICMP (RFC 792): echoes that programs ask for, and what they may know of their tenant's network.

use crate::tcp::{NetError, Socket, SocketId};
use alloc::vec::Vec;
use gyre_message::protocol;
use gyre_object::Bytes;

/// The messages that a socket is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Answers to its own echo requests, which bear this identifier; 0 lets the resource choose.
    Echoes(u16),
    /// All messages to the tenant, each behind its IP header.
    All,
}

/// A message that arrived.
#[derive(Clone)]
pub struct Arrived {
    /// Its sender.
    pub from: [u8; 4],
    /// The message, from ICMP's header on; behind an IP header for [`Wanted::All`].
    pub message: Bytes,
}

/// Packets and bytes that have passed an interface.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Passed {
    /// Packets received.
    pub received_packets: u64,
    /// Their bytes, IP header included.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Their bytes, IP header included.
    pub sent_bytes: u64,
    /// Packets dropped on the way in.
    pub dropped: u64,
}

/// Facts that a tenant may know of its network. Nothing in it tells of other tenants.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Facts {
    /// Its address.
    pub address: [u8; 4],
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// The router; zeros without one.
    pub gateway: [u8; 4],
    /// The router's hardware address, if it is known.
    pub gateway_mac: Option<[u8; 6]>,
    /// The hardware address of the interface.
    pub mac: [u8; 6],
    /// The longest packet of the interface, bytes.
    pub packet_bytes_max: u32,
    /// The longest packet within the tenant, bytes.
    pub local_packet_bytes_max: u32,
    /// The figures of the interface.
    pub interface: Passed,
    /// The figures of packets that stayed within the tenant.
    pub local: Passed,
    /// Segments repeated by TCP.
    pub retransmissions: u64,
    /// Datagrams and connections for which there was no socket.
    pub no_socket: u64,
}

protocol! {
    /// The requests of ICMP. None of these waits.
    pub mod icmp {
        /// Returns the facts about the network of the current activity.
        async fn facts() -> Result<Facts, NetError>;
        /// Opens a socket of the current activity.
        async fn open(wanted: Wanted) -> Result<Socket, NetError>;
        /// Sends a message whose checksum is right; `WouldBlock` if too much is on the way.
        async fn send(socket: SocketId, to: [u8; 4], message: Vec<u8>) -> Result<(), NetError>;
        /// Takes a message, or `WouldBlock`.
        async fn receive(socket: SocketId) -> Result<Arrived, NetError>;
        /// Looks at the next message without taking it.
        async fn peek(socket: SocketId) -> Result<Arrived, NetError>;
        /// Closes.
        async fn close(socket: SocketId) -> Result<(), NetError>;
    }
}
