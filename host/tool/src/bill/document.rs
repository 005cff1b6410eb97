//! A bill as a document for programs: what it says, and which version of the tool wrote it. `by` is its first field, whatever follows.

use serde::Serialize;

use crate::{check, failure::Result, package};

/// A bill with its author.
#[derive(Serialize)]
pub struct Document<T> {
    /// "gyre VERSION (commit COMMIT)".
    by: String,
    #[serde(flatten)]
    says: T,
}

impl<T: Serialize> Document<T> {
    /// Makes a document of what has fields.
    pub fn of(says: T) -> Self {
        Self { by: package::writer(), says }
    }

    /// Writes it to standard output.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn print(&self) -> Result<()> {
        check::print_json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wrote_it_stands_before_what_it_says() {
        #[derive(Serialize)]
        struct Says {
            figure: u64,
        }
        let text = serde_json::to_string(&Document::of(Says { figure: u64::MAX })).unwrap();
        assert!(text.starts_with("{\"by\":\"gyre 0."), "{text}");
        assert!(text.contains(" (commit ") && text.ends_with(&format!(",\"figure\":{}}}", u64::MAX)), "{text}");
    }
}
