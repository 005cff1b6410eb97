//! The common state of the path's resources: read-only after start, except for the neighbours and the links beside the card.
//!
//! The way of a packet follows from its destination alone:
//!
//! 1. one of our own addresses, or a loopback address: it stays here;
//! 2. an address behind a link to a neighbour: that link, if it is up;
//! 3. any other: the card, after ARP.
//!
//! The way decides too how long a packet may be, and whether it is summed.

use crate::cards::{CardConfig, Cards};
use crate::door::{Approach, Door};
use crate::guard::Protection;
use crate::hash::Key;
use crate::limits::{LOOPBACK_PACKET_BYTES, NetLimits};
use crate::links::Links;
use crate::neighbours::Neighbours;
use crate::pace::Pace;
use crate::protocols::{icmp_input, net_write, tcp_input, tcp_timer, udp_input};
use crate::tenant::Tenant;
use crate::wire::{Ip, ipv4};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, PayerOf};
use gyre_interface::link::{LinkProperties, link};
use gyre_interface::tcp::NetError;
use gyre_message::Labels;
use gyre_object::SetOnce;

/// How the path is set up.
pub struct NetConfig {
    /// The device: frames out, behind the scheduler that shares the link.
    pub link_write: link::Client,
    /// The properties of the device.
    pub properties: LinkProperties,
    /// The owners of addresses.
    pub addresses: Vec<(ActivityId, Ip)>,
    /// The activity that pays for frames without an owner; its share should be small.
    pub unowned: ActivityId,
    /// The router.
    pub gateway: Ip,
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// The owner of an address for any activity below it (a process of a tenant).
    pub tenant_of: PayerOf,
    /// Bounds per tenant.
    pub limits: NetLimits,
    /// Those whose listeners have an overload controller.
    pub protected: Vec<(ActivityId, Protection)>,
    /// Tenants that reach some of their neighbours only.
    pub doors: Vec<(ActivityId, Door)>,
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
    /// The way to the segment.
    pub cards: Cards,
    /// The links beside the card.
    pub links: Links,
}

impl Shared {
    pub(crate) fn new(config: NetConfig) -> Shared {
        let tenant = |(index, (activity, address)): (usize, &(ActivityId, Ip))| -> &'static Tenant {
            let protection = config.protected.iter().find(|entry| entry.0 == *activity).map(|entry| entry.1);
            let tenant = Tenant::new(*activity, *address, (index as u16).saturating_add(1), config.limits);
            let door = config.doors.iter().find(|entry| entry.0 == *activity).map(|entry| entry.1.clone());
            Box::leak(Box::new(tenant.guarded(protection).behind(door)))
        };
        let tenants: Vec<&'static Tenant> = config.addresses.iter().enumerate().map(tenant).collect();
        let unowned = Box::leak(Box::new(Tenant::new(config.unowned, [0; 4], 0, config.limits)));
        let mut by_address: Vec<_> = tenants.iter().map(|tenant| (tenant.address, *tenant)).collect();
        by_address.sort_by_key(|entry| entry.0);
        let mut by_activity: Vec<_> = tenants.iter().map(|tenant| (tenant.activity, *tenant)).collect();
        by_activity.sort_by_key(|entry| entry.0);
        let cards = Cards::new(CardConfig { write: config.link_write, properties: config.properties });
        Shared {
            config,
            ports: SetOnce::new(),
            by_address,
            by_activity,
            unowned,
            key: Key::random(),
            neighbours: Neighbours::default(),
            pace: Pace::default(),
            cards,
            links: Links::default(),
        }
    }

    /// Returns the owner of an address.
    pub(crate) fn owner_of(&self, address: Ip) -> Option<&'static Tenant> {
        let index = self.by_address.binary_search_by_key(&address, |entry| entry.0).ok()?;
        self.by_address.get(index).map(|entry| entry.1)
    }

    /// Returns the tenant for which this core works now.
    pub(crate) fn current_tenant(&self) -> Result<&'static Tenant, NetError> {
        self.tenant_of(gyre_account::current_activity()).ok_or(NetError::NotAvailable)
    }

    /// Returns the tenant that an activity is or belongs to.
    pub(crate) fn tenant_of(&self, activity: ActivityId) -> Option<&'static Tenant> {
        let activity = (self.config.tenant_of)(activity);
        let index = self.by_activity.binary_search_by_key(&activity, |entry| entry.0).ok()?;
        self.by_activity.get(index).map(|entry| entry.1)
    }

    /// Returns all tenants, without the one for unowned frames.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = &'static Tenant> + '_ {
        self.by_activity.iter().map(|entry| entry.1)
    }

    /// Returns whether packets to an address never leave the machine.
    pub(crate) fn is_local(&self, address: Ip) -> bool {
        is_loopback(address) || self.owner_of(address).is_some()
    }

    /// Returns the largest packet to an address, bytes.
    pub(crate) fn packet_bytes_max(&self, destination: Ip) -> usize {
        match self.is_local(destination) {
            true => LOOPBACK_PACKET_BYTES,
            false => self.properties_to(destination).mtu_bytes,
        }
    }

    /// Returns the properties of the link to an address of another machine or instance.
    pub(crate) fn properties_to(&self, destination: Ip) -> &LinkProperties {
        self.links.to(destination).map_or(&self.cards.last().properties, |port| &port.config.properties)
    }

    /// Returns whether packets to an address are damaged by nothing on their way, so that nobody sums them.
    pub(crate) fn is_intact_to(&self, destination: Ip) -> bool {
        self.is_local(destination) || self.links.to(destination).is_some()
    }

    /// Returns whether there is a way to an address.
    pub(crate) fn is_reachable(&self, destination: Ip) -> bool {
        self.is_local(destination)
            || match self.links.to(destination) {
                Some(port) => port.is_up(),
                None => self.cards.is_up() && self.next_hop(destination).is_some(),
            }
    }

    /// Returns whether there is a way for a tenant's packets to an address, and both doors are open.
    pub(crate) fn has_way(&self, tenant: &Tenant, destination: Ip, approach: Approach) -> bool {
        let is_open = !self.is_neighbour(tenant, destination)
            || tenant.door.lets_out(destination, approach)
                && self.owner_of(destination).is_none_or(|owner| owner.door.lets_in(tenant.address, approach));
        is_open && self.is_reachable(destination)
    }

    /// Returns whether an address is that of another tenant, of this instance or another one.
    pub(crate) fn is_neighbour(&self, tenant: &Tenant, address: Ip) -> bool {
        let is_other = address != tenant.address && address != self.config.gateway && !is_loopback(address);
        is_other && !self.is_broadcast(address) && self.next_hop(address) == Some(address)
    }

    /// Returns the largest TCP segment to an address without the headers of IP and TCP, bytes.
    pub(crate) fn segment_bytes_max(&self, destination: Ip) -> u16 {
        let headers = ipv4::HEADER_BYTES + crate::wire::tcp::HEADER_BYTES;
        let bytes = self.packet_bytes_max(destination).saturating_sub(headers);
        u16::try_from(bytes).unwrap_or(u16::MAX)
    }

    /// Returns the address under which `tenant` speaks to `destination`.
    pub(crate) fn source_for(&self, tenant: &Tenant, destination: Ip) -> Ip {
        if is_loopback(destination) { [127, 0, 0, 1] } else { tenant.address }
    }

    /// Returns the next hop of a packet for `destination`.
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

    /// Returns whether it is a broadcast address of the link.
    pub(crate) fn is_broadcast(&self, address: Ip) -> bool {
        let bits = u32::from(self.config.prefix.min(32));
        let host = u32::MAX.checked_shr(bits).unwrap_or(0);
        let ours = self.by_address.first().map_or([0; 4], |entry| entry.0);
        let directed = u32::from_be_bytes(ours) | host;
        address == [255; 4] || (bits < 31 && u32::from_be_bytes(address) == directed)
    }

    /// Returns the label of the connection between two ends, never zero. Loopback addresses are each tenant's own.
    pub(crate) fn label(&self, words: [u64; 2]) -> u64 {
        self.key.hash(&words).max(1)
    }
}

/// Returns whether it is in 127.0.0.0/8.
pub(crate) fn is_loopback(address: Ip) -> bool {
    address[0] == 127
}

/// Returns the labels of requests about a connection. The affinity label brings all of them to one core, where
/// requests of one queue stay in order. It follows the thread that uses the connection (at most every `DRAW_EVERY_NS`
/// of the engine). Then requests under way on the core before may be overtaken, as packets on a link may be, and
/// TCP's numbers put them in order. A dependency label besides would start a frame only after the one before was
/// taken.
pub(crate) fn labels(label: u64) -> Labels {
    Labels { affinity: label, dependency: 0 }
}

/// Returns the clock of the path, ns.
#[expect(clippy::arithmetic_side_effects, reason = "the divisor is at least 1, the product one of two words")]
pub(crate) fn now_ns() -> u64 {
    // one division of 64 bits and a product: a division of 128 bits would be a call
    let ns_per_cycle = (1_000_000u64 << 32) / gyre_machine::cycles_per_ms().max(1);
    ((u128::from(gyre_machine::now()) * u128::from(ns_per_cycle)) >> 32) as u64
}
