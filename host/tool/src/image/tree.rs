//! The folder that becomes an image.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use gyre_config::file::Image;
use sha2::{Digest as _, Sha256};

use super::{packages, system_files};
use crate::{
    command,
    failure::{Context as _, Failure, Result},
    project::Project,
    ui::Step,
};

/// Fills a new folder with what an image describes.
///
/// # Errors
/// When something cannot be had or written.
pub fn fill(project: &Project, tree: &Path, image: &Image, step: &Step) -> Result<()> {
    system_files::folders(tree)?;
    if !image.packages.is_empty() {
        step.detail("resolving packages");
        for package in packages::fetch(project, &image.packages, &image.exclude, step)? {
            step.detail(&format!("unpacking {}", package.file_name().unwrap_or_default().to_string_lossy()));
            packages::unpack(&package, tree)?;
        }
    }
    system_files::files(tree)?;
    if let Some(directory) = &image.directory {
        let mut copy = command::program("cp")?;
        command::output(copy.args(["--archive", "--no-target-directory"]).arg(directory).arg(tree))?;
    }
    for (to, from) in &image.files {
        let to = inside(tree, to)?;
        std::fs::copy(from, &to).context(|| format!("cannot copy {} into the image", from.display()))?;
    }
    for (to, size) in &image.generate {
        let path = inside(tree, to)?;
        std::fs::write(&path, text(*size)).context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the host's path of an absolute path in the image, with its folder made; any file already there is removed first,
/// so that a link out of the tree is replaced and not followed.
fn inside(tree: &Path, path: &str) -> Result<PathBuf> {
    let relative = path.trim_start_matches('/');
    let full = tree.join(relative);
    if relative.split('/').any(|part| part == "..") || full == tree {
        return Err(Failure::new(format!("`{path}` is not a path of a file in an image")));
    }
    if let Some(folder) = full.parent() {
        std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    }
    let _ = std::fs::remove_file(&full);
    Ok(full)
}

/// Text of a given length: numbered lines, so that a wrong byte in a download can be located.
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

/// Hashes names, permissions and contents of a tree.
///
/// # Errors
/// When something cannot be read.
pub fn hash(tree: &Path, hash: &mut Sha256) -> Result<()> {
    walk(tree, &mut |path, data| {
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update(data.permissions().mode().to_le_bytes());
        if data.is_file() {
            hash.update(std::fs::read(path).context(|| format!("cannot read {}", path.display()))?);
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
    fn a_file_replaces_a_link_that_leads_out_of_the_tree() {
        let tree = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(outside.path(), tree.path().join("link")).unwrap();
        std::fs::write(inside(tree.path(), "/link").unwrap(), "new").unwrap();
        assert_eq!(std::fs::read(outside.path()).unwrap(), b"");
        assert!(inside(tree.path(), "/../x").is_err());
        assert!(inside(tree.path(), "/").is_err());
    }
}
