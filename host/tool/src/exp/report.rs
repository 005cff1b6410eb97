//! What an experiment found: figures beside the paper's, plots, notes.

use std::path::Path;

use serde::Serialize;

use crate::{
    failure::{Context as _, Failure, Result},
    ui::{self, Paint, paint},
};

/// The result of one experiment.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The figures.
    pub figures: Vec<Figure>,
    /// File name and SVG text of each plot.
    #[serde(skip)]
    pub plots: Vec<(String, String)>,
    /// What one must know to read them.
    pub notes: Vec<String>,
}

/// One figure.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// What the paper, or Linux, has.
    pub theirs: String,
    /// What we measured.
    pub ours: String,
    /// What we promise, in words.
    pub goal: String,
    /// Whether the promise holds; none where nothing is promised.
    pub is_met: Option<bool>,
}

impl Figure {
    /// Makes a figure without a promise.
    pub fn new(what: impl Into<String>, theirs: impl Into<String>, ours: impl Into<String>) -> Self {
        Self { what: what.into(), theirs: theirs.into(), ours: ours.into(), goal: String::new(), is_met: None }
    }

    /// Adds the promise, and whether it holds.
    pub fn goal(mut self, goal: impl Into<String>, is_met: bool) -> Self {
        (self.goal, self.is_met) = (goal.into(), Some(is_met));
        self
    }
}

impl Report {
    /// Starts a report.
    pub fn new(name: &str, title: &str) -> Self {
        Self { name: name.into(), title: title.into(), figures: vec![], plots: vec![], notes: vec![] }
    }

    /// Makes the report of an experiment that could not run.
    pub fn failed(name: &str, title: &str, failure: &Failure) -> Self {
        let help = failure.report.help().map_or(String::new(), |help| help.to_string());
        let figure = Figure::new("could not run", "", failure.report.to_string()).goal("runs", false);
        Self { figures: vec![figure], notes: vec![help], ..Self::new(name, title) }
    }

    /// Whether every promise holds.
    pub fn is_met(&self) -> bool {
        self.figures.iter().all(|figure| figure.is_met != Some(false))
    }

    /// Writes plots and figures into a folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self).context(|| "cannot write JSON".into())?;
        let files = [(format!("{}.json", self.name), json)];
        for (name, text) in files.iter().chain(&self.plots) {
            let path = folder.join(name);
            std::fs::write(&path, text).context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let head = ["", "paper or Linux", "here", "goal", ""].map(str::to_owned).to_vec();
        let row = |figure: &Figure| {
            let mark = match figure.is_met {
                Some(true) => "✓",
                Some(false) => "✗",
                None => "",
            };
            [&figure.what, &figure.theirs, &figure.ours, &figure.goal]
                .map(String::clone)
                .into_iter()
                .chain([mark.to_owned()])
                .collect()
        };
        let rows: Vec<Vec<String>> = [head].into_iter().chain(self.figures.iter().map(row)).collect();
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("\n{}\n{}{notes}", paint(Paint::Bold, &self.title), ui::table(&rows))
    }
}
