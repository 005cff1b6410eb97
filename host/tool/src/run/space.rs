//! The host's disk may lack room for all that tenants may still write: their disks have holes until they are written.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gyre_machine_file::units::show_bytes;
use nix::sys::statvfs::statvfs;

use crate::{
    failure::{Failure, Kind, Result},
    ui,
};

/// The unit of `st_blocks`, which is independent of the file system's blocks (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// Checks that the disks fit on the file system that holds them.
///
/// # Errors
/// When they may grow beyond what is free, and the owner does not want to go on all the same.
pub fn check(disks: &[PathBuf], is_small_wanted: bool) -> Result<()> {
    let Some(folder) = disks.first().and_then(|disk| disk.parent()) else { return Ok(()) };
    let missing = disks.iter().map(|disk| unwritten(disk)).sum();
    let Ok(found) = statvfs(folder) else { return Ok(()) };
    let free = u64::from(found.blocks_available()) * u64::from(found.fragment_size());
    let Some(failure) = shortage(missing, free, folder) else { return Ok(()) };
    if !is_small_wanted {
        return Err(failure);
    }
    ui::warn(&format!("{}: tenants that write get EIO when it is full", failure.report));
    Ok(())
}

/// Returns the bytes that a disk may still take: its holes.
fn unwritten(disk: &Path) -> u64 {
    std::fs::metadata(disk).map_or(0, |data| data.len().saturating_sub(data.blocks() * BLOCK_BYTES))
}

fn shortage(missing: u64, free: u64, folder: &Path) -> Option<Failure> {
    let (wanted, has) = (show_bytes(missing), show_bytes(free));
    let message = format!("the tenants' disks may still need {wanted}, and {} has {has} free", folder.display());
    let help = "make room there, give images a smaller `size`, or start all the same with --small-disk";
    (missing > free).then(|| Failure::with_help(message, help).kind(Kind::Environment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_count_and_are_compared_with_what_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        std::fs::File::create(&disk).unwrap().set_len(1 << 43).unwrap();
        assert!(unwritten(&disk) > 1 << 42);
        let failure = check(&vec![disk.clone(); 1000], false).unwrap_err();
        assert_eq!(failure.kind, Kind::Environment);
        assert!(failure.report.to_string().contains("may still need"), "{:?}", failure.report);
        assert!(check(&vec![disk; 1000], true).is_ok());
        assert!(shortage(5, 5, folder.path()).is_none() && shortage(6, 5, folder.path()).is_some());
    }
}
