//! A result file: an experiment's findings, with their time, place and source.

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Figure, Wrong};

/// Facts of a run that are needed to judge its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// The command.
    pub command: String,
    /// The day it began, YYYY-MM-DD.
    pub date: String,
    /// The source's commit; ends with `+` if the tree had changes.
    pub commit: String,
    /// The host's processor.
    pub processor: String,
    /// How many of them.
    pub processors: u32,
    /// How long the experiment took.
    pub seconds: f64,
    /// The part of the processors that the hypervisor took away meanwhile.
    pub stolen_percent: f64,
}

impl fmt::Display for Conditions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, date, commit, processor, processors, seconds, stolen_percent } = self;
        write!(formatter, "{command}, {date}, commit {commit}, {processors} x {processor}, {seconds:.0} s; ")?;
        write!(formatter, "the hypervisor took {stolen_percent:.1} % of the processors away")
    }
}

/// A result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The experiment's name, which is the file's.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// Time, place and source.
    pub conditions: Conditions,
    /// The findings.
    pub figures: Vec<Figure>,
    /// Facts that a reader of them must know.
    pub notes: Vec<String>,
}

impl Record {
    /// Reads a result file's text.
    ///
    /// # Errors
    /// When it is not what `--record` writes.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Wrong> {
        let record: Self = serde_json::from_str(text).map_err(|error| Wrong::of(path, error))?;
        match record.fault(path) {
            Some(fault) => Err(Wrong::of(path, fault)),
            None => Ok(record),
        }
    }

    /// Returns the file's text.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Returns the figures that have a goal.
    pub fn promised(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| figure.is_met.is_some())
    }

    fn fault(&self, path: &Path) -> Option<String> {
        let conditions = &self.conditions;
        let figures = || self.figures.iter().find_map(|figure| Some(format!("{}: {}", figure.name, figure.fault()?)));
        let is_named = path.file_stem().is_some_and(|stem| *stem == *self.experiment);
        match () {
            () if !is_named => Some(format!("`{}` has a file of another name", self.experiment)),
            () if !is_date(&conditions.date) => Some(format!("`{}` is not a date", conditions.date)),
            () if !is_commit(&conditions.commit) => Some(format!("`{}` is not a commit", conditions.commit)),
            () if !(0.0..=100.0).contains(&conditions.stolen_percent) => Some("`stolen_percent` is no part".into()),
            () if self.figures.is_empty() => Some("there are no figures".into()),
            () => figures(),
        }
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |part: &&str, count: usize| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(&parts[..], [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2))
}

fn is_commit(text: &str) -> bool {
    let hash = text.strip_suffix('+').unwrap_or(text);
    hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn record() -> Record {
        Record {
            experiment: "speed".into(),
            title: "nginx beside Linux".into(),
            conditions: Conditions {
                command: "./gyre exp speed".into(),
                date: "2026-11-22".into(),
                commit: "0123abc".into(),
                processor: "Processor".into(),
                processors: 2,
                seconds: 61.0,
                stolen_percent: 0.9,
            },
            figures: vec![Figure::new("pages", 821.0, 1, "a second").linux(1096.0).goal(">= 0.7 of Linux", true)],
            notes: vec!["One core | no limit.".into()],
        }
    }

    fn error_of(change: impl Fn(&mut Record)) -> String {
        let mut record = record();
        change(&mut record);
        Record::parse(Path::new("results/speed.json"), &record.text().unwrap()).unwrap_err().0
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let record = record();
        assert_eq!(Record::parse(Path::new("results/speed.json"), &record.text().unwrap()), Ok(record));
    }

    #[test]
    fn malformed_files_are_refused_with_their_name_and_the_reason() {
        assert!(error_of(|record| record.experiment = "flood".into()).contains("speed.json: `flood` has a file"));
        assert!(error_of(|record| record.conditions.date = "22 November".into()).contains("not a date"));
        assert!(error_of(|record| record.conditions.commit = "main".into()).contains("not a commit"));
        assert!(error_of(|record| record.conditions.stolen_percent = 130.0).contains("no part"));
        assert!(error_of(|record| record.figures.clear()).contains("no figures"));
        assert!(error_of(|record| record.figures[0].is_met = None).contains("pages: `goal` and `is_met`"));
    }

    #[test]
    fn what_is_unknown_or_missing_is_refused_with_its_place() {
        let text = record().text().unwrap();
        let parse = |text: &str| Record::parse(Path::new("results/speed.json"), text).unwrap_err().0;
        assert!(parse(&text.replace("\"decimals\"", "\"digits\"")).contains("line"));
        assert!(parse(&text.replace("821.0", "\"821\"")).contains("line"));
        assert!(parse("{}").contains("missing field"));
    }
}
