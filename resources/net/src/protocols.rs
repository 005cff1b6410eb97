//! The requests of the path's resources to each other. All of them tell something: no task waits for the answers of
//! the first four, so a request whose answer was given up is still handled.

use crate::alarm::Alarm;
use crate::packet::{OutPacket, Packet};
use crate::tcp_resource::SendRoom;
use crate::wire::icmp::Quoted;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::tcp::{NetError, SocketId};
use gyre_message::protocol;

protocol! {
    /// From demultiplexing, timers and the writer to TCP.
    pub mod tcp_input {
        /// Segments arrived, nearly always of one connection, in order.
        async fn segments(first: Packet, more: Vec<Packet>) -> Result<(), NetError>;
        /// Tells that the deadline of a connection or listener has come.
        async fn expired(socket: SocketId) -> Result<(), NetError>;
        /// Gives a connection room on the way to the device again.
        async fn resume(room: SendRoom) -> Result<(), NetError>;
        /// Tells that a router says that a packet of ours could not be delivered.
        async fn unreachable(quoted: Quoted, error: NetError) -> Result<(), NetError>;
    }
}

protocol! {
    /// From demultiplexing to UDP.
    pub mod udp_input {
        /// Hands a datagram over.
        async fn datagram(packet: Packet) -> Result<(), NetError>;
        /// Tells that a router or host says that a datagram of ours could not be delivered.
        async fn unreachable(quoted: Quoted, error: NetError) -> Result<(), NetError>;
    }
}

protocol! {
    /// From demultiplexing to ICMP, and to the reassembly of fragments.
    pub mod icmp_input {
        /// Hands a message over.
        async fn message(packet: Packet) -> Result<(), NetError>;
        /// Hands a fragment of any protocol over.
        async fn fragment(packet: Packet) -> Result<(), NetError>;
    }
}

protocol! {
    /// From TCP to its timer: one deadline per connection or listener.
    pub mod tcp_timer {
        /// Looks at the alarm when it says from now on; [`tcp_input`] is told when its deadline comes.
        async fn arm(socket: SocketId, label: u64, alarm: Arc<Alarm>) -> Result<(), NetError>;
        /// Forgets it.
        async fn disarm(socket: SocketId) -> Result<(), NetError>;
    }
}

protocol! {
    /// From TCP, UDP and ICMP to the network device write resource.
    pub mod net_write {
        /// Sends a packet; answers when it waits for the device (or the loopback has it). Its receipt goes on with it.
        async fn send(packet: OutPacket) -> Result<(), NetError>;
    }
}
