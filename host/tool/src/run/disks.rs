//! The disks of all tenants, and where they are plugged in.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use gyre_machine_file::{Description, HostTenant, Image, Instance};

use super::{
    kept::{self, Part, Record, Wish},
    names,
    renewed::NEXT,
};
use crate::{
    failure::{Context as _, Failure, Result},
    held_file::HeldFile,
    image, partitions, places,
    project::Project,
    qemu::Disk,
    volume,
};

/// Finds or makes each tenant's disk: the first instance's in the order of its tenants, then each zone's.
///
/// # Errors
/// When an image cannot be made, a disk not be written, or a disk that was written to belongs to another image.
pub(super) fn disks(project: &Project, description: &Description, folder: &Path, wish: Wish) -> Result<Disks> {
    let mut volumes = vec![];
    let mut maker = Maker::new(project, description, folder, wish);
    let (mut disks, mut held) = (vec![], vec![]);
    for instance in description.instances() {
        let mut paths = maker.of(&instance)?;
        for tenant in instance.tenants {
            volumes.extend(volume::take(project, &description.machine.name, &tenant.name, &tenant.volumes)?);
        }
        let of_instance = instance.tenants.iter().map(|tenant| tenant.volumes.len()).sum();
        let first = volumes.len().saturating_sub(of_instance);
        paths.extend(volumes.iter().skip(first).map(|taken| taken.volume.path.clone()));
        let is_supervisor = instance.zone.is_none();
        match instance.zone.filter(|_| instance.machine.places > 0) {
            Some(place) => {
                let roots = usize::from(instance.machine.places);
                let volumes = instance.devices.tenants_disks().count().saturating_sub(roots);
                let made = places::make_zone_disks(folder, place, roots, volumes)?;
                let (own, files): (Vec<PathBuf>, Vec<HeldFile>) = made.volumes.into_iter().unzip();
                paths.extend(made.roots.into_iter().chain(own));
                held.extend(files);
            }
            None if is_supervisor => paths.extend(places::make_disks(folder, description)?),
            None => {}
        }
        let server = if instance.devices.served.is_empty() { instance.machine } else { &description.machine };
        let queues = server.cores;
        let placed = paths.into_iter().zip(instance.devices.tenants_disks());
        disks.extend(placed.map(|(path, address)| Disk { path, address, queues }));
    }
    Ok(Disks { disks, volumes, held })
}

/// Finds or makes the disk of a tenant that comes while the machine runs.
///
/// # Errors
/// As [`disks`].
pub fn of_comer(project: &Project, description: &Description, folder: &Path, tenant: &HostTenant) -> Result<()> {
    let mut maker = Maker::new(project, description, folder, Wish::Usual);
    maker.disk(description.tenants.iter().find(|one| one.name == tenant.name).unwrap_or(tenant)).map(drop)
}

/// Finds or makes the disks of the first zone of a description, which comes while the machine runs.
///
/// # Errors
/// As [`disks`].
pub fn of_zone(project: &Project, description: &Description, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut maker = Maker::new(project, description, folder, Wish::Usual);
    description.instances().nth(1).map_or(Ok(vec![]), |zone| maker.of(&zone))
}

/// The disks of a machine.
pub(super) struct Disks {
    /// All of them, in the order of the machine's places.
    pub(super) disks: Vec<Disk>,
    /// The volumes among them: nobody else has them as long as this lives.
    pub(super) volumes: Vec<volume::Taken>,
    /// The disks that wait for volumes of zones that come.
    pub(super) held: Vec<HeldFile>,
}

/// Finds and makes disks.
pub(super) struct Maker<'a> {
    project: &'a Project,
    description: &'a Description,
    folder: &'a Path,
    wish: Wish,
    /// The images that were made or found so far.
    images: BTreeMap<&'a str, PathBuf>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(project: &'a Project, description: &'a Description, folder: &'a Path, wish: Wish) -> Self {
        Maker { project, description, folder, wish, images: BTreeMap::new() }
    }

    /// Returns the disks of an instance's tenants, or the one that they share.
    fn of(&mut self, instance: &Instance<'a>) -> Result<Vec<PathBuf>> {
        match self.description.disk {
            Some(_) if !instance.tenants.is_empty() => Ok(vec![self.shared(instance)?]),
            _ => self.own(instance),
        }
    }

    /// Returns the disks of an instance's tenants.
    fn own(&mut self, instance: &Instance<'a>) -> Result<Vec<PathBuf>> {
        instance.tenants.iter().map(|tenant| self.disk(tenant)).collect()
    }

    fn disk(&mut self, tenant: &'a HostTenant) -> Result<PathBuf> {
        let disk = self.folder.join(format!("{}.ext2", tenant.name));
        // A `gyre apply --fresh` that was killed has left it.
        let _ = std::fs::remove_file(disk.with_extension(NEXT));
        let parts = [self.part(tenant)?];
        if !kept::stays(&disk, &parts, self.wish)? {
            self.copy(tenant, &disk)?;
            Record::write(&disk, &parts, vec![0])?;
        }
        Ok(disk)
    }

    /// Returns the disk that the tenants of an instance share.
    fn shared(&mut self, instance: &Instance<'a>) -> Result<PathBuf> {
        let disk = self.folder.join(shared_name(instance));
        let parts = instance.tenants.iter().map(|tenant| self.part(tenant)).collect::<Result<Vec<_>>>()?;
        if kept::stays(&disk, &parts, self.wish)? {
            return Ok(disk);
        }
        let mut images = vec![];
        for tenant in instance.tenants {
            let image = self.folder.join(format!("{}.part", tenant.name));
            self.copy(tenant, &image)?;
            images.push(image);
        }
        Record::remove(&disk);
        let offsets = partitions::join(&images, &disk)?;
        Record::write(&disk, &parts, offsets)?;
        Ok(disk)
    }

    pub(super) fn part(&self, tenant: &HostTenant) -> Result<Part> {
        let image = image::identity(self.project, &tenant.image, self.description_of(&tenant.image)?)?;
        Ok(Part { tenant: tenant.name.clone(), image })
    }

    fn description_of(&self, name: &str) -> Result<&'a Image> {
        self.description.images.get(name).ok_or_else(|| Failure::new(format!("there is no image `{name}`")))
    }

    /// Copies the image of a tenant, which is made at its first use. A copy that breaks off leaves what was there.
    fn copy(&mut self, tenant: &'a HostTenant, to: &Path) -> Result<()> {
        let unfinished = to.with_extension("new");
        self.fill(tenant, &unfinished)?;
        Record::remove(to);
        std::fs::rename(&unfinished, to).context(|| format!("cannot write {}", to.display()))
    }

    /// Copies the image of a tenant, with what is the tenant's own.
    pub(super) fn fill(&mut self, tenant: &'a HostTenant, to: &Path) -> Result<()> {
        let name = tenant.image.as_str();
        if !self.images.contains_key(name) {
            self.images.insert(name, image::build(self.project, name, self.description_of(name)?)?);
        }
        let image = self.images.get(name).ok_or_else(|| Failure::new(format!("there is no image `{name}`")))?;
        image::copy_for(image, to)?;
        names::add_own(to, &tenant.name)
    }
}

fn shared_name(instance: &Instance) -> String {
    instance.zone.map_or_else(|| "shared.disk".into(), |zone| format!("zone-{zone}.disk"))
}

/// How QEMU is to slow the shared disk down, as options of a drive.
pub(super) fn throttle(description: &Description) -> String {
    let Some(disk) = &description.disk else { return String::new() };
    let bytes = disk.rate_bytes_per_second.map(|rate| format!(",throttling.bps-total={rate}"));
    let requests = disk.requests_per_second.map(|count| format!(",throttling.iops-total={count}"));
    bytes.into_iter().chain(requests).collect()
}
