//! The traces of a failure: console, log, the last calls of each thread, and how to make it again.

use std::path::Path;

use super::folder_name;
use crate::{
    build, command,
    failure::{Context as _, Result},
    project::Project,
};

/// Lines of the last calls that the report shows.
const LINES_SHOWN: usize = 12;

/// Keeps it all in a folder; answers what to tell.
///
/// # Errors
/// When it cannot be written.
pub fn keep(project: &Project, console: &Path, picture: &Path, log: &str) -> Result<String> {
    let calls = last_calls(project, picture);
    let round = round_of(&calls).or_else(|| round_of(log)).unwrap_or_default();
    let folder = project.cache("fuzz")?.join(folder_name(&round));
    let write = |name: &str, text: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, text).context(|| format!("cannot write {}", path.display()))
    };
    std::fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
    write("console.log", &std::fs::read(console).unwrap_or_default())?;
    write("fuzzer.log", log.as_bytes())?;
    write("last-calls.txt", calls.as_bytes())?;
    let replay = format!("./gyre exp fuzz --seed {round} --seconds 30");
    write("replay.txt", format!("{replay}\n").as_bytes())?;
    let pending: Vec<&str> = calls.lines().filter(|line| line.ends_with("has not come back")).collect();
    let shown = pending.iter().take(LINES_SHOWN).map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    Ok(format!(
        "kept in {}\nagain: {replay}\ncalls that have not come back, those of threads that were killed in them too:\n{shown}",
        folder.display()
    ))
}

/// Returns the last calls, which the fuzzer itself finds in the machine's memory.
fn last_calls(project: &Project, picture: &Path) -> String {
    let read = || {
        let mut fuzzer = std::process::Command::new(build::fuzzer(project)?);
        command::output(fuzzer.arg("--read").arg(picture))
    };
    read().unwrap_or_else(|failure| format!("cannot be read: {}\n", failure.report))
}

/// Returns the seed of the last round that a text names.
fn round_of(text: &str) -> Option<String> {
    let line = text.lines().rev().find(|line| line.starts_with("round "))?;
    line.split_whitespace().nth(3).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_that_of_the_last_round() {
        assert_eq!(round_of("round 0 seed 1 as root\nround 1 seed 7 worker 0: x\n  5 read() = 0\n"), Some("7".into()));
        assert_eq!(round_of("nothing"), None);
    }
}
