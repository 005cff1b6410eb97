//! Habits of documents.

use std::path::{Path, PathBuf};

use super::{Counts, Habit};

/// Words of a cell of a table.
pub const CELL_WORDS_MAX: usize = 20;
/// Characters of a line that is no table and holds no link.
pub const LINE_CHARACTERS_MAX: usize = 120;
/// Beginnings of sentences that have no subject of their own.
const HEADLESS: [&str; 5] = ["What ", "Who ", "The same", "Of what ", "Where "];

/// Documents whose form is counted: the README, the architecture, and all below `docs/`.
pub fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md"].map(PathBuf::from).to_vec();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(root.join(&folder)) else { continue };
        for path in entries.flatten().map(|entry| folder.join(entry.file_name())) {
            match root.join(&path).is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|extension| extension == "md") => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// Counts in one document.
pub fn count(counts: &mut Counts, path: &Path, text: &str) {
    let prose = without_code(text);
    for line in &prose {
        let is_row = line.trim_start().starts_with('|');
        let long_cells =
            line.split('|').filter(|cell| is_row && cell.split_whitespace().count() > CELL_WORDS_MAX).count();
        counts.add(Habit::LongCells, long_cells);
        let is_long = !is_row && !line.contains("](") && line.chars().count() > LINE_CHARACTERS_MAX;
        counts.add(Habit::LongLines, usize::from(is_long));
        counts.add(Habit::HeadlessSentences, sentences(line).filter(|sentence| is_headless(sentence)).count());
    }
    if path.starts_with("docs") {
        counts.add(Habit::CommitHashes, prose.iter().map(|line| hashes(line)).sum());
    }
}

/// True of a sentence that begins without a subject. A question may begin so.
pub fn is_headless(sentence: &str) -> bool {
    let is_question = sentence.split(['.', '!']).next().is_some_and(|first| first.contains('?'));
    HEADLESS.iter().any(|word| sentence.starts_with(word)) && !is_question
}

/// Returns the lines outside of code blocks and of parts that results make (`<!-- NAME: begin`, `<!-- NAME: end`).
fn without_code(text: &str) -> Vec<&str> {
    let (mut is_code, mut is_made) = (false, false);
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        is_made = (is_made || line.contains(": begin")) && !line.contains(": end -->");
        !is_code && !is_fence && !is_made && !line.starts_with("    ")
    };
    text.lines().filter(is_prose).collect()
}

/// Beginnings of sentences in a line: that of the line if it begins one, and what follows the end of another one.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let first = line.trim_start_matches(['*', '-', '#', '|', '>', ' ']);
    let rest = first.match_indices(['.', ':', '|']).filter_map(move |(at, _)| first.get(at + 1..)?.strip_prefix(' '));
    std::iter::once(first).chain(rest)
}

/// Counts words of 7 to 40 hexadecimal digits with a letter and a digit among them.
fn hashes(line: &str) -> usize {
    let is_hash = |word: &&str| {
        let is_hexadecimal = word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let has_both =
            word.bytes().any(|byte| byte.is_ascii_digit()) && word.bytes().any(|byte| byte.is_ascii_lowercase());
        (7..=40).contains(&word.len()) && is_hexadecimal && has_both
    };
    line.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_hash).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(habit: Habit, text: &str) -> usize {
        let mut counts = Counts::default();
        count(&mut counts, Path::new("docs/a.md"), text);
        counts.of(habit)
    }

    #[test]
    fn parts_that_results_make_are_not_counted() {
        let text = "a\n<!-- bill: begin (made) -->\nWhat 0123abcd\n<!-- bill: end -->\nb\n";
        assert_eq!(without_code(text), ["a", "<!-- bill: end -->", "b"]);
    }

    #[test]
    fn cells_and_lines_have_their_lengths() {
        let words = "word ".repeat(CELL_WORDS_MAX);
        assert_eq!(of(Habit::LongCells, &format!("| {words} | {words} more |")), 1);
        let long = "x".repeat(LINE_CHARACTERS_MAX + 1);
        assert_eq!(of(Habit::LongLines, &format!("{long}\n[a](b) {long}\n| {long} |\n```\n{long}\n```\n")), 1);
    }

    #[test]
    fn a_sentence_without_a_subject_is_found_wherever_it_begins() {
        assert_eq!(
            of(Habit::HeadlessSentences, "* What is taken goes. It stays. Who asks waits.\n| x | Where it ends. |\n"),
            3
        );
        assert_eq!(of(Habit::HeadlessSentences, "What is it? A kernel.\nIt says What is so.\n"), 0);
    }

    #[test]
    fn hashes_of_commits_are_found_and_words_and_numbers_are_not() {
        assert_eq!(of(Habit::CommitHashes, "since 1a2b3c4d5 and c16a04d, not 1234567 or defaced or `tcp`\n"), 2);
    }

    #[test]
    fn only_documents_are_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("docs/guide")).unwrap();
        std::fs::write(root.path().join("docs/guide/a.md"), "").unwrap();
        std::fs::write(root.path().join("docs/picture.svg"), "").unwrap();
        let found = documents(root.path());
        assert!(found.contains(&PathBuf::from("docs/guide/a.md")) && found.len() == 3, "{found:?}");
    }
}
