//! The remains of a disk after a crash: repaired by e2fsck, read by debugfs and SQLite, compared with what had been promised.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::mapping;
use crate::{
    command,
    failure::{Context as _, Failure, Result},
};

/// The things that the machine had said to be durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promised {
    /// The archive is complete.
    pub ready: bool,
    /// Records in the log.
    pub records: u64,
    /// Rows in the data base.
    pub rows: u64,
    /// The last tree that was unpacked.
    pub tree: u64,
    /// Rounds of writes through a mapping.
    pub rounds: u64,
}

impl Promised {
    /// Reads a console.
    pub fn read(console: &str) -> Self {
        let last = |mark: &str| {
            let found = console.rmatch_indices(mark).find_map(|(at, _)| {
                let rest = console.get(at + mark.len()..)?;
                // A number counts once its line has ended.
                let (number, _) = rest.split_once(['\r', '\n'])?;
                number.trim().parse().ok()
            });
            found.unwrap_or(0)
        };
        Self {
            ready: console.contains("@ready"),
            records: last("@log "),
            rows: last("@sql "),
            tree: last("@tar "),
            rounds: last("@map "),
        }
    }
}

/// The things that were found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The end of `e2fsck -fy`: 0 if nothing was wrong, 1 if all was repaired.
    pub code: i32,
    /// Questions of its that were answered with yes.
    pub fixes: usize,
    /// The end of `e2fsck -fn` after it: 0 if nothing is wrong any more.
    pub code_again: i32,
    /// Promised things that are not there.
    pub lost: Vec<String>,
}

/// Checks a disk; it is repaired in place.
///
/// # Errors
/// When a tool cannot be run.
pub fn check(disk: &Path, folder: &Path, promised: &Promised) -> Result<Found> {
    let mut found = Found::default();
    let (code, words) = fsck(disk, "-fy")?;
    (found.code, found.fixes) = (code, words.matches("? yes").count());
    if code > 1 {
        found.lost.push(format!("e2fsck -fy ended with {code}: {words}"));
    }
    let (code, words) = fsck(disk, "-fn")?;
    found.code_again = code;
    if code != 0 {
        found.lost.push(format!("there are faults after the repair: {words}"));
    }
    let data = dump(disk, folder)?;
    records(&data, promised, &mut found.lost);
    stable(&data, promised, &mut found.lost);
    mapping::check(&data, promised, &mut found.lost);
    if promised.rows > 0 {
        rows(&data, promised, &mut found.lost)?;
    }
    if promised.tree > 0 {
        tree(&data, promised, &mut found.lost)?;
    }
    Ok(found)
}

fn fsck(disk: &Path, how: &str) -> Result<(i32, String)> {
    let output = command::program("e2fsck")?.arg(how).arg(disk).output().context(|| "cannot run e2fsck".into())?;
    Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Copies the tenant's data out of the disk.
fn dump(disk: &Path, folder: &Path) -> Result<PathBuf> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    let request = format!("rdump /data {}", folder.display());
    command::output(command::program("debugfs")?.arg("-R").arg(request).arg(disk))?;
    Ok(folder.join("data"))
}

fn records(data: &Path, promised: &Promised, lost: &mut Vec<String>) {
    let text = std::fs::read(data.join("log")).unwrap_or_default();
    let mut lines = text.split(|byte| *byte == b'\n');
    for number in 1..=promised.records {
        let wanted = format!("record {number:08}");
        let line = lines.next().unwrap_or_default();
        if line != wanted.as_bytes() {
            let shown = String::from_utf8_lossy(line).into_owned();
            lost.push(format!("record {number} of {}: found {shown:?}", promised.records));
            return;
        }
    }
}

/// Records between two versions of the replaced file.
const VERSION_RECORDS: u64 = 8;

/// A file that is only ever replaced by renaming holds one of its versions: the one before the last promised record, or a later one.
fn stable(data: &Path, promised: &Promised, lost: &mut Vec<String>) {
    let least = promised.records.saturating_sub(1) / VERSION_RECORDS * VERSION_RECORDS;
    let text = std::fs::read_to_string(data.join("stable"));
    let number = |text: &str| text.strip_prefix("version ")?.strip_suffix('\n')?.parse::<u64>().ok();
    match text.as_deref().map(number) {
        Ok(Some(number)) if number >= least => {}
        Err(_) if least == 0 => {}
        _ => lost.push(format!("the replaced file was version {least} or later, and holds {text:?}")),
    }
}

fn rows(data: &Path, promised: &Promised, lost: &mut Vec<String>) -> Result<()> {
    let request = "pragma integrity_check; select count(*) = max(n), max(n) from t;";
    let output = Command::new("sqlite3").arg(data.join("db")).arg(request).output();
    let output = output.map_err(|_| Failure::with_help("sqlite3 is not installed", "apt-get install sqlite3"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let max = said.lines().nth(1).and_then(|line| line.strip_prefix("1|")).and_then(|text| text.parse::<u64>().ok());
    if !said.starts_with("ok\n") || max.is_none_or(|max| max < promised.rows) {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        lost.push(format!("{} rows were promised, SQLite says {said:?} {errors:?}", promised.rows));
    }
    Ok(())
}

/// The last tree is what the archive holds, and the archive is whole.
fn tree(data: &Path, promised: &Promised, lost: &mut Vec<String>) -> Result<()> {
    let whole = data.join("whole");
    std::fs::create_dir_all(&whole).context(|| "cannot make a folder".into())?;
    let unpacked = Command::new("tar").arg("xf").arg(data.join("tree.tar")).arg("-C").arg(&whole).output();
    if !unpacked.context(|| "cannot run tar".into())?.status.success() {
        lost.push("the archive is damaged".into());
        return Ok(());
    }
    let own = data.join("out").join(promised.tree.to_string());
    let differ = Command::new("diff").args(["-r", "-q", "--no-dereference"]).arg(&whole).arg(&own).output();
    let differ = differ.context(|| "cannot run diff".into())?;
    if !differ.status.success() {
        let words = String::from_utf8_lossy(&differ.stdout).into_owned();
        lost.push(format!("tree {} differs: {}", promised.tree, words.lines().take(3).collect::<Vec<_>>().join("; ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_of_the_last_promised_version_or_later() {
        let folder = tempfile::tempdir().unwrap();
        let lost = |records, text: Option<&str>| {
            let file = folder.path().join("stable");
            let _ = std::fs::remove_file(&file);
            text.into_iter().for_each(|text| std::fs::write(&file, text).unwrap());
            let mut lost = Vec::new();
            stable(folder.path(), &Promised { records, ..Promised::default() }, &mut lost);
            lost.len()
        };
        assert_eq!([lost(8, None), lost(9, None)], [0, 1]);
        assert_eq!(
            [lost(24, Some("version 16\n")), lost(25, Some("version 16\n")), lost(25, Some("version 32\n"))],
            [0, 1, 0]
        );
        assert_eq!([lost(25, Some("version 24")), lost(25, Some(""))], [1, 1]);
    }

    #[test]
    fn only_whole_lines_are_promises() {
        let console = "@ready\n@log 1\r\n@sql 7\n@log 12\n@tar 3\n@map 4\n@log 13";
        assert_eq!(Promised::read(console), Promised { ready: true, records: 12, rows: 7, tree: 3, rounds: 4 });
        assert_eq!(Promised::read(""), Promised::default());
    }
}
