//! Disk images: file systems by mke2fs, one partition for each tenant, and their repair by e2fsck.

use gyre_contract::partitions;
use gyre_machine::disk::SECTOR_BYTES;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// KiB of each file system.
const KIB: usize = 2048;
/// The sector at which the first partition begins.
const FIRST_SECTOR: usize = 64;
/// Sectors of a partition.
const SECTORS: usize = KIB * 1024 / SECTOR_BYTES;
/// Sectors behind the last one, for the table's copy.
const LAST_SECTORS: usize = 64;
/// The time that the programs are told, so that each run makes the same image.
const CLOCK: (&str, &str) = ("E2FSPROGS_FAKE_TIME", "1700000000");
const IDENTITY: &str = "6a79a2f0-0000-4000-8000-000000000001";

/// Returns true if e2fsprogs are installed: without them there is no file system.
pub fn is_possible() -> bool {
    static ARE_THERE: OnceLock<bool> = OnceLock::new();
    let is_there = |program: &&str| Command::new(program).arg("-V").output().is_ok();
    *ARE_THERE.get_or_init(|| ["mke2fs", "e2fsck"].iter().all(is_there))
}

fn temporary(name: &str) -> PathBuf {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    folder.join(format!("gyre-sim-{}-{}-{name}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed)))
}

/// Returns a fresh file system; each kind is made once in a process.
fn file_system(block_bytes: u32) -> Vec<u8> {
    static MADE: Mutex<BTreeMap<u32, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    made.entry(block_bytes).or_insert_with(|| make(block_bytes)).clone()
}

fn make(block_bytes: u32) -> Vec<u8> {
    let path = temporary("image");
    let (block, hash_seed) = (block_bytes.to_string(), format!("hash_seed={IDENTITY}"));
    let output = Command::new("mke2fs")
        .env(CLOCK.0, CLOCK.1)
        .args(["-q", "-F", "-t", "ext2", "-U", IDENTITY, "-E", &hash_seed, "-b", &block])
        .arg(&path)
        .arg(format!("{KIB}k"))
        .output()
        .expect("mke2fs runs (Debian package e2fsprogs)");
    assert!(output.status.success(), "mke2fs: {}", String::from_utf8_lossy(&output.stderr));
    let image = std::fs::read(&path).expect("mke2fs has written an image");
    let _ = std::fs::remove_file(&path);
    image
}

fn first_sector(index: usize) -> usize {
    FIRST_SECTOR + index * SECTORS
}

/// Returns a disk with a file system of each of these block sizes.
pub fn disk(block_bytes: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let count = block_bytes.len();
    let sectors = first_sector(count) + LAST_SECTORS;
    let mut image = vec![0; sectors * SECTOR_BYTES];
    let mut put = |sector: usize, bytes: &[u8]| {
        let at = sector * SECTOR_BYTES;
        image[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let last = |index| (first_sector(index + 1) - 1) as u64;
    let table: Vec<(u64, u64)> = (0..count).map(|index| (first_sector(index) as u64, last(index))).collect();
    for (sector, bytes) in partitions::table(&table, sectors as u64) {
        put(sector as usize, &bytes);
    }
    for (index, block_bytes) in block_bytes.enumerate() {
        put(first_sector(index), &file_system(block_bytes));
    }
    image
}

/// Checks a partition of a disk, and repairs it there if it `may_repair`.
///
/// # Errors
/// The words of e2fsck, if it finds what it may not repair or cannot.
pub fn check(disk: &mut [u8], index: usize, may_repair: bool) -> Result<(), String> {
    let start = first_sector(index) * SECTOR_BYTES;
    let part = &mut disk[start..start + SECTORS * SECTOR_BYTES];
    if !may_repair {
        return e2fsck(part, "-fn").and_then(|(code, words)| if code == 0 { Ok(()) } else { Err(words) });
    }
    match e2fsck(part, "-fy")? {
        (0, _) => Ok(()),
        (1, _) => e2fsck(part, "-fn").and_then(|(code, words)| if code == 0 { Ok(()) } else { Err(words) }),
        (_, words) => Err(words),
    }
}

fn e2fsck(part: &mut [u8], mode: &str) -> Result<(i32, String), String> {
    let path = temporary("check");
    std::fs::write(&path, &*part).map_err(|error| error.to_string())?;
    let output = Command::new("e2fsck").env(CLOCK.0, CLOCK.1).arg(mode).arg(&path).output();
    let after = std::fs::read(&path).map_err(|error| error.to_string());
    let _ = std::fs::remove_file(&path);
    let output = output.map_err(|error| error.to_string())?;
    part.copy_from_slice(&after?);
    Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned()))
}
