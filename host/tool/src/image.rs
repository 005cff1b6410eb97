//! Root file systems: from Debian packages and host files to an ext2 image.
//!
//! Packages are downloaded with what they depend on and unpacked. Their maintainer scripts run if the machine file wants that ([`install`]);
//! otherwise the few files that scripts would make are made here. The result is kept under a hash of everything that went in. Everything is put into the
//! tree by [`Root`], so that no link leads out of it.
//!
//! * [`build`] makes an image once; [`identity`] names it without making it, which disks that stay are compared by.
//! * Equal inputs make equal images, byte for byte: names come from the hash, ages from [`ages`].
//! * [`oci`] unpacks images as they come, and [`settings`] is what they say of their program.

mod ages;
mod install;
pub mod oci;
mod packages;
pub mod root;
mod system_files;
mod tree;
mod workshop;

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gyre_machine_file::{Image, units};
use sha2::{Digest as _, Sha256};

use crate::{
    command,
    failure::{Context as _, Failure, Result},
    project::Project,
    stop,
    ui::Step,
};
pub use oci::Settings;
use root::Root;
use workshop::Workshop;

/// Changes when the way images are made changes, so that old ones are not taken for new ones.
const FORMAT: &str = "gyre image 5";
/// The most that an OCI image may hold if the file gives no `size`.
const OCI_BYTES_MAX: u64 = 16 << 30;
const SIZE_BYTES_MIN: u64 = 32 << 20;
const BLOCK_BYTES: u64 = 4096;

/// Makes an image, or finds the one made before, and returns its path.
///
/// # Errors
/// When packages cannot be had, a file is missing, or `mke2fs` refuses.
pub fn build(project: &Project, name: &str, image: &Image) -> Result<PathBuf> {
    if let Some(ready) = &image.ready {
        check_ready(ready)?;
        return Ok(ready.clone());
    }
    let path = place(project, name, image)?;
    if path.exists() {
        return Ok(path);
    }
    let step = Step::start(format!("making image {name}"));
    let workshop = Workshop::open(&project.cache("images")?)?;
    let root = Root::make(&workshop.at("tree"))?;
    if let Some(from) = &image.oci {
        step.detail(&format!("unpacking {}", from.display()));
        std::fs::create_dir(workshop.at("layers")).context(|| "cannot write to the workshop".into())?;
        let settings = oci::fill(from, &root, &workshop.at("layers"), image.size_bytes.unwrap_or(OCI_BYTES_MAX))?;
        let text = serde_json::to_string(&settings).context(|| "cannot write JSON".into())?;
        let (unfinished, beside) = (workshop.at("settings"), oci::settings_of(&path));
        let written = std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, &beside));
        written.context(|| format!("cannot write {}", beside.display()))?;
    }
    tree::fill(project, &root, image, &step)?;
    stop::check()?;
    let unfinished = workshop.at("image");
    make_file_system(&unfinished, root.path(), name, image)?;
    ages::settle(&unfinished)?;
    stop::check()?;
    std::fs::rename(&unfinished, &path).context(|| format!("cannot write {}", path.display()))?;
    drop(workshop);
    step.done_with(&units::show_bytes(size_of(&path)));
    Ok(path)
}

/// Returns what tells an image from all others: the hash of all that goes in, or path, size and age of a ready one. It is not made for that.
///
/// # Errors
/// When a file that goes in cannot be read.
pub fn identity(project: &Project, name: &str, image: &Image) -> Result<String> {
    let Some(ready) = &image.ready else {
        return Ok(place(project, name, image)?.file_name().unwrap_or_default().to_string_lossy().into_owned());
    };
    let data = std::fs::metadata(ready).context(|| format!("cannot open the image {}", ready.display()))?;
    Ok(format!("{} {} {}.{}", ready.display(), data.len(), data.mtime(), data.mtime_nsec()))
}

/// Returns what an OCI image says of its program; none for other images. It is made if it is not there.
///
/// # Errors
/// As [`build`].
pub fn settings(project: &Project, name: &str, image: &Image) -> Result<Option<Settings>> {
    if image.oci.is_none() {
        return Ok(None);
    }
    let beside = oci::settings_of(&build(project, name, image)?);
    let text = std::fs::read_to_string(&beside).context(|| format!("cannot read {}", beside.display()))?;
    serde_json::from_str(&text).map(Some).context(|| format!("cannot read {}", beside.display()))
}

/// Returns whether an image has been made before.
pub fn is_made(project: &Project, name: &str, image: &Image) -> bool {
    place(project, name, image).is_ok_and(|path| path.exists())
}

fn place(project: &Project, name: &str, image: &Image) -> Result<PathBuf> {
    Ok(project.cache("images")?.join(format!("{name}-{}.ext2", key(image)?)))
}

/// Downloads packages and what they depend on, except what is excluded, and unpacks them into a folder in place of what was there.
///
/// # Errors
/// When packages cannot be had, or the user interrupts.
pub fn unpack_packages(project: &Project, tree: &Path, packages: &[&str], exclude: &[&str], step: &Step) -> Result<()> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let workshop = Workshop::open(tree.parent().unwrap_or(tree))?;
    let root = Root::make(&workshop.at("tree"))?;
    system_files::folders(&root)?;
    tree::unpack(project, &root, &owned(packages), &owned(exclude), step)?;
    if tree.exists() {
        std::fs::remove_dir_all(tree).context(|| format!("cannot remove {}", tree.display()))?;
    }
    std::fs::rename(root.path(), tree).context(|| format!("cannot write {}", tree.display()))
}

/// Unpacks an archive whose maker is not trusted: nothing of it gets out of the tree, and devices are left out.
///
/// # Errors
/// When it is damaged, or names a path that climbs.
pub fn unpack_archive(archive: impl std::io::Read, root: &Root) -> Result<()> {
    packages::entries(&mut tar::Archive::new(archive), root)
}

/// Copies an image for one tenant to write to; unwritten space stays unwritten.
///
/// # Errors
/// When the disk is full or the folder cannot be written.
pub fn copy_for(image: &Path, to: &Path) -> Result<()> {
    let mut copy = command::program("cp")?;
    command::output(copy.args(["--reflink=auto", "--sparse=always"]).arg(image).arg(to)).map(drop)
}

/// Checks that a ready image is an ext2 file system: magic 0xEF53 at byte 56 of the superblock at byte 1024.
fn check_ready(path: &Path) -> Result<()> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut magic = [0; 2];
    let mut file = std::fs::File::open(path).context(|| format!("cannot open the image {}", path.display()))?;
    let read = file.seek(SeekFrom::Start(1024 + 56)).and_then(|_| file.read_exact(&mut magic));
    if read.is_err() || magic != [0x53, 0xef] {
        let help = "make it with mke2fs -t ext2, or name packages or a directory instead of `ready`";
        return Err(Failure::with_help(format!("{} is not an ext2 image", path.display()), help));
    }
    Ok(())
}

fn make_file_system(path: &Path, tree: &Path, name: &str, image: &Image) -> Result<()> {
    let held = tree::bytes(tree)?;
    let size = image.size_bytes.unwrap_or((held + held / 3 + (8 << 20)).max(SIZE_BYTES_MIN));
    file_system(path, tree, &format!("image {name}"), size, Identity::of(&key(image)?))
}

/// The identity of a file system (UUID): the seed of its folders' hashes, too.
pub enum Identity {
    /// One that no other file system has.
    New,
    /// That of all file systems of equal contents, in its usual form.
    Of(String),
}

impl Identity {
    /// Returns that of equal contents (RFC 9562, version 8: the first bytes of a hash).
    fn of(key: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut number: [u8; 16] = std::array::from_fn(|at| digest[at]);
        (number[6], number[8]) = (number[6] & 0x0f | 0x80, number[8] & 0x3f | 0x80);
        let digits: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
        let [first, second, third, fourth, fifth] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        Self::Of(format!("{first}-{second}-{third}-{fourth}-{fifth}"))
    }
}

/// Makes an ext2 file system of so many bytes that holds what a folder does; `whose` begins a message and ends its label.
///
/// # Errors
/// When the folder cannot be read or does not fit, or `mke2fs` refuses.
pub fn file_system(path: &Path, tree: &Path, whose: &str, size: u64, identity: Identity) -> Result<()> {
    let held = tree::bytes(tree)?;
    let name = whose.split(' ').next_back().unwrap_or_default();
    if size < held + held / 20 + (2 << 20) {
        let message =
            format!("{whose} holds {} and cannot fit in {}", units::show_bytes(held), units::show_bytes(size));
        return Err(Failure::with_help(message, "raise `size`, or leave it out"));
    }
    // Only what ext2 had in 1993 plus file types and sparse superblocks: the kernel's ext2 refuses what it does not know.
    let mut make = command::program("mke2fs")?;
    make.args([
        "-q",
        "-F",
        "-t",
        "ext2",
        "-b",
        "4096",
        "-I",
        "256",
        "-m",
        "0",
        "-O",
        "none,filetype,sparse_super,large_file",
    ]);
    let mut extended = String::from("root_owner=0:0");
    if let Identity::Of(uuid) = identity {
        make.args(["-U", &uuid.to_string()]);
        extended.push_str(&format!(",hash_seed={uuid}"));
    }
    make.args(["-L", &name[..name.len().min(16)], "-E", &extended]).arg("-d").arg(tree).arg(path);
    make.arg((size / BLOCK_BYTES).to_string()).env("E2FSPROGS_FAKE_TIME", ages::MADE_S.to_string());
    command::output(&mut make).map(drop)
}

/// Returns a hash of everything that goes in: the description, the contents of host files, the state of the package lists.
fn key(image: &Image) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(FORMAT);
    // Images in which no script runs keep the names that they had before there were scripts.
    hash.update(format!("{image:?}").replace("scripts: Left, ", ""));
    for from in image.files.values() {
        tree::hash(from, &mut hash)?;
    }
    if let Some(oci) = &image.oci {
        tree::hash(oci, &mut hash)?;
    }
    if let Some(directory) = &image.directory {
        tree::hash(directory, &mut hash)?;
    }
    let digest = hash.finalize();
    Ok(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Sums what the files of a folder hold, bytes.
///
/// # Errors
/// When it cannot be read.
pub fn bytes_of_folder(folder: &Path) -> Result<u64> {
    tree::bytes(folder)
}

fn size_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_made_once_it_lies_where_it_would_be_made() {
        let root = tempfile::tempdir().unwrap();
        let project = Project::of_tree(root.path());
        let image = Image { packages: vec!["nginx".into()], ..Image::default() };
        assert!(!is_made(&project, "web", &image));
        std::fs::write(place(&project, "web", &image).unwrap(), "").unwrap();
        assert!(is_made(&project, "web", &image));
        let other = Image { packages: vec!["ngimx".into()], ..Image::default() };
        assert!(!is_made(&project, "web", &other));
    }

    #[test]
    fn equal_inputs_make_equal_images_whenever_they_are_made() {
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("from");
        std::fs::create_dir_all(from.join("deep/er")).unwrap();
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
        for name in ["one", "deep/two", "deep/er/three"] {
            std::fs::write(from.join(name), name).unwrap();
            std::fs::File::options().write(true).open(from.join(name)).unwrap().set_modified(old).unwrap();
        }
        std::os::unix::fs::symlink("one", from.join("link")).unwrap();
        // A file may be as young as the image, or younger by the host's clock.
        let soon = std::time::SystemTime::now() + std::time::Duration::from_millis(2500);
        std::fs::File::create(from.join("young")).unwrap().set_modified(soon).unwrap();
        let generate = [("/made".to_owned(), 5000)].into_iter().collect();
        let image = Image { directory: Some(from), generate, ..Image::default() };
        let make = |place: &str| {
            std::thread::sleep(std::time::Duration::from_millis(1100));
            let project = Project::of_tree(&root.path().join(place));
            let path = build(&project, "web", &image).unwrap();
            let stat = |path: &Path, what: &str| {
                command::output(command::program("debugfs").unwrap().args(["-R", &format!("stat {what}")]).arg(path))
                    .unwrap()
            };
            assert_eq!(stat(&path, "/one").matches("time: 0x5f5e1000:00000000").count(), 4, "{}", stat(&path, "/one"));
            assert_eq!(
                stat(&path, "/deep").matches("time: 0x67748580:00000000").count(),
                4,
                "{}",
                stat(&path, "/deep")
            );
            std::fs::read(path).unwrap()
        };
        assert!(make("first") == make("second"), "the two differ");
        let name = |key| match Identity::of(key) {
            Identity::Of(name) => name,
            Identity::New => String::new(),
        };
        assert_ne!(name("a"), name("b"));
        let parts: Vec<usize> = name("a").split('-').map(str::len).collect();
        assert_eq!((parts, &name("a")[14..15]), (vec![8, 4, 4, 4, 12], "8"));
    }
}
