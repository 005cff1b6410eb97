//! Volumes: file systems of a tenant beside its root, each on a disk of its own that outlives machines.

use std::{collections::BTreeMap, ops::Range, path::PathBuf};

use gyre_contract::boot::{Root, Volume};

use super::{
    Problem,
    check::{self, Checker},
    raw, units,
};

/// The size of a volume whose `size` is not given, bytes.
const BYTES_USUAL: u64 = 1 << 30;
/// Sizes that a volume may have, bytes: below that little is left of it, above that the group descriptors no longer fit.
const BYTES: core::ops::RangeInclusive<u64> = (4 << 20)..=(1 << 40);

/// A volume, as the host knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostVolume {
    /// Its name among all volumes of the host.
    pub name: String,
    /// The directory that it covers.
    pub path: String,
    /// Its size, bytes; `None` keeps that of one that is there.
    pub size_bytes: Option<u64>,
    /// The folder whose files it begins with.
    pub from: Option<PathBuf>,
}

impl HostVolume {
    /// Returns the size that it is made with, bytes.
    #[must_use]
    pub fn bytes_at_first(&self) -> u64 {
        self.size_bytes.unwrap_or(BYTES_USUAL)
    }
}

/// Reads a volume.
pub(super) fn read(checker: &mut Checker, raw: &raw::Volume) -> Option<HostVolume> {
    let name = raw.name.get_ref();
    if !check::is_file_name(name) {
        let message = format!("a volume cannot be named `{name}`");
        checker.wrong(Problem::new(raw.name.span(), message, check::NAME_EXPECTED));
        return None;
    }
    check::absolute(checker, &raw.path);
    if covers_system(raw.path.get_ref()) {
        let message = format!("a volume cannot cover {}", raw.path.get_ref());
        checker.wrong(Problem::new(raw.path.span(), message, "the machine has its own files there"));
    }
    let size_bytes = raw.size.as_ref().map(|text| checker.unit(Some(text), BYTES_USUAL, units::bytes));
    if let (Some(text), Some(bytes)) = (&raw.size, size_bytes.filter(|bytes| !BYTES.contains(bytes))) {
        let message = format!("a volume cannot have {}", units::show_bytes(bytes));
        checker.wrong(Problem::new(text.span(), message, "expected 4 MiB to 1 TiB"));
    }
    let from = raw.from.as_ref().map(|path| folder(checker, path));
    Some(HostVolume { name: name.clone(), path: raw.path.get_ref().clone(), size_bytes, from })
}

/// Returns whether a path is the root, or below a folder whose files the kernel makes.
fn covers_system(path: &str) -> bool {
    let first = path.split('/').find(|part| !part.is_empty());
    first.is_none_or(|first| ["dev", "proc", "sys"].contains(&first))
}

fn folder(checker: &mut Checker, path: &raw::At<String>) -> PathBuf {
    let full = checker.host_path(path);
    if full.is_file() {
        let message = format!("{} is a file", full.display());
        checker.wrong(Problem::new(path.span(), message, "expected a folder, whose files the volume begins with"));
    }
    full
}

/// Reports volumes that two tenants have, and directories that two volumes of a tenant cover.
pub(super) fn differ(checker: &mut Checker, all: &[raw::Tenant]) {
    let mut seen: BTreeMap<&str, (Range<usize>, &str)> = BTreeMap::new();
    for tenant in all {
        let mut paths: BTreeMap<&str, Range<usize>> = BTreeMap::new();
        for volume in &tenant.volume {
            let name = volume.name.get_ref().as_str();
            let whose = tenant.name.get_ref().as_str();
            if let Some((first, owner)) = seen.insert(name, (volume.name.span(), whose)) {
                let problem =
                    Problem::new(volume.name.span(), format!("the volume `{name}` is used twice"), "the second");
                checker.wrong(problem.and(first, format!("the first, by {owner}")));
            }
            let path = volume.path.get_ref().trim_end_matches('/');
            if let Some(first) = paths.insert(path, volume.path.span()) {
                let problem = Problem::new(volume.path.span(), format!("two volumes cover {path}"), "the second");
                checker.wrong(problem.and(first, "the first"));
            }
        }
    }
}

/// Hands out the disks behind those of the tenants' roots.
pub(super) struct Disks(u16);

impl Disks {
    /// Begins behind the disks of so many tenants, or behind the one that they share.
    pub(super) fn behind(tenants: usize, shared: Option<&raw::Disk>) -> Self {
        let roots = if shared.is_some() { tenants.min(1) } else { tenants };
        Self(u16::try_from(roots).unwrap_or(u16::MAX))
    }

    /// Returns a tenant's volumes for its kernel.
    pub(super) fn of(&mut self, volumes: &[HostVolume]) -> Vec<Volume> {
        let place = |volume: &HostVolume| {
            let disk = self.0;
            self.0 = disk.saturating_add(1);
            Volume { path: volume.path.clone(), root: Root::Disk(disk) }
        };
        volumes.iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::parse;

    fn file(volumes: &str) -> String {
        format!(
            "[image.a]\n[[tenant]]\nname = \"one\"\nshare = 1\nimage = \"a\"\n[[tenant]]\nname = \"two\"\nshare = 1\nimage = \"a\"\n{volumes}"
        )
    }

    fn refused(volumes: &str) -> String {
        let error = parse(Path::new("m.toml"), &file(volumes)).unwrap_err();
        error.problems().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn volumes_are_disks_behind_those_of_the_roots() {
        let text = "[[tenant.volume]]\nname = \"data\"\npath = \"/var/lib/data\"\nsize = \"64 MiB\"\n\
                    [[tenant.volume]]\nname = \"more\"\npath = \"/more\"\n";
        let read = parse(Path::new("m.toml"), &file(text)).unwrap();
        let two = read.machine.tenants.last().unwrap();
        let places: Vec<_> = two.volumes.iter().map(|one| (one.path.as_str(), one.root)).collect();
        assert_eq!(places, [("/var/lib/data", Root::Disk(2)), ("/more", Root::Disk(3))]);
        assert_eq!(read.devices.disks.len(), 4);
        assert_eq!(read.tenants[1].volumes[0].size_bytes, Some(64 << 20));
        assert_eq!(read.tenants[1].volumes[1].bytes_at_first(), BYTES_USUAL);
        let shared = parse(Path::new("m.toml"), &format!("[disk]\n{}", file(text))).unwrap();
        assert_eq!(shared.machine.tenants.last().unwrap().volumes[0].root, Root::Disk(1));
        assert_eq!(shared.devices.disks.len(), 3);
    }

    #[test]
    fn what_cannot_be_a_volume_is_refused_with_its_place() {
        let one = |words: &str| refused(&format!("[[tenant.volume]]\n{words}\n"));
        assert!(one("name = \"../x\"\npath = \"/x\"").contains("cannot be named"));
        assert!(one("name = \"x\"\npath = \"/proc/x\"").contains("cannot cover"));
        assert!(one("name = \"x\"\npath = \"/\"").contains("cannot cover"));
        assert!(one("name = \"x\"\npath = \"x\"").contains("absolute"));
        assert!(one("name = \"x\"\npath = \"/x\"\nsize = \"1 KiB\"").contains("cannot have"));
        assert!(one("name = \"x\"\npath = \"/x\"\nfrom = \"nowhere\"").contains("does not exist"));
        let twice = "[[tenant.volume]]\nname = \"x\"\npath = \"/x\"\n[[tenant.volume]]\nname = \"x\"\npath = \"/x/\"\n";
        assert!(refused(twice).contains("used twice") && refused(twice).contains("two volumes cover"));
    }
}
