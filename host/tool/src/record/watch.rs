//! The host during a run: its processor, the time, and the processor time that the hypervisor took away.

use std::{fs, process::Command, time::Instant};

use gyre_results::Conditions;

use super::commit;
use crate::{
    command,
    failure::{Failure, Result},
    project::Project,
};

/// A run's beginning.
pub struct Watch {
    started: Instant,
    times: Option<Times>,
}

/// Clock ticks of all processors since the host's boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    all: u64,
    stolen: u64,
}

impl Watch {
    /// Begins to watch.
    pub fn start() -> Self {
        Self { started: Instant::now(), times: Times::now() }
    }

    /// Facts of the run so far.
    ///
    /// # Errors
    /// When the host does not say what its processors did, or which source this is.
    pub fn conditions(&self, project: &Project, command: String) -> Result<Conditions> {
        let silent = || Failure::new("cannot read /proc/stat: nobody could judge the figures");
        let (before, after) = (self.times.ok_or_else(silent)?, Times::now().ok_or_else(silent)?);
        Ok(Conditions {
            command,
            date: command::output(&mut date())?.trim().to_owned(),
            commit: commit::of(project)?,
            processor: processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            seconds: tenths(self.started.elapsed().as_secs_f64()),
            stolen_percent: tenths(after.stolen_percent_since(before)),
        })
    }
}

impl Times {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line: user, nice, system, idle, iowait, irq, softirq, steal. Guests' time is part of user's.
    fn parse(text: &str) -> Option<Self> {
        let words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = words.take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    fn stolen_percent_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 * 100.0 / all as f64
    }
}

fn date() -> Command {
    let mut date = Command::new("date");
    date.args(["--utc", "+%F"]);
    date
}

fn processor(cpuinfo: &str) -> String {
    let named = cpuinfo.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == "model name");
    named.map_or("an unknown processor".into(), |(_, name)| name.trim().to_owned())
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_hypervisor_took_is_a_part_of_all_time() {
        let before = Times::parse("cpu  100 0 0 100 0 0 0 10 50 0\ncpu0 1\n").unwrap();
        let after = Times::parse("cpu  150 0 0 130 0 0 0 30 90 0\n").unwrap();
        assert_eq!((before.all, before.stolen), (210, 10));
        assert_eq!(after.stolen_percent_since(before), 20.0);
        assert_eq!(before.stolen_percent_since(before), 0.0);
        assert_eq!(Times::parse("cpu 1 2 3"), None);
    }

    #[test]
    fn the_processor_is_named_as_it_names_itself() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: Fast: 2 GHz\n"), "Fast: 2 GHz");
        assert_eq!(processor(""), "an unknown processor");
    }
}
