//! The tests that boot machines.
//!
//! * A suite is an executable `tests/boot/NAME/run` or `tests/boot/NAME.sh`; a search runs `tests/boot/NAME/long`, too.
//! * Its first lines may say "needs the host alone", and which words of failing kernels it wants on consoles.
//! * Two suites run beside each other, the longest first; those that need the host alone run afterwards.
//! * Kernel and agent are built before, since suites wait for machines with a limit.
//!   One that does not build is a failure, and no suite runs.
//! * Each run is an [`Attempt`] with a folder of its own; [`super::second_try`] judges those that failed.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use super::{
    attempt::{Attempt, Try},
    lanes::{self, Job},
    plan::{Depth, Plan},
    tally::Tally,
};
use crate::{build, failure::Result, project::Project, ui::say};

/// Scripts with this word in one of their first lines measure shares or times: no other runs beside them.
const ALONE: &str = "needs the host alone";
/// A line with these words among the first ones lists, in quotation marks, words of failing kernels that a script wants to see.
const WANTED: &str = "# wanted on consoles:";
/// A script beside `run` that only a search runs.
const LONG_RUN: &str = "long";
/// Scripts that take longer than what a change must pass, and are no folder's `long`.
const SEARCHES: &[&str] = &["tests/boot/zones/attacks"];
/// Lines in which the words may stand.
const HEAD_LINES: usize = 10;
/// Scripts that are begun in this order and before all others: the longest, so that the lanes end at about one time, and then those that fill
/// the time until it ends. The platform's test bounds how soon a core answers: it begins when the zones, which want as many cores, are through.
const LONG: &[&str] = &[
    "tests/boot/zones.sh",
    "tests/boot/data/run",
    "tests/boot/changes/run",
    "tests/boot/mapped/run",
    "tests/boot/programs/run",
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
pub fn run(project: &Project, plan: &Plan, which: Try, tally: &mut Tally) -> Result<Vec<(Script, Attempt)>> {
    let chosen = if plan.has_boot { chosen(project, plan) } else { vec![] };
    // Scripts wait for machines with a limit, which is not for compilers.
    if !chosen.is_empty()
        && let Err(failure) = build::kernel(project).and_then(|_| build::agent(project))
    {
        say(&failure.report.help().map_or(String::new(), |help| help.to_string()));
        tally.failed.push("the kernel or the agent (does not build)".into());
        return Ok(vec![]);
    }
    let (alone, mut beside): (Vec<_>, Vec<_>) = chosen.into_iter().partition(Script::needs_the_host_alone);
    beside.sort_by_key(Script::place);
    let mut ended = run_in_lanes(beside, LANES, |script| script.run(project, plan, which))?;
    ended.extend(run_in_lanes(alone, 1, |script| script.run(project, plan, which))?);
    Ok(ended)
}

/// Returns the scripts of a plan.
fn chosen(project: &Project, plan: &Plan) -> Vec<Script> {
    let mut all = scripts(project);
    if matches!(plan.depth, Depth::Long(_)) {
        all.extend(searches(project));
    }
    all.into_iter().filter(|script| plan.has(&script.name)).collect()
}

/// Runs scripts, as many at once as there are lanes.
fn run_in_lanes(
    scripts: Vec<Script>,
    lanes: usize,
    one: impl Fn(&Script) -> Result<Attempt> + Sync,
) -> Result<Vec<(Script, Attempt)>> {
    let ended = Mutex::new(vec![]);
    let job = |script: Script| {
        let (ended, one) = (&ended, &one);
        let run = move || {
            let attempt = one(&script)?;
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

    /// Returns the words of failing kernels that it wants to see on its machines' consoles.
    pub fn wanted(&self) -> Vec<String> {
        let lists = self.head().into_iter().filter_map(|line| line.strip_prefix(WANTED).map(str::to_owned));
        lists.flat_map(|list| list.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// Returns whether one of its first lines holds these words.
    fn says(&self, words: &str) -> bool {
        self.head().iter().any(|line| line.contains(words))
    }

    fn head(&self) -> Vec<String> {
        let Ok(file) = File::open(&self.path) else { return vec![] };
        BufReader::new(file).lines().take(HEAD_LINES).map_while(io::Result::ok).collect()
    }

    /// Runs it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, project: &Project, plan: &Plan, which: Try) -> Result<Attempt> {
        Attempt::run(project, plan, &self.name, &self.path, which)
    }
}

/// Returns all scripts of a project, by name.
pub fn scripts(project: &Project) -> Vec<Script> {
    let is_shell = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sh");
    named(project, |path| if path.is_dir() { Some(path.join("run")) } else { Some(path).filter(is_shell) })
}

/// Returns the scripts that only a search runs.
fn searches(project: &Project) -> Vec<Script> {
    let mut all = named(project, |path| Some(path.join(LONG_RUN)));
    let others = SEARCHES.iter().map(|name| Script { path: project.root.join(name), name: (*name).to_owned() });
    all.extend(others.filter(|script| script.path.is_file()));
    all
}

/// Makes scripts of what is in the folder of boot tests.
fn named(project: &Project, script: impl Fn(PathBuf) -> Option<PathBuf>) -> Vec<Script> {
    let entries = std::fs::read_dir(project.root.join("tests/boot")).into_iter().flatten();
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| script(entry.ok()?.path())).collect();
    all.retain(|path| path.is_file());
    all.sort();
    let name = |path: &PathBuf| path.strip_prefix(&project.root).unwrap_or(path).display().to_string();
    all.into_iter().map(|path| Script { name: name(&path), path }).collect()
}

#[cfg(test)]
pub mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::tests_command::{plan::tests::with, steadiness};

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
    fn heads_name_words_of_failing_kernels() {
        let head = "# wanted on consoles: \"overran its budget\", \"a core hung\"";
        let project = project("wanted", &[("a", head), ("b", "echo '# wanted on consoles: \"c\"'")]);
        let wanted: Vec<_> = scripts(&project).iter().map(Script::wanted).collect();
        assert_eq!(wanted, [vec!["overran its budget", "a core hung"], vec![]]);
        fs::remove_dir_all(&project.root).unwrap();
    }

    #[test]
    fn heads_of_the_project_are_well_formed() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for script in scripts(&Project::of_tree(&root)) {
            let (wanted, says) = (script.wanted(), script.says("wanted on consoles"));
            assert_eq!(says, !wanted.is_empty(), "{}: {WANTED} \"WORDS\", ...", script.name);
            let unknown: Vec<_> = wanted.iter().filter(|word| !steadiness::is_of_kernel(word)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", script.name);
        }
    }

    #[test]
    fn a_search_runs_what_takes_longer_too() {
        let project = project("long", &[("a", "true"), ("b", "true")]);
        fs::write(project.root.join("tests/boot/b/long"), "").unwrap();
        let names = |depth| -> Vec<String> {
            let plan = Plan { depth, ..with(None) };
            chosen(&project, &plan).into_iter().map(|script| script.name).collect()
        };
        assert_eq!(names(Depth::Whole), ["tests/boot/a/run", "tests/boot/b/run"]);
        assert_eq!(names(Depth::Long(1)).last().unwrap(), "tests/boot/b/long");
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
        let ended = run_in_lanes(scripts(&project), 2, |script| script.run(&project, &with(None), Try::First)).unwrap();
        ended.into_iter().for_each(|(_, attempt)| tally.add(attempt.tally));
        assert_eq!((tally.passed, tally.failed), (3, vec!["tests/boot/c/run".to_owned()]));
        fs::remove_dir_all(&project.root).unwrap();
    }
}
