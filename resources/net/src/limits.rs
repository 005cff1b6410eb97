//! Bounds of the network path. Everything that a packet or a tenant can make grow has its limit here.

/// The bounds of a tenant's sockets, buffers and frames on the way.
#[derive(Clone, Copy, Debug)]
pub struct NetLimits {
    /// Received packets of a tenant that wait for its protocols; more are dropped and counted.
    pub received_packets_max: usize,
    /// Bytes of a tenant's frames handed to the writer and not yet taken by the device. They wait in one line: a short answer of the
    /// tenant waits behind all of them, so there should be little more than the device takes before its sender can be resumed. On a
    /// fast link this and the next are more ([`crate::pace`]).
    pub sent_bytes_max: usize,
    /// Bytes that one connection may have on the way; further data waits in its send buffer, if it can still be
    /// acknowledged, repeated or reset.
    pub connection_sent_bytes_max: usize,
    /// Sockets of a tenant, listeners and UDP included.
    pub sockets_max: usize,
    /// Half-open connections of a listener; beyond, cookies.
    pub half_open_max: usize,
    /// Connections of a tenant remembered in TIME-WAIT.
    pub time_waits_max: usize,
    /// Receive buffer of a connection, bytes.
    pub receive_bytes: usize,
    /// Send buffer of a connection, bytes.
    pub send_bytes: usize,
    /// Bytes of datagrams that wait in a UDP socket.
    pub datagram_bytes_max: usize,
}

impl Default for NetLimits {
    fn default() -> NetLimits {
        NetLimits {
            received_packets_max: 256,
            sent_bytes_max: 64 << 10,
            connection_sent_bytes_max: 16 << 10,
            sockets_max: 8192,
            half_open_max: 256,
            time_waits_max: 4096,
            receive_bytes: 128 << 10,
            send_bytes: 256 << 10,
            datagram_bytes_max: 256 << 10,
        }
    }
}

/// Least cost of a frame on the way to the device: a tenant's room is then less than a queue of the engine holds
/// (1024).
pub const FRAME_COST_BYTES: usize = 512;
/// Least bytes that a connection may hand down at once while others of its tenant wait.
pub const SEND_ROOM_BYTES: usize = 8 << 10;
/// The longest segment that is cut below, on a slow link: two frames. Others wait for all of it.
pub const SEGMENT_BYTES_MIN: usize = 2 << 10;
/// Largest segment on the fastest link: the limit of IP's length field, with headers.
pub const SEGMENT_BYTES_MAX: usize = 60 << 10;
/// How long a segment keeps a link busy between those two, us.
pub const SEGMENT_US: u64 = 3000;
/// Neighbours whose hardware addresses are remembered.
pub const NEIGHBOURS_MAX: usize = 256;
/// Packets that wait for one neighbour's answer.
pub const NEIGHBOUR_WAITERS_MAX: usize = 64;
/// Most answers without a waiting sender that wait: resets, SYN acknowledgments, echo replies.
pub const ANSWER_WAITERS_MAX: usize = 1;
/// Packets of a tenant in reassembly.
pub const FRAGMENTED_PACKETS_MAX: usize = 16;
/// Fragments of one packet.
pub const FRAGMENTS_MAX: usize = 64;
/// Largest packet of the loopback, bytes.
pub const LOOPBACK_PACKET_BYTES: usize = 65_535;
/// Answers to packets for no socket (resets, unreachable) per tenant and second.
pub const COMPLAINTS_PER_SECOND: u32 = 500;
/// Longest backlog of a listener.
pub const BACKLOG_MAX: u32 = 4096;

const _: () = assert!(ANSWER_WAITERS_MAX <= NEIGHBOUR_WAITERS_MAX);
