//! Errors of a result file or a document.

use std::{fmt, path::Path};

/// A fault of a file, as tidy and the tool say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl Wrong {
    /// Says what is wrong with which file.
    pub fn of(path: &Path, what: impl fmt::Display) -> Self {
        Self(format!("{}: {what}", path.display()))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}
