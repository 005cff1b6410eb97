//! The split of a machine among a supervisor and zones.
//!
//! * [`places`]: places for zones that come while the machine runs.
//! * [`links`]: the network links between them; [`served`]: the disks that the supervisor serves to zones.
//! * [`sizes`]: how much each instance has, and whether that fits together.
//! * [`Split::parts`]: what each instance runs. A tenant names its zone; those that name none are the supervisor's.
//! * [`Split::zones`]: the descriptions for the supervisor, with the PCI functions of each zone.
//!
//! Names of zones, of their modules and of their agents' sockets are the zone's name with something before it, so that
//! a zone can have any name that is a name at all.

mod links;
mod places;
mod served;
mod sizes;

use super::{
    Problem, ZonePart,
    check::{self, Checker},
    part::Part,
    places::Named,
    raw::{self, At},
    suggest, tenants, units,
};
use gyre_contract::{
    address,
    zones::{NAME_BYTES_MAX, NAMES_TAKEN, Protection, Restart, ZONES_MAX, Zone, is_name},
};
pub(super) use links::named as named_links;
pub(super) use places::{expand, tenants as places_for_tenants, volumes as places_for_volumes};
pub(super) use served::{number as number_served, owners};
pub(super) use sizes::{Split, split};

/// The folder of the zones' modules in the supervisor's.
const MODULES: &str = "/zones";
/// A zone that says nothing for so long counts as hung, ns.
const PATIENCE_NS: u64 = 1_000_000_000;

const PROTECTIONS: [(&str, Protection); 4] = [
    ("none", Protection::None),
    ("pages", Protection::Pages),
    ("nested", Protection::Nested),
    ("nested-apic", Protection::NestedApic),
];
const RESTARTS: [(&str, Restart); 3] =
    [("never", Restart::Never), ("on-crash", Restart::OnCrash), ("always", Restart::Always)];

/// Reports names of zones that cannot be, and tenants in zones that there are not.
fn names(checker: &mut Checker, file: &raw::File) {
    let all: Vec<&At<String>> = file.zone.iter().map(|zone| &zone.name).collect();
    if let Some(first) = all.get(ZONES_MAX) {
        checker.wrong(Problem::new(first.span(), format!("a machine has at most {ZONES_MAX} zones"), "one too many"));
    }
    for name in &all {
        check::unique(checker, "zone", name, &all);
        let text = name.get_ref();
        if !is_name(text) {
            let expected = format!("expected 1 to {NAME_BYTES_MAX} of a-z, 0-9 and -");
            checker.wrong(Problem::new(name.span(), format!("a zone cannot be named `{text}`"), expected));
        }
        if NAMES_TAKEN.contains(&text.as_str()) {
            let message = format!("the name `{text}` is the machine's own");
            checker.wrong(Problem::new(name.span(), message, "take another one"));
        }
    }
    links::check(checker, file);
    served::check_network(checker, file, |zone| links::pairs(file).contains(&[0, zone]));
    for name in file.tenant.iter().filter_map(|tenant| tenant.zone.as_ref()) {
        if all.iter().all(|zone| zone.get_ref() != name.get_ref()) {
            let help = suggest::help(name.get_ref(), all.iter().map(|zone| zone.get_ref().as_str()));
            let message = format!("there is no zone `{}`", name.get_ref());
            checker.wrong(Problem::new(name.span(), message, "unknown zone").help(help));
        }
    }
}

impl Split {
    /// Returns what each instance runs, the supervisor first.
    pub(super) fn parts<'a>(&self, checker: &mut Checker, file: &'a raw::File, name: String) -> Vec<Part<'a>> {
        let own = file.supervisor.as_ref().and_then(|own| own.get_ref().memory.as_ref());
        let mut parts = vec![Part {
            file,
            zone: None,
            name,
            cores: self.first.cores,
            cores_max: self.first.cores_max,
            memory_bytes: self.first.memory_bytes,
            memory: if self.whole.is_some() { own } else { file.memory.as_ref() },
            system: address::SYSTEM,
            mac: address::MACHINE_MAC,
            tenants: members(file, None),
            groups: vec![],
        }];
        parts.extend(file.zone.iter().zip(&self.zones).enumerate().map(|(index, (zone, size))| Part {
            file,
            zone: Some(zone),
            name: zone.name.get_ref().clone(),
            cores: size.cores,
            cores_max: size.cores_max,
            memory_bytes: size.memory_bytes,
            memory: Some(&zone.memory),
            system: address::zone_system(index).unwrap_or(address::SYSTEM),
            mac: address::zone_mac(index).unwrap_or(address::MACHINE_MAC),
            tenants: members(file, Some(zone.name.get_ref())),
            groups: vec![],
        }));
        share_groups(checker, file, &mut parts);
        parts
    }

    /// Describes the zones for the supervisor.
    pub(super) fn zones<'a>(
        &self,
        checker: &mut Checker,
        file: &'a raw::File,
        named: &mut Named<'a, '_>,
        parts: &mut [ZonePart],
    ) -> Vec<Zone> {
        let mut all = vec![];
        for ((raw, size), part) in file.zone.iter().zip(&self.zones).zip(parts) {
            part.devices.others = named.take(checker, &raw.devices);
            if part.tenants.is_empty() && !raw.is_place {
                let message = format!("zone `{}` has no tenants", raw.name.get_ref());
                let help = format!("a tenant moves there with zone = \"{}\"", raw.name.get_ref());
                checker.odd(Problem::new(raw.name.span(), message, "nothing runs in it").help(help));
            }
            let of = |text: &Option<At<String>>| text.clone();
            all.push(Zone {
                name: raw.name.get_ref().clone(),
                cores: size.cores,
                cores_max: size.cores_max,
                memory_bytes: size.memory_bytes,
                devices: part.devices.all().collect(),
                module: format!("{MODULES}/{}", raw.name.get_ref()),
                protection: of(&raw.protection)
                    .and_then(|text| checker.name(&text, "protection", &PROTECTIONS))
                    .unwrap_or_default(),
                restart: of(&raw.restart)
                    .and_then(|text| checker.name(&text, "rule of restart", &RESTARTS))
                    .unwrap_or_default(),
                starts: raw.starts,
                may_create: raw.may_create,
                patience_ms: patience(checker, raw),
                share: share(checker, file, raw),
                // they are told when all instances stand
                links: vec![],
                disks: vec![],
                lends_to: borrowers(checker, file, raw),
                is_place: raw.is_place,
            });
        }
        all
    }
}

/// Returns the share of a zone: without one it has as much as the supervisor's tenants have on average.
fn share(checker: &mut Checker, file: &raw::File, zone: &raw::Zone) -> u32 {
    if let Some(share) = &zone.share {
        return tenants::plain_share(checker, share);
    }
    // What is wrong with these is reported where they are read.
    let mut quiet = Checker::default();
    let own: Vec<u64> =
        members(file, None).iter().map(|(_, one)| tenants::plain_share(&mut quiet, &one.share).into()).collect();
    let mean = own.iter().sum::<u64>().checked_div(own.len() as u64).unwrap_or(1);
    u32::try_from(mean).unwrap_or(1).max(1)
}

/// Returns the places of the zones that may borrow of a zone; reports names that are no other zone's.
fn borrowers(checker: &mut Checker, file: &raw::File, lender: &raw::Zone) -> Vec<u16> {
    let own = lender.name.get_ref();
    let mut places = vec![];
    for name in &lender.lends_to {
        let text = name.get_ref();
        let place = file.zone.iter().position(|zone| zone.name.get_ref() == text).filter(|_| text != own);
        if let Some(place) = place {
            places.push(u16::try_from(place).unwrap_or(u16::MAX));
            continue;
        }
        let others = file.zone.iter().map(|zone| zone.name.get_ref().as_str()).filter(|name| name != own);
        let message = format!("zone `{own}` cannot lend to `{text}`");
        checker.wrong(Problem::new(name.span(), message, "no other zone").help(suggest::help(text, others)));
    }
    places
}

fn members<'a>(file: &'a raw::File, zone: Option<&String>) -> Vec<(usize, &'a raw::Tenant)> {
    let is_in = |tenant: &raw::Tenant| tenant.zone.as_ref().map(At::get_ref) == zone;
    file.tenant.iter().enumerate().filter(|(_, tenant)| is_in(tenant)).collect()
}

/// Gives each part the groups that its tenants are in. A group is one instance's: its share and its limit hold there. One without tenants is the first
/// part's.
fn share_groups<'a>(checker: &mut Checker, file: &'a raw::File, parts: &mut [Part<'a>]) {
    let mut owner: Vec<Option<usize>> = vec![None; file.activity.len()];
    let position = |name: &str| file.activity.iter().position(|group| group.name.get_ref() == name);
    for (at, part) in parts.iter().enumerate() {
        for start in part.tenants().filter_map(|tenant| tenant.activity.as_ref()) {
            let mut next = position(start.get_ref());
            // A group that is declared before its parent ends the way: check::activities reports it.
            while let Some(group) = next {
                let Some(raw) = file.activity.get(group) else { break };
                match owner.get(group).copied().flatten() {
                    Some(other) if other != at => {
                        let name = raw.name.get_ref();
                        let message = format!("the group `{name}` has tenants in two kernel instances");
                        let problem = Problem::new(start.span(), message, "a group is in one zone")
                            .and(raw.name.span(), "the group");
                        checker
                            .wrong(problem.help("make a group for each zone: its share and its limit hold within one"));
                    }
                    _ => owner.iter_mut().skip(group).take(1).for_each(|one| *one = Some(at)),
                }
                let parent = raw.parent.as_ref().and_then(|parent| position(parent.get_ref()));
                next = parent.filter(|parent| *parent < group);
            }
        }
    }
    for (group, at) in file.activity.iter().zip(owner) {
        if let Some(part) = parts.get_mut(at.unwrap_or(0)) {
            part.groups.push(group);
        }
    }
}

fn patience(checker: &mut Checker, raw: &raw::Zone) -> u32 {
    let ns = checker.unit(raw.patience.as_ref(), PATIENCE_NS, units::nanoseconds);
    if let Some(text) = raw.patience.as_ref().filter(|_| !(100_000_000..=3_600_000_000_000).contains(&ns)) {
        let message = format!("the patience with a zone cannot be {}", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected 100 ms to 1 h"));
    }
    u32::try_from(ns / 1_000_000).unwrap_or(u32::MAX)
}
