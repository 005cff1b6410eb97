//! Which source it is.

use std::process::Command;

use crate::{command, failure::Result, project::Project};

/// Paths that recording itself changes.
fn made() -> impl Iterator<Item = String> {
    [gyre_results::FOLDER].into_iter().chain(gyre_results::MADE).map(|path| format!(":!{path}"))
}

/// Returns the commit of the tree, with a `+` if something else than results has changed since.
///
/// # Errors
/// When the tree is no clone, or git is not installed.
pub fn of(project: &Project) -> Result<String> {
    let hash = git(project, &["rev-parse", "--short=10", "HEAD"])?;
    let made: Vec<String> = made().collect();
    let changes = git(
        project,
        &[&["status", "--porcelain", "--", "."][..], &made.iter().map(String::as_str).collect::<Vec<_>>()].concat(),
    )?;
    let mark = if changes.trim().is_empty() { "" } else { "+" };
    Ok(format!("{}{mark}", hash.trim()))
}

fn git(project: &Project, words: &[&str]) -> Result<String> {
    let mut git: Command = command::program("git")?;
    command::output(git.current_dir(&project.root).args(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_marked_when_the_source_changed_but_not_when_results_did() {
        let root = tempfile::tempdir().unwrap();
        let project = Project::of_tree(root.path());
        for words in [
            &["init", "--quiet"][..],
            &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "--quiet", "--allow-empty", "-m", "x"],
        ] {
            git(&project, words).unwrap();
        }
        std::fs::create_dir(root.path().join("results")).unwrap();
        std::fs::write(root.path().join("results/speed.json"), "{}").unwrap();
        let clean = of(&project).unwrap();
        assert!(clean.len() >= 7 && clean.bytes().all(|byte| byte.is_ascii_hexdigit()), "{clean}");
        std::fs::write(root.path().join("lib.rs"), "").unwrap();
        assert_eq!(of(&project).unwrap(), clean + "+");
    }
}
