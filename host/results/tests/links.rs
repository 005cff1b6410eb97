//! Links of the documents lead somewhere: to a file of the tree, and to a heading if they name one.
#![allow(missing_docs)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|extension| extension == "md") => found.push(path),
                false => {}
            }
        }
    }
    found
}

/// Returns the names of a document's headings, as GitHub makes them: small letters, no signs, a hyphen for each blank.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = text
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let name = |heading: &str| {
        let letters = heading.trim().to_lowercase();
        letters
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
            .collect::<String>()
            .replace(' ', "-")
    };
    let mut numbered = |name: String| {
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 { format!("{name}-{}", *count - 1) } else { name }
    };
    headings.map(|heading| numbered(name(heading))).collect()
}

#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = vec![];
    let mut count = 0;
    for document in documents(&root) {
        let text = fs::read_to_string(&document).unwrap();
        for link in
            text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://"))
        {
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            let is_there = match anchor {
                "" => target.exists(),
                _ => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).iter().any(|known| known == anchor)),
            };
            if !is_there {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(count > 50, "{count} links are too few: they are not found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
