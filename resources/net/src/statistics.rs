//! The figures of the network path for each tenant.

use crate::guard::Load;
use core::sync::atomic::{AtomicU64, Ordering};

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum DropReason {
    /// Too many of the tenant's packets wait already.
    Overload,
    /// A header that contradicts itself.
    Malformed,
    /// A wrong checksum.
    Checksum,
    /// A sender that cannot be (one of our own addresses, loopback, broadcast).
    Spoofed,
    /// No tenant has the address.
    Unowned,
    /// No socket listens there.
    NoSocket,
    /// The socket's queue or backlog is full.
    SocketFull,
    /// Fragments that did not become a packet.
    Fragment,
    /// No memory.
    OutOfMemory,
    /// Too many of the tenant's frames wait for the device, and no sender could be asked to wait.
    SendFull,
    /// No neighbour answers for the address.
    Unreachable,
    /// The link to the address was down.
    LinkDown,
    /// A protocol or message that we do not speak.
    Unknown,
    /// A new connection above the limit of the tenant's overload controller.
    Overloaded,
    /// From a neighbour that may not reach the tenant.
    NotAllowed,
}

/// How many reasons there are.
pub const REASONS: usize = 15;

/// The reasons' names, in order.
pub const REASON_NAMES: [&str; REASONS] = [
    "overload",
    "malformed",
    "checksum",
    "spoofed",
    "unowned",
    "no_socket",
    "socket_full",
    "fragment",
    "out_of_memory",
    "send_full",
    "unreachable",
    "link_down",
    "unknown",
    "overloaded",
    "not_allowed",
];

const _: () = assert!(DropReason::NotAllowed as usize + 1 == REASONS);

/// The figures of one tenant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetStatistics {
    /// Packets received and accepted, loopback included.
    pub received_packets: u64,
    /// Their bytes, IP header included.
    pub received_bytes: u64,
    /// Packets handed to the writer.
    pub sent_packets: u64,
    /// Their bytes, IP header included.
    pub sent_bytes: u64,
    /// Packets sent that stayed within the tenant.
    pub local_packets: u64,
    /// Their bytes, IP header included.
    pub local_bytes: u64,
    /// Packets dropped, by [`DropReason`].
    pub dropped: [u64; REASONS],
    /// Segments repeated by TCP, of connections that have ended.
    pub retransmissions: u64,
    /// Bytes that the path copied.
    pub copied_bytes: u64,
    /// Connections answered with a cookie because too many were half open.
    pub cookies: u64,
    /// Sockets open now.
    pub sockets: u64,
    /// The overload controller, if the tenant has one.
    pub load: Option<Load>,
}

impl NetStatistics {
    /// Returns how often the overload controller refused a connection.
    pub fn refused(&self) -> u64 {
        self.dropped.get(DropReason::Overloaded as usize).copied().unwrap_or(0)
    }
}

/// The counters behind [`NetStatistics`].
#[derive(Default)]
pub(crate) struct Counters {
    pub received_packets: AtomicU64,
    pub received_bytes: AtomicU64,
    pub sent_packets: AtomicU64,
    pub sent_bytes: AtomicU64,
    pub local_packets: AtomicU64,
    pub local_bytes: AtomicU64,
    pub dropped: [AtomicU64; REASONS],
    pub retransmissions: AtomicU64,
    pub copied_bytes: AtomicU64,
    pub cookies: AtomicU64,
}

impl Counters {
    pub(crate) fn drop(&self, reason: DropReason) {
        if let Some(counter) = self.dropped.get(reason as usize) {
            add(counter, 1);
        }
    }

    pub(crate) fn read(&self) -> NetStatistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NetStatistics {
            received_packets: get(&self.received_packets),
            received_bytes: get(&self.received_bytes),
            sent_packets: get(&self.sent_packets),
            sent_bytes: get(&self.sent_bytes),
            local_packets: get(&self.local_packets),
            local_bytes: get(&self.local_bytes),
            dropped: core::array::from_fn(|reason| self.dropped.get(reason).map_or(0, get)),
            retransmissions: get(&self.retransmissions),
            copied_bytes: get(&self.copied_bytes),
            cookies: get(&self.cookies),
            sockets: 0,
            load: None,
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
