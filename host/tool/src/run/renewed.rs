//! Disks that are made anew while their machine runs (`gyre apply --fresh`).

use std::path::{Path, PathBuf};

use gyre_machine_file::{Description, HostTenant, units::show_bytes};

use super::{
    disks::Maker,
    kept::{Part, Record, Wish},
};
use crate::{
    failure::{Context as _, Failure, Result},
    image, places,
    project::Project,
};

/// The disk of a tenant that stays, made of another image beside the one that the machine has.
pub struct Renewed {
    disk: PathBuf,
    made: PathBuf,
    parts: [Part; 1],
}

impl Renewed {
    /// Makes it; nothing if the tenant's disk is one of this image already.
    ///
    /// # Errors
    /// When the image cannot be made, or is larger than the disk that the machine has.
    pub fn make(
        project: &Project,
        description: &Description,
        folder: &Path,
        tenant: &HostTenant,
    ) -> Result<Option<Self>> {
        let disk = places::disk_of(folder, &tenant.name);
        let mut maker = Maker::new(project, description, folder, Wish::Fresh);
        let parts = [maker.part(tenant)?];
        if Record::read(&disk).is_some_and(|record| record.is_of(&parts)) {
            return Ok(None);
        }
        let made = disk.with_extension("next");
        let tenant = description.tenants.iter().find(|one| one.name == tenant.name);
        maker.fill(tenant.ok_or_else(|| Failure::new("a tenant without a description".to_owned()))?, &made)?;
        let (wanted, has) = (size_of(&made)?, places::capacity(folder, &disk)?);
        if wanted > has {
            let _ = std::fs::remove_file(&made);
            let (wanted, has) = (show_bytes(wanted), show_bytes(has));
            let message = format!("the image of {} takes {wanted}, and its disk has {has}", parts[0].tenant);
            return Err(Failure::with_help(message, "nothing was changed. It needs a new run"));
        }
        Ok(Some(Self { disk, made, parts }))
    }

    /// Puts it in the place of the tenant's disk, in the file that the machine has open; the tenant is away. If that is broken off, the disk
    /// is nobody's, and is made anew.
    ///
    /// # Errors
    /// When the host's disk is full.
    pub fn put(self) -> Result<()> {
        let size = size_of(&self.disk)?;
        Record::remove(&self.disk);
        image::copy_for(&self.made, &self.disk)?;
        let cannot = || format!("cannot write {}", self.disk.display());
        let file = std::fs::OpenOptions::new().write(true).open(&self.disk).context(cannot)?;
        // The machine sees a disk of that size.
        file.set_len(size.max(size_of(&self.disk)?)).context(cannot)?;
        Record::write(&self.disk, &self.parts, vec![0])?;
        std::fs::remove_file(&self.made).context(|| format!("cannot remove {}", self.made.display()))
    }
}

fn size_of(file: &Path) -> Result<u64> {
    Ok(std::fs::metadata(file).context(|| format!("cannot read {}", file.display()))?.len())
}
