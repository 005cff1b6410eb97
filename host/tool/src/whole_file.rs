//! Files that are replaced as a whole: whoever reads one finds the old contents or the new ones, also if the writer is killed.

use std::path::Path;

use crate::failure::{Context as _, Result};

/// Writes a file of a folder that one command at a time writes to: beside it first, as `NAME.new`.
///
/// # Errors
/// When the host's disk is full.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    let unfinished = path.with_extension("new");
    let written = std::fs::write(&unfinished, contents).and_then(|()| std::fs::rename(&unfinished, path));
    written.context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_finds_all_of_the_old_or_all_of_the_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        let texts = ["a".repeat(100_000), "b".repeat(200_000)];
        write(&path, &texts[0]).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..200).for_each(|round| write(&path, &texts[round % 2]).unwrap()));
            while !writer.is_finished() {
                let read = std::fs::read_to_string(&path).unwrap();
                assert!(texts.contains(&read), "{} bytes", read.len());
            }
        });
        assert!(!path.with_extension("new").exists());
    }
}
