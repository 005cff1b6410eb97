//! A machine that pages show.

use std::{path::PathBuf, sync::Arc};

use super::super::Sampler;
use crate::ledger::day::Tariff;

/// A machine that pages show.
pub struct Watched {
    /// Its figures.
    pub sampler: Arc<Sampler>,
    /// The folder of its run: logs and events.
    pub folder: PathBuf,
    /// The prices that hold, if there are any.
    pub prices: Option<Tariff>,
    /// How it ended, as the end of a sentence; none while it runs.
    pub ended: Option<String>,
}
