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
    "the failure cannot be contained",
    "overran its budget",
    "takes no interrupt",
    "has been in one piece of work",
    "a core hung",
];

/// Words in the reason of a suite that was ended.
const HANGS: &str = "it hangs: no new line";

/// Returns the word that no second try excuses, if an attempt has one. Words of failing kernels that are wanted are no such words.
pub fn grave_word(attempt: &Attempt, wanted: &[String]) -> Option<&'static str> {
    if attempt.has_hung {
        return Some(HANGS);
    }
    let unwanted: Vec<_> = KERNEL.iter().copied().filter(|word| !wanted.iter().any(|one| one == word)).collect();
    let consoles = || attempt.consoles().into_iter().map(|(_, text)| text);
    let of_kernel =
        || std::iter::once(attempt.reason.clone()).chain(consoles()).find_map(|text| find(&unwanted, &text));
    find(LOSSES, &attempt.reason).or_else(of_kernel)
}

/// Returns whether these are words of a kernel that fails.
#[cfg(test)]
pub fn is_of_kernel(words: &str) -> bool {
    KERNEL.contains(&words)
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
        Attempt { tally: Tally::default(), reason: reason.into(), folder, has_hung: false }
    }

    #[test]
    fn time_is_excused_and_a_loss_or_a_hang_is_not() {
        let panicked = "[ERROR 1 panic: a call: the failure cannot be contained";
        let wanted: &[String] = &["the failure cannot be contained".to_owned()];
        let none: &[String] = &[];
        let cases = [
            ("late", "no answer in 20 s", "", none, None),
            ("loss", "unattributed cycles is 3, expected 0", "", none, Some("unattributed")),
            ("loss-wanted", "e2fsck of a.ext2 says 1", "", wanted, Some("e2fsck")),
            ("panic", "no answer in 20 s", panicked, none, Some("the failure cannot be contained")),
            ("panic-wanted", "no answer in 20 s", panicked, wanted, None),
            (
                "hang",
                "core 1 has been in one piece of work for 15214 ms and takes no interrupt",
                "",
                none,
                Some("takes no interrupt"),
            ),
            (
                "other",
                "core 1 has been in one piece of work for 9 ms",
                "",
                wanted,
                Some("has been in one piece of work"),
            ),
            ("report", "core 1 is in the kernel, in one piece of work for 2 ms", "", none, None),
        ];
        for (name, reason, console, wanted, grave) in cases {
            let attempt = attempt(name, reason, console);
            assert_eq!(grave_word(&attempt, wanted), grave, "{name}");
            std::fs::remove_dir_all(&attempt.folder).unwrap();
            assert_eq!(grave_word(&Attempt { has_hung: true, ..attempt }, wanted), Some(HANGS), "{name}");
        }
    }
}
