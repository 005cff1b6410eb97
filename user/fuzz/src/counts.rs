//! Answers of calls, counted over all rounds: which ones succeeded, and by which errors the others failed.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{calls, sys};

/// Errors are numbered from 1 to this; 0 counts successes.
const ERRORS: usize = 140;

/// Counters that children share.
#[derive(Clone, Copy)]
pub struct Counts {
    words: &'static [AtomicU64],
}

impl Counts {
    /// Maps them.
    pub fn map() -> Option<Self> {
        sys::shared_words(calls::all().count() * ERRORS).map(|words| Self { words })
    }

    /// Counts an answer of the call of this index.
    pub fn add(self, call: usize, answer: i64) {
        let error = usize::try_from(answer.saturating_neg()).unwrap_or(0).min(ERRORS - 1);
        self.words.get(call * ERRORS + error).into_iter().for_each(|word| {
            word.fetch_add(1, Relaxed);
        });
    }

    fn of(self, call: usize) -> Vec<u64> {
        self.words.iter().skip(call * ERRORS).take(ERRORS).map(|word| word.load(Relaxed)).collect()
    }

    /// Counts all calls that came back.
    pub fn sum(self) -> u64 {
        self.words.iter().map(|word| word.load(Relaxed)).sum()
    }

    /// Returns a line for each call that was made, and the names of those that never succeeded.
    pub fn table(self) -> String {
        let mut text = format!("{:<24} {:>9} {:>9}  errors\n", "call", "made", "succeeded");
        let mut never = vec![];
        for (index, call) in calls::all().enumerate() {
            let counts = self.of(index);
            let made: u64 = counts.iter().sum();
            if made == 0 {
                continue;
            }
            if counts[0] == 0 {
                never.push(call.name);
            }
            let _ = writeln!(text, "{:<24} {made:>9} {:>9}  {}", call.name, counts[0], errors(&counts));
        }
        let _ = writeln!(text, "never succeeded: {}", never.join(" "));
        text
    }
}

/// Returns the commonest errors.
fn errors(counts: &[u64]) -> String {
    let mut all: Vec<(usize, u64)> =
        counts.iter().copied().enumerate().skip(1).filter(|(_, count)| *count > 0).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let word = |(error, count): (usize, u64)| format!("{error}:{count}");
    all.into_iter().take(8).map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_call_and_error() {
        let counts = Counts::map().unwrap();
        [5, -9, -9, -14].into_iter().for_each(|answer| counts.add(0, answer));
        counts.add(1, -22);
        let table = counts.table();
        assert_eq!(counts.sum(), 5);
        assert!(table.contains("read                             4         1  9:2 14:1"), "{table}");
        assert!(table.ends_with("never succeeded: write\n"), "{table}");
    }
}
