//! Instructions that the emulator counts between marks: for work that waits for the disk, whose clock is none of instructions.
//!
//! The program says "NAME@ PIECES" for three marks: before the same work made small, before the work, after it.

use std::path::{Path, PathBuf};

use crate::{
    command,
    failure::{Context as _, Failure, Result},
    project::Project,
};

/// Ends the name of a count that marks tell.
const SIGN: char = '@';

/// The plugin of QEMU that counts, and the file that it writes.
pub struct Marks {
    plugin: PathBuf,
    file: PathBuf,
}

impl Marks {
    /// Compiles the plugin; it will write into a folder.
    ///
    /// # Errors
    /// When it cannot be compiled.
    pub fn prepare(project: &Project, folder: &Path) -> Result<Self> {
        let made = Self { plugin: project.cache("files")?.join("count.so"), file: folder.join("marks") };
        let _ = std::fs::remove_file(&made.file);
        let mut cc = command::program("cc")?;
        cc.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&made.plugin);
        command::output(cc.arg(project.root.join("experiments/files/count.c")))?;
        Ok(made)
    }

    /// Arguments for QEMU.
    pub fn arguments(&self) -> [String; 2] {
        let path = |path: &Path| path.display().to_string().replace(',', ",,");
        ["-plugin".to_owned(), format!("{},marks={}", path(&self.plugin), path(&self.file))]
    }

    /// Replaces the pieces of work by instructions of one, if marks tell them.
    ///
    /// # Errors
    /// When there are not as many marks as were said.
    pub fn resolve(&self, lines: Vec<(String, u64)>) -> Result<Vec<(String, u64)>> {
        let text = std::fs::read_to_string(&self.file).context(|| format!("cannot read {}", self.file.display()))?;
        resolve(&text, lines).ok_or_else(|| Failure::new("the emulator counted other marks than the program made"))
    }
}

fn resolve(marks: &str, lines: Vec<(String, u64)>) -> Option<Vec<(String, u64)>> {
    let marks: Option<Vec<u64>> = marks.lines().map(|line| line.parse().ok()).collect();
    let marks = marks?;
    let mut groups = marks.chunks(3);
    let each = lines.into_iter().map(|(name, count)| match name.strip_suffix(SIGN) {
        Some(name) => Some((name.to_owned(), of_piece(groups.next()?, count)?)),
        None => Some((name, count)),
    });
    let resolved: Option<Vec<_>> = each.collect();
    resolved.filter(|_| groups.next().is_none())
}

/// Returns the instructions of a piece of the work, without the part that the small one takes too.
fn of_piece(marks: &[u64], pieces: u64) -> Option<u64> {
    let [small, work, end] = marks else { return None };
    let (small, work) = (work.checked_sub(*small)?, end.checked_sub(*work)?);
    Some(work.saturating_sub(small) / pieces.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_marks_becomes_a_count_and_other_lines_stay() {
        let lines = || vec![("a@".to_owned(), 10), ("b".to_owned(), 7), ("c@".to_owned(), 1)];
        let wanted = [("a".to_owned(), 9), ("b".to_owned(), 7), ("c".to_owned(), 5)];
        assert_eq!(resolve("100\n110\n210\n300\n300\n305\n", lines()).unwrap(), wanted);
        assert_eq!(resolve("100\n110\n210\n300\n300\n", lines()), None);
        assert_eq!(resolve("1\n2\n3\n4\n5\n6\n7\n", lines()), None);
    }
}
