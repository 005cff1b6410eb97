//! Results and what documents say of them.

use std::{fs, path::Path};

use gyre_results::{Figure, MADE, Wrong};

/// The folder of the pages that tell causes.
const PAGES: &str = "docs/performance";

/// Returns every result file that is malformed, every document that says something else than the results, and every
/// experiment with a missed goal of which no page tells.
pub fn faults(root: &Path) -> Vec<String> {
    let said = |wrong: Vec<Wrong>| wrong.iter().map(ToString::to_string).collect();
    let untrue = match gyre_results::documents(root) {
        Err(wrong) => return said(wrong),
        Ok(documents) => documents
            .into_iter()
            .filter(|document| !document.is_true())
            .map(|document| format!("{}: is not what results/ gives (./gyre exp --document)", document.path.display())),
    };
    untrue.chain(untold(root).unwrap_or_else(said)).collect()
}

/// Returns a fault for each experiment that misses a goal and whose name is no word of a page of causes.
fn untold(root: &Path) -> Result<Vec<String>, Vec<Wrong>> {
    let mut records = gyre_results::records(root)?;
    let pages = fs::read_dir(root.join(PAGES)).into_iter().flatten().flatten();
    let is_made = |path: &Path| MADE.iter().any(|made| root.join(made) == path);
    let pages: String = pages
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md") && !is_made(path))
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    let is_told = |name: &str| words(&pages).any(|word| word == name);
    records.retain(|record| record.promised().any(Figure::is_missed) && !is_told(&record.experiment));
    let fault = |name| format!("results/{name}.json: misses a goal, and no page of {PAGES} names {name}");
    Ok(records.iter().map(|record| fault(&record.experiment)).collect())
}

/// Words of a text; names of experiments may have a hyphen.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of an experiment with a goal that is missed, and one that is met.
    const MISSED: &str = r#"{"experiment": "zone-net", "title": "Bytes", "notes": [],
        "conditions": {"command": "./gyre exp zone-net", "date": "2026-11-22", "commit": "0123abc", "processor": "P",
            "processors": 2, "seconds": 1.0, "stolen_percent": 0.0},
        "figures": [
            {"name": "zones", "value": 2.0, "decimals": 0, "unit": "", "linux": null, "paper": "", "goal": "2",
                "is_met": true},
            {"name": "the link", "value": 0.5, "decimals": 1, "unit": "x", "linux": null, "paper": "", "goal": ">= 0.6",
                "is_met": false}]}"#;

    /// Makes a tree with a result file and documents that nobody has made yet.
    fn tree(record: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(PAGES)).unwrap();
        let part = |name: &str| format!("<!-- {name}: begin -->\n99 %\n<!-- {name}: end -->\n");
        fs::write(root.path().join("docs/performance/FIGURES.md"), part("figures")).unwrap();
        fs::write(root.path().join("docs/performance/GOALS.md"), part("goals")).unwrap();
        fs::write(root.path().join("docs/performance.md"), part("summary")).unwrap();
        fs::write(root.path().join("README.md"), part("attribution") + &part("bill")).unwrap();
        fs::create_dir(root.path().join("results")).unwrap();
        fs::write(root.path().join("results/zone-net.json"), record).unwrap();
        root
    }

    fn make_documents(root: &Path) {
        for document in gyre_results::documents(root).unwrap() {
            fs::write(root.join(&document.path), document.wanted).unwrap();
        }
    }

    #[test]
    fn a_document_that_says_something_else_and_a_malformed_file_are_faults() {
        let root = tree(&MISSED.replace("false", "true"));
        let said = faults(root.path());
        assert!(said.len() == 4 && said[2].starts_with("docs/performance.md: is not what results/ gives"), "{said:?}");
        make_documents(root.path());
        assert_eq!(faults(root.path()), Vec::<String>::new());
        fs::write(root.path().join("results/zone-net.json"), "{}").unwrap();
        assert!(faults(root.path())[0].starts_with("results/zone-net.json: "));
    }

    #[test]
    fn a_missed_goal_of_which_no_page_tells_is_a_fault() {
        let root = tree(MISSED);
        make_documents(root.path());
        let untold = ["results/zone-net.json: misses a goal, and no page of docs/performance names zone-net"];
        assert_eq!(faults(root.path()), untold);
        let tell = |words: &str| fs::write(root.path().join("docs/performance/zones.md"), words).unwrap();
        for words in ["The zone-network is slow.", "Net of a zone", "zone net"] {
            tell(words);
            assert_eq!(faults(root.path()), untold, "{words}");
        }
        tell("* **Missed** ([zone-net](FIGURES.md)): the link copies twice.");
        assert_eq!(faults(root.path()), Vec::<String>::new());
    }
}
