//! One disk with a partition for each tenant (GUID partition table, UEFI 2.10 §5.3).

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use gyre_contract::partitions::{ENTRIES, table};

use crate::failure::{Context as _, Failure, Result};

const SECTOR_BYTES: u64 = 512;
/// Partitions begin at multiples of this.
const ALIGNMENT_BYTES: u64 = 1 << 20;

/// Joins images to one disk, each a partition in their order, and removes them. Returns where each begins, bytes.
///
/// # Errors
/// When a file cannot be read or written, or there are too many.
pub fn join(images: &[PathBuf], disk: &Path) -> Result<Vec<u64>> {
    if images.len() > ENTRIES {
        return Err(Failure::new(format!("a disk holds at most {ENTRIES} partitions")));
    }
    let failed = || format!("cannot make the shared disk {}", disk.display());
    let _ = std::fs::remove_file(disk);
    let mut file = File::create(disk).context(failed)?;
    let mut at = ALIGNMENT_BYTES;
    let (mut partitions, mut offsets) = (vec![], vec![]);
    for image in images {
        let bytes = copy(image, &mut file, at).context(failed)?;
        offsets.push(at);
        partitions.push((at / SECTOR_BYTES, (at + bytes) / SECTOR_BYTES - 1));
        at = (at + bytes).next_multiple_of(ALIGNMENT_BYTES);
        let _ = std::fs::remove_file(image);
    }
    let sectors = (at + ALIGNMENT_BYTES) / SECTOR_BYTES;
    file.set_len(sectors * SECTOR_BYTES).context(failed)?;
    for (sector, bytes) in table(&partitions, sectors) {
        file.seek(SeekFrom::Start(sector * SECTOR_BYTES)).and_then(|_| file.write_all(&bytes)).context(failed)?;
    }
    Ok(offsets)
}

/// Copies what is not zero; answers the image's bytes, whole sectors.
fn copy(image: &Path, disk: &mut File, at: u64) -> std::io::Result<u64> {
    let mut source = File::open(image)?;
    let mut buffer = vec![0; 1 << 16];
    let mut done: u64 = 0;
    loop {
        let count = source.read(&mut buffer)?;
        let part = buffer.get(..count).unwrap_or(&[]);
        if part.is_empty() {
            return Ok(done.next_multiple_of(SECTOR_BYTES));
        }
        if part.iter().any(|byte| *byte != 0) {
            disk.seek(SeekFrom::Start(at + done))?;
            disk.write_all(part)?;
        }
        done += part.len() as u64;
    }
}
