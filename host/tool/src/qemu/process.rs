//! QEMU as a process of the host: the CPU time that it had, whether it wants more, and which process it is.

use std::path::{Path, PathBuf};

/// Its name begins so (proc(5): comm).
const NAME: &str = "qemu";

/// Returns the CPU time that a process has taken so far, in seconds (proc(5): fields 14 and 15 of stat, in hundredths); 0 when it is gone.
pub(super) fn cpu_seconds(process: u32) -> f64 {
    let stat = text(format!("/proc/{process}/stat"));
    let ticks: f64 = after_name(&stat).skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Returns whether one of its threads has something to do, whether or not it gets time (proc(5): state R), or waits for the host's disk or
/// memory (D).
pub(super) fn wants_to_run(process: u32) -> bool {
    tasks(process).any(|task| matches!(after_name(&text(task.join("stat"))).next(), Some("R" | "D")))
}

/// Returns the QEMU of a machine, by the folder of its run: the child of the `gyre run` that holds the folder.
pub(super) fn of_machine(folder: &Path) -> Option<u32> {
    child_of(text(folder.join("lock")).trim().parse().ok()?)
}

/// Returns the QEMU that a `gyre run` has started.
pub(super) fn child_of(run: u32) -> Option<u32> {
    let children = tasks(run).map(|task| text(task.join("children"))).collect::<Vec<_>>().join(" ");
    let mut processes = children.split_whitespace().filter_map(|word| word.parse().ok());
    processes.find(|process: &u32| text(format!("/proc/{process}/comm")).starts_with(NAME))
}

fn tasks(process: u32) -> impl Iterator<Item = PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    all.filter_map(|task| Some(task.ok()?.path()))
}

/// Returns the words of a `stat` from the third on. The second is the name in brackets and may hold blanks: its end counts.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit(')').next().unwrap_or_default().split_whitespace()
}

fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_had_time_and_runs_no_machine() {
        let own = std::process::id();
        let before = cpu_seconds(own);
        while cpu_seconds(own) < before + 0.02 {}
        assert!(wants_to_run(own), "the thread that asks runs");
        assert_eq!(child_of(own), None);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of_machine(folder.path()), None, "nobody holds it");
    }
}
