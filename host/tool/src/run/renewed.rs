//! Disks that are made anew while their machine runs (`gyre apply --fresh`).

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use gyre_machine_file::{Description, HostTenant, units::show_bytes};
use rustix::fs::{FallocateFlags, fallocate};

use super::{
    disks::Maker,
    kept::{Part, Record, Wish},
};
use crate::{
    failure::{Context as _, Failure, Result},
    places,
    project::Project,
};

/// The ending of a disk that is made beside the one that the machine has.
pub const NEXT: &str = "next";
/// Bytes that are copied at once; a piece of zeroes stays a hole.
const PIECE_BYTES: usize = 64 << 10;

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
        let made = disk.with_extension(NEXT);
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
        Record::remove(&self.disk);
        let cannot = || format!("cannot write {}", self.disk.display());
        let from = File::open(&self.made).context(|| format!("cannot open {}", self.made.display()))?;
        let to = std::fs::OpenOptions::new().write(true).open(&self.disk).context(cannot)?;
        replace(&from, &to).context(cannot)?;
        // A new run may have begun meanwhile, with a disk of its own.
        let (own, named) = (to.metadata().context(cannot)?, std::fs::metadata(&self.disk).context(cannot)?);
        if (own.dev(), own.ino()) != (named.dev(), named.ino()) {
            return Err(Failure::new(format!("the machine has ended: {} is another one now", self.disk.display())));
        }
        Record::write(&self.disk, &self.parts, vec![0])
    }
}

impl Drop for Renewed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.made);
    }
}

/// Writes a file over another one that is as long at least. The length stays: the machine sees a disk of that size. Zeroes take no room.
fn replace(from: &File, to: &File) -> io::Result<()> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(to, hole, 0, to.metadata()?.len().max(1))?;
    let mut bytes = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let count = from.read_at(&mut bytes, at)?;
        if count == 0 {
            return to.sync_data();
        }
        let piece = &bytes[..count];
        if piece.iter().any(|byte| *byte != 0) {
            to.write_all_at(piece, at)?;
        }
        at += count as u64;
    }
}

fn size_of(file: &Path) -> Result<u64> {
    Ok(std::fs::metadata(file).context(|| format!("cannot read {}", file.display()))?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_replaced_in_place_and_keeps_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let (made, disk) = (folder.path().join("gold.next"), folder.path().join("gold.ext2"));
        let image = [vec![1; 70_000], vec![0; 200_000], vec![2; 10]].concat();
        std::fs::write(&made, &image).unwrap();
        std::fs::write(&disk, vec![7; 400_000]).unwrap();
        let opened = File::open(&disk).unwrap();
        let parts = [Part { tenant: "gold".into(), image: "web-2".into() }];
        Renewed { disk: disk.clone(), made: made.clone(), parts: parts.clone() }.put().unwrap();
        let mut now = vec![9; 400_000];
        opened.read_exact_at(&mut now, 0).unwrap();
        assert!(now[..image.len()] == image && now[image.len()..].iter().all(|byte| *byte == 0));
        assert_eq!(std::fs::metadata(&disk).unwrap().len(), 400_000);
        assert!(Record::read(&disk).unwrap().is_of(&parts) && !made.exists());
    }
}
