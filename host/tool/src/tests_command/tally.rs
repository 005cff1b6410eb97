//! Passed and failed tests, from the lines that tests write.
//!
//! * A check is a line `test NAME ... ok` or `... FAILED`, as `cargo test` writes it; `ok  NAME` and `FAILED  NAME` of scripts; and the line of a
//!   seed that held.
//! * [`Tally`] is the count of everything, [`Suite`] one program that ended with its checks and its time, [`Story`] why some of them failed.
//! * [`follow_tests`] runs a program and counts what it says. One that hangs is ended ([`super::bound`]) and has failed.
//! * Lines of standard error count as signs of life, but are no checks; the last of them stand in the reason of a failure.
//! * [`follow`] runs something that is no test, such as cargo, without a bound.

use std::{
    io::{BufRead as _, BufReader, Read},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Instant,
};

use serde::Serialize;

use super::{
    bound::{self, Bound},
    groups::Member,
};
use crate::{
    command,
    failure::{Context as _, Result},
    ui::{Step, say},
};

/// The count so far.
#[derive(Default, Serialize)]
pub struct Tally {
    /// How many passed.
    pub passed: usize,
    /// The names of those that failed.
    pub failed: Vec<String>,
    /// The names of those that failed at the first try and passed at the second one.
    pub unsteady: Vec<String>,
    /// The names of those that failed as `tests/known.toml` says.
    pub known: Vec<String>,
    /// Every suite that ended, with its time.
    pub suites: Vec<Suite>,
    /// Why the failed ones failed.
    #[serde(skip)]
    pub stories: Vec<Story>,
}

/// A suite that ended.
#[derive(Serialize)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// Its time.
    pub seconds: f64,
    /// Its checks.
    #[serde(skip)]
    pub checks: Vec<Check>,
}

/// A check that a suite told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// It passed.
    pub has_passed: bool,
}

/// The reason why checks of a suite failed.
pub struct Story {
    /// The suite's name.
    pub suite: String,
    /// Its words about those checks.
    pub words: String,
    /// The folder that holds all that it said, if it is kept.
    pub folder: Option<PathBuf>,
}

impl Tally {
    /// Makes the count of something that failed as a whole.
    pub fn of_failure(name: &str) -> Self {
        Self { failed: vec![name.to_owned()], ..Self::default() }
    }

    /// Counts a check of the suite that ended last.
    pub fn take(&mut self, check: Check) {
        match check.has_passed {
            true => self.passed += 1,
            false => self.failed.push(check.name.clone()),
        }
        if let Some(suite) = self.suites.last_mut() {
            suite.checks.push(check);
        }
    }

    /// Returns how many checks there were.
    pub fn checks(&self) -> usize {
        self.passed + self.failed.len()
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.unsteady.extend(other.unsteady);
        self.known.extend(other.known);
        self.suites.extend(other.suites);
        self.stories.extend(other.stories);
    }
}

/// Runs a command that speaks as `cargo test` does; each line "test NAME ... ok" counts.
///
/// # Errors
/// When it cannot be started.
pub fn read_tests(command: &mut Command, title: &str, tally: &mut Tally) -> Result<bool> {
    let step = Step::start(title);
    let before = tally.passed;
    let heard = follow_tests(command, title, Bound::SEARCH, &step, tally)?;
    if heard.is_success {
        step.done_with(&format!("{} passed", tally.passed - before));
    }
    Ok(heard.is_success)
}

/// Everything that tests have said.
pub struct Heard {
    /// Their exit code is 0.
    pub is_success: bool,
    /// Their words on standard output.
    pub said: String,
    /// Their words on standard error.
    pub errors: String,
    /// Why they were ended, if they hung.
    pub hang: Option<String>,
}

impl Heard {
    /// Returns the words about the tests that failed.
    pub fn reason(&self) -> String {
        let errors = command::last_lines(&self.errors, 40);
        [self.hang.clone().unwrap_or_default(), failures(&self.said), errors]
            .iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Does as [`read_tests`] in somebody's step: only a failure is told. Tests that hang are ended, and have failed.
///
/// # Errors
/// When it cannot be started.
pub fn follow_tests(command: &mut Command, title: &str, bound: Bound, step: &Step, tally: &mut Tally) -> Result<Heard> {
    let (mut said, mut checks, began) = (String::new(), vec![], Instant::now());
    let ended = follow_within(command, title, Some(bound), |line| {
        step.detail(line);
        checks.extend(check(line));
        said += line;
        said.push('\n');
    })?;
    tally.suites.push(Suite { name: title.to_owned(), seconds: began.elapsed().as_secs_f64(), checks: vec![] });
    checks.into_iter().for_each(|check| tally.take(check));
    let is_success = ended.is_success && ended.hang.is_none();
    let heard = Heard { is_success, said, errors: ended.errors, hang: ended.hang };
    if !heard.is_success {
        let words = heard.reason();
        say(&words);
        tally.stories.push(Story { suite: title.to_owned(), words, folder: None });
    }
    Ok(heard)
}

/// The end of a command.
pub struct Ended {
    /// Its exit code is 0.
    pub is_success: bool,
    /// Its words on standard error.
    pub errors: String,
    /// Why it was ended, if it hung.
    hang: Option<String>,
}

/// Runs a command, however long it takes, and hears each line that it writes to standard output.
///
/// # Errors
/// When it cannot be started.
pub fn follow(command: &mut Command, title: &str, hear: impl FnMut(&str)) -> Result<Ended> {
    follow_within(command, title, None, hear)
}

fn follow_within(
    command: &mut Command,
    title: &str,
    bound: Option<Bound>,
    mut hear: impl FnMut(&str),
) -> Result<Ended> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(|| format!("cannot start: {title}"))?;
    let (id, lines, (over, is_over)) = (child.id(), Arc::new(AtomicU64::new(0)), mpsc::channel());
    let member = Member::enter(id);
    let (progress, of_errors, of_watcher) = (child.stderr.take(), lines.clone(), lines.clone());
    let watcher = bound.map(|bound| std::thread::spawn(move || bound::watch(id, bound, &of_watcher, &is_over)));
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        progress.into_iter().for_each(|pipe| each_line(pipe, &of_errors, |line| text.extend([line, "\n"])));
        text
    });
    child.stdout.take().into_iter().for_each(|pipe| each_line(pipe, &lines, &mut hear));
    let status = child.wait().context(|| format!("cannot wait: {title}"))?;
    drop((over, member));
    let hang = watcher.and_then(|watcher| watcher.join().ok().flatten());
    Ok(Ended { is_success: status.success(), errors: errors.join().unwrap_or_default(), hang })
}

/// Hears lines until there are no more, and counts them.
fn each_line(pipe: impl Read, count: &AtomicU64, mut hear: impl FnMut(&str)) {
    for line in BufReader::new(pipe).split(b'\n').map_while(std::result::Result::ok) {
        count.fetch_add(1, Ordering::Relaxed);
        hear(&String::from_utf8_lossy(&line));
    }
}

/// Returns the check that a line of a test's output tells of.
fn check(line: &str) -> Option<Check> {
    let told = |name: &str, has_passed| Some(Check { name: name.to_owned(), has_passed });
    // Boot scripts say "ok NAME" and "FAILED NAME".
    if let Some(name) = line.strip_prefix("ok  ") {
        return told(name.trim(), true);
    }
    if let Some(name) = line.strip_prefix("FAILED  ") {
        return told(name, false);
    }
    // The simulator says it of a seed that held, twice with the same trace.
    if let Some((name, _)) = line.split_once("  trace ").filter(|_| line.starts_with("seed ")) {
        return told(name, true);
    }
    let rest = line.strip_prefix("test ")?;
    match rest.strip_suffix(" ... FAILED") {
        Some(name) => told(name, false),
        None => told(rest.strip_suffix(" ... ok")?, true),
    }
}

/// Returns the words of the failed tests: of each test program the part between its first "failures:" and its result.
fn failures(said: &str) -> String {
    let blocks = said.split("\nfailures:\n").skip(1).map(|rest| rest.split("\ntest result:").next().unwrap_or(rest));
    let told: Vec<_> =
        blocks.filter(|block| block.contains("---- ")).map(|block| command::last_lines(block, 80)).collect();
    if !told.is_empty() {
        return told.join("\n");
    }
    // Boot scripts say it in lines of their own, at the end.
    let at_the_end = said.rsplit_once("failures:\n").map_or(said, |(_, rest)| rest);
    let is_told = |line: &&str| !line.ends_with(" ... ok") && !line.starts_with("ok  ");
    command::last_lines(&at_the_end.lines().filter(is_told).collect::<Vec<_>>().join("\n"), 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_failed_test_said_is_shown_and_nothing_else() {
        let program = |name: &str, why: &str| {
            format!(
                "test {name} ... FAILED\n\nfailures:\n\n---- {name} stdout ----\n{why}\n\nfailures:\n    {name}\n\ntest result: FAILED.\n"
            )
        };
        let said = program("a", "panicked: one")
            + "test b ... ok\ntest result: ok. 1 passed\n"
            + &program("c", "panicked: two");
        let shown = failures(&said);
        assert!(shown.contains("panicked: one") && shown.contains("panicked: two"), "{shown}");
        assert!(!shown.contains("test result") && !shown.contains("test b"), "{shown}");
        assert!(failures("test boots ... FAILED\nboots: no answer\n").contains("boots: no answer"));
        let script = "test a: e2fsck ... ok\ntest a: b ... FAILED\nfailures:\nb: 3 is not 4\n";
        assert_eq!(failures(script), "b: 3 is not 4");
        assert_eq!(failures("ok  e2fsck\nFAILED  microvm\n"), "FAILED  microvm");
    }

    #[test]
    fn only_lines_of_tests_count() {
        let mut tally = Tally::default();
        for line in [
            "test a::b ... ok",
            "test c ... FAILED",
            "test result: ok. 3 passed",
            "test d ... ignored",
            "running 3 tests",
            "ok      q35, 4 cores",
            "FAILED  microvm",
        ] {
            check(line).into_iter().for_each(|check| tally.take(check));
        }
        assert_eq!((tally.passed, tally.failed), (2, vec!["c".to_owned(), "microvm".to_owned()]));
    }
}
