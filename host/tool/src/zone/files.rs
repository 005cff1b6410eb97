//! The files of a zone that came, in the folder of the run: its agent's socket and key, and what it prints.
//!
//! `gyre run` opens those of each place at the start. The zone's name becomes a second name of them, a symbolic link: other programs find the
//! zone by it, as any other one.

use std::path::{Path, PathBuf};

use crate::{
    failure::{Context as _, Result},
    module,
    run::consoles,
};

/// Returns the files of a zone, or of a place.
fn files(folder: &Path, zone: &str) -> [PathBuf; 3] {
    let socket = folder.join(module::zone_socket(zone));
    let key = socket.with_extension(module::KEY_ENDING);
    [socket, key, consoles::file(folder, zone)]
}

/// Names the files of a place after the zone that it has.
///
/// # Errors
/// When the folder cannot be written.
pub fn name(folder: &Path, place: &str, zone: &str) -> Result<()> {
    for (from, to) in files(folder, place).iter().zip(files(folder, zone)) {
        let unfinished = to.with_extension("new");
        let _ = std::fs::remove_file(&unfinished);
        let target = from.file_name().unwrap_or_default();
        let named = std::os::unix::fs::symlink(target, &unfinished).and_then(|()| std::fs::rename(&unfinished, &to));
        named.context(|| format!("cannot name {} {}", from.display(), to.display()))?;
    }
    Ok(())
}

/// Removes such names of an earlier run: what is written to a file of a zone is not to go to that of a place.
pub fn forget(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_name = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("zone-") && path.is_symlink()
    };
    for path in entries.map(|entry| entry.path()).filter(|path| is_name(path)) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_place_have_the_name_of_its_zone_until_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for file in files(folder, "spare-1") {
            std::fs::write(&file, file.extension().unwrap().as_encoded_bytes()).unwrap();
        }
        name(folder, "spare-1", "late").unwrap();
        name(folder, "spare-1", "late").unwrap();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(files(folder, "late").map(read), ["sock", "key", "log"]);
        forget(folder);
        assert_eq!(files(folder, "late").map(|path| path.exists()), [false; 3]);
        assert_eq!(files(folder, "spare-1").map(read), ["sock", "key", "log"]);
    }
}
