//! Which tenant a frame belongs to, from its addresses alone.

use gyre_contract::address::Address;

const ETHERNET_BYTES: usize = 14;
const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_ARP: [u8; 2] = [0x08, 0x06];

/// Returns the machine's address in a frame: the source of what it sent, the destination of what it receives.
///
/// `None` for what is neither IPv4 nor ARP over Ethernet, or too short.
pub fn tenant_address(frame: &[u8], from_machine: bool) -> Option<Address> {
    let kind: [u8; 2] = frame.get(12..14)?.try_into().ok()?;
    let payload = frame.get(ETHERNET_BYTES..)?;
    // RFC 791 §3.1: source at 12, destination at 16. RFC 826: sender at 14, target at 24.
    let at = match (kind, from_machine) {
        (TYPE_IPV4, true) => 12,
        (TYPE_IPV4, false) => 16,
        (TYPE_ARP, true) => 14,
        (TYPE_ARP, false) => 24,
        _ => return None,
    };
    payload.get(at..at + 4)?.try_into().ok()
}
