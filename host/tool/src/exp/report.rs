//! The results of an experiment: figures beside the paper's and Linux', plots, notes.

use std::path::Path;

pub use gyre_results::Figure;
use gyre_results::{Conditions, Record};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Context as _, Failure, Result},
    ui::{self, Paint, paint},
};

/// The result of one experiment.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The plots.
    pub plots: Vec<Plot>,
    /// Facts that a reader of the figures must know.
    pub notes: Vec<String>,
    /// When, where and from which source it was measured; none of one that was kept before that was.
    #[serde(default)]
    pub conditions: Option<Conditions>,
    /// Why it could not run, or not to its end.
    pub failure: Option<String>,
    /// The single results, if the figures are sums: comma-separated values with a head.
    #[serde(skip)]
    pub lines: Option<String>,
}

/// A plot: a file beside the report's.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plot {
    /// The file's name.
    pub file: String,
    /// Its contents.
    #[serde(skip)]
    pub svg: String,
}

impl Report {
    /// Starts a report.
    pub fn new(name: &str, title: &str) -> Self {
        Self { name: name.into(), title: title.into(), ..Self::default() }
    }

    /// Makes the report of an experiment that could not run.
    pub fn failed(name: &str, title: &str, failure: &Failure) -> Self {
        let help = failure.report.help().map_or(String::new(), |help| help.to_string());
        Self { failure: Some(failure.report.to_string()), notes: vec![help], ..Self::new(name, title) }
    }

    /// Adds a plot.
    pub fn plot(&mut self, file: impl Into<String>, svg: String) {
        self.plots.push(Plot { file: file.into(), svg });
    }

    /// Returns whether it ran and every promise holds.
    pub fn is_met(&self) -> bool {
        self.failure.is_none() && self.figures.iter().all(|figure| figure.is_met != Some(false))
    }

    /// Writes plots and figures into a folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self).context(|| "cannot write JSON".into())?;
        let own = (format!("{}.json", self.name), &json);
        let plots = self.plots.iter().map(|plot| (plot.file.clone(), &plot.svg));
        let lines = self.lines.iter().map(|lines| (format!("{}.csv", self.name), lines));
        for (name, text) in plots.chain(lines).chain([own]) {
            let path = folder.join(name);
            std::fs::write(&path, text).context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Reads a report that [`Report::save`] wrote, now or at any time before; none if there is nothing that can be read.
    pub fn load(folder: &Path, name: &str) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).ok()?;
        let mut report: Self = serde_json::from_str(&text).ok()?;
        for plot in &mut report.plots {
            plot.svg = std::fs::read_to_string(folder.join(&plot.file)).ok()?;
        }
        Some(report)
    }

    /// Makes a report of what is recorded of an experiment; none if nothing is.
    pub fn recorded(folder: &Path, name: &str) -> Option<Self> {
        let path = folder.join(format!("{name}.json"));
        let Record { experiment, title, conditions, figures, notes } =
            Record::parse(&path, &std::fs::read_to_string(&path).ok()?).ok()?;
        Some(Self { conditions: Some(conditions), figures, notes, ..Self::new(&experiment, &title) })
    }

    /// Returns these figures beside those of an earlier report whose part of the experiment was left out this time: a figure's name begins
    /// with its part, as `redis: requests`.
    pub fn beside(&self, earlier: Option<Self>) -> Vec<Figure> {
        let part = |figure: &Figure| figure.name.split(": ").next().unwrap_or_default().to_owned();
        let own: Vec<String> = self.figures.iter().map(part).collect();
        let mut others = earlier.map_or(vec![], |report| report.figures);
        others.retain(|figure| !own.contains(&part(figure)));
        others.extend(self.figures.iter().cloned());
        others
    }

    /// Returns the report for people.
    pub fn text(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        let failure = self.failure.iter().map(|why| format!("{} {why}\n", paint(Paint::Bad, "could not run:")));
        let failure: String = failure.collect();
        let table =
            if self.figures.is_empty() { String::new() } else { ui::table(&gyre_results::table(&self.figures)) };
        format!("\n{}\n{table}{failure}{notes}", paint(Paint::Bold, &self.title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_saved_with_its_plots() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::new("speed", "nginx");
        report.figures.push(Figure::new("pages", 821.0, 1, "a second").goal(">= 800", true));
        report.plot("speed.svg", "<svg/>".into());
        report.save(folder.path()).unwrap();
        let read = Report::load(folder.path(), "speed").unwrap();
        assert_eq!((read.figures, read.plots[0].svg.as_str()), (report.figures, "<svg/>"));
        assert!(Report::load(folder.path(), "flood").is_none());
    }

    #[test]
    fn a_part_that_runs_alone_keeps_what_is_known_of_the_others() {
        let report = |figures: &[(&str, f64)]| Report {
            figures: figures.iter().map(|(name, value)| Figure::new(*name, *value, 1, "")).collect(),
            ..Report::new("programs", "programs")
        };
        let before = report(&[("git: wrong", 0.0), ("git: clones", 1.0), ("redis: requests", 2.0)]);
        let now = report(&[("git: clones", 3.0)]);
        let found = now.beside(Some(before));
        let found: Vec<_> = found.iter().map(|figure| (figure.name.as_str(), figure.value)).collect();
        assert_eq!(found, [("redis: requests", Some(2.0)), ("git: clones", Some(3.0))]);
        assert_eq!(now.beside(None).len(), 1);
    }

    #[test]
    fn what_could_not_run_meets_nothing_and_says_why() {
        let report = Report::failed("speed", "nginx", &Failure::with_help("no QEMU", "install it"));
        assert!(!report.is_met());
        assert!(report.text().contains("no QEMU") && report.text().contains("install it"), "{}", report.text());
    }
}
