//! ARP for IPv4 over Ethernet (RFC 826).

use super::{Ip, Mac, be16, put};

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 28;
/// "Who has?"
pub const REQUEST: u16 = 1;
/// "I have."
pub const REPLY: u16 = 2;

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// [`REQUEST`] or [`REPLY`].
    pub operation: u16,
    /// The hardware address of the sender.
    pub sender_mac: Mac,
    /// Its address.
    pub sender: Ip,
    /// Whom it asks or answers; zeros in requests.
    pub target_mac: Mac,
    /// The address that is asked for or answered.
    pub target: Ip,
}

impl Packet {
    /// Reads it; `None` unless it is IPv4 over Ethernet.
    pub fn read(data: &[u8]) -> Option<Packet> {
        let ours = be16(data, 0)? == 1 && be16(data, 2)? == 0x0800 && data.get(4..6)? == [6, 4];
        ours.then_some(())?;
        Some(Packet {
            operation: be16(data, 6)?,
            sender_mac: data.get(8..14)?.try_into().ok()?,
            sender: data.get(14..18)?.try_into().ok()?,
            target_mac: data.get(18..24)?.try_into().ok()?,
            target: data.get(24..28)?.try_into().ok()?,
        })
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        put(&mut bytes, 0, &[0, 1, 8, 0, 6, 4]);
        put(&mut bytes, 6, &self.operation.to_be_bytes());
        put(&mut bytes, 8, &self.sender_mac);
        put(&mut bytes, 14, &self.sender);
        put(&mut bytes, 18, &self.target_mac);
        put(&mut bytes, 24, &self.target);
        bytes
    }
}
