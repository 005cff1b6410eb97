//! `tests/known.toml`: bugs of the kernel that are known, come rarely and are not mended yet.

use serde::Deserialize;

use crate::{
    failure::{Context as _, Failure, Result},
    project::Project,
};

const FILE: &str = "tests/known.toml";
/// A longer list would hide more than it tells.
const MOST: usize = 5;

/// The whole list.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    #[serde(default)]
    bug: Vec<Bug>,
}

/// A bug that is known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    /// The name of the check that it makes fail.
    check: String,
    /// Words that stand in the reason each time.
    seen: String,
    /// How often it comes.
    rate: String,
    /// The day on which it was entered.
    since: String,
}

impl Known {
    /// Reads the list; a project without one knows of no bug.
    ///
    /// # Errors
    /// When it cannot be understood, or holds too many.
    pub fn read(project: &Project) -> Result<Self> {
        let path = project.root.join(FILE);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(&path).context(|| format!("cannot read {FILE}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let known: Self = toml::from_str(text).context(|| format!("cannot understand {FILE}"))?;
        match known.bug.len() {
            0..=MOST => Ok(known),
            count => Err(Failure::new(format!("{FILE} holds {count} bugs; it may hold {MOST}: mend one first"))),
        }
    }

    /// Returns whether a check that failed for a reason is one of these.
    pub fn has(&self, check: &str, reason: &str) -> bool {
        self.bug.iter().any(|bug| bug.check == check && reason.contains(&bug.seen))
    }

    /// Returns a line for each bug.
    pub fn lines(&self) -> Vec<String> {
        let line = |bug: &Bug| format!("{} ({}): {}, since {}", bug.check, bug.seen, bug.rate, bug.since);
        self.bug.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> String {
        "[[bug]]\ncheck = \"a: b\"\nseen = \"no answer\"\nrate = \"1 of 40\"\nsince = \"2026-11-27\"\n".repeat(count)
    }

    #[test]
    fn a_known_bug_is_one_check_with_one_reason_and_five_are_the_most() {
        let known = Known::parse(&list(1)).unwrap();
        assert!(
            known.has("a: b", "got no answer in 3 s")
                && !known.has("a: b", "wrong answer")
                && !known.has("a", "no answer")
        );
        assert_eq!(known.lines().len(), 1);
        assert!(Known::parse(&list(MOST)).is_ok() && Known::parse(&list(MOST + 1)).is_err());
        assert!(Known::parse("[[bug]]\ncheck = \"a\"\n").is_err() && Known::parse("").unwrap().lines().is_empty());
    }

    #[test]
    fn the_list_of_the_project_can_be_read() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert!(Known::read(&Project::of_tree(&root)).is_ok());
    }
}
