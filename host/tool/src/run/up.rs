//! Since when a machine is up: its agent has answered once, so that each end from then on has a bill.
//!
//! The file `up` in the folder of the run says so to others; it holds the process of the `gyre run`.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::failure::{Context as _, Result};

const FILE: &str = "up";

/// Makes those of an earlier run untrue.
pub(super) fn forget(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(FILE));
}

/// Returns whether the machine that this process runs is up.
pub(super) fn is_up(folder: &Path, process: u32) -> bool {
    std::fs::read_to_string(folder.join(FILE)).is_ok_and(|text| text.trim() == process.to_string())
}

/// How long a machine is to be up.
pub(super) struct Up {
    file: PathBuf,
    limit: Option<Duration>,
    since: Option<Instant>,
}

impl Up {
    /// Begins with a machine that is not up yet.
    pub(super) fn new(folder: &Path, limit: Option<Duration>) -> Self {
        Self { file: folder.join(FILE), limit, since: None }
    }

    /// Counts from now on, though the machine is not up: nothing else bounds the time that it takes to boot.
    pub(super) fn with_boot(self) -> Self {
        Self { since: Some(Instant::now()), ..self }
    }

    /// Says that the machine is up.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn tell(&mut self) -> Result<()> {
        self.since.get_or_insert_with(Instant::now);
        let cannot = || format!("cannot write {}", self.file.display());
        std::fs::write(&self.file, std::process::id().to_string()).context(cannot)
    }

    /// Returns whether it has been up for as long as it is to be.
    pub(super) fn is_over(&self) -> bool {
        let passed = self.since.map(|since| since.elapsed());
        self.limit.zip(passed).is_some_and(|(limit, passed)| passed >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_run_begins_when_the_machine_is_up() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let mut up = Up::new(folder.path(), Some(Duration::ZERO));
        assert!(!up.is_over() && !is_up(folder.path(), own), "it boots");
        up.tell().unwrap();
        assert!(up.is_over() && is_up(folder.path(), own) && !is_up(folder.path(), own + 1));
        forget(folder.path());
        assert!(!is_up(folder.path(), own));
        assert!(Up::new(folder.path(), Some(Duration::ZERO)).with_boot().is_over());
        assert!(!Up::new(folder.path(), None).with_boot().is_over(), "without a limit it is never over");
    }
}
