//! Names of Debian packages that Debian does not have.

use std::collections::BTreeSet;

use super::{Description, FileError, Problem, suggest};

impl Description {
    /// Looks every package of the file up among those that there are; `text` is the file's.
    ///
    /// # Errors
    /// Every package that there is not, with its place and the nearest name that there is.
    pub fn check_packages(&self, text: &str, known: &BTreeSet<String>) -> Result<(), FileError> {
        let unknown = self.packages.iter().filter(|(_, name)| !known.contains(name));
        let problems: Vec<Problem> = unknown
            .map(|(place, name)| {
                let message = format!("there is no Debian package `{name}`");
                let problem = Problem::new(place.clone(), message, "in none of this host's package lists");
                problem.help(advice(name, known))
            })
            .collect();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(FileError::new(&self.path, text, problems)),
        }
    }
}

fn advice(name: &str, known: &BTreeSet<String>) -> String {
    match suggest::closest(name, known.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "apt-cache search WORD finds packages; apt-get update brings newer lists".into(),
    }
}
