//! Programs that boot machines and failed run once more, alone, after all others.
//!
//! One that passes then is unsteady: both runs are kept and told, and the command does not fail for it, unless there are too many of them or
//! the first run shows something that no host can cause ([`super::steadiness`]). One that failed only as `tests/known.toml` says has no second try.

use super::{
    attempt::{Attempt, Try},
    boot::Script,
    known::Known,
    plan::Plan,
    steadiness::{self, UNSTEADY_MOST},
    tally::Tally,
};
use crate::{failure::Result, project::Project, ui::say};

/// Counts what the first runs of programs mean, and runs again those that deserve it.
///
/// # Errors
/// When one cannot be started.
pub fn judge(project: &Project, plan: &Plan, ended: Vec<(Script, Attempt)>, known: &Known) -> Result<Tally> {
    let (mut all, mut unsteady) = (Tally::default(), 0);
    for (script, first) in ended {
        let tally = count(project, plan, &script, first, known)?;
        unsteady += usize::from(!tally.unsteady.is_empty());
        all.add(tally);
    }
    if unsteady > UNSTEADY_MOST {
        all.failed.push(format!("{unsteady} unsteady programs (at most {UNSTEADY_MOST} are excused)"));
    }
    Ok(all)
}

/// Counts one program.
fn count(project: &Project, plan: &Plan, script: &Script, mut first: Attempt, known: &Known) -> Result<Tally> {
    if !first.has_failed() {
        return Ok(first.tally);
    }
    if first.tally.failed.iter().all(|check| known.has(check, &first.reason)) {
        first.tally.known.append(&mut first.tally.failed);
        return Ok(first.tally);
    }
    if let Some(word) = steadiness::grave_word(&first, &script.wanted()) {
        say(&format!("  {} has no second try: \"{word}\" is never the host's fault", script.name));
        return Ok(first.tally);
    }
    say(&format!("  {} failed and runs again, alone", script.name));
    let second = script.run(project, plan, Try::Second)?;
    Ok(both(first.tally, second.tally))
}

/// Counts a program that has run twice.
fn both(mut first: Tally, second: Tally) -> Tally {
    if second.failed.is_empty() {
        first.unsteady.append(&mut first.failed);
    } else {
        first.failed = second.failed;
    }
    first.passed = first.passed.max(second.passed);
    first.suites.extend(second.suites);
    first.stories.extend(second.stories);
    first
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests_command::{
        boot::{self, tests::project},
        plan::tests::with,
    };

    fn judged(name: &str, bodies: &[(&str, &str)], known: &Known) -> Tally {
        let project = project(name, bodies);
        let run = |script: Script| {
            let attempt = script.run(&project, &with(None), Try::First).unwrap();
            (script, attempt)
        };
        let ended = boot::scripts(&project).into_iter().map(run).collect();
        let tally = judge(&project, &with(None), ended, known).unwrap();
        fs::remove_dir_all(&project.root).unwrap();
        tally
    }

    /// Fails at the first try, with words of its own, and passes at the second one.
    fn once(words: &str) -> String {
        format!(
            "[ $GYRE_TRY = 2 ] && echo 'test s: c ... ok' && exit 0; echo 'test s: c ... FAILED'; echo failures:; echo '{words}'; exit 1"
        )
    }

    #[test]
    fn one_that_passes_alone_is_unsteady_and_keeps_both_runs_and_their_words() {
        let twice = "echo 'test b: c ... FAILED'; exit 1";
        let tally = judged("again", &[("a", &once("c: no answer in 3 s")), ("b", twice)], &Known::default());
        assert_eq!((tally.unsteady, tally.failed), (vec!["s: c".to_owned()], vec!["b: c".to_owned()]));
        assert_eq!((tally.passed, tally.suites.len(), tally.stories.len()), (1, 4, 3));
        assert!(tally.stories.iter().all(|story| story.folder.is_some()));
    }

    #[test]
    fn a_loss_has_no_second_try_and_too_many_unsteady_programs_fail() {
        let (late, lost) = (once("c: late"), once("c: e2fsck of a says 1"));
        let tally = judged("lost", &[("a", &lost)], &Known::default());
        assert_eq!((tally.unsteady.len(), tally.failed), (0, vec!["s: c".to_owned()]));
        let tally = judged("many", &[("a", &late), ("b", &late), ("c", &late)], &Known::default());
        assert_eq!((tally.unsteady.len(), tally.failed.len()), (3, 1));
    }
}
