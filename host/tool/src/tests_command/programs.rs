//! The programs that `cargo test` builds: which there are, and one of them run as cargo would run it.
//!
//! cargo runs them one after the other. Here they are jobs, so that no core waits for the last test of each.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::{
    lanes,
    plan::Plan,
    tally::{Tally, follow_tests},
};
use crate::{
    failure::Result,
    ui::{Step, say},
};

/// These are begun first, the longest before all others: package folder and program.
const LONG: &[(&str, &str)] = &[
    ("host/tool", "guides"),
    ("resources/ext2", "files"),
    ("personality/linux", "gyre_linux"),
    ("resources/net", "gyre_net"),
    ("simulation/runner", "gyre-simulation"),
    ("user/filters", "gyre_filters"),
    ("broker", "hostile"),
    ("broker", "optimum"),
];
/// The threads of a test program ("Running tests", The rustc book).
const THREADS: &str = "RUST_TEST_THREADS";
/// A program that takes longer has a line of its own.
const LONG_ENOUGH: Duration = Duration::from_secs(5);

/// Everything that `cargo test --no-run` has built.
#[derive(Default)]
pub struct Programs {
    /// Programs of tests, the longest first.
    pub tests: Vec<Program>,
    /// Programs that tests of their package use.
    tools: Vec<Program>,
}

/// A program that cargo has built.
pub struct Program {
    /// The folder of its package, in which cargo runs its tests.
    folder: PathBuf,
    name: String,
    path: PathBuf,
}

impl Programs {
    /// Takes up one of cargo's messages; most are not about programs.
    pub fn take(&mut self, message: &str) {
        let Ok(Artifact { manifest_path, target, profile, executable: Some(path) }) = serde_json::from_str(message)
        else {
            return;
        };
        let folder = manifest_path.parent().map(Path::to_owned).unwrap_or_default();
        let program = Program { folder, name: target.name, path };
        match (profile.test, target.kind.iter().any(|kind| kind == "bin")) {
            (true, _) => self.tests.push(program),
            (false, true) => self.tools.push(program),
            _ => {}
        }
    }

    /// Puts the longest first.
    pub fn sort(&mut self) {
        self.tests.sort_by_key(|program| {
            LONG.iter()
                .position(|(folder, name)| program.folder.ends_with(folder) && program.name == *name)
                .unwrap_or(LONG.len())
        });
    }

    /// Returns the path of a program that is no test.
    pub fn tool(&self, name: &str) -> Option<&Path> {
        self.tools.iter().find(|program| program.name == name).map(|program| program.path.as_path())
    }
}

impl Program {
    /// Runs its tests; progress goes to the step of all programs.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, plan: &Plan, step: &Step) -> Result<Tally> {
        let (mut tally, began) = (Tally::default(), Instant::now());
        let title = format!("{} of {}", self.name, self.package());
        let mut command = Command::new(&self.path);
        command.args(&plan.filter).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.envs(plan.environment());
        if std::env::var_os(THREADS).is_none() {
            command.env(THREADS, lanes::threads_each().to_string());
        }
        let heard = follow_tests(&mut command, &title, plan.bound(), step, &mut tally)?;
        if !heard.is_success && tally.failed.is_empty() {
            tally.failed.push(format!("{title} (ended in the middle)"));
        }
        if began.elapsed() > LONG_ENOUGH {
            say(&format!("  {title}: {} passed, {:.1} s", tally.passed, began.elapsed().as_secs_f64()));
        }
        Ok(tally)
    }

    fn package(&self) -> String {
        let parts = self.folder.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy());
        let parts: Vec<_> = parts.collect();
        parts.into_iter().rev().collect::<Vec<_>>().join("/")
    }
}

/// A message of cargo about something that it has built (`--message-format=json`, reference of cargo, "External tools").
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_command::plan::tests::with;

    fn message(folder: &str, name: &str, kind: &str, test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/tree/{folder}/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn programs_of_tests_are_found_and_the_longest_comes_first() {
        let mut programs = Programs::default();
        for said in [
            message("broker", "plan", "test", true, r#""/t/plan""#),
            message("host/tool", "guides", "test", true, r#""/t/guides""#),
            message("host/tidy", "gyre-tidy", "bin", false, r#""/t/gyre-tidy""#),
            message("host/tidy", "shown", "example", false, r#""/t/shown""#),
            message("broker", "gyre_broker", "lib", false, "null"),
            r#"{"reason":"build-finished","success":true}"#.into(),
            "no message".into(),
        ] {
            programs.take(&said);
        }
        programs.sort();
        let names: Vec<_> = programs.tests.iter().map(|program| (program.package(), program.name.as_str())).collect();
        assert_eq!(names, [("host/tool".to_owned(), "guides"), ("tree/broker".to_owned(), "plan")]);
        assert_eq!((programs.tool("gyre-tidy"), programs.tool("shown")), (Some(Path::new("/t/gyre-tidy")), None));
    }

    #[test]
    fn a_program_that_ends_in_the_middle_is_a_failure() {
        let program = |path: &str| Program { folder: "/".into(), name: "p".into(), path: path.into() };
        let plan = with(None);
        let step = Step::start("testing");
        let failed = |path: &str| program(path).run(&plan, &step).unwrap().failed;
        assert_eq!((failed("/bin/true"), failed("/bin/false").len()), (vec![], 1));
        assert!(program("/no/such/program").run(&plan, &step).is_err());
    }
}
