//! The options of the broker, and the policy that goals ask for.

use gyre_contract::goals::{Aim, BrokerPolicy, Goals};

use crate::measure;

/// The owner's wishes for the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The policy.
    pub policy: BrokerPolicy,
    /// Whether it only says what it would do.
    pub is_dry_run: bool,
}

impl Options {
    /// Reads the words of a command line: `--policy NAME` and `--dry-run`.
    ///
    /// # Errors
    /// The expectation, in words.
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options { policy: BrokerPolicy::Static, is_dry_run: false };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--dry-run" => options.is_dry_run = true,
                "--policy" => {
                    let name = words.next().unwrap_or_default();
                    let found = BrokerPolicy::ALL.iter().find(|(known, _)| *known == name);
                    options.policy = found.ok_or(format!("there is no policy `{name}`"))?.1;
                }
                _ => return Err("usage: broker [--policy NAME] [--dry-run]".into()),
            }
        }
        Ok(options)
    }

    /// Returns the words that [`Options::read`] reads.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--policy".to_owned(), self.policy.name().to_owned()];
        words.extend(self.is_dry_run.then(|| "--dry-run".to_owned()));
        words
    }
}

/// Returns the policy of the machine file, or the one that the goals ask for: `threshold` for response times, `pota` for rates, none
/// without goals.
#[must_use]
pub fn chosen(goals: &Goals) -> BrokerPolicy {
    let aims: Vec<Aim> = goals.tenants.iter().filter_map(measure::aim).collect();
    let is_response = |aim: &Aim| matches!(aim, Aim::Response { .. });
    match goals.broker.policy {
        Some(policy) => policy,
        None if aims.iter().any(is_response) => BrokerPolicy::Threshold,
        None if !aims.is_empty() => BrokerPolicy::Pota,
        None => BrokerPolicy::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_are_written() {
        let options = Options { policy: BrokerPolicy::Pacora, is_dry_run: true };
        assert_eq!(Options::read(options.words().into_iter()), Ok(options));
        assert!(Options::read(["--policy".to_owned()].into_iter()).is_err());
        assert!(Options::read(["--what".to_owned()].into_iter()).is_err());
    }

    #[test]
    fn without_goals_no_broker_is_wanted() {
        assert_eq!(chosen(&Goals::default()), BrokerPolicy::Off);
    }
}
