//! Results and what documents say of them.

use std::path::Path;

/// Returns every result file that is malformed, and every document that says something else than the results.
pub fn faults(root: &Path) -> Vec<String> {
    match gyre_results::documents(root) {
        Err(wrong) => wrong.iter().map(ToString::to_string).collect(),
        Ok(documents) => documents
            .iter()
            .filter(|document| !document.is_true())
            .map(|document| format!("{}: is not what results/ gives (./gyre exp --document)", document.path.display()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_document_that_says_something_else_and_a_malformed_file_are_faults() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/performance")).unwrap();
        let part = |name: &str| format!("<!-- {name}: begin -->\n99 %\n<!-- {name}: end -->\n");
        fs::write(root.path().join("docs/performance/FIGURES.md"), part("figures")).unwrap();
        fs::write(root.path().join("docs/performance/GOALS.md"), part("goals")).unwrap();
        fs::write(root.path().join("docs/performance.md"), part("summary")).unwrap();
        fs::write(root.path().join("README.md"), part("attribution") + &part("bill")).unwrap();
        let said = faults(root.path());
        assert!(said.len() == 4 && said[2].starts_with("docs/performance.md: is not what results/ gives"), "{said:?}");
        for document in gyre_results::documents(root.path()).unwrap() {
            fs::write(root.path().join(&document.path), document.wanted).unwrap();
        }
        assert_eq!(faults(root.path()), Vec::<String>::new());
        fs::create_dir(root.path().join("results")).unwrap();
        fs::write(root.path().join("results/speed.json"), "{}").unwrap();
        assert!(faults(root.path())[0].starts_with("results/speed.json: "));
    }
}
