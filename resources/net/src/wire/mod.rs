//! Formats on the wire. Readers check every length and return `None` if bytes are missing; writers fill plain byte arrays.

pub mod arp;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;
pub mod tcp;
pub mod udp;

pub use gyre_segments::Sum;

/// A hardware address.
pub type Mac = [u8; 6];
/// An IPv4 address, most significant byte first.
pub type Ip = [u8; 4];

/// All stations of a link.
pub const BROADCAST_MAC: Mac = [0xff; 6];

/// Reads two bytes, most significant first.
pub(crate) fn be16(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Reads four bytes, most significant first.
pub(crate) fn be32(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// Copies `from` to `at` if it fits.
pub(crate) fn put(into: &mut [u8], at: usize, from: &[u8]) {
    if let Some(place) = into.get_mut(at..).and_then(|rest| rest.get_mut(..from.len())) {
        place.copy_from_slice(from);
    }
}
