//! Packets on their way between the resources of the path.

use crate::tenant::Tenant;
use crate::wire::{Ip, ipv4};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_object::Bytes;

/// The way on which a packet came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A network card, or pieces of several packets.
    Wire,
    /// Memory that another instance shares: nothing can have damaged it, and its sender is not trusted.
    Neighbour,
    /// This instance.
    Here,
}

impl Origin {
    /// Returns whether its checksums were never computed.
    pub fn is_unsummed(self) -> bool {
        self != Origin::Wire
    }
}

/// A received packet whose owner is known.
pub struct Packet {
    /// Whose it is.
    pub tenant: &'static Tenant,
    /// Its IP header.
    pub header: ipv4::Header,
    /// The bytes behind the IP header, in one piece as far as the transport's header goes.
    pub body: Bytes,
    /// More payload by reference (loopback, links to other instances).
    pub more: Vec<Bytes>,
    /// The way on which it came.
    pub origin: Origin,
    /// The label of its connection.
    pub label: u64,
    /// When a reader found its owner, ns; 0 of one that came through no reader.
    pub came_ns: u64,
    /// Its place among the tenant's waiting packets.
    pub admission: Admission,
}

impl Packet {
    /// Returns whether both belong to one TCP connection, as far as its label tells.
    pub fn goes_with(&self, other: &Packet) -> bool {
        self.label == other.label
            && self.header.protocol == other.header.protocol
            && core::ptr::eq(self.tenant, other.tenant)
            && !self.header.is_fragment()
    }

    /// Returns the bytes behind the IP header.
    pub fn body_bytes(&self) -> usize {
        self.body.len().saturating_add(self.more.iter().map(Bytes::len).sum())
    }
}

/// A place among the packets that wait for a tenant's protocols, given back when dropped.
pub struct Admission(&'static Tenant);

impl Admission {
    /// Takes a place; `None` if the tenant has too many already.
    pub fn take(tenant: &'static Tenant) -> Option<Admission> {
        let waiting = tenant.waiting.fetch_add(1, Ordering::Relaxed);
        let admission = Admission(tenant);
        (waiting < tenant.limits.received_packets_max).then_some(admission)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A packet to send.
pub struct OutPacket {
    /// The tenant that sends it.
    pub tenant: &'static Tenant,
    /// Its sender's address.
    pub source: Ip,
    /// If it goes.
    pub destination: Ip,
    /// Room for the Ethernet header, then the headers of IP and transport.
    pub head: Bytes,
    /// Payload by reference.
    pub payload: Vec<Bytes>,
    /// Offsets of the transport header and its checksum field, if the device computes the sum.
    pub checksum: Option<(u16, u16)>,
    /// Payload bytes per segment and header bytes, if the device cuts it.
    pub segment: Option<(u16, u16)>,
    /// The label of its connection.
    pub label: u64,
    /// Tells the sender when the device has taken it, by being dropped.
    pub receipt: crate::receipt::Receipt,
}

impl OutPacket {
    /// Returns the bytes from the IP header on.
    pub fn bytes(&self) -> usize {
        let payload: usize = self.payload.iter().map(Bytes::len).sum();
        self.head.len().saturating_sub(crate::wire::ethernet::HEADER_BYTES).saturating_add(payload)
    }

    /// Returns the packets on the link and their bytes, with those of a cut segment.
    pub fn on_link(&self) -> (usize, usize) {
        let (step, headers) = self.segment.unwrap_or((0, 0));
        let headers = usize::from(headers).saturating_sub(crate::wire::ethernet::HEADER_BYTES);
        let packets = match step {
            0 => 1,
            step => self.bytes().saturating_sub(headers).div_ceil(usize::from(step)).max(1),
        };
        (packets, self.bytes().saturating_add(packets.saturating_sub(1).saturating_mul(headers)))
    }
}
