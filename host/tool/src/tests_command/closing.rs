//! The last words of `gyre test`: why something failed, what took longest, and how much passed.

use std::path::Path;

use super::{
    attempt,
    known::Known,
    tally::{Story, Tally},
};
use crate::{
    command,
    ui::{Paint, paint, say},
};

/// Suites whose time is told.
const LONGEST: usize = 10;
/// Lines of a console that are shown.
const CONSOLE_LINES: usize = 20;
/// Consoles of one suite that are shown.
const CONSOLES: usize = 3;

/// Tells everything but the last line.
pub fn tell(tally: &Tally, known: &Known) {
    tally.stories.iter().for_each(tell_story);
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
    use crate::tests_command::tally::Suite;

    #[test]
    fn the_last_line_counts_and_the_longest_come_first() {
        let suites = [("a", 1.0), ("b", 90.5), ("c", 2.0)];
        let suites = suites.map(|(name, seconds)| Suite { name: name.into(), seconds }).into();
        let tally = Tally { passed: 3, unsteady: vec!["x".into()], suites, ..Tally::default() };
        assert_eq!(count(&tally), "3 passed, 0 failed, 1 unsteady");
        assert_eq!(count(&Tally::of_failure("y")), "0 passed, 1 failed");
        assert!(longest(&tally).contains("90.5 s  b\n     2.0 s  c\n     1.0 s  a"), "{}", longest(&tally));
    }
}
