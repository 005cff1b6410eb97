//! `tests/counts.toml`: how many checks each suite has at least. A suite that ends early with code 0 would lose checks in silence.
//!
//! * A suite counts what its first and its second try have told, each check once: a second try may run only what failed, and the first one may
//!   have ended before it told all of that.
//! * The tests on the host count together, since each change brings or removes some.
//! * Suites that did not run by the filter, and a suite of which somebody runs a part (`ONLY`), are not judged.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    plan::Plan,
    tally::{Suite, Tally},
};
use crate::{
    failure::{Context as _, Failure, Result},
    project::Project,
    ui::say,
};

const FILE: &str = "tests/counts.toml";
const HEAD: &str = "\
# How many checks each suite has at least; fewer are a failure of `gyre test`, which tells how many did not run.
# Written by `gyre test --count`. `host` counts all tests that boot nothing, rounded down.
# If a count depends on the host, this holds what the poorest host has.

";
/// The count of the host is rounded down to a multiple of this: a change may remove a test or two without a word.
const HOST_STEP: usize = 50;
/// Variables with which a person runs a part of a suite.
const PARTS: &[&str] = &["ONLY"];

/// The whole list.
#[derive(Default, Serialize, Deserialize, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    #[serde(default)]
    host: usize,
    #[serde(default)]
    boot: BTreeMap<String, usize>,
}

/// Everything that has run.
#[derive(Default)]
pub struct Seen {
    /// Checks of the host; none if they did not all run.
    pub host: Option<usize>,
    /// Checks of each suite.
    boot: BTreeMap<String, usize>,
}

impl Seen {
    /// Takes up the suites of a count, each by all its tries.
    pub fn of_suites(host: Option<usize>, tally: &Tally) -> Self {
        let mut tries: BTreeMap<String, Vec<&Suite>> = BTreeMap::new();
        for suite in &tally.suites {
            if let Some(key) = key(&suite.name) {
                tries.entry(key).or_default().push(suite);
            }
        }
        Self { host, boot: tries.into_iter().map(|(key, tries)| (key, checks_of(&tries))).collect() }
    }
}

/// Returns how many checks tries of a suite have told together: those of the longest, and those that others alone know. A name may stand for
/// several checks of one try.
fn checks_of(tries: &[&Suite]) -> usize {
    let Some(longest) = tries.iter().max_by_key(|one| one.checks.len()) else { return 0 };
    let names = |suite: &Suite| suite.checks.iter().map(|check| check.name.clone()).collect::<BTreeSet<_>>();
    let known = names(longest);
    let others: BTreeSet<String> = tries.iter().flat_map(|one| names(one)).collect();
    longest.checks.len() + others.difference(&known).count()
}

/// Returns the key of a suite's path: `streams` of `tests/boot/streams/run`.
fn key(name: &str) -> Option<String> {
    Some(name.strip_prefix("tests/boot/")?.trim_end_matches("/run").to_owned())
}

impl Counts {
    /// Reads the list; a project without one counts nothing.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub fn read(project: &Project) -> Result<Self> {
        let path = project.root.join(FILE);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(&path).context(|| format!("cannot read {FILE}"))?;
        toml::from_str(&text).context(|| format!("cannot understand {FILE}"))
    }

    /// Returns a failure for each suite that has run and has told less than it should. In a whole run each suite of the list has to be there.
    pub fn missing(&self, plan: &Plan, seen: &Seen) -> Vec<String> {
        if PARTS.iter().any(|name| std::env::var_os(name).is_some()) {
            return vec![];
        }
        let told = |name: &str| seen.boot.get(name).copied();
        let should = |name: &str| plan.has_boot && plan.has(&format!("tests/boot/{name}/run"));
        let of_boot = self.boot.iter().filter_map(|(name, wanted)| match told(name) {
            None if !should(name) => None,
            counted => Some((name.as_str(), *wanted, counted.unwrap_or(0))),
        });
        let of_host = seen.host.map(|counted| ("the host", self.host, counted));
        let short = of_boot.chain(of_host).filter(|(_, wanted, counted)| counted < wanted);
        short.map(|(name, wanted, counted)| words(name, wanted, counted)).collect()
    }

    /// Writes what has run to the list; the rest stays.
    ///
    /// # Errors
    /// When something failed: then not all was counted.
    pub fn renew(mut self, project: &Project, seen: Seen, tally: &Tally) -> Result<()> {
        if !tally.failed.is_empty() {
            return Err(Failure::new(format!("{FILE} stays as it is: checks failed")));
        }
        self.host = seen.host.map_or(self.host, |host| host - host % HOST_STEP);
        self.boot.extend(seen.boot);
        let text = toml::to_string(&self).context(|| "cannot write TOML".into())?;
        std::fs::write(project.root.join(FILE), format!("{HEAD}{text}")).context(|| format!("cannot write {FILE}"))?;
        say(&format!("{FILE} is written"));
        Ok(())
    }
}

fn words(name: &str, wanted: usize, counted: usize) -> String {
    let missing = wanted - counted;
    let checks = if missing == 1 { "check" } else { "checks" };
    format!("{name}: {missing} {checks} did not run ({counted} of {wanted}; if that is meant: gyre test --count)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_command::{
        plan::tests::with,
        tally::{Check, Suite},
    };

    fn suite(name: &str, count: usize) -> Suite {
        let check = |number: usize| Check { name: number.to_string(), has_passed: true };
        Suite { name: name.into(), seconds: 1.0, checks: (0..count).map(check).collect() }
    }

    fn counts() -> Counts {
        toml::from_str("host = 20\n[boot]\nstreams = 2\n\"zones.sh\" = 5\n").unwrap()
    }

    #[test]
    fn checks_that_did_not_run_are_failures_and_the_better_try_counts() {
        let suites =
            vec![suite("tests/boot/streams/run", 1), suite("tests/boot/zones.sh", 5), suite("tests/boot/zones.sh", 1)];
        let tally = Tally { suites, ..Tally::default() };
        let missing = |filter, host| counts().missing(&with(filter), &Seen::of_suites(host, &tally));
        let streams = "streams: 1 check did not run (1 of 2; if that is meant: gyre test --count)";
        assert_eq!(missing(Some("streams"), None), [streams]);
        let host = "the host: 12 checks did not run (8 of 20; if that is meant: gyre test --count)";
        assert_eq!(missing(None, Some(8)), [streams, host]);
        assert!(counts().missing(&with(Some("tcp")), &Seen::default()).is_empty(), "nothing of it was to run");
        assert_eq!(counts().missing(&with(Some("streams")), &Seen::default()).len(), 1, "it has not run at all");
    }

    #[test]
    fn checks_of_both_tries_count_each_once() {
        let named = |names: &[&str]| {
            let check = |name: &&str| Check { name: (*name).to_owned(), has_passed: true };
            Suite { name: "tests/boot/zones.sh".into(), seconds: 1.0, checks: names.iter().map(check).collect() }
        };
        // The part with b and d ended at once the first time, and ran by itself the second time; c stands for two checks.
        let of = |suites: Vec<Suite>| Seen::of_suites(None, &Tally { suites, ..Tally::default() }).boot["zones.sh"];
        assert_eq!(of(vec![named(&["a", "b", "c", "c"]), named(&["b", "d"])]), 5);
        assert_eq!(of(vec![named(&["b"]), named(&["b"])]), 1);
    }

    #[test]
    fn a_list_is_renewed_for_what_has_run() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("tests")).unwrap();
        let project = Project::of_tree(root.path());
        let tally = Tally { suites: vec![suite("tests/boot/streams/run", 3)], ..Tally::default() };
        counts().renew(&project, Seen::of_suites(Some(123), &tally), &tally).unwrap();
        let wanted: Counts = toml::from_str("host = 100\n[boot]\nstreams = 3\n\"zones.sh\" = 5\n").unwrap();
        assert_eq!(Counts::read(&project).unwrap(), wanted);
        assert!(counts().renew(&project, Seen::default(), &Tally::of_failure("a")).is_err());
    }

    #[test]
    fn the_list_of_the_project_names_suites_that_are_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let counts = Counts::read(&Project::of_tree(&root)).unwrap();
        for name in counts.boot.keys() {
            let path = root.join("tests/boot").join(name);
            assert!(path.is_file() || path.join("run").is_file(), "{name}");
        }
    }
}
