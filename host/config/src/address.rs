//! The guest network: one Ethernet segment, 10.77.0.0/24, one IPv4 address per tenant.
//!
//! The machine has one network device. It answers ARP for the address of every tenant, so that a received frame is
//! attributed to its tenant from the destination address alone, before any protocol is paid for.

/// An IPv4 address in network order.
pub type Address = [u8; 4];

/// The network's prefix length in bits.
pub const PREFIX_BITS: u8 = 24;

/// The host's side of the wire, and the machine's default gateway.
pub const GATEWAY: Address = [10, 77, 0, 1];

/// The system tenant, where the agent listens.
pub const SYSTEM: Address = [10, 77, 0, 2];

/// The first tenant; the following tenants take the following addresses unless the machine file says otherwise.
pub const FIRST_TENANT: Address = [10, 77, 0, 11];

/// The TCP port of the agent at [`SYSTEM`].
pub const AGENT_PORT: u16 = 9100;
/// Where the agent finds the key of the run.
pub const AGENT_KEY_PATH: &str = "/agent.key";

/// The hardware address of the machine's network device (locally administered).
pub const MACHINE_MAC: [u8; 6] = [0x52, 0x47, 0x59, 0x52, 0x45, 0x02];

/// The hardware address of the host's side of the wire.
pub const GATEWAY_MAC: [u8; 6] = [0x52, 0x47, 0x59, 0x52, 0x45, 0x01];

/// Returns the default address of the tenant with this index (0 is the first tenant after the system tenant), or
/// `None` when the network is full.
#[must_use]
pub fn tenant(index: usize) -> Option<Address> {
    let last = u8::try_from(index).ok()?.checked_add(FIRST_TENANT[3])?;
    (last < 255).then_some([FIRST_TENANT[0], FIRST_TENANT[1], FIRST_TENANT[2], last])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_follow_each_other_and_the_network_ends_before_broadcast() {
        assert_eq!(tenant(0), Some([10, 77, 0, 11]));
        assert_eq!(tenant(2), Some([10, 77, 0, 13]));
        assert_eq!(tenant(243), Some([10, 77, 0, 254]));
        assert_eq!(tenant(244), None);
        assert_eq!(tenant(100_000), None);
    }
}
