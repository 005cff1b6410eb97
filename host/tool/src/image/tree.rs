//! The folder that becomes an image.

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use gyre_machine_file::{Image, Scripts};
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};

use super::{
    install, packages,
    root::{Rights, Root},
    system_files,
};
use crate::{
    failure::{Context as _, Result},
    namespace,
    project::Project,
    stop,
    ui::Step,
};

/// Fills a new folder with what an image describes.
///
/// # Errors
/// When something cannot be had or written, or the user interrupts.
pub fn fill(project: &Project, root: &Root, image: &Image, step: &Step) -> Result<()> {
    match image.is_oci().then_some(()) {
        // It has its own /bin; whatever lacks is made.
        Some(_) => system_files::missing_folders(root)?,
        None => system_files::folders(root)?,
    }
    if !image.packages.is_empty() {
        step.detail("resolving packages");
        match image.scripts {
            Scripts::Left => unpack(project, root, &image.packages, &image.exclude, step)?,
            Scripts::Run => {
                let unpacked = install::unpack(project, root, &image.packages, &image.exclude, step)?;
                own_files(root, image, step)?;
                install::run(root, &unpacked, step)?;
            }
        }
    }
    system_files::files(root)?;
    if image.scripts == Scripts::Left {
        system_files::loader_cache(root)?;
    }
    own_files(root, image, step)
}

/// Puts what the machine file names into the image.
fn own_files(root: &Root, image: &Image, step: &Step) -> Result<()> {
    if let Some(directory) = &image.directory {
        step.detail(&format!("copying {}", directory.display()));
        overlay(directory, root, Path::new("/"))?;
    }
    for (to, from) in &image.files {
        overlay(from, root, Path::new(to))?;
    }
    for (to, size) in &image.generate {
        root.file(Path::new(to), Rights::made(0o644), &mut &text(*size)[..])?;
    }
    Ok(())
}

/// Downloads packages and what they depend on, and unpacks them.
///
/// # Errors
/// When packages cannot be had, or the user interrupts.
pub fn unpack(project: &Project, root: &Root, names: &[String], exclude: &[String], step: &Step) -> Result<()> {
    for package in packages::fetch(project, names, exclude, step)? {
        stop::check()?;
        step.detail(&format!("unpacking {}", package.file_name().unwrap_or_default().to_string_lossy()));
        packages::unpack(&package, root)?;
    }
    Ok(())
}

/// Returns whether files can be given to other users: root can. Files of other makers belong to the maker.
pub fn may_give_away() -> bool {
    nix::unistd::geteuid().is_root() && std::env::var_os(namespace::INSIDE).is_none()
}

/// Copies a file or a folder of the host to a path of the image. Links are copied as they are; folders that are there stay.
fn overlay(from: &Path, root: &Root, to: &Path) -> Result<()> {
    // A path that is named may be a link. The contents of a folder that is named are copied as they are.
    let data = std::fs::metadata(from).context(|| format!("cannot read {}", from.display()))?;
    let mut seen: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
    put(from, &data, root, to, &mut seen)?;
    if !data.is_dir() {
        return Ok(());
    }
    walk(from, &mut |path, data| {
        stop::check()?;
        let to = to.join(path.strip_prefix(from).unwrap_or(path));
        put(path, data, root, &to, &mut seen)
    })
}

/// Copies one thing; `seen` are the paths in the image of files with several names.
fn put(
    from: &Path,
    data: &std::fs::Metadata,
    root: &Root,
    to: &Path,
    seen: &mut BTreeMap<(u64, u64), PathBuf>,
) -> Result<()> {
    let reading = || format!("cannot read {}", from.display());
    let owner = may_give_away().then_some((data.uid(), data.gid()));
    let rights = Rights { mode: data.mode() & 0o7777, owner, changed_s: Some(data.mtime()) };
    let kind = data.file_type();
    match () {
        () if kind.is_dir() => root.folder(to, rights),
        () if kind.is_symlink() => root.link(to, &std::fs::read_link(from).context(reading)?, owner),
        () if kind.is_file() => {
            let identity = (data.dev(), data.ino());
            if let Some(first) = seen.get(&identity) {
                return root.second_name(to, first);
            }
            if data.nlink() > 1 {
                seen.insert(identity, to.to_owned());
            }
            root.file(to, rights, &mut File::open(from).context(reading)?)
        }
        // A socket is of its program, devices are of the host: the machine has its own.
        () if kind.is_fifo() => root.special(to, FileType::Fifo, rights, 0),
        () => Ok(()),
    }
}

/// Returns text of a given length: numbered lines, so that a wrong byte in a download can be located.
fn text(size: u64) -> Vec<u8> {
    let line = |number: u64| format!("{number:015}\n").into_bytes();
    let mut bytes: Vec<u8> = (0..=size / 16).flat_map(line).collect();
    bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    bytes
}

/// Sums what the files of a tree take in an ext2 file system with blocks of 4 KiB, inodes included.
///
/// # Errors
/// When a folder cannot be read.
pub fn bytes(tree: &Path) -> Result<u64> {
    let mut sum = 0;
    walk(tree, &mut |_, data| {
        sum += 256 + data.len().next_multiple_of(super::BLOCK_BYTES);
        Ok(())
    })?;
    Ok(sum)
}

/// Hashes a file, or names, permissions, links and contents of a folder.
///
/// # Errors
/// When something cannot be read.
pub fn hash(path: &Path, hash: &mut Sha256) -> Result<()> {
    if !path.is_dir() {
        hash.update(std::fs::read(path).context(|| format!("cannot read {}", path.display()))?);
        return Ok(());
    }
    walk(path, &mut |path, data| {
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update(data.permissions().mode().to_le_bytes());
        let reading = || format!("cannot read {}", path.display());
        match () {
            () if data.is_file() => hash.update(std::fs::read(path).context(reading)?),
            () if data.is_symlink() => hash.update(std::fs::read_link(path).context(reading)?.as_os_str().as_bytes()),
            () => {}
        }
        Ok(())
    })
}

fn walk(folder: &Path, visit: &mut dyn FnMut(&Path, &std::fs::Metadata) -> Result<()>) -> Result<()> {
    let reading = || format!("cannot read the folder {}", folder.display());
    let mut entries: Vec<PathBuf> = vec![];
    for entry in std::fs::read_dir(folder).context(reading)? {
        entries.push(entry.context(reading)?.path());
    }
    entries.sort();
    for path in entries {
        let data = std::fs::symlink_metadata(&path).context(|| format!("cannot read {}", path.display()))?;
        visit(&path, &data)?;
        if data.is_dir() {
            walk(&path, visit)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_text_has_exactly_the_size_asked_for() {
        for size in [0, 1, 15, 16, 17, 4096, 100_000] {
            assert_eq!(text(size).len() as u64, size);
        }
        assert!(text(40).starts_with(b"000000000000000\n000000000000001\n"));
    }

    #[test]
    fn a_folder_is_copied_with_its_links_and_names_and_keeps_links_of_the_image_to_folders() {
        let host = tempfile::tempdir().unwrap();
        let from = host.path().join("from");
        std::fs::create_dir_all(from.join("bin/deep")).unwrap();
        std::fs::write(from.join("bin/one"), "1").unwrap();
        std::fs::hard_link(from.join("bin/one"), from.join("bin/two")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("bin/link")).unwrap();
        std::fs::create_dir(host.path().join("tree")).unwrap();
        let root = Root::open(&host.path().join("tree")).unwrap();
        system_files::folders(&root).unwrap();
        overlay(&from, &root, Path::new("/")).unwrap();
        let at = |path: &str| root.path().join(path).symlink_metadata().unwrap();
        assert!(at("bin").is_symlink() && at("usr/bin/deep").is_dir() && at("usr/bin/link").is_symlink());
        assert_eq!((at("usr/bin/one").ino(), at("usr/bin/one").nlink()), (at("usr/bin/two").ino(), 2));
        overlay(&from.join("bin/one"), &root, Path::new("/srv/file")).unwrap();
        overlay(&from.join("bin"), &root, Path::new("/srv/folder")).unwrap();
        assert_eq!(
            (root.read("srv/file").unwrap(), root.read("srv/folder/two").unwrap()),
            (b"1".to_vec(), b"1".to_vec())
        );
    }
}
