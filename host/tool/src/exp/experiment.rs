//! An experiment's description of itself: written once, in its own file.

use super::{report::Report, rig::Rig};
use crate::failure::Result;

/// One experiment: a file of this folder has it, and a line of the list in `exp.rs` names it.
pub struct Experiment {
    /// Its name on the command line and of its result's file.
    pub name: &'static str,
    /// Its title in the list, on the page and in its result.
    pub title: &'static str,
    /// The source of the experiment, or of the figure beside ours: figures and sections of the Omni-kernel's paper; empty if it is our own.
    pub paper: &'static str,
    /// Its purpose, in a sentence.
    pub shows: &'static str,
    /// Runs it.
    pub run: fn(&Rig) -> Result<Report>,
}

impl Experiment {
    /// Returns the title with the paper's section behind it.
    pub fn full_title(&self) -> String {
        match self.paper {
            "" => self.title.to_owned(),
            paper => format!("{} ({paper})", self.title),
        }
    }

    /// Makes its report, without figures.
    pub fn report(&self) -> Report {
        Report::new(self.name, &self.full_title())
    }
}
