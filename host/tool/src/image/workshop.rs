//! A folder in which something is made, and from which it is moved to its place when it is whole. A half-made thing goes with the folder: at an
//! error or an interruption at once, after a crash when the next thing is made.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use crate::{
    failure::{Context as _, Result},
    held_file,
};

/// How the names of such folders begin.
const PREFIX: &str = ".making-";

/// A folder for one thing; dropped, it is removed.
pub struct Workshop {
    folder: PathBuf,
    /// The lock that is held while the workshop is in use.
    _lock: File,
}

impl Workshop {
    /// Opens a new one below a folder, and removes those that are no longer in use.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn open(below: &Path) -> Result<Self> {
        let cannot = || format!("cannot write to {}", below.display());
        // So one that is being opened is not mistaken for one that was left.
        let guard = File::create(below.join(".making.lock")).context(cannot)?;
        guard.lock().context(cannot)?;
        remove_left(below);
        let folder = below.join(format!("{PREFIX}{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).context(cannot)?;
        let lock = File::create(folder.join("lock")).context(cannot)?;
        lock.lock().context(cannot)?;
        Ok(Self { folder, _lock: lock })
    }

    /// Returns a path in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn remove_left(below: &Path) {
    for path in std::fs::read_dir(below).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
        let is_one = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        // No lock yet: its owner ended between the two.
        let is_used = held_file::is_held(&path.join("lock"));
        if is_one && !is_used && !path.is_symlink() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_half_made_goes_with_its_folder_and_what_was_left_goes_next() {
        let below = tempfile::tempdir().unwrap();
        let left = below.path().join(".making-999999");
        std::fs::create_dir_all(left.join("tree")).unwrap();
        std::fs::write(left.join("lock"), "").unwrap();
        let used = below.path().join(".making-999998");
        std::fs::create_dir(&used).unwrap();
        let lock = File::create(used.join("lock")).unwrap();
        lock.lock().unwrap();
        let workshop = Workshop::open(below.path()).unwrap();
        std::fs::write(workshop.at("tree"), "half").unwrap();
        assert!(!left.exists() && used.exists() && workshop.at("tree").exists());
        let folder = workshop.folder.clone();
        drop(workshop);
        assert!(!folder.exists());
    }
}
