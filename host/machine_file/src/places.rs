//! The PCI functions of a machine: the tool puts each at an address of its own, so that a zone can be given it by that.
//!
//! * [`Places`] hands out the places of bus 0, [`FIRST`] to [`LAST`], in the order of the instances. Of each instance come its card, the
//!   disks of its tenants, their volumes, and the disks of spare places.
//! * [`Named`] takes the functions that a file names for zones and cells; each may be named once.
//! * [`Instance`] is one kernel with its part of a [`Description`]: the only one, the supervisor, or a zone.
//!
//! Numbers of disks in a kernel's description follow this order.

use super::{
    Description, HostTenant, Problem, SharedDisk,
    check::Checker,
    raw::{self, At},
    spares,
};
use gyre_contract::{
    boot::{Machine, Tenant, Way},
    zones::DeviceAddress,
};

/// The PCI functions of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// Its network device; none if the supervisor's carries its frames.
    pub card: Option<DeviceAddress>,
    /// Its disks in the order of its tenants, or the one that they share; then their volumes, then those of spare places.
    pub disks: Vec<DeviceAddress>,
    /// Disks of its tenants that the supervisor has and serves to it, in the same order.
    pub served: Vec<DeviceAddress>,
    /// Functions that the file names.
    pub others: Vec<DeviceAddress>,
}

impl Devices {
    /// Returns all that are its own: card, disks, others.
    pub fn all(&self) -> impl Iterator<Item = DeviceAddress> + '_ {
        self.card.into_iter().chain(self.disks.iter().copied()).chain(self.others.iter().copied())
    }

    /// Returns the disks of its tenants and their volumes, whosever they are: its own, or served to it.
    pub fn tenants_disks(&self) -> impl Iterator<Item = DeviceAddress> + '_ {
        self.disks.iter().chain(&self.served).copied()
    }
}

/// Whose a device is that an instance uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Whose {
    /// Its own.
    #[default]
    Own,
    /// The supervisor's, which serves it.
    Supervisor,
}

/// Whose the devices are that an instance uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Owners {
    /// The disks of its tenants.
    pub(super) disks: Whose,
    /// The card that carries its frames.
    pub(super) network: Whose,
}

impl Owners {
    /// Returns how an instance with these reaches the segment.
    pub(super) fn way(self) -> Way {
        match self.network {
            Whose::Own => Way::Card,
            Whose::Supervisor => Way::Supervisor,
        }
    }
}

/// The first place on the bus; those before belong to the board.
const FIRST: u8 = 3;
/// The last one; that behind it belongs to the board.
const LAST: u8 = 0x1e;

/// Hands out places of bus 0 in their order.
pub(super) struct Places {
    next: u8,
}

impl Places {
    /// Begins at the first place.
    pub(super) fn new() -> Self {
        Self { next: FIRST }
    }

    fn take(&mut self) -> DeviceAddress {
        let device = self.next;
        self.next = device.saturating_add(1);
        DeviceAddress { bus: 0, device, function: 0 }
    }

    /// Places the functions of an instance: its card, then its disks.
    pub(super) fn of(
        &mut self,
        tenants: &[HostTenant],
        shared: Option<&SharedDisk>,
        spares: usize,
        owners: Owners,
    ) -> Devices {
        let roots = if shared.is_some() { tenants.len().min(1) } else { tenants.len() };
        let volumes: usize = tenants.iter().map(|tenant| tenant.volumes.len()).sum();
        let count = roots.saturating_add(volumes).saturating_add(spares);
        let card = (owners.network == Whose::Own).then(|| self.take());
        let all = (0..count).map(|_| self.take()).collect();
        let (disks, served) = match owners.disks {
            Whose::Own => (all, vec![]),
            Whose::Supervisor => (vec![], all),
        };
        Devices { card, disks, served, others: vec![] }
    }

    /// Reports a machine whose functions do not fit on the bus.
    pub(super) fn suffice(&self, checker: &mut Checker, file: &raw::File) {
        let volumes = file.tenant.iter().flat_map(|tenant| &tenant.volume);
        let last = volumes.last().map(|volume| volume.name.span()).or(file.zone.last().map(|zone| zone.name.span()));
        let last = file.spare.as_ref().map(At::span).or(last);
        let last = last.or(file.tenant.last().map(|tenant| tenant.name.span()));
        let Some(last) = last.filter(|_| self.next > LAST + 1) else { return };
        let (has, room) = (self.next - FIRST, LAST + 1 - FIRST);
        let message = format!("the machine needs {has} cards and disks");
        let problem = Problem::new(last, message, format!("at most {room} fit on its bus"));
        checker.wrong(problem.help("with [disk] the tenants of an instance share one disk beside their volumes"));
    }

    /// Returns whether the tool has put something at an address, or the board has.
    pub(super) fn is_taken(&self, address: DeviceAddress) -> bool {
        address.bus == 0 && (address.device < self.next || address.device > LAST)
    }
}

/// The functions that a file gives to zones and cells beside their cards and disks: each one once.
pub(super) struct Named<'a, 'p> {
    places: &'p Places,
    all: Vec<(DeviceAddress, &'a At<String>)>,
}

impl<'a, 'p> Named<'a, 'p> {
    /// Begins with none.
    pub(super) fn new(places: &'p Places) -> Self {
        Self { places, all: vec![] }
    }

    /// Reads a list of them; reports what is none, is given twice, or has been placed by the tool.
    pub(super) fn take(&mut self, checker: &mut Checker, texts: &'a [At<String>]) -> Vec<DeviceAddress> {
        let mut list = vec![];
        for text in texts {
            let Ok(address) = text.get_ref().parse::<DeviceAddress>().map_err(|expected| {
                let message = format!("`{}` is not a device", text.get_ref());
                checker.wrong(Problem::new(text.span(), message, format!("expected {expected}")));
            }) else {
                continue;
            };
            if let Some((_, first)) = self.all.iter().find(|(other, _)| *other == address) {
                let problem = Problem::new(text.span(), format!("the device {address} is given twice"), "the second");
                checker.wrong(problem.and(first.span(), "the first"));
            }
            if self.places.is_taken(address) {
                let message = format!("the device {address} is taken");
                let problem = Problem::new(text.span(), message, "the tool has placed it");
                let help = "cards and disks of tenants need not be named; `gyre check` shows their places";
                checker.wrong(problem.help(help));
            }
            self.all.push((address, text));
            list.push(address);
        }
        list
    }
}

/// One kernel instance of a machine.
#[derive(Clone, Copy)]
pub struct Instance<'a> {
    /// The zone's name; none for the supervisor, and for a machine without zones.
    pub zone: Option<&'a str>,
    /// The machine for its kernel.
    pub machine: &'a Machine,
    /// The host's side of its tenants, without the system tenant.
    pub tenants: &'a [HostTenant],
    /// Its PCI functions.
    pub devices: &'a Devices,
}

impl Description {
    /// Returns the kernel instances: the only one, or the supervisor and then each zone.
    pub fn instances(&self) -> impl Iterator<Item = Instance<'_>> {
        let first = Instance { zone: None, machine: &self.machine, tenants: &self.tenants, devices: &self.devices };
        let zones = self.machine.zones.iter().zip(&self.zones).map(|(zone, part)| Instance {
            zone: Some(&zone.name),
            machine: &part.machine,
            tenants: &part.tenants,
            devices: &part.devices,
        });
        [first].into_iter().chain(zones)
    }

    /// Returns the spare places of the machine, several for each disk that is kept for them.
    #[must_use]
    pub fn places(&self) -> &[Tenant] {
        let first = self.machine.tenants.len().saturating_sub(self.machine.places.into());
        self.machine.tenants.get(first..).unwrap_or_default()
    }

    /// Returns how many disks are kept for them.
    #[must_use]
    pub fn spare_disks(&self) -> usize {
        spares::disks(self.places())
    }

    /// Returns the disks that the supervisor has and serves to zones.
    pub fn served(&self) -> impl Iterator<Item = DeviceAddress> + '_ {
        self.zones.iter().flat_map(|zone| zone.devices.served.iter().copied())
    }

    /// Returns the cores of the whole machine.
    #[must_use]
    pub fn all_cores(&self) -> u16 {
        self.whole.map_or(self.machine.cores, |whole| whole.cores)
    }

    /// Returns the memory of the whole machine in bytes.
    #[must_use]
    pub fn all_memory_bytes(&self) -> u64 {
        self.whole.map_or(self.machine.memory_bytes, |whole| whole.memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use crate::parse;

    fn file(tenants: usize, head: &str) -> String {
        let tenant = |at| format!("[[tenant]]\nname = \"t{at}\"\nshare = 1\nimage = \"a\"\nmemory = \"2 MiB\"\n");
        format!("{head}[image.a]\n{}", (0..tenants).map(tenant).collect::<String>())
    }

    #[test]
    fn sixty_tenants_need_a_disk_that_they_share() {
        let read = |tenants, head| parse(Path::new("m.toml"), &file(tenants, head));
        let few: BTreeSet<_> = read(27, "").unwrap().devices.all().map(|place| place.device).collect();
        assert_eq!((few.len(), few.last()), (28, Some(&0x1e)));
        let error = read(60, "").unwrap_err();
        assert_eq!(error.to_string(), "the machine needs 61 cards and disks");
        assert!(error.problems().any(|problem| problem.help.as_ref().is_some_and(|help| help.contains("[disk]"))));
        assert_eq!(read(60, "[disk]\n").unwrap().devices.all().count(), 2);
    }
}
