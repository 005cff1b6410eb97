//! The interfaces of a tenant as programs see them: `lo` and `eth0`. They are made up from the facts of the network path.

use super::tenant_files::TenantFiles;
use crate::Errno;
use alloc::vec::Vec;
use gyre_interface::icmp::{Facts, Passed};

/// Flags of an interface (netdevice(7)).
pub const UP: u32 = 1;
const BROADCAST: u32 = 2;
const LOOPBACK: u32 = 8;
const RUNNING: u32 = 0x40;
const MULTICAST: u32 = 0x1000;
const LOWER_UP: u32 = 0x1_0000;

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its number, from 1.
    pub index: u32,
    /// Its name.
    pub name: &'static str,
    /// Its flags.
    pub flags: u32,
    /// Its address.
    pub address: [u8; 4],
    /// Bits of its network's prefix.
    pub prefix: u8,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// The longest packet, bytes.
    pub packet_bytes_max: u32,
    /// The length of its queue, packets.
    pub queue: u32,
    /// Its figures.
    pub passed: Passed,
}

impl Interface {
    /// Returns whether it leads nowhere but back.
    pub fn is_loopback(&self) -> bool {
        self.flags & LOOPBACK != 0
    }

    /// Returns the kind of hardware (ARPHRD_LOOPBACK, ARPHRD_ETHER).
    pub fn hardware(&self) -> u16 {
        if self.is_loopback() { 772 } else { 1 }
    }

    /// Returns the mask of its network.
    pub fn mask(&self) -> [u8; 4] {
        let bits = 32_u32.saturating_sub(u32::from(self.prefix.min(32)));
        u32::MAX.checked_shl(bits).unwrap_or(0).to_be_bytes()
    }

    /// Returns the first address of its network.
    pub fn network(&self) -> [u8; 4] {
        (u32::from_be_bytes(self.address) & u32::from_be_bytes(self.mask())).to_be_bytes()
    }

    /// Returns the address of all in its network; `None` for the loopback.
    pub fn broadcast(&self) -> Option<[u8; 4]> {
        let all = u32::from_be_bytes(self.address) | !u32::from_be_bytes(self.mask());
        (!self.is_loopback()).then(|| all.to_be_bytes())
    }
}

/// The interfaces, and what else is known of the network.
pub struct Network {
    /// The interfaces, by their numbers.
    pub interfaces: Vec<Interface>,
    /// The facts that they are made of.
    pub facts: Facts,
}

impl Network {
    /// Looks at the network of a tenant; without one there is the loopback.
    ///
    /// # Errors
    /// Those of the resource.
    pub async fn of(tenant: &TenantFiles) -> Result<Network, Errno> {
        let facts = match tenant.icmp {
            Some(client) => client.facts().await?,
            None => Facts { local_packet_bytes_max: 65_536, ..Facts::default() },
        };
        let mut interfaces = alloc::vec![loopback(&facts)];
        if facts.address != [0; 4] {
            interfaces.push(card(&facts));
        }
        Ok(Network { interfaces, facts })
    }

    /// Returns the interface with a name.
    pub fn named(&self, name: &[u8]) -> Option<&Interface> {
        self.interfaces.iter().find(|one| one.name.as_bytes() == name)
    }

    /// Returns the interface with a number.
    pub fn numbered(&self, index: u32) -> Option<&Interface> {
        self.interfaces.iter().find(|one| one.index == index)
    }

    /// Returns the router and the interface that leads to it.
    pub fn way_out(&self) -> Option<([u8; 4], &Interface)> {
        let card = self.interfaces.iter().find(|one| !one.is_loopback())?;
        (self.facts.gateway != [0; 4]).then_some((self.facts.gateway, card))
    }
}

fn loopback(facts: &Facts) -> Interface {
    Interface {
        index: 1,
        name: "lo",
        flags: UP | LOOPBACK | RUNNING | LOWER_UP,
        address: [127, 0, 0, 1],
        prefix: 8,
        mac: [0; 6],
        packet_bytes_max: facts.local_packet_bytes_max,
        queue: 1000,
        passed: facts.local,
    }
}

fn card(facts: &Facts) -> Interface {
    Interface {
        index: 2,
        name: "eth0",
        flags: UP | BROADCAST | RUNNING | MULTICAST | LOWER_UP,
        address: facts.address,
        prefix: facts.prefix,
        mac: facts.mac,
        packet_bytes_max: facts.packet_bytes_max,
        queue: 1000,
        passed: facts.interface,
    }
}
