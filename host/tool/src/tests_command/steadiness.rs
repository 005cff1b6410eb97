//! Which failures a second try may excuse.
//!
//! A host that takes its processors away can make a check fail though nothing is wrong. It cannot make a kernel panic, a file system lose
//! something or a bill be wrong: those are failures of the product, however seldom they come.

use super::attempt::Attempt;

/// More unsteady programs than that in one run are a failure: then something is wrong with all of them.
pub const UNSTEADY_MOST: usize = 2;
/// Words in the reason of a check that failed: something is lost, or nobody pays for it.
const LOSSES: &[&str] =
    &["unattributed", "difference_cycles", "cycles that nobody pays", "e2fsck", "is lost", "was lost", "wrong bytes"];
/// Words in a reason or on a console: a kernel that failed, or a core that hangs.
const KERNEL: &[&str] = &[
    "a kernel failure in work for",
    "kernel panicked",
    "panicked at",
    "overran its budget",
    "takes no interrupt",
    "in one piece of work",
    "a core hung",
];

/// The meaning of a kernel's failure in a program's machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelFailures {
    /// It makes kernels fail on purpose.
    Wanted,
    /// Each is a fault.
    Unwanted,
}

/// Returns the word that no second try excuses, if an attempt has one.
pub fn grave_word(attempt: &Attempt, failures: KernelFailures) -> Option<&'static str> {
    let of_reason = find(LOSSES, &attempt.reason);
    if failures == KernelFailures::Wanted {
        return of_reason;
    }
    let consoles = || attempt.consoles().into_iter().map(|(_, text)| text);
    of_reason.or_else(|| std::iter::once(attempt.reason.clone()).chain(consoles()).find_map(|text| find(KERNEL, &text)))
}

fn find(words: &[&'static str], text: &str) -> Option<&'static str> {
    words.iter().find(|word| text.contains(**word)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_command::tally::Tally;

    fn attempt(name: &str, reason: &str, console: &str) -> Attempt {
        let folder = std::env::temp_dir().join(format!("gyre-steadiness-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("m.console.log"), console).unwrap();
        Attempt { tally: Tally::default(), reason: reason.into(), folder }
    }

    #[test]
    fn time_is_excused_and_a_loss_or_a_hang_is_not() {
        use KernelFailures::{Unwanted, Wanted};
        let panicked = "panicked at resources/net/src/lib.rs:3";
        let cases = [
            ("late", "no answer in 20 s", "", Unwanted, None),
            ("loss", "unattributed cycles is 3, expected 0", "", Unwanted, Some("unattributed")),
            ("loss-wanted", "e2fsck of a.ext2 says 1", "", Wanted, Some("e2fsck")),
            ("panic", "no answer in 20 s", panicked, Unwanted, Some("panicked at")),
            ("panic-wanted", "no answer in 20 s", panicked, Wanted, None),
            (
                "hang",
                "core 1 has been in one piece of work for 15214 ms and takes no interrupt",
                "",
                Unwanted,
                Some("takes no interrupt"),
            ),
        ];
        for (name, reason, console, failures, wanted) in cases {
            let attempt = attempt(name, reason, console);
            assert_eq!(grave_word(&attempt, failures), wanted, "{name}");
            std::fs::remove_dir_all(attempt.folder).unwrap();
        }
    }
}
