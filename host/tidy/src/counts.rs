//! Habits that can be counted: each count is compared with the number in `host/tidy/limits.toml`, which may only fall.
//!
//! * A count above its limit is a fault. A count below it asks to lower the limit, so that it cannot rise again.
//! * [`of_tree`] reads the files that git would commit: Rust files and the documents (README, ARCHITECTURE, `docs/`).
//! * [`code`] counts in Rust, [`prose`] in documents and in comments. Both are pure: text in, numbers out.
//! * A new count is a variant of [`Habit`], a line of [`HABITS`], and the place that counts.

mod code;
mod prose;

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use crate::sources::rust_files;

/// A habit whose offenders are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Habit {
    /// Parameters of type `bool` of functions that are `pub`, `pub(crate)` or `pub(super)`.
    BooleanParameters,
    /// Parameters of such functions whose type or pattern is a tuple.
    TupleParameters,
    /// Blocks of unsafe code.
    UnsafeBlocks,
    /// Cells of tables with more than [`prose::CELL_WORDS_MAX`] words.
    LongCells,
    /// Lines of documents with more than [`prose::LINE_CHARACTERS_MAX`] characters.
    LongLines,
    /// Hashes of commits in `docs/`.
    CommitHashes,
    /// Doc comments that begin without a subject.
    HeadlessComments,
    /// Sentences of documents that begin so.
    HeadlessSentences,
    /// Files of more than [`code::SHORT_FILE_LINES`] lines, or [`code::SHORT_TEST_LINES`] of tests, whose head has fewer than
    /// [`code::HEAD_LINES_MIN`].
    ShortHeads,
    /// Modules that a macro declares, which rustfmt does not see.
    HiddenModules,
}

/// Each habit with its key in `limits.toml`.
const HABITS: [(Habit, &str); 10] = [
    (Habit::BooleanParameters, "boolean-parameters"),
    (Habit::TupleParameters, "tuple-parameters"),
    (Habit::UnsafeBlocks, "unsafe-blocks"),
    (Habit::LongCells, "long-cells"),
    (Habit::LongLines, "long-lines"),
    (Habit::CommitHashes, "commit-hashes"),
    (Habit::HeadlessComments, "headless-comments"),
    (Habit::HeadlessSentences, "headless-sentences"),
    (Habit::ShortHeads, "short-heads"),
    (Habit::HiddenModules, "hidden-modules"),
];

/// The file of the limits.
const LIMITS: &str = "host/tidy/limits.toml";

/// How many offenders each habit has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Habit, usize>);

impl Counts {
    /// Adds offenders.
    fn add(&mut self, habit: Habit, offenders: usize) {
        *self.0.entry(habit).or_default() += offenders;
    }

    /// Returns the number of offenders.
    pub fn of(&self, habit: Habit) -> usize {
        self.0.get(&habit).copied().unwrap_or(0)
    }

    /// Compares with the limits: what is worse is a fault, what is better an advice.
    pub fn compared(&self, limits: &toml::Table) -> Verdict {
        let mut verdict = Verdict::default();
        for (habit, key) in HABITS {
            let count = self.of(habit);
            let limit = limits.get(key).and_then(toml::Value::as_integer).and_then(|limit| usize::try_from(limit).ok());
            match limit {
                None => verdict.faults.push(format!("{LIMITS}: has no `{key}`; there are {count}")),
                Some(limit) if count > limit => {
                    verdict.faults.push(format!("{key}: {count}, at most {limit} ({LIMITS})"))
                }
                Some(limit) if count < limit => {
                    verdict.advice.push(format!("{key}: lower the limit to {count} ({LIMITS})"))
                }
                Some(_) => {}
            }
        }
        verdict
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = HABITS.iter().map(|(habit, key)| format!("{} {key}", self.of(*habit))).collect();
        f.write_str(&each.join(", "))
    }
}

/// The verdict of the limits on the counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Counts that are worse than their limits.
    pub faults: Vec<String>,
    /// Limits that can be lowered.
    pub advice: Vec<String>,
}

/// Counts in all files below a root.
pub fn of_tree(root: &Path) -> Counts {
    let mut counts = Counts::default();
    for (_, file) in files(root) {
        file.0.iter().for_each(|(habit, offenders)| counts.add(*habit, *offenders));
    }
    counts
}

/// The files with offenders of a habit, each with their number. `None` if no habit has this key.
pub fn offenders(root: &Path, key: &str) -> Option<Vec<(PathBuf, usize)>> {
    let habit = HABITS.iter().find(|(_, known)| *known == key)?.0;
    let number = files(root).into_iter().map(|(path, counts)| (path, counts.of(habit)));
    Some(number.filter(|(_, offenders)| *offenders > 0).collect())
}

/// Counts in each file below a root.
fn files(root: &Path) -> Vec<(PathBuf, Counts)> {
    let code = rust_files(root).into_iter().map(|path| (path, code::count as Count));
    let documents = prose::documents(root).into_iter().map(|path| (path, prose::count as Count));
    let counted = |(path, count): (PathBuf, Count)| {
        let text = fs::read_to_string(root.join(&path)).ok()?;
        let mut counts = Counts::default();
        count(&mut counts, &path, &text);
        Some((path, counts))
    };
    code.chain(documents).filter_map(counted).collect()
}

/// Counts in the text of a file.
type Count = fn(&mut Counts, &Path, &str);

/// Compares the counts of a tree with its limits.
pub fn verdict(root: &Path, counts: &Counts) -> Verdict {
    let text = fs::read_to_string(root.join(LIMITS)).unwrap_or_default();
    match text.parse::<toml::Table>() {
        Ok(limits) => counts.compared(&limits),
        Err(error) => Verdict { faults: vec![format!("{LIMITS}: {error}")], ..Verdict::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(number: usize) -> toml::Table {
        HABITS.iter().map(|(_, key)| ((*key).to_owned(), toml::Value::Integer(number as i64))).collect()
    }

    #[test]
    fn more_than_the_limit_is_a_fault_and_less_asks_to_lower_it() {
        let mut counts = Counts::default();
        for (habit, _) in HABITS {
            counts.add(habit, 3);
        }
        assert_eq!(counts.compared(&limits(3)), Verdict::default());
        assert_eq!(counts.compared(&limits(2)).faults.len(), HABITS.len());
        let advice = counts.compared(&limits(4)).advice;
        assert!(advice.len() == HABITS.len() && advice[0].contains("lower the limit to 3"), "{advice:?}");
    }

    #[test]
    fn a_habit_without_a_limit_is_a_fault() {
        assert_eq!(Counts::default().compared(&toml::Table::new()).faults.len(), HABITS.len());
    }

    #[test]
    fn the_line_of_counts_names_every_habit() {
        let line = Counts::default().to_string();
        assert!(HABITS.iter().all(|(_, key)| line.contains(&format!("0 {key}"))), "{line}");
    }
}
