//! The tests that boot machines.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::PathBuf,
    process::Command,
};

use super::{
    lanes::{self, Job},
    tally::{Tally, read_tests},
};
use crate::{
    build, cli,
    failure::{Context as _, Result},
    project::Project,
    ui::say,
};

/// Scripts with this word in one of their first lines measure shares or times: no other runs beside them.
const ALONE: &str = "needs the host alone";
/// Lines in which the word may stand.
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
pub fn tests(project: &Project, arguments: &cli::Test, tally: &mut Tally) -> Result<()> {
    let is_wanted =
        |script: &Script| arguments.filter.as_ref().is_none_or(|filter| script.name.contains(filter.as_str()));
    let chosen: Vec<_> = scripts(project)?.into_iter().filter(is_wanted).collect();
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
    run_in_lanes(project, beside, LANES, tally)?;
    run_in_lanes(project, alone, 1, tally)
}

/// Runs scripts, as many at once as there are lanes.
fn run_in_lanes(project: &Project, scripts: Vec<Script>, lanes: usize, tally: &mut Tally) -> Result<()> {
    let job = |script: Script| Box::new(move || script.run(project)) as Job;
    tally.add(lanes::run("the boot tests", scripts.into_iter().map(job).collect(), lanes)?);
    Ok(())
}

/// A program that boots machines.
struct Script {
    path: PathBuf,
    /// The path from the project's root.
    name: String,
}

impl Script {
    /// The place in the order of beginnings.
    fn place(&self) -> usize {
        LONG.iter().position(|name| *name == self.name).unwrap_or(LONG.len())
    }

    fn needs_the_host_alone(&self) -> bool {
        let Ok(file) = File::open(&self.path) else { return false };
        BufReader::new(file).lines().take(HEAD_LINES).map_while(io::Result::ok).any(|line| line.contains(ALONE))
    }

    fn run(&self, project: &Project) -> Result<Tally> {
        let mut tally = Tally::default();
        let tool = std::env::current_exe().context(|| "cannot tell the path of this program".into())?;
        let mut run = Command::new(&self.path);
        run.current_dir(&project.root).env("GYRE", tool).env("GYRE_ROOT", &project.root);
        let ok = read_tests(&mut run, &format!("booting {}", self.name), &mut tally)?;
        match (ok, tally.passed + tally.failed.len() == 0) {
            (true, true) => tally.passed += 1,
            (false, _) if tally.failed.is_empty() => tally.failed.push(self.name.clone()),
            _ => {}
        }
        Ok(tally)
    }
}

fn scripts(project: &Project) -> Result<Vec<Script>> {
    let folder = project.root.join("tests/boot");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Ok(vec![]);
    };
    let script = |path: PathBuf| match path.is_dir() {
        true => Some(path.join("run")).filter(|run| run.is_file()),
        false => Some(path).filter(|path| path.extension().is_some_and(|extension| extension == "sh")),
    };
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| script(entry.ok()?.path())).collect();
    all.sort();
    let name = |path: &PathBuf| path.strip_prefix(&project.root).unwrap_or(path).display().to_string();
    Ok(all.into_iter().map(|path| Script { name: name(&path), path }).collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    /// Scripts in a folder of their own: each looks whether another runs, for a while.
    fn project(name: &str, bodies: &[(&str, &str)]) -> Project {
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
        let alone: Vec<_> = scripts(&project).unwrap().iter().map(Script::needs_the_host_alone).collect();
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
        run_in_lanes(&project, scripts(&project).unwrap(), 2, &mut tally).unwrap();
        assert_eq!((tally.passed, tally.failed), (3, vec!["tests/boot/c/run".to_owned()]));
        fs::remove_dir_all(&project.root).unwrap();
    }
}
