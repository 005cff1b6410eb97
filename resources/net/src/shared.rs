//! What the resources of the path share: read-only after start, but for the neighbours.

use crate::hash::Key;
use crate::limits::{LOOPBACK_PACKET_BYTES, NetLimits};
use crate::neighbours::Neighbours;
use crate::pace::Pace;
use crate::protocols::{icmp_input, net_write, tcp_input, tcp_timer, udp_input};
use crate::tenant::Tenant;
use crate::wire::{Ip, ipv4};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_interface::link::{LinkProperties, link};
use gyre_interface::tcp::NetError;
use gyre_message::Labels;
use gyre_object::SetOnce;

/// How the path is set up.
pub struct NetConfig {
    /// The device: frames out, behind the scheduler that shares the link.
    pub link_write: link::Client,
    /// What the device says of itself.
    pub properties: LinkProperties,
    /// Who owns which address.
    pub addresses: Vec<(ActivityId, Ip)>,
    /// Who pays for frames that are for nobody; its share should be small.
    pub unowned: ActivityId,
    /// The router.
    pub gateway: Ip,
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// The owner of an address for any activity below it (a process of a tenant).
    pub tenant_of: fn(ActivityId) -> ActivityId,
    /// Bounds per tenant.
    pub limits: NetLimits,
}

/// Clients of the path's own resources, made by the assembler.
#[derive(Clone, Copy)]
pub struct NetPorts {
    /// To TCP.
    pub tcp_input: tcp_input::Client,
    /// To UDP.
    pub udp_input: udp_input::Client,
    /// To ICMP.
    pub icmp_input: icmp_input::Client,
    /// To the TCP timer.
    pub tcp_timer: tcp_timer::Client,
    /// To the network device write resource.
    pub net_write: net_write::Client,
}

/// See the module.
pub(crate) struct Shared {
    pub config: NetConfig,
    pub ports: SetOnce<NetPorts>,
    /// Sorted by address.
    by_address: Vec<(Ip, &'static Tenant)>,
    /// Sorted by activity.
    by_activity: Vec<(ActivityId, &'static Tenant)>,
    pub unowned: &'static Tenant,
    pub key: Key,
    pub neighbours: Neighbours,
    pub pace: Pace,
}

impl Shared {
    pub(crate) fn new(config: NetConfig) -> Shared {
        let tenant = |(index, (activity, address)): (usize, &(ActivityId, Ip))| -> &'static Tenant {
            Box::leak(Box::new(Tenant::new(*activity, *address, (index as u16).saturating_add(1), config.limits)))
        };
        let tenants: Vec<&'static Tenant> = config.addresses.iter().enumerate().map(tenant).collect();
        let unowned = Box::leak(Box::new(Tenant::new(config.unowned, [0; 4], 0, config.limits)));
        let mut by_address: Vec<_> = tenants.iter().map(|tenant| (tenant.address, *tenant)).collect();
        by_address.sort_by_key(|entry| entry.0);
        let mut by_activity: Vec<_> = tenants.iter().map(|tenant| (tenant.activity, *tenant)).collect();
        by_activity.sort_by_key(|entry| entry.0);
        Shared {
            config,
            ports: SetOnce::new(),
            by_address,
            by_activity,
            unowned,
            key: Key::random(),
            neighbours: Neighbours::default(),
            pace: Pace::default(),
        }
    }

    /// Who owns an address.
    pub(crate) fn owner_of(&self, address: Ip) -> Option<&'static Tenant> {
        let index = self.by_address.binary_search_by_key(&address, |entry| entry.0).ok()?;
        self.by_address.get(index).map(|entry| entry.1)
    }

    /// The tenant for whom this core works now.
    pub(crate) fn current_tenant(&self) -> Result<&'static Tenant, NetError> {
        self.tenant_of(gyre_account::current_activity()).ok_or(NetError::NotAvailable)
    }

    /// The tenant that an activity is or belongs to.
    pub(crate) fn tenant_of(&self, activity: ActivityId) -> Option<&'static Tenant> {
        let activity = (self.config.tenant_of)(activity);
        let index = self.by_activity.binary_search_by_key(&activity, |entry| entry.0).ok()?;
        self.by_activity.get(index).map(|entry| entry.1)
    }

    /// All tenants, without the one for unowned frames.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = &'static Tenant> + '_ {
        self.by_activity.iter().map(|entry| entry.1)
    }

    /// True for addresses that never leave the machine.
    pub(crate) fn is_local(&self, address: Ip) -> bool {
        is_loopback(address) || self.owner_of(address).is_some()
    }

    /// Largest packet to an address, bytes.
    pub(crate) fn packet_bytes_max(&self, destination: Ip) -> usize {
        match self.is_local(destination) {
            true => LOOPBACK_PACKET_BYTES,
            false => self.config.properties.mtu_bytes,
        }
    }

    /// Largest TCP segment to an address without the headers of IP and TCP, bytes.
    pub(crate) fn segment_bytes_max(&self, destination: Ip) -> u16 {
        let headers = ipv4::HEADER_BYTES + crate::wire::tcp::HEADER_BYTES;
        let bytes = self.packet_bytes_max(destination).saturating_sub(headers);
        u16::try_from(bytes).unwrap_or(u16::MAX)
    }

    /// The address under which `tenant` speaks to `destination`.
    pub(crate) fn source_for(&self, tenant: &Tenant, destination: Ip) -> Ip {
        if is_loopback(destination) { [127, 0, 0, 1] } else { tenant.address }
    }

    /// Whom to give a packet for `destination` to.
    pub(crate) fn next_hop(&self, destination: Ip) -> Option<Ip> {
        let bits = u32::from(self.config.prefix.min(32));
        let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
        let ours = self.by_address.first().map_or(self.config.gateway, |entry| entry.0);
        let same = (u32::from_be_bytes(destination) ^ u32::from_be_bytes(ours)) & mask == 0;
        if same {
            return Some(destination);
        }
        (self.config.gateway != [0; 4]).then_some(self.config.gateway)
    }

    /// True for the broadcast addresses of the link.
    pub(crate) fn is_broadcast(&self, address: Ip) -> bool {
        let bits = u32::from(self.config.prefix.min(32));
        let host = u32::MAX.checked_shr(bits).unwrap_or(0);
        let ours = self.by_address.first().map_or([0; 4], |entry| entry.0);
        let directed = u32::from_be_bytes(ours) | host;
        address == [255; 4] || (bits < 31 && u32::from_be_bytes(address) == directed)
    }

    /// The label of the connection between two ends, never zero. Loopback addresses are each tenant's own.
    pub(crate) fn label(&self, words: [u64; 2]) -> u64 {
        self.key.hash(&words).max(1)
    }
}

/// 127.0.0.0/8.
pub(crate) fn is_loopback(address: Ip) -> bool {
    address[0] == 127
}

/// The labels of requests about a connection. The affinity label brings all of them to one core, where requests of one queue stay in
/// order. It follows the thread that uses the connection (at most every `DRAW_EVERY_NS` of the engine): then those under way on the core
/// before may be overtaken, as packets on a link may be, and TCP's numbers put them in order. A dependency label besides would start a
/// frame only after the one before was taken.
pub(crate) fn labels(label: u64) -> Labels {
    Labels { affinity: label, dependency: 0 }
}

/// The clock of the path, ns.
#[expect(clippy::arithmetic_side_effects, reason = "the divisor is at least 1, the product one of two words")]
pub(crate) fn now_ns() -> u64 {
    // one division of 64 bits and a product: a division of 128 bits would be a call
    let ns_per_cycle = (1_000_000u64 << 32) / gyre_machine::cycles_per_ms().max(1);
    ((u128::from(gyre_machine::now()) * u128::from(ns_per_cycle)) >> 32) as u64
}
