//! The events of a machine and its tenants: `events.jsonl` in the folder of the run, a JSON document for each event.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Context as _, Result},
    whole_file,
};

const FILE: &str = "events.jsonl";
/// The length from which on the older half of the events goes, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When the host saw it.
    pub time: String,
    /// The tenant; none for the machine as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The state that it has now, in words.
    pub event: String,
}

impl Event {
    /// Makes an event of now.
    pub fn now(tenant: Option<&str>, event: &str) -> Self {
        Self { time: format!("{:.3}", Timestamp::now()), tenant: tenant.map(str::to_owned), event: event.to_owned() }
    }

    /// Returns when it was; long ago if the file was changed by hand.
    pub fn at(&self) -> Timestamp {
        self.time.parse().unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Returns the file of a folder's events.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Adds an event.
///
/// # Errors
/// When the host's disk is full.
pub fn add(folder: &Path, event: &Event) -> Result<()> {
    let path = path(folder);
    let cannot = || format!("cannot write {}", path.display());
    if std::fs::metadata(&path).is_ok_and(|data| data.len() > BYTES_MAX) {
        let kept = read(folder)?;
        let text: String = kept.iter().skip(kept.len() / 2).filter_map(line).collect();
        whole_file::write(&path, &text)?;
    }
    let mut file = File::options().append(true).create(true).open(&path).context(cannot)?;
    file.write_all(line(event).unwrap_or_default().as_bytes()).context(cannot)
}

/// Returns the events that are kept; those of earlier runs are among them.
///
/// # Errors
/// When the file cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Event>> {
    let path = path(folder);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(vec![]),
        Err(error) => Err(error).context(|| format!("cannot read {}", path.display())),
    }
}

fn line(event: &Event) -> Option<String> {
    serde_json::to_string(event).ok().map(|text| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_in_order_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        add(folder.path(), &Event::now(None, "begins")).unwrap();
        add(folder.path(), &Event::now(Some("gold"), "ended with code 7")).unwrap();
        let events = read(folder.path()).unwrap();
        assert_eq!(events[1].tenant.as_deref(), Some("gold"));
        assert!(events[0].at() <= events[1].at() && events[0].at() > Timestamp::UNIX_EPOCH);
        for _ in 0..100 {
            add(folder.path(), &Event::now(None, &"x".repeat(20_000))).unwrap();
        }
        assert!(std::fs::metadata(path(folder.path())).unwrap().len() < 2 * BYTES_MAX);
    }
}
