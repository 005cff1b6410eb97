//! The parts of documents that are made from result files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Record, Wrong, section};

/// The folder of results, below the project's root.
pub const FOLDER: &str = "results";
/// The recorded bill, below the project's root.
pub const BILL: &str = "results/bill.txt";

/// Paths of the documents that results make, below the project's root.
pub const MADE: [&str; 4] = [FIGURES, GOALS, PAGE, README];
const FIGURES: &str = "docs/performance/FIGURES.md";
const GOALS: &str = "docs/performance/GOALS.md";
const PAGE: &str = "docs/performance.md";
const README: &str = "README.md";

/// A part of a document: the text that belongs between the markers of a name.
struct Part {
    name: &'static str,
    content: String,
}

/// A document with what lies between its markers, as it is and as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its path below the project's root.
    pub path: PathBuf,
    /// The text as it is.
    pub text: String,
    /// The text as the results give it.
    pub wanted: String,
}

impl Document {
    fn read(root: &Path, path: &str, parts: &[Part]) -> Result<Self, Wrong> {
        let path = PathBuf::from(path);
        let text = fs::read_to_string(root.join(&path)).map_err(|error| Wrong::of(&path, error))?;
        let filled = parts.iter().try_fold(text.clone(), |text, part| replaced(&text, part.name, &part.content));
        let wanted = filled.map_err(|fault| Wrong::of(&path, fault))?;
        Ok(Self { path, text, wanted })
    }

    /// Returns whether it says what the results give.
    pub fn is_true(&self) -> bool {
        self.text == self.wanted
    }
}

/// Returns every document of which a part is made from results.
///
/// # Errors
/// All files that are malformed, and documents that lack their markers.
pub fn documents(root: &Path) -> Result<Vec<Document>, Vec<Wrong>> {
    let records = records(root)?;
    let bill = fs::read_to_string(root.join(BILL)).ok();
    let made = [
        Document::read(root, FIGURES, &[Part { name: "figures", content: section::figures(&records) }]),
        Document::read(root, GOALS, &[Part { name: "goals", content: section::goals(&records) }]),
        Document::read(root, PAGE, &[Part { name: "summary", content: section::summary(&records) }]),
        Document::read(
            root,
            README,
            &[
                Part { name: "attribution", content: section::one(&records, "attribution") },
                Part { name: "bill", content: section::bill(bill.as_deref()) },
            ],
        ),
    ];
    let (good, bad): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    match bad.is_empty() {
        true => Ok(good.into_iter().flatten().collect()),
        false => Err(bad.into_iter().filter_map(Result::err).collect()),
    }
}

/// Returns all result files, by name. Beside one may lie the lines of what it sums up, as comma-separated values.
///
/// # Errors
/// All files that are malformed.
pub fn records(root: &Path) -> Result<Vec<Record>, Vec<Wrong>> {
    let entries = fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    let has_sums = |path: &Path| root.join(path).with_extension("json").exists();
    let is_lines = |path: &Path| path.extension().is_some_and(|extension| extension == "csv") && has_sums(path);
    let paths = names.iter().map(|name| Path::new(FOLDER).join(name));
    let paths = paths.filter(|path| path != Path::new(BILL) && !is_lines(path));
    let read: Vec<_> = paths.map(|path| read(root, &path)).collect();
    let (good, bad): (Vec<_>, Vec<_>) = read.into_iter().partition(Result::is_ok);
    match bad.is_empty() {
        true => Ok(good.into_iter().flatten().collect()),
        false => Err(bad.into_iter().filter_map(Result::err).collect()),
    }
}

fn read(root: &Path, path: &Path) -> Result<Record, Wrong> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return Err(Wrong::of(path, "is no result file"));
    }
    let text = fs::read_to_string(root.join(path)).map_err(|error| Wrong::of(path, error))?;
    Record::parse(path, &text)
}

/// Returns a text with other content between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
fn replaced(text: &str, name: &str, content: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- {name}: begin"), format!("<!-- {name}: end"));
    let missing = |mark: &str| format!("lacks the marker `{mark} -->`");
    let (head, rest) = text.split_once(&begin).ok_or_else(|| missing(&begin))?;
    let (mark, rest) = rest.split_once('\n').ok_or_else(|| missing(&begin))?;
    let (_, tail) = rest.split_once(&end).ok_or_else(|| missing(&end))?;
    Ok(format!("{head}{begin}{mark}\n\n{content}\n{end}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    /// Returns a tree with empty documents.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["docs/performance", "results"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let text = |name: &str| format!("before\n<!-- {name}: begin (made) -->\nold\n<!-- {name}: end -->\nafter\n");
        fs::write(root.path().join(FIGURES), text("figures")).unwrap();
        fs::write(root.path().join(GOALS), text("goals")).unwrap();
        fs::write(root.path().join(PAGE), text("summary")).unwrap();
        fs::write(root.path().join(README), text("attribution") + &text("bill")).unwrap();
        root
    }

    fn write_all(root: &Path) {
        for document in documents(root).unwrap() {
            fs::write(root.join(&document.path), document.wanted).unwrap();
        }
    }

    #[test]
    fn documents_become_true_once_written_and_stay_so() {
        let root = tree();
        fs::write(root.path().join("results/speed.json"), record().text().unwrap()).unwrap();
        assert!(documents(root.path()).unwrap().iter().all(|document| !document.is_true()));
        write_all(root.path());
        assert!(documents(root.path()).unwrap().iter().all(Document::is_true));
        let text = fs::read_to_string(root.path().join(FIGURES)).unwrap();
        assert!(text.starts_with("before\n<!-- figures: begin (made) -->\n\n### speed"), "{text}");
        assert!(text.ends_with("<!-- figures: end -->\nafter\n") && !text.contains("old"), "{text}");
    }

    #[test]
    fn a_number_changed_by_hand_on_either_side_is_found() {
        let root = tree();
        let (file, document) = (root.path().join("results/speed.json"), root.path().join(FIGURES));
        fs::write(&file, record().text().unwrap()).unwrap();
        write_all(root.path());
        let made = fs::read_to_string(&document).unwrap();
        fs::write(&document, made.replace("821.0", "921.0")).unwrap();
        assert!(!documents(root.path()).unwrap()[0].is_true());
        fs::write(&document, made).unwrap();
        fs::write(&file, record().text().unwrap().replace("821.0", "921.0")).unwrap();
        assert!(!documents(root.path()).unwrap()[0].is_true());
    }

    #[test]
    fn the_bill_is_the_recorded_one() {
        let root = tree();
        fs::write(root.path().join(BILL), "gold  2 s\n").unwrap();
        let documents = documents(root.path()).unwrap();
        let readme = &documents.iter().find(|document| document.path == Path::new(README)).unwrap().wanted;
        assert!(readme.contains("\n\n    gold  2 s\n\n<!-- bill: end -->"), "{readme}");
    }

    #[test]
    fn malformed_files_and_missing_markers_are_all_said() {
        let root = tree();
        fs::write(root.path().join("results/a.json"), "{").unwrap();
        fs::write(root.path().join("results/a.csv"), "").unwrap();
        fs::write(root.path().join("results/b.csv"), "").unwrap();
        let wrong = documents(root.path()).unwrap_err();
        assert!(wrong.len() == 2 && wrong[0].0.starts_with("results/a.json: "), "{wrong:?}");
        let root = tree();
        let attribution = "<!-- attribution: begin -->\n<!-- attribution: end -->\n";
        fs::write(root.path().join(README), format!("{attribution}<!-- bill: begin -->\n")).unwrap();
        assert!(documents(root.path()).unwrap_err()[0].0.contains("README.md: lacks the marker `<!-- bill: end -->`"));
    }
}
