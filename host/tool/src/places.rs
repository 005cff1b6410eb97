//! Spare places of a machine: the disks that wait for tenants who come while it runs, and what they are filled with.
//!
//! QEMU has a place's file open from the start, as an empty disk of [`DISK_BYTES`]. A tenant's files are copied into that file before the
//! kernel hears of the tenant, and once it has come, the file is its disk (`NAME.ext2`) too, by a second name. So its disk stays when the
//! machine ends, as that of any tenant.
//!
//! ```text
//! empty --fill--> filled (journal) --the kernel takes the tenant--> --adopt--> the tenant's disk --it has gone, fill--> filled for another
//! ```
//! A disk has several places, one after the other ([`gyre_machine_file::Description::places`]). Before it is filled for another tenant, who
//! had it gets a file of its own ([`part`]).
//! A tool that is killed in between leaves the journal; the next command, or the next run, ends what it began ([`settle`]).

use std::{
    fs::File,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gyre_contract::{
    boot::{Root, Tenant},
    monitor::{ActivityKind, Snapshot},
};
use gyre_machine_file::Description;
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Context as _, Failure, Result},
    held_file::HeldFile,
    image, ui, whole_file,
};

/// The size that the machine sees of each place's disk; the file has the size of what is in it.
const DISK_BYTES: u64 = 64 << 30;
/// The size that the machine sees of each disk for a volume of a zone that comes: the largest that a volume can have.
const VOLUME_BYTES: u64 = 1 << 40;
const FILE: &str = "places.json";
const JOURNAL: &str = "adding.json";
const START: &str = "place-";
const ENDING: &str = "disk";

/// A tenant that is about to come.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    tenant: String,
    /// The number of the place's disk.
    place: usize,
    /// When the place was last written to before the kernel heard of it, ns since 1970.
    filled_ns: i64,
}

/// Makes an empty disk for each place, in the order of the places; those of the last run go.
///
/// # Errors
/// When the host's disk is full.
pub fn make_disks(folder: &Path, description: &Description) -> Result<Vec<PathBuf>> {
    settle(folder, None)?;
    (0..description.spare_disks()).map(|place| make_disk(&disk(folder, place), DISK_BYTES)).collect()
}

fn make_disk(path: &Path, bytes: u64) -> Result<PathBuf> {
    let cannot = || format!("cannot write {}", path.display());
    // The file may be a tenant's disk by its other name: this name goes, not what is in it.
    let _ = std::fs::remove_file(path);
    File::create(path).and_then(|file| file.set_len(bytes)).context(cannot)?;
    Ok(path.to_owned())
}

/// A disk that a zone has in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filled {
    /// The number of the place's disk: those for tenants come before those for volumes.
    pub number: usize,
    /// The tenant's disk, or the volume.
    pub path: PathBuf,
}

/// The empty disks of a place for a zone.
pub struct ZoneDisks {
    /// For tenants.
    pub roots: Vec<PathBuf>,
    /// For volumes. `gyre run` holds these files: a volume that becomes one of them is in use.
    pub volumes: Vec<(PathBuf, HeldFile)>,
}

/// Makes an empty disk for each tenant of a place for a zone, and for each volume; those of the last run go.
///
/// # Errors
/// When the host's disk is full.
pub fn make_zone_disks(folder: &Path, place: &str, roots: usize, volumes: usize) -> Result<ZoneDisks> {
    // Those of a run that kept more may be volumes by their other names, which somebody else has by now.
    for number in (roots + volumes..).take_while(|number| zone_disk(folder, place, *number).exists()) {
        let path = zone_disk(folder, place, number);
        std::fs::remove_file(&path).context(|| format!("cannot remove {}", path.display()))?;
    }
    let make = |number: usize, bytes| make_disk(&zone_disk(folder, place, number), bytes);
    let held = |path: PathBuf| {
        let file = File::open(&path).context(|| format!("cannot open {}", path.display()))?;
        let held = HeldFile::take(file).ok_or_else(|| Failure::new(format!("{} is in use", path.display())))?;
        Ok((path, held))
    };
    Ok(ZoneDisks {
        roots: (0..roots).map(|number| make(number, DISK_BYTES)).collect::<Result<_>>()?,
        volumes: (roots..roots + volumes).map(|number| held(make(number, VOLUME_BYTES)?)).collect::<Result<_>>()?,
    })
}

/// Returns whether a volume is the disk of this number in a place: the zone there has it.
pub fn has(folder: &Path, place: &str, disk: &Filled) -> bool {
    is_same(&zone_disk(folder, place, disk.number), &disk.path)
}

fn zone_disk(folder: &Path, place: &str, number: usize) -> PathBuf {
    folder.join(format!("{START}{place}-{}.{ENDING}", number + 1))
}

/// Copies the disks and volumes of a zone into the disks of its place, and makes the place's files those too, by their
/// second names. The zone that had them before keeps what was on them, in a file of its own. A disk that is the place's
/// already is left alone.
///
/// It may be interrupted at any step: the zone does not run, and a name leads to the disk before or after, which hold the same.
///
/// # Errors
/// When the host's disk is full, or the volumes in their folder are on another file system.
pub fn fill_zone(folder: &Path, volumes: &Path, place: &str, disks: &[Filled]) -> Result<()> {
    for number in (0..).take_while(|number| zone_disk(folder, place, *number).exists()) {
        let own = zone_disk(folder, place, number);
        let wanted = disks.iter().find(|disk| disk.number == number);
        if wanted.is_some_and(|wanted| is_same(&own, &wanted.path)) {
            continue;
        }
        part(volumes, &own)?;
        if let Some(wanted) = wanted {
            part(folder, &own)?;
            image::copy_for(&wanted.path, &own)?;
            name(&own, &wanted.path)?;
        }
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    inode(one).is_some_and(|own| inode(other) == Some(own))
}

fn disk(folder: &Path, place: usize) -> PathBuf {
    folder.join(format!("{START}{}.{ENDING}", place + 1))
}

/// Returns the disk that a tenant has in a machine's folder.
pub fn disk_of(folder: &Path, tenant: &str) -> PathBuf {
    folder.join(format!("{tenant}.ext2"))
}

/// Returns the size that a machine that runs sees of a tenant's disk, bytes.
///
/// # Errors
/// When it is not there.
pub fn capacity(folder: &Path, tenants_disk: &Path) -> Result<u64> {
    let mut places = (0..).map(|place| disk(folder, place)).take_while(|place| place.exists());
    if places.any(|place| is_same(&place, tenants_disk)) {
        return Ok(DISK_BYTES);
    }
    Ok(std::fs::metadata(tenants_disk).context(|| format!("cannot read {}", tenants_disk.display()))?.len())
}

/// Returns whether a file is the disk of a place: nothing is on it.
pub fn is_disk(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(START) && name.ends_with(ENDING)
}

/// Writes down which places a machine has, for commands that come later.
///
/// # Errors
/// When the host's disk is full.
pub fn write(folder: &Path, description: &Description) -> Result<()> {
    let text = serde_json::to_string(description.places()).context(|| "cannot write JSON".into())?;
    whole_file::write(&folder.join(FILE), &text)
}

/// Returns the vacant places of a machine that runs, each with the number of its disk, in the order in which the kernel gives them.
///
/// # Errors
/// When the machine's folder has no list of them.
pub fn vacant(folder: &Path, snapshot: &Snapshot) -> Result<Vec<(usize, Tenant)>> {
    let path = folder.join(FILE);
    let text = std::fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    let all: Vec<Tenant> =
        serde_json::from_str(&text).context(|| format!("{} is not what gyre run wrote", path.display()))?;
    let disks = disks(&all);
    let number = |place: &Tenant| disks.iter().position(|root| *root == place.root);
    let vacant = snapshot.vacant_places.iter().filter_map(|place| all.get(usize::from(*place)));
    Ok(vacant.filter_map(|place| Some((number(place)?, place.clone()))).collect())
}

/// Returns the disks of places, in their order.
fn disks(all: &[Tenant]) -> Vec<Root> {
    let mut disks = vec![];
    for place in all {
        if !disks.contains(&place.root) {
            disks.push(place.root);
        }
    }
    disks
}

/// Copies a tenant's disk into a place, and notes in the journal that the tenant is about to come. A tenant that had the place before keeps
/// its disk.
///
/// # Errors
/// When the host's disk is full.
pub fn fill(folder: &Path, place: usize, tenant: &str) -> Result<()> {
    let to = disk(folder, place);
    part(folder, &to)?;
    image::copy_for(&disk_of(folder, tenant), &to)?;
    let mut all = journal(folder);
    all.retain(|entry| entry.place != place);
    all.push(Entry { tenant: tenant.to_owned(), place, filled_ns: changed_ns(&to) });
    write_journal(folder, &all)
}

/// Gives a file of its own to each tenant and volume in a folder whose disk is that of a place, by its second name.
fn part(folder: &Path, place: &Path) -> Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    let own = std::fs::metadata(place).context(cannot)?;
    for entry in std::fs::read_dir(folder).context(cannot)? {
        let path = entry.context(cannot)?.path();
        let is_other_name =
            std::fs::metadata(&path).is_ok_and(|data| (data.dev(), data.ino()) == (own.dev(), own.ino()));
        if is_other_name && !is_disk(&path) {
            let copy = path.with_extension("new");
            let _ = std::fs::remove_file(&copy);
            image::copy_for(&path, &copy)?;
            std::fs::rename(&copy, &path).context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// Makes the places of tenants that have come their disks, and forgets those that have not.
///
/// Without figures the machine has ended: a place that was written to since had its tenant.
///
/// # Errors
/// When the folder cannot be written.
pub fn settle(folder: &Path, snapshot: Option<&Snapshot>) -> Result<()> {
    let all = journal(folder);
    for entry in &all {
        let has_come = match snapshot {
            Some(snapshot) => is_here(snapshot, &entry.tenant),
            None => changed_ns(&disk(folder, entry.place)) > entry.filled_ns,
        };
        if has_come {
            adopt(folder, entry)?;
        } else {
            ui::say(&format!("  {} was to be added and was not: the machine is as it was before", entry.tenant));
        }
    }
    if all.is_empty() { Ok(()) } else { write_journal(folder, &[]) }
}

/// Ends what [`fill`] began: the tenants have come.
///
/// # Errors
/// When the folder cannot be written.
pub fn adopt_all(folder: &Path) -> Result<()> {
    journal(folder).iter().try_for_each(|entry| adopt(folder, entry))?;
    write_journal(folder, &[])
}

/// Forgets what [`fill`] began: the tenants have not come.
///
/// # Errors
/// When the folder cannot be written.
pub fn forget(folder: &Path) -> Result<()> {
    write_journal(folder, &[])
}

fn is_here(snapshot: &Snapshot, tenant: &str) -> bool {
    let mut tenants = snapshot.activities.iter().filter(|one| one.kind == ActivityKind::Tenant);
    tenants.any(|one| one.name == tenant && !one.state.has_left())
}

fn adopt(folder: &Path, entry: &Entry) -> Result<()> {
    name(&disk(folder, entry.place), &disk_of(folder, &entry.tenant))
}

/// Gives a file a second name, whatever had that before.
fn name(from: &Path, to: &Path) -> Result<()> {
    let second = to.with_extension("new");
    let _ = std::fs::remove_file(&second);
    let named = std::fs::hard_link(from, &second).and_then(|()| std::fs::rename(&second, to));
    named.context(|| format!("cannot name {} {}", from.display(), to.display()))
}

fn changed_ns(path: &Path) -> i64 {
    std::fs::metadata(path)
        .map_or(0, |data| data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec()))
}

fn journal(folder: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(folder.join(JOURNAL)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn write_journal(folder: &Path, all: &[Entry]) -> Result<()> {
    let path = folder.join(JOURNAL);
    if all.is_empty() {
        let _ = std::fs::remove_file(&path);
        return Ok(());
    }
    let text = serde_json::to_string(all).context(|| "cannot write JSON".into())?;
    whole_file::write(&path, &text)
}

/// Says that there are too few places, and what to do.
pub fn too_few(wanted: usize, vacant: usize) -> Failure {
    let message = format!("the machine has {vacant} vacant places, and {wanted} would be taken");
    Failure::with_help(
        message,
        "remove a tenant, or write a larger `spare = N` at the head of its machine file: places are there from the next run on",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held_file;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(disk_of(folder.path(), "late"), "the image").unwrap();
        make_disk(&disk(folder.path(), 0), DISK_BYTES).unwrap();
        fill(folder.path(), 0, "late").unwrap();
        folder
    }

    fn text(path: &Path) -> String {
        String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
    }

    #[test]
    fn a_place_becomes_the_disk_of_who_has_come() {
        let folder = folder();
        adopt_all(folder.path()).unwrap();
        std::fs::write(disk(folder.path(), 0), "letters").unwrap();
        assert_eq!(text(&disk_of(folder.path(), "late")), "letters");
        make_disk(&disk(folder.path(), 0), DISK_BYTES).unwrap();
        assert_eq!(text(&disk_of(folder.path(), "late")), "letters", "the next run has new places");
    }

    #[test]
    fn a_disk_goes_to_the_next_and_who_had_it_keeps_what_was_on_it() {
        let folder = folder();
        adopt_all(folder.path()).unwrap();
        let opened = disk(folder.path(), 0);
        std::fs::write(&opened, "letters").unwrap();
        std::fs::write(disk_of(folder.path(), "next"), "another image").unwrap();
        let before = inode(&opened);
        fill(folder.path(), 0, "next").unwrap();
        adopt_all(folder.path()).unwrap();
        assert_eq!(text(&disk_of(folder.path(), "late")), "letters", "its own file now");
        assert_eq!(
            (text(&opened), text(&disk_of(folder.path(), "next"))),
            ("another image".into(), "another image".into())
        );
        assert_eq!(inode(&opened), before, "QEMU has the same file open");
        // It comes back to its old place: its own disk, from its own file.
        fill(folder.path(), 0, "late").unwrap();
        adopt_all(folder.path()).unwrap();
        assert_eq!((text(&opened), text(&disk_of(folder.path(), "next"))), ("letters".into(), "another image".into()));
    }

    /// The disks of a zone, from the first of its place on.
    fn filled(paths: &[&PathBuf]) -> Vec<Filled> {
        paths.iter().enumerate().map(|(number, path)| Filled { number, path: path.to_path_buf() }).collect()
    }

    #[test]
    fn the_disks_of_a_zone_become_those_of_its_place_and_stay_if_it_comes_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = make_zone_disks(folder.path(), "spare-1", 2, 0).unwrap().roots;
        assert!(place.iter().all(|disk| is_disk(disk)));
        let (tin, zinc) = (disk_of(folder.path(), "tin"), folder.path().join("zone-other.disk"));
        std::fs::write(&tin, "tin's image").unwrap();
        std::fs::write(&zinc, "zinc's image").unwrap();
        let opened = inode(&place[0]);
        let fill = |disks: &[&PathBuf]| fill_zone(folder.path(), folder.path(), "spare-1", &filled(disks)).unwrap();
        fill(&[&tin, &zinc]);
        assert_eq!((inode(&place[0]), inode(&tin), text(&place[1])), (opened, opened, "zinc's image".into()));
        std::fs::write(&place[0], "letters").unwrap();
        fill(&[&tin]);
        assert_eq!(text(&tin), "letters", "its own disk");
        // Another tenant in the first place: who had it keeps its letters, and so does a disk that several share.
        fill(&[&zinc]);
        assert_eq!((text(&tin), text(&place[0]), inode(&place[0])), ("letters".into(), "zinc's image".into(), opened));
        fill(&[&tin]);
        assert_eq!((text(&zinc), text(&place[0])), ("zinc's image".into(), "letters".into()));
    }

    #[test]
    fn a_volume_is_in_use_as_long_as_it_is_a_places_and_has_its_data_then() {
        let (folder, all) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in(".").unwrap());
        let (folder, volumes) = (folder.path(), all.path());
        // On one file system, as a project has them.
        let folder = &volumes.join(folder.file_name().unwrap());
        std::fs::create_dir(folder).unwrap();
        let place = make_zone_disks(folder, "spare-1", 1, 1).unwrap();
        let opened = &place.volumes[0].0;
        assert_eq!(std::fs::metadata(opened).unwrap().len(), VOLUME_BYTES);
        let (data, other) = (volumes.join("data.ext2"), volumes.join("other.ext2"));
        std::fs::write(&data, "letters").unwrap();
        std::fs::write(&other, "numbers").unwrap();
        let of = |path: &Path| Filled { number: 1, path: path.to_owned() };
        let fill = |disks: &[Filled]| fill_zone(folder, volumes, "spare-1", disks).unwrap();
        fill(&[of(&data)]);
        assert!(held_file::is_held(&data) && has(folder, "spare-1", &of(&data)) && !held_file::is_held(&other));
        std::fs::write(opened, "more letters").unwrap();
        fill(&[of(&other)]);
        assert_eq!((text(&data).as_str(), text(opened).as_str()), ("more letters", "numbers"));
        assert!(!held_file::is_held(&data) && held_file::is_held(&other));
        // A zone without volumes: the volume is nobody's.
        fill(&[]);
        assert!(!held_file::is_held(&other) && !has(folder, "spare-1", &of(&other)));
        assert_ne!(inode(&other), inode(opened));
        fill(&[of(&data)]);
        drop(place);
        assert!(!held_file::is_held(&data), "the run has ended");
        // The next run keeps no disk for a volume: it has nothing to do with the one that was there.
        let (place, before) = (make_zone_disks(folder, "spare-1", 1, 0).unwrap(), inode(&data));
        fill(&[]);
        assert_eq!((place.volumes.len(), inode(&data)), (0, before));
    }

    fn inode(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn what_was_interrupted_is_ended_as_the_machine_has_it() {
        let folder = folder();
        settle(folder.path(), Some(&Snapshot::default())).unwrap();
        assert!(journal(folder.path()).is_empty(), "it has not come");
        fill(folder.path(), 0, "late").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(disk(folder.path(), 0), "letters").unwrap();
        settle(folder.path(), None).unwrap();
        assert_eq!(text(&disk_of(folder.path(), "late")), "letters", "it was written to, so it had come");
        assert!(is_disk(&disk(folder.path(), 3)) && !is_disk(&disk_of(folder.path(), "late")));
    }
}
