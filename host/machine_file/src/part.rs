//! The part of a file that one kernel instance runs: all of it, or the supervisor's or a zone's tenants.

use std::collections::BTreeMap;

use super::{
    HostTenant, Image, alone, borrowing, cell_pool, cells,
    check::{self, Checker},
    goals::{self, LinkRate},
    memory, policies, promises,
    raw::{self, At},
    spares, tenants, zones,
};
use gyre_contract::{
    address::Address,
    boot::{Broker, Machine, ResourcePolicy},
};

/// The tenants, the groups and the size of one instance.
pub(super) struct Part<'a> {
    /// The file.
    pub(super) file: &'a raw::File,
    /// The zone; none for the supervisor, and for a machine without zones.
    pub(super) zone: Option<&'a raw::Zone>,
    /// Its name.
    pub(super) name: String,
    /// Cores that it begins with.
    pub(super) cores: u16,
    /// Cores that it may grow to.
    pub(super) cores_max: u16,
    /// Its memory in bytes.
    pub(super) memory_bytes: u64,
    /// The key that says how much memory it has, if one does.
    pub(super) memory: Option<&'a At<String>>,
    /// The address of its system tenant.
    pub(super) system: Address,
    /// The hardware address of its network device.
    pub(super) mac: [u8; 6],
    /// Its tenants, with their places in the file.
    pub(super) tenants: Vec<(usize, &'a raw::Tenant)>,
    /// Groups of its tenants.
    pub(super) groups: Vec<&'a raw::Activity>,
}

impl<'a> Part<'a> {
    /// Returns its tenants as the file has them.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &'a raw::Tenant> + '_ {
        self.tenants.iter().map(|(_, tenant)| *tenant)
    }

    /// Makes the machine that its kernel boots, and the host's side of its tenants.
    pub(super) fn machine(
        &self,
        checker: &mut Checker,
        images: &BTreeMap<String, Image>,
    ) -> (Machine, Vec<HostTenant>) {
        let activities = check::activities(checker, &self.groups);
        let (mut all, host) = tenants::check(checker, self, images, &activities);
        let volumes: usize = host.iter().map(|tenant| tenant.volumes.len()).sum();
        let first_disk = u16::try_from(host.len().saturating_add(volumes)).unwrap_or(u16::MAX);
        let places = match self.zone {
            Some(zone) => zones::places_for_tenants(self.file, zone, first_disk),
            None => spares::places(checker, self, &all, first_disk),
        };
        let count = u16::try_from(places.len()).unwrap_or(0);
        all.extend(places);
        let link = check::link(checker, &self.file.link);
        let link_rate = link.rate_bits_per_second.map_or(LinkRate::Unlimited, |_| LinkRate::Given);
        let mut machine = Machine {
            name: self.name.clone(),
            cores: self.cores,
            memory_bytes: self.memory_bytes,
            log_level: check::log_level(checker, self.file.log.as_ref()),
            time_slice_us: check::time_slice(checker, self.file.time_slice.as_ref()),
            messages: check::messages(checker, self.file.messages.as_ref()),
            started_unix_s: 0,
            has_percent_shares: tenants::have_percent_shares(self),
            seed: [0; 32],
            link: gyre_contract::boot::Link { mac: self.mac, ..link },
            disk_depth: check::disk_depth(checker, self.file.disk.as_ref()),
            resources: self.policies(checker),
            activities,
            tenants: all,
            broker: Broker {
                borrowing: borrowing::check(checker, self),
                ..goals::broker(checker, &self.file.broker, link_rate)
            },
            zones: vec![],
            cells_bytes: if self.zone.is_none() { cell_pool::pool(checker, self) } else { 0 },
            cells_runtimes: cell_pool::runtimes(checker, self),
            cells_devices: vec![],
            neighbours: vec![],
            served_disks: 0,
            files: vec![],
            places: count,
        };
        memory::suffices(checker, &machine, self);
        promises::check(checker, &machine, self);
        cells::check(checker, &machine, self);
        // Promises are about the cores that it begins with.
        machine.cores = self.cores_max;
        (machine, host)
    }

    /// The file's policies; those of the zone stand in place of the machine's.
    fn policies(&self, checker: &mut Checker) -> Vec<ResourcePolicy> {
        let mut all = policies::check(checker, &self.file.policy, self.cores_max);
        let Some(zone) = self.zone else {
            return alone::apply(checker, self.file, all, self.cores_max);
        };
        let own = policies::check(checker, &zone.policy, self.cores_max);
        all.retain(|one| own.iter().all(|other| other.resource != one.resource));
        all.extend(own);
        all
    }
}
