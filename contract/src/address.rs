//! The guest network: one Ethernet segment, 10.77.0.0/24, one IPv4 address per tenant.
//!
//! Each kernel instance has one network device on the segment: a machine without zones one, else the supervisor and each
//! zone. It answers ARP for the address of every tenant of the instance, so that a received frame is attributed to its
//! tenant from the destination address alone, before any protocol is paid for.

/// An IPv4 address in network order.
pub type Address = [u8; 4];

/// The network's prefix length in bits.
pub const PREFIX_BITS: u8 = 24;

/// The host's side of the wire, and the machine's default gateway.
pub const GATEWAY: Address = [10, 77, 0, 1];

/// The system tenant, on which the agent listens.
pub const SYSTEM: Address = [10, 77, 0, 2];

/// The system tenant of the first zone; those of the other zones follow, up to the address before [`FIRST_TENANT`].
pub const FIRST_ZONE_SYSTEM: Address = [10, 77, 0, 3];

/// The first tenant; the following tenants take the following addresses unless the machine file says otherwise.
pub const FIRST_TENANT: Address = [10, 77, 0, 11];

/// The TCP port of the agent at [`SYSTEM`].
pub const AGENT_PORT: u16 = 9100;
/// The path at which the agent finds the key of the run.
pub const AGENT_KEY_PATH: &str = "/agent.key";

/// The hardware address of the machine's network device (locally administered).
pub const MACHINE_MAC: [u8; 6] = [0x52, 0x47, 0x59, 0x52, 0x45, 0x02];

/// The hardware address of the first zone's network device; those of the other zones follow.
pub const FIRST_ZONE_MAC: [u8; 6] = [0x52, 0x47, 0x59, 0x52, 0x45, 0x10];

/// The hardware address of the host's side of the wire.
pub const GATEWAY_MAC: [u8; 6] = [0x52, 0x47, 0x59, 0x52, 0x45, 0x01];

/// Returns the default address of the tenant with this index (0 is the first tenant after the system tenant), or
/// `None` when the network is full.
#[must_use]
pub fn tenant(index: usize) -> Option<Address> {
    let last = u8::try_from(index).ok()?.checked_add(FIRST_TENANT[3])?;
    (last < 255).then_some([FIRST_TENANT[0], FIRST_TENANT[1], FIRST_TENANT[2], last])
}

/// Returns the address of the system tenant in the zone with this index, or `None` when the addresses end.
#[must_use]
pub fn zone_system(index: usize) -> Option<Address> {
    let [a, b, c, first] = FIRST_ZONE_SYSTEM;
    let last = u8::try_from(index).ok()?.checked_add(first)?;
    (last < FIRST_TENANT[3]).then_some([a, b, c, last])
}

/// Returns the hardware address of the network device of the zone with this index, or `None` when the addresses end.
#[must_use]
pub fn zone_mac(index: usize) -> Option<[u8; 6]> {
    let [a, b, c, d, e, first] = FIRST_ZONE_MAC;
    Some([a, b, c, d, e, u8::try_from(index).ok()?.checked_add(first)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zones::ZONES_MAX;

    #[test]
    fn every_zone_has_addresses_and_none_is_a_tenants() {
        assert_eq!(zone_system(0), Some([10, 77, 0, 3]));
        assert!(zone_system(ZONES_MAX - 1).is_some_and(|last| last < FIRST_TENANT) && zone_system(ZONES_MAX).is_none());
        assert_eq!(zone_mac(1), Some([0x52, 0x47, 0x59, 0x52, 0x45, 0x11]));
    }

    #[test]
    fn tenants_follow_each_other_and_the_network_ends_before_broadcast() {
        assert_eq!(tenant(0), Some([10, 77, 0, 11]));
        assert_eq!(tenant(2), Some([10, 77, 0, 13]));
        assert_eq!(tenant(243), Some([10, 77, 0, 254]));
        assert_eq!(tenant(244), None);
        assert_eq!(tenant(100_000), None);
    }
}
