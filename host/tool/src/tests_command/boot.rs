//! The tests that boot machines.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use super::{
    attempt::{Attempt, Try},
    known::Known,
    lanes::{self, Job},
    second_try,
    steadiness::KernelFailures,
    tally::Tally,
};
use crate::{build, cli, failure::Result, project::Project, ui::say};

/// Scripts with this word in one of their first lines measure shares or times: no other runs beside them.
const ALONE: &str = "needs the host alone";
/// Scripts with these words in one of their first lines make kernels fail: a panic on a console says nothing against them.
const FAILS_ON_PURPOSE: &str = "kernels fail on purpose";
/// Lines in which the words may stand.
const HEAD_LINES: usize = 10;
/// Scripts that are begun in this order and before all others: the longest, so that the lanes end at about one time, and then those that fill
/// the time until it ends. The platform's test bounds how soon a core answers: it begins when the zones, which want as many cores, are through.
const LONG: &[&str] = &[
    "tests/boot/zones.sh",
    "tests/boot/data/run",
    "tests/boot/changes/run",
    "tests/boot/zones/run",
    "tests/boot/failures/run",
    "tests/boot/ending/run",
    "tests/boot/platform.sh",
    "tests/boot/pulse/run",
];
/// Scripts that run beside each other: most of them wait for their machines much of the time.
const LANES: usize = 2;

/// Runs every executable `tests/boot/*/run` and `tests/boot/*.sh`: it boots machines itself and speaks as `cargo test` does, or its exit code counts.
///
/// # Errors
/// When a script cannot be started.
pub fn tests(project: &Project, arguments: &cli::Test, known: &Known, tally: &mut Tally) -> Result<()> {
    let is_wanted =
        |script: &Script| arguments.filter.as_ref().is_none_or(|filter| script.name.contains(filter.as_str()));
    let chosen: Vec<_> = scripts(project).into_iter().filter(is_wanted).collect();
    // Scripts wait for machines with a limit, which is not for compilers.
    if !chosen.is_empty()
        && let Err(failure) = build::kernel(project).and_then(|_| build::agent(project))
    {
        say(&failure.report.help().map_or(String::new(), |help| help.to_string()));
        tally.failed.push("the kernel or the agent (does not build)".into());
        return Ok(());
    }
    let (alone, mut beside): (Vec<_>, Vec<_>) = chosen.into_iter().partition(Script::needs_the_host_alone);
    beside.sort_by_key(Script::place);
    let mut ended = run_in_lanes(project, beside, LANES)?;
    ended.extend(run_in_lanes(project, alone, 1)?);
    tally.add(second_try::judge(project, ended, known)?);
    Ok(())
}

/// Runs scripts, as many at once as there are lanes.
fn run_in_lanes(project: &Project, scripts: Vec<Script>, lanes: usize) -> Result<Vec<(Script, Attempt)>> {
    let ended = Mutex::new(vec![]);
    let job = |script: Script| {
        let ended = &ended;
        let run = move || {
            let attempt = script.run(project, Try::First)?;
            ended.lock().unwrap_or_else(PoisonError::into_inner).push((script, attempt));
            Ok(Tally::default())
        };
        Box::new(run) as Job
    };
    lanes::run("the boot tests", scripts.into_iter().map(job).collect(), lanes)?;
    Ok(ended.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A program that boots machines.
pub struct Script {
    path: PathBuf,
    /// The path from the project's root.
    pub name: String,
}

impl Script {
    /// The place in the order of beginnings.
    fn place(&self) -> usize {
        LONG.iter().position(|name| *name == self.name).unwrap_or(LONG.len())
    }

    fn needs_the_host_alone(&self) -> bool {
        self.says(ALONE)
    }

    /// Returns what a failure of a kernel means in its machines.
    pub fn kernel_failures(&self) -> KernelFailures {
        if self.says(FAILS_ON_PURPOSE) { KernelFailures::Wanted } else { KernelFailures::Unwanted }
    }

    /// Returns whether one of its first lines holds these words.
    fn says(&self, words: &str) -> bool {
        let Ok(file) = File::open(&self.path) else { return false };
        BufReader::new(file).lines().take(HEAD_LINES).map_while(io::Result::ok).any(|line| line.contains(words))
    }

    /// Runs it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, project: &Project, which: Try) -> Result<Attempt> {
        Attempt::run(project, &self.name, &self.path, which)
    }
}

/// Returns all scripts of a project, by name.
pub fn scripts(project: &Project) -> Vec<Script> {
    let Ok(entries) = std::fs::read_dir(project.root.join("tests/boot")) else {
        return vec![];
    };
    let script = |path: PathBuf| match path.is_dir() {
        true => Some(path.join("run")).filter(|run| run.is_file()),
        false => Some(path).filter(|path| path.extension().is_some_and(|extension| extension == "sh")),
    };
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| script(entry.ok()?.path())).collect();
    all.sort();
    let name = |path: &PathBuf| path.strip_prefix(&project.root).unwrap_or(path).display().to_string();
    all.into_iter().map(|path| Script { name: name(&path), path }).collect()
}

#[cfg(test)]
pub mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    /// Scripts in a folder of their own.
    pub fn project(name: &str, bodies: &[(&str, &str)]) -> Project {
        let root = std::env::temp_dir().join(format!("gyre-boot-lanes-{}-{name}", std::process::id()));
        for (script, body) in bodies {
            let folder = root.join("tests/boot").join(script);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("run"), format!("#!/bin/sh\n{body}\n")).unwrap();
            fs::set_permissions(folder.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Project::of_tree(&root)
    }

    #[test]
    fn scripts_that_measure_say_so_in_their_head() {
        let late = format!("{}# needs the host alone", "true\n".repeat(HEAD_LINES));
        let project = project("head", &[("a", "# It needs the host alone: it measures."), ("b", "true"), ("c", &late)]);
        let alone: Vec<_> = scripts(&project).iter().map(Script::needs_the_host_alone).collect();
        assert_eq!(alone, [true, false, false]);
        fs::remove_dir_all(&project.root).unwrap();
    }

    #[test]
    fn two_lanes_run_two_scripts_at_once_and_count_all() {
        // Each waits until the other has begun: one lane would never end.
        let meet = |mine: &str, other: &str| {
            format!(
                "touch {mine}; for i in $(seq 200); do [ -e {other} ] && echo 'test {mine} ... ok' && exit 0; sleep 0.1; done; exit 1"
            )
        };
        let bodies = [("a", meet("a", "b")), ("b", meet("b", "a")), ("c", "exit 3".into()), ("d", "true".into())];
        let project = project("meet", &bodies.each_ref().map(|(name, body)| (*name, body.as_str())));
        let mut tally = Tally::default();
        let ended = run_in_lanes(&project, scripts(&project), 2).unwrap();
        ended.into_iter().for_each(|(_, attempt)| tally.add(attempt.tally));
        assert_eq!((tally.passed, tally.failed), (3, vec!["tests/boot/c/run".to_owned()]));
        fs::remove_dir_all(&project.root).unwrap();
    }
}
