//! Interfaces, addresses, routes and neighbours (rtnetlink(7)). Requests that would change one of them are refused.
//!
//! | request | lists | one |
//! |---|---|---|
//! | RTM_GETLINK | all interfaces | by number or name |
//! | RTM_GETADDR | their addresses | no |
//! | RTM_GETROUTE | tables main and local | the way to an address |
//! | RTM_GETNEIGH | the router | no |
//!
//! Everything is made up from [`Network`] at the time of the request.

use super::message::{Answers, Attributes, Request};
use crate::Errno;
use crate::file::buffer::half;
use crate::file::interfaces::{Interface, Network};
use crate::file::tenant_files::TenantFiles;
use gyre_interface::icmp::Passed;

/// Kinds of messages: each group of four is NEW, DEL, GET, SET.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_NEIGHBOUR: u16 = 28;
/// The place of GET in a group.
const GET: u16 = 2;

const ANY_FAMILY: u8 = 0;
const INET: u8 = 2;

/// Tables, protocols, scopes and types of routes.
const TABLE_MAIN: u8 = 254;
const TABLE_LOCAL: u8 = 255;
const BY_KERNEL: u8 = 2;
const BY_BOOT: u8 = 3;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
const SCOPE_HOST: u8 = 254;
const UNICAST: u8 = 1;
const LOCAL: u8 = 2;
const BROADCAST: u8 = 3;

/// Answers a request.
///
/// # Errors
/// EPERM for changes; EOPNOTSUPP; EINVAL for a request that is too short; ENODEV, ENETUNREACH.
pub async fn answer(tenant: &TenantFiles, request: &Request<'_>, answers: &mut Answers) -> Result<(), Errno> {
    let (group, what) = (request.kind & !3, request.kind & 3);
    if !matches!(group, NEW_LINK | NEW_ADDRESS | NEW_ROUTE | NEW_NEIGHBOUR) {
        return Err(Errno::EOPNOTSUPP);
    }
    // without a family it is no question
    let Some(family) = request.body.first().copied() else { return Ok(()) };
    if what != GET {
        return Err(Errno::EPERM);
    }
    let network = Network::of(tenant).await?;
    match (group, request.is_dump()) {
        (NEW_LINK, true) => network.interfaces.iter().for_each(|one| link(one, answers)),
        (NEW_LINK, false) => link(wanted(&network, request)?, answers),
        // there is no other family's address, route or neighbour
        (_, true) if family != ANY_FAMILY && family != INET => {}
        (NEW_ADDRESS, true) => network.interfaces.iter().for_each(|one| address(one, answers)),
        (NEW_ROUTE, true) => routes(&network, answers),
        (NEW_ROUTE, false) => route_to(&network, request, answers)?,
        (NEW_NEIGHBOUR, true) => neighbours(&network, answers),
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(())
}

/// Returns the interface that a request names by number or name (IFLA_IFNAME).
fn wanted<'a>(network: &'a Network, request: &Request<'_>) -> Result<&'a Interface, Errno> {
    const FIXED: usize = 16;
    if request.body.len() < FIXED {
        return Err(Errno::EINVAL);
    }
    let found = match half(request.body, 4) {
        0 => {
            let name = request.attribute(FIXED, 3).ok_or(Errno::EINVAL)?;
            network.named(name.split(|byte| *byte == 0).next().unwrap_or(name))
        }
        index => network.numbered(index),
    };
    found.ok_or(Errno::ENODEV)
}

/// `struct ifinfomsg` and its attributes.
fn link(one: &Interface, answers: &mut Answers) {
    let mut fixed = [0; 16];
    fixed[2..4].copy_from_slice(&one.hardware().to_le_bytes());
    fixed[4..8].copy_from_slice(&one.index.to_le_bytes());
    fixed[8..12].copy_from_slice(&one.flags.to_le_bytes());
    answers.add(NEW_LINK, &fixed, |attributes| {
        let all = if one.is_loopback() { [0; 6] } else { [0xff; 6] };
        attributes.text(3, one.name);
        attributes.number(13, one.queue);
        // operational state: unknown for the loopback, else up
        attributes.byte(16, if one.is_loopback() { 0 } else { 6 });
        attributes.byte(17, 0);
        attributes.number(4, one.packet_bytes_max);
        attributes.number(27, 0);
        attributes.number(30, 0);
        attributes.number(31, 1);
        attributes.number(32, 1);
        attributes.byte(33, 1);
        attributes.text(6, if one.is_loopback() { "noqueue" } else { "fq" });
        attributes.bytes(1, &one.mac);
        attributes.bytes(2, &all);
        statistics(&one.passed, attributes);
    });
}

/// `struct rtnl_link_stats64` and `struct rtnl_link_stats`.
fn statistics(passed: &Passed, attributes: &mut Attributes) {
    let mut words = [0_u64; 25];
    let first =
        [passed.received_packets, passed.sent_packets, passed.received_bytes, passed.sent_bytes, 0, 0, passed.dropped];
    words[..7].copy_from_slice(&first);
    let long: [[u8; 8]; 25] = words.map(u64::to_le_bytes);
    attributes.bytes(23, long.as_flattened());
    let short = words.map(|word| (word as u32).to_le_bytes());
    attributes.bytes(7, short[..24].as_flattened());
}

/// `struct ifaddrmsg` and its attributes.
fn address(one: &Interface, answers: &mut Answers) {
    let scope = if one.is_loopback() { SCOPE_HOST } else { SCOPE_UNIVERSE };
    // permanent
    let flags = 0x80;
    let [a, b, c, d] = one.index.to_le_bytes();
    answers.add(NEW_ADDRESS, &[INET, one.prefix, flags, scope, a, b, c, d], |attributes| {
        attributes.bytes(1, &one.address);
        attributes.bytes(2, &one.address);
        if let Some(all) = one.broadcast() {
            attributes.bytes(4, &all);
        }
        attributes.text(3, one.name);
        attributes.number(8, u32::from(flags));
        // preferred and valid for ever
        let cache: [[u8; 4]; 4] = [u32::MAX, u32::MAX, 0, 0].map(u32::to_le_bytes);
        attributes.bytes(6, cache.as_flattened());
    });
}

/// A route, as its message has it.
struct Route<'a> {
    table: u8,
    by: u8,
    scope: u8,
    kind: u8,
    to: [u8; 4],
    bits: u8,
    gateway: Option<[u8; 4]>,
    from: Option<[u8; 4]>,
    interface: &'a Interface,
    flags: u32,
}

impl Route<'_> {
    /// `struct rtmsg` and its attributes.
    fn put(&self, answers: &mut Answers) {
        let [a, b, c, d] = self.flags.to_le_bytes();
        let fixed = [INET, self.bits, 0, 0, self.table, self.by, self.scope, self.kind, a, b, c, d];
        answers.add(NEW_ROUTE, &fixed, |attributes| {
            attributes.number(15, u32::from(self.table));
            if self.bits > 0 {
                attributes.bytes(1, &self.to);
            }
            if let Some(from) = self.from {
                attributes.bytes(7, &from);
            }
            if let Some(gateway) = self.gateway {
                attributes.bytes(5, &gateway);
            }
            attributes.number(4, self.interface.index);
        });
    }
}

fn routes(network: &Network, answers: &mut Answers) {
    if let Some((gateway, interface)) = network.way_out() {
        let (table, by, scope, kind) = (TABLE_MAIN, BY_BOOT, SCOPE_UNIVERSE, UNICAST);
        let route = Route {
            table,
            by,
            scope,
            kind,
            to: [0; 4],
            bits: 0,
            gateway: Some(gateway),
            from: None,
            interface,
            flags: 0,
        };
        route.put(answers);
    }
    for interface in &network.interfaces {
        of_network(interface).put(answers);
        of_address(interface).put(answers);
        if let Some(all) = interface.broadcast() {
            Route { kind: BROADCAST, scope: SCOPE_LINK, to: all, bits: 32, ..of_address(interface) }.put(answers);
        }
    }
}

/// The network of an interface.
fn of_network(interface: &Interface) -> Route<'_> {
    let (table, scope, kind) = match interface.is_loopback() {
        true => (TABLE_LOCAL, SCOPE_HOST, LOCAL),
        false => (TABLE_MAIN, SCOPE_LINK, UNICAST),
    };
    let (to, bits, from) = (interface.network(), interface.prefix, Some(interface.address));
    Route { table, by: BY_KERNEL, scope, kind, to, bits, gateway: None, from, interface, flags: 0 }
}

/// The address of an interface.
fn of_address(interface: &Interface) -> Route<'_> {
    let (table, by, scope, kind) = (TABLE_LOCAL, BY_KERNEL, SCOPE_HOST, LOCAL);
    let from = Some(interface.address);
    Route { table, by, scope, kind, to: interface.address, bits: 32, gateway: None, from, interface, flags: 0 }
}

/// The way to one address (RTA_DST), as `ip route get` asks.
fn route_to(network: &Network, request: &Request<'_>, answers: &mut Answers) -> Result<(), Errno> {
    const FIXED: usize = 12;
    /// RTM_F_CLONED.
    const CLONED: u32 = 0x200;
    let to = request.attribute(FIXED, 1).and_then(|value| value.first_chunk::<4>()).ok_or(Errno::EINVAL)?;
    let is_on = |one: &&Interface| {
        let masked = u32::from_be_bytes(*to) & u32::from_be_bytes(one.mask());
        masked.to_be_bytes() == one.network()
    };
    let is_own = network.interfaces.iter().any(|one| one.address == *to);
    let loopback = network.interfaces.iter().find(|one| one.is_loopback()).filter(|_| is_own);
    let route = match loopback.or_else(|| network.interfaces.iter().find(is_on)) {
        Some(one) if one.is_loopback() => Route { to: *to, bits: 32, from: Some(*to), ..of_address(one) },
        Some(one) => Route { to: *to, bits: 32, scope: SCOPE_UNIVERSE, by: 0, ..of_network(one) },
        None => {
            let (gateway, one) = network.way_out().ok_or(Errno::ENETUNREACH)?;
            Route { to: *to, bits: 32, scope: SCOPE_UNIVERSE, by: 0, gateway: Some(gateway), ..of_network(one) }
        }
    };
    Route { flags: CLONED, ..route }.put(answers);
    Ok(())
}

/// `struct ndmsg` and its attributes: of the router alone. Others' neighbours are not this tenant's to know.
fn neighbours(network: &Network, answers: &mut Answers) {
    let (Some((gateway, interface)), Some(mac)) = (network.way_out(), network.facts.gateway_mac) else { return };
    /// NUD_REACHABLE.
    const REACHABLE: u8 = 2;
    let [a, b, c, d] = interface.index.to_le_bytes();
    answers.add(NEW_NEIGHBOUR, &[INET, 0, 0, 0, a, b, c, d, REACHABLE, 0, 0, UNICAST], |attributes| {
        attributes.bytes(1, &gateway);
        attributes.bytes(2, &mac);
    });
}
