//! Disks that stay from run to run, and the record beside each: which tenants' files it holds, and of which images they were made.
//!
//! * A disk stays as long as its images are the ones of its record.
//! * If they are others, a disk that nobody wrote to is made anew. One that somebody wrote to is never overwritten unless the owner says
//!   so (`--fresh`), nor taken for one of the new images unless the owner says so (`--keep`).
//! * A file system that was not unmounted in order is checked by e2fsck before it is used, as a host does after a power cut.
//! * The owner is told of each disk that is discarded: whose it was, how much it held, and when it was written to last.
//! * A record is written after its disk is whole. A disk without a record was never used, and is made anew.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gyre_machine_file::units::show_bytes;
use serde::{Deserialize, Serialize};

use crate::{
    cli, command,
    failure::{Context as _, Failure, Kind, Result},
    ui, whole_file,
};

/// The unit of `st_blocks`, which is independent of the file system's blocks (stat(2)).
const BLOCK_BYTES: u64 = 512;
/// Place of `s_state` in an ext2 file system, bytes: bit 0 is set when it was unmounted in order.
const STATE_AT: u64 = 1024 + 58;
/// The exit codes of `e2fsck` up to this say that all is well now (e2fsck(8)).
const REPAIRED: i32 = 3;

/// One tenant's file system on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    /// The tenant, or the volume.
    pub(super) tenant: String,
    /// The image that it was made of, with all that went into that.
    pub(super) image: String,
}

/// A moment of a file: any write changes it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl Stamp {
    fn of(disk: &Path) -> Option<Self> {
        let data = std::fs::metadata(disk).ok()?;
        Some(Self { bytes: data.len(), changed_s: data.mtime(), changed_ns: data.mtime_nsec() })
    }
}

/// The record of a disk.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its file systems in their order.
    parts: Vec<Part>,
    /// The place of each, bytes.
    offsets: Vec<u64>,
    /// The disk when it was made.
    made: Option<Stamp>,
}

/// The future of the disks that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// They stay, unless their images have changed.
    Usual,
    /// They are made anew.
    Fresh,
    /// They stay, also if their images have changed.
    Keep,
}

impl Wish {
    /// Reads the command line.
    pub(super) fn of(arguments: &cli::Run) -> Self {
        match arguments {
            cli::Run { fresh: true, .. } => Self::Fresh,
            cli::Run { keep: true, .. } => Self::Keep,
            _ => Self::Usual,
        }
    }
}

/// The next step with one disk.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// It stays.
    Stay,
    /// It stays, although its images are others now.
    StayOld,
    /// It is made: there was none, or none that anybody wrote to.
    Make,
    /// It is made in place of one that was written to, as the owner wishes.
    Discard,
}

/// Returns whether a disk is there and stays; says what is discarded.
///
/// # Errors
/// If it was written to and its images have changed, and the owner has not said what to do; if it is damaged beyond repair.
pub(super) fn stays(disk: &Path, parts: &[Part], wish: Wish) -> Result<bool> {
    let record = Record::read(disk);
    match decide(record.as_ref(), Stamp::of(disk), parts, wish) {
        Some(Decision::Make) => Ok(false),
        Some(Decision::Discard) => {
            ui::say(&format!("  --fresh: {}", discarded(disk, record.as_ref())));
            Ok(false)
        }
        Some(Decision::Stay) => whole(disk, record.as_ref()).map(|()| true),
        Some(Decision::StayOld) => {
            ui::warn(&format!("--keep: {} stays as it is, though its image has changed", disk.display()));
            whole(disk, record.as_ref()).map(|()| true)
        }
        None => Err(conflict(disk, record.as_ref(), parts)),
    }
}

/// Decides; `None` is for the owner to decide.
fn decide(record: Option<&Record>, now: Option<Stamp>, parts: &[Part], wish: Wish) -> Option<Decision> {
    let (Some(record), Some(now)) = (record, now) else { return Some(Decision::Make) };
    let is_written = record.made.as_ref() != Some(&now);
    let tenants = |parts: &[Part]| parts.iter().map(|part| part.tenant.clone()).collect::<Vec<_>>();
    match wish {
        Wish::Fresh if is_written => Some(Decision::Discard),
        Wish::Fresh => Some(Decision::Make),
        _ if record.parts == parts => Some(Decision::Stay),
        _ if !is_written => Some(Decision::Make),
        Wish::Keep if tenants(&record.parts) == tenants(parts) => Some(Decision::StayOld),
        Wish::Usual | Wish::Keep => None,
    }
}

/// Says what a disk held that is made anew.
pub fn discards(disk: &Path) -> String {
    discarded(disk, Record::read(disk).as_ref())
}

fn discarded(disk: &Path, record: Option<&Record>) -> String {
    let data = std::fs::metadata(disk).ok();
    let held = data.as_ref().map_or(0, |data| data.blocks() * BLOCK_BYTES);
    let age = data.and_then(|data| data.modified().ok()?.elapsed().ok()).unwrap_or_default();
    let names = record.map_or_else(String::new, |record| names(&record.parts));
    format!("discards the disk of {names} ({}, last written {} ago)", show_bytes(held), ui::age(age))
}

fn names(parts: &[Part]) -> String {
    parts.iter().map(|part| part.tenant.as_str()).collect::<Vec<_>>().join(", ")
}

fn conflict(disk: &Path, record: Option<&Record>, parts: &[Part]) -> Failure {
    let old = record.map_or(&[][..], |record| &record.parts);
    let is_other = |part: &&Part| !old.contains(part);
    let changed: Vec<Part> = parts.iter().filter(is_other).cloned().collect();
    let whose = if changed.is_empty() { names(old) } else { names(&changed) };
    let message = format!("the image of {whose} has changed, and its disk was written to: {}", disk.display());
    let help = "--fresh makes new disks of the images and discards what was written; --keep runs with the disks as they are; \
                gyre cp copies files out before";
    Failure::with_help(message, help)
}

/// Checks each file system that was not unmounted in order, and repairs it.
fn whole(disk: &Path, record: Option<&Record>) -> Result<()> {
    for offset in record.map_or(&[][..], |record| &record.offsets) {
        if !is_clean(disk, *offset)? {
            repair(disk, *offset)?;
        }
    }
    Ok(())
}

/// Checks a file system that fills its file, if it was not unmounted in order.
///
/// # Errors
/// If it is damaged beyond repair.
pub fn whole_alone(disk: &Path) -> Result<()> {
    if is_clean(disk, 0)? { Ok(()) } else { repair(disk, 0) }
}

fn is_clean(disk: &Path, offset: u64) -> Result<bool> {
    let mut state = [0; 2];
    let cannot = || format!("cannot read {}", disk.display());
    let mut file = File::open(disk).context(cannot)?;
    file.seek(SeekFrom::Start(offset + STATE_AT)).and_then(|_| file.read_exact(&mut state)).context(cannot)?;
    Ok(u16::from_le_bytes(state) & 1 == 1)
}

/// Repairs a file system as a host does after a power cut.
fn repair(disk: &Path, offset: u64) -> Result<()> {
    let name = format!("{}?offset={offset}", disk.display());
    let mut check = command::program("e2fsck")?;
    let done = check.args(["-p", "-f"]).arg(name).output().context(|| "cannot start e2fsck".into())?;
    if done.status.code().is_some_and(|code| code <= REPAIRED) {
        ui::say(&format!("  {} was not unmounted in order, and has been checked", disk.display()));
        return Ok(());
    }
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let help = format!(
        "{}\nRepair it with e2fsck -y {}, or discard it with --fresh.",
        command::last_lines(&text, 6),
        disk.display()
    );
    Err(Failure::with_help(format!("{} is damaged", disk.display()), help).kind(Kind::Tenant))
}

impl Record {
    /// Reads the record of a disk, if it has one.
    pub fn read(disk: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(path(disk)).ok()?).ok()
    }

    /// Returns the tenants whose files the disk holds, in words.
    pub fn tenants(&self) -> String {
        names(&self.parts)
    }

    /// Returns whether it was made of these.
    pub(super) fn is_of(&self, parts: &[Part]) -> bool {
        self.parts == parts
    }

    /// Returns the images that it was made of.
    pub fn images(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.image.clone()).collect()
    }

    /// Writes the record of a disk of one tenant.
    #[cfg(test)]
    pub fn of_image(disk: &Path, tenant: &str, image: &str) {
        let part = Part { tenant: tenant.into(), image: image.into() };
        Self::write(disk, &[part], vec![0]).unwrap();
    }

    /// Forgets a disk: it is about to be made.
    pub fn remove(disk: &Path) {
        let _ = std::fs::remove_file(path(disk));
    }

    /// Writes the record of a disk that has just been made.
    ///
    /// # Errors
    /// When the host's disk is full.
    pub(super) fn write(disk: &Path, parts: &[Part], offsets: Vec<u64>) -> Result<()> {
        let record = Self { parts: parts.to_vec(), offsets, made: Stamp::of(disk) };
        let text = serde_json::to_string(&record).context(|| "cannot write JSON".into())?;
        whole_file::write(&path(disk), text)
    }
}

/// Returns the place of a disk's record.
fn path(disk: &Path) -> PathBuf {
    let mut name = disk.file_name().unwrap_or_default().to_owned();
    name.push(".json");
    disk.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(image: &str) -> Vec<Part> {
        vec![Part { tenant: "gold".into(), image: image.into() }]
    }

    /// A disk, its record, and whether somebody wrote to it since.
    fn disk(folder: &Path, written: &[u8]) -> PathBuf {
        let disk = folder.join("gold.ext2");
        std::fs::write(&disk, "made").unwrap();
        Record::write(&disk, &part("web-1"), vec![0]).unwrap();
        if !written.is_empty() {
            std::fs::write(&disk, written).unwrap();
        }
        disk
    }

    fn decided(disk: &Path, image: &str, wish: Wish) -> Option<Decision> {
        decide(Record::read(disk).as_ref(), Stamp::of(disk), &part(image), wish)
    }

    #[test]
    fn a_disk_that_was_written_to_is_overwritten_only_if_the_owner_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path(), b"somebody's letters");
        assert_eq!(decided(&disk, "web-1", Wish::Usual), Some(Decision::Stay));
        assert_eq!(decided(&disk, "web-1", Wish::Fresh), Some(Decision::Discard));
        assert_eq!(decided(&disk, "web-2", Wish::Usual), None);
        assert_eq!(decided(&disk, "web-2", Wish::Keep), Some(Decision::StayOld));
        let refused = stays(&disk, &part("web-2"), Wish::Usual).unwrap_err();
        assert!(format!("{:?}", refused.report).contains("--fresh"), "{:?}", refused.report);
    }

    #[test]
    fn a_disk_that_nobody_wrote_to_follows_its_image() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path(), b"");
        assert_eq!(decided(&disk, "web-2", Wish::Usual), Some(Decision::Make));
        assert_eq!(decided(&disk, "web-1", Wish::Fresh), Some(Decision::Make));
        Record::remove(&disk);
        assert_eq!(decided(&disk, "web-1", Wish::Usual), Some(Decision::Make), "no record: it was never whole");
    }
}
