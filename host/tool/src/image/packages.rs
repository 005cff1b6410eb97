//! Debian packages: resolved by apt as if nothing were installed, downloaded, unpacked.
//!
//! * apt answers for an empty machine, so a package comes with all that it depends on; recommended ones do not come.
//! * Files are kept and downloaded once, by one command at a time. All that a machine file excludes is downloaded, and not unpacked.
//! * [`entries`] and [`put`] unpack any archive, entry by entry, through [`Root`]: OCI layers and copies out of tenants go the same way.
//! * An entry keeps its mode, its age and, if this program is root, its owner.
//! * Devices are left out, because the machine has its own.
//! * A damaged archive is a failure; the tree that it was for is dropped.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::Stdio,
};

use tar::EntryType;

use super::{
    ages::MADE_S,
    root::{Rights, Root},
    tree::may_give_away,
};
use crate::{
    command,
    failure::{Context as _, Failure, Kind, Result},
    held_file::HeldFile,
    project::Project,
    ui::Step,
};

/// Downloads packages and what they depend on (but not recommend), and returns the files in a stable order.
///
/// # Errors
/// When apt does not know a package or cannot reach its archive.
pub fn fetch(project: &Project, packages: &[String], exclude: &[String], step: &Step) -> Result<Vec<PathBuf>> {
    let archives = project.cache("packages")?;
    std::fs::create_dir_all(archives.join("partial")).context(|| "cannot make the package cache".into())?;
    let _alone = alone(&archives, step)?;
    let status = archives.join("nothing-installed");
    std::fs::write(&status, "").context(|| "cannot write to the package cache".into())?;
    let wanted = resolve(&archives, &status, packages)?;
    step.detail(&format!("downloading {} packages", wanted.len()));
    let mut install = apt(&archives, &status)?;
    install.args(["install", "--download-only", "--yes"]).args(packages);
    command::output(&mut install).map_err(unreachable)?;
    let excluded = |name: &str| exclude.iter().any(|package| name.starts_with(&format!("{package}_")));
    let kept = wanted.into_iter().filter(|name| !excluded(name));
    Ok(kept.map(|name| archives.join(name)).collect())
}

/// Holds the package cache: of two that download one package at once, one would find its half of a file gone.
fn alone(archives: &Path, step: &Step) -> Result<HeldFile> {
    let path = archives.join("in-use");
    let open = || File::create(&path).context(|| "cannot write to the package cache".into());
    if let Some(held) = HeldFile::take(open()?) {
        return Ok(held);
    }
    step.detail("waiting for another command that downloads packages");
    HeldFile::wait(open()?).context(|| "cannot hold the package cache".into())
}

/// Asks apt for the names of the files that an installation from nothing would take.
fn resolve(archives: &Path, status: &Path, packages: &[String]) -> Result<Vec<String>> {
    // An empty folder makes apt list every file, also those that are downloaded already.
    let empty = archives.join("empty");
    std::fs::create_dir_all(empty.join("partial")).context(|| "cannot make the package cache".into())?;
    let mut list = apt(&empty, status)?;
    list.args(["install", "--print-uris", "--yes", "--quiet=2"]).args(packages);
    let text = command::output(&mut list).map_err(|failure| unknown(failure, packages))?;
    let name = |line: &str| {
        line.strip_prefix('\'')
            .and_then(|_| line.split_whitespace().nth(1))
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
    };
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort();
    Ok(names)
}

fn apt(archives: &Path, status: &Path) -> Result<std::process::Command> {
    let mut apt = command::program("apt-get")?;
    for option in [
        "Debug::NoLocking=1",
        "APT::Install-Recommends=0",
        "APT::Sandbox::User=root",
        "Dir::Cache::pkgcache=",
        "Dir::Cache::srcpkgcache=",
    ] {
        apt.args(["-o", option]);
    }
    apt.arg("-o").arg(format!("Dir::State::status={}", status.display()));
    apt.arg("-o").arg(format!("Dir::Cache::archives={}", archives.display()));
    apt.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    Ok(apt)
}

fn unknown(failure: Failure, packages: &[String]) -> Failure {
    let message = format!("apt cannot resolve {}", packages.join(", "));
    let help = format!("{}\nIf the names are right, run apt-get update.", advice(&failure));
    Failure::with_help(message, help).kind(Kind::Environment)
}

fn unreachable(failure: Failure) -> Failure {
    Failure::with_help("packages could not be downloaded", advice(&failure)).kind(Kind::Environment)
}

fn advice(failure: &Failure) -> String {
    failure.report.help().map_or_else(String::new, |help| help.to_string())
}

/// Unpacks one package into a tree whose /bin, /sbin and /lib are links into /usr, as Debian 12 has them. No entry gets out of the tree, by
/// its name or by any link that this package or another one brought.
///
/// # Errors
/// When the package is damaged, or names a path that climbs.
pub fn unpack(package: &Path, root: &Root) -> Result<()> {
    let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let failed = || Failure::new(format!("cannot unpack {name}"));
    let mut reading = command::program("dpkg-deb")?;
    reading.arg("--fsys-tarfile").arg(package).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut reader = reading.spawn().map_err(|_| failed())?;
    let stdout = reader.stdout.take().ok_or_else(failed)?;
    let unpacked = entries(&mut tar::Archive::new(stdout), root);
    let was_read = reader.wait().map_err(|_| failed())?;
    unpacked?;
    if was_read.success() { Ok(()) } else { Err(failed()) }
}

/// Puts all entries of an archive into the tree.
///
/// # Errors
/// When it is damaged, or names a path that climbs.
pub fn entries(archive: &mut tar::Archive<impl Read>, root: &Root) -> Result<()> {
    let damaged = || "an archive is damaged".to_owned();
    for entry in archive.entries().context(damaged)? {
        put(&mut entry.context(damaged)?, root)?;
    }
    Ok(())
}

/// Puts an entry of an archive into the tree.
///
/// # Errors
/// When it is damaged, or names a path that climbs.
pub fn put(entry: &mut tar::Entry<impl Read>, root: &Root) -> Result<()> {
    let damaged = || "a package is damaged".to_owned();
    let path = entry.path().context(damaged)?.into_owned();
    let target = entry.link_name().context(damaged)?.map(|target| target.into_owned());
    let header = entry.header();
    let number = |read: std::io::Result<u64>| read.ok().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let owner = (number(header.uid()), number(header.gid()));
    let rights = Rights {
        mode: header.mode().context(damaged)?,
        owner: may_give_away().then_some(owner),
        changed_s: header.mtime().ok().and_then(|seconds| i64::try_from(seconds).ok()).or(Some(MADE_S)),
    };
    let target = || target.clone().ok_or_else(|| Failure::new(format!("{}: {}", damaged(), path.display())));
    match header.entry_type() {
        EntryType::Directory => root.folder(&path, rights),
        EntryType::Symlink => root.link(&path, &target()?, rights.owner),
        EntryType::Link => root.second_name(&path, &target()?),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => root.file(&path, rights, entry),
        // Devices are the machine's own, and no package of Debian brings one (policy 10.6).
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(vec![]);
        for (kind, path, target) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.set_size(if *kind == EntryType::Regular { 3 } else { 0 });
            // The name as it is written, also if it climbs: the builder's own functions refuse that.
            let name = &mut header.as_old_mut().name;
            name[..path.len()].copy_from_slice(path.as_bytes());
            let link = &mut header.as_old_mut().linkname;
            link[..target.len()].copy_from_slice(target.as_bytes());
            header.set_cksum();
            let contents: &[u8] = if *kind == EntryType::Regular { b"new" } else { b"" };
            builder.append(&header, contents).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn unpacked(list: &[(EntryType, &str, &str)], root: &Root) -> Result<()> {
        entries(&mut tar::Archive::new(&archive(list)[..]), root)
    }

    #[test]
    fn a_package_with_links_out_of_the_tree_writes_inside_of_it() {
        let host = tempfile::tempdir().unwrap();
        std::fs::write(host.path().join("kept"), "old").unwrap();
        let out = host.path().to_str().unwrap();
        let tree = tempfile::tempdir().unwrap();
        let root = Root::open(tree.path()).unwrap();
        let file = EntryType::Regular;
        let list = [
            (EntryType::Symlink, "./out", out),
            (file, "./out/kept", ""),
            (EntryType::Symlink, "./up", "../../../../../.."),
            (file, "./up/climbed", ""),
            (EntryType::Symlink, "./file", &format!("{out}/kept")),
            (file, "./file", ""),
            (EntryType::Link, "./second", "./out/kept"),
            (EntryType::Directory, "./out/", ""),
        ];
        unpacked(&list, &root).unwrap();
        assert_eq!(std::fs::read_to_string(host.path().join("kept")).unwrap(), "old");
        assert_eq!(std::fs::read_dir(host.path()).unwrap().count(), 1);
        assert_eq!(root.read(&format!("{out}/kept")).unwrap(), b"new");
        assert_eq!((root.read("climbed").unwrap(), root.read("file").unwrap()), (b"new".to_vec(), b"new".to_vec()));
        assert_eq!(root.read("second").unwrap(), b"new");
        assert!(tree.path().join("out").symlink_metadata().unwrap().is_symlink(), "a link to a folder stays");
        for path in ["../climbed", "a/../../climbed"] {
            assert!(unpacked(&[(file, path, "")], &root).is_err(), "{path}");
        }
        assert!(unpacked(&[(EntryType::Link, "x", "../../etc/passwd")], &root).is_err());
    }
}
