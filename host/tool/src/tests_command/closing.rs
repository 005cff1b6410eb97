//! The last words of `gyre test`: why something failed, what took longest, and how much passed.

use std::{path::Path, time::Duration};

use super::{
    attempt,
    known::Known,
    plan::{Depth, Plan},
    tally::{Story, Tally},
};
use crate::{
    command,
    project::Project,
    ui::{Paint, paint, say},
};

/// The kernel's place once a tree is built.
const KERNEL: &str = "target/x86_64-unknown-none/release/gyre-kernel";
/// Suites whose time is told.
const LONGEST: usize = 10;
/// Lines of a console that are shown.
const CONSOLE_LINES: usize = 20;
/// Consoles of one suite that are shown.
const CONSOLES: usize = 3;

/// Tells everything but the last line.
pub fn tell(tally: &Tally, known: &Known) {
    tell_stories(tally);
    say(&longest(tally));
    for line in known.lines() {
        say(&format!("{} {line}", paint(Paint::Odd, "known bug:")));
    }
    for (word, colour, names) in [
        ("known:", Paint::Odd, &tally.known),
        ("unsteady:", Paint::Odd, &tally.unsteady),
        ("failed:", Paint::Bad, &tally.failed),
    ] {
        names.iter().for_each(|name| say(&format!("{} {name}", paint(colour, word))));
    }
}

/// Tells why what failed did.
pub fn tell_stories(tally: &Tally) {
    tally.stories.iter().for_each(tell_story);
}

/// How long a run should take.
pub struct Goal(Option<(&'static str, u64, &'static str)>);

impl Goal {
    /// Returns the goal of a plan, before anything is built.
    pub fn of(project: &Project, plan: &Plan) -> Self {
        let is_built = project.root.join(KERNEL).exists();
        Self(match (plan.depth, is_built) {
            (Depth::Whole, false) => Some(("whole run", 1200, "from a clean clone")),
            (Depth::Whole, true) => Some(("whole run", 600, "in a built tree")),
            (Depth::Quick, _) => Some(("quick run", 240, "in a built tree")),
            (Depth::Part | Depth::Long(_), _) => None,
        })
    }

    /// Tells it, and how long it took.
    pub fn tell(&self, took: Duration) {
        self.words(took).into_iter().for_each(|words| say(&words));
    }

    fn words(&self, took: Duration) -> Option<String> {
        let (what, seconds, from) = self.0?;
        Some(format!("{what}: {} s (goal {seconds} s {from})", took.as_secs()))
    }
}

/// Returns the last line.
pub fn count(tally: &Tally) -> String {
    let more = |count: usize, word: &str| if count == 0 { String::new() } else { format!(", {count} {word}") };
    let (unsteady, known) = (more(tally.unsteady.len(), "unsteady"), more(tally.known.len(), "known"));
    format!("{} passed, {} failed{unsteady}{known}", tally.passed, tally.failed.len())
}

fn tell_story(story: &Story) {
    say(&format!("\n{} {}\n{}", paint(Paint::Bold, "reason:"), story.suite, indented(&story.words)));
    if let Some(folder) = &story.folder {
        tell_consoles(folder);
        say(&format!("  everything it said: {}", folder.display()));
    }
}

fn tell_consoles(folder: &Path) {
    for (name, text) in attempt::consoles(folder).into_iter().take(CONSOLES) {
        say(&format!("  the end of {name}:\n{}", indented(&command::last_lines(&text, CONSOLE_LINES))));
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn longest(tally: &Tally) -> String {
    let mut suites: Vec<_> = tally.suites.iter().collect();
    suites.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let lines = suites.iter().take(LONGEST).map(|suite| format!("  {:6.1} s  {}", suite.seconds, suite.name));
    [paint(Paint::Bold, "the longest:").into_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_command::{plan::tests::with, tally::Suite};

    #[test]
    fn a_run_says_how_long_it_took_and_how_long_it_should() {
        let (root, took) = (tempfile::tempdir().unwrap(), Duration::from_secs(1834));
        let words = |depth| Goal::of(&Project::of_tree(root.path()), &Plan { depth, ..with(None) }).words(took);
        assert_eq!(words(Depth::Whole).unwrap(), "whole run: 1834 s (goal 1200 s from a clean clone)");
        assert_eq!(words(Depth::Quick).unwrap(), "quick run: 1834 s (goal 240 s in a built tree)");
        assert_eq!(words(Depth::Part), None);
    }

    #[test]
    fn the_last_line_counts_and_the_longest_come_first() {
        let suites = [("a", 1.0), ("b", 90.5), ("c", 2.0)];
        let suites = suites.map(|(name, seconds)| Suite { name: name.into(), seconds, checks: vec![] }).into();
        let tally = Tally { passed: 3, unsteady: vec!["x".into()], suites, ..Tally::default() };
        assert_eq!(count(&tally), "3 passed, 0 failed, 1 unsteady");
        assert_eq!(count(&Tally::of_failure("y")), "0 passed, 1 failed");
        assert!(longest(&tally).contains("90.5 s  b\n     2.0 s  c\n     1.0 s  a"), "{}", longest(&tally));
    }
}
