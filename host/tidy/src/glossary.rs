//! The glossary: no word of its table stands twice, or it would have two meanings.

use std::{collections::BTreeSet, fs, path::Path};

const DOCUMENT: &str = "docs/glossary.md";
/// Beginning of the table's head.
const HEAD: &str = "| word |";

/// Returns a fault for each word that stands twice, and one if there are no words.
pub fn faults(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    let lines = text.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2);
    let words: Vec<&str> = lines.take_while(|line| line.starts_with('|')).flat_map(words).collect();
    if words.is_empty() {
        return vec![format!("{DOCUMENT}: has no table that begins with `{HEAD}`")];
    }
    let mut seen = BTreeSet::new();
    let again = words.into_iter().filter(|word| !seen.insert(*word));
    again.map(|word| format!("{DOCUMENT}: `{word}` stands twice")).collect()
}

/// Returns the words of a line's first cell; a comma is between two.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('|').nth(1).unwrap_or_default().split(',').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(rows: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        let text = format!("# Glossary\n\n| word | meaning |\n|---|---|\n{rows}\n* **Tick.** More.\n");
        fs::write(root.path().join(DOCUMENT), text).unwrap();
        faults(root.path())
    }

    #[test]
    fn a_word_that_stands_twice_is_a_fault_alone_and_beside_another_one() {
        let said = faults_of("| cell | a |\n| notice, tick | b |\n| tick, mask | c |\n| cell | d |\n");
        assert_eq!(said, ["docs/glossary.md: `tick` stands twice", "docs/glossary.md: `cell` stands twice"]);
    }

    #[test]
    fn words_with_a_common_part_are_two() {
        let said =
            faults_of("| record | cell |\n| record (of a disk) | cell |\n| tick of a virtual core, tick | cell |\n");
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn a_glossary_without_its_table_is_a_fault() {
        assert_eq!(faults_of("").len(), 1);
        assert_eq!(faults(tempfile::tempdir().unwrap().path()).len(), 1);
    }
}
