//! `--repeat N`: everything that is chosen runs so often, and a table says which check failed how often. No second try excuses anything here.

use std::{collections::BTreeMap, process::ExitCode};

use serde::Serialize;

use super::tally::Tally;
use crate::{
    check::print_json,
    cli,
    failure::Result,
    ui::{Paint, paint, say, table},
};

/// Everything that all rounds have told.
#[derive(Default, Serialize)]
pub struct Rounds {
    /// How many there were.
    rounds: usize,
    checks: BTreeMap<String, Runs>,
    /// Seconds of each suite, a number for each run.
    suites: BTreeMap<String, Vec<f64>>,
}

/// How often a check ran, and failed.
#[derive(Default, Serialize, Clone, Copy, PartialEq, Eq, Debug)]
struct Runs {
    runs: usize,
    failures: usize,
}

impl Rounds {
    /// Adds a round.
    pub fn add(&mut self, tally: &Tally) {
        self.rounds += 1;
        let mut told = vec![];
        for suite in &tally.suites {
            self.suites.entry(suite.name.clone()).or_default().push(suite.seconds);
            for check in &suite.checks {
                let runs = self.checks.entry(format!("{}: {}", suite.name, check.name)).or_default();
                (runs.runs, runs.failures) = (runs.runs + 1, runs.failures + usize::from(!check.has_passed));
                if !check.has_passed {
                    told.push(&check.name);
                }
            }
        }
        // Some failures are no check: a program that does not build, or ends in the middle.
        for name in tally.failed.iter().filter(|name| !told.contains(name)) {
            let runs = self.checks.entry(name.clone()).or_default();
            (runs.runs, runs.failures) = (runs.runs + 1, runs.failures + 1);
        }
    }

    /// Tells the tables and, as the last line, how many runs of checks passed.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn tell(&self, arguments: &cli::Test) -> Result<ExitCode> {
        let failures: usize = self.checks.values().map(|runs| runs.failures).sum();
        let runs: usize = self.checks.values().map(|runs| runs.runs).sum();
        say(&format!("\n{}\n{}", paint(Paint::Bold, &format!("{} rounds", self.rounds)), table(&self.suite_rows())));
        say(&self.check_words());
        match arguments.json {
            true => print_json(self)?,
            false => println!("{} passed, {failures} failed", runs - failures),
        }
        Ok(ExitCode::from(u8::from(failures > 0)))
    }

    fn suite_rows(&self) -> Vec<Vec<String>> {
        let head = ["suite", "runs", "seconds: least", "median", "most"].map(str::to_owned).into();
        let row = |(name, seconds): (&String, &Vec<f64>)| {
            let spread = spread(seconds).map(|number| format!("{number:.1}"));
            [name.clone(), seconds.len().to_string()].into_iter().chain(spread).collect()
        };
        [head].into_iter().chain(self.suites.iter().map(row)).collect()
    }

    /// Checks that failed, each with its numbers; the others in one line.
    fn check_words(&self) -> String {
        let failed: Vec<_> = self.checks.iter().filter(|(_, runs)| runs.failures > 0).collect();
        let others = self.checks.len() - failed.len();
        let line = format!("{others} checks passed in every run");
        if failed.is_empty() {
            return line;
        }
        let head = ["check", "runs", "failures"].map(str::to_owned).into();
        let row = |(name, runs): (&String, &Runs)| vec![name.clone(), runs.runs.to_string(), runs.failures.to_string()];
        let rows: Vec<Vec<String>> = [head].into_iter().chain(failed.into_iter().map(row)).collect();
        format!("{}{line}", table(&rows))
    }
}

/// Returns the least, the median and the most of some numbers.
fn spread(numbers: &[f64]) -> [f64; 3] {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    [at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_command::tally::{Check, Suite};

    fn round(seconds: f64, has_passed: bool) -> Tally {
        let check = |name: &str, has_passed| Check { name: name.into(), has_passed };
        let checks = vec![check("a", has_passed), check("b", true)];
        let failed = if has_passed { vec![] } else { vec!["a".to_owned()] };
        let suites = vec![Suite { name: "tests/boot/s/run".into(), seconds, checks }];
        Tally { passed: 1, failed, suites, ..Tally::default() }
    }

    #[test]
    fn each_failure_counts_and_times_have_a_median() {
        let mut rounds = Rounds::default();
        for tally in
            [round(3.0, true), round(9.0, false), round(5.0, true), Tally::of_failure("p (ended in the middle)")]
        {
            rounds.add(&tally);
        }
        assert_eq!(rounds.checks["tests/boot/s/run: a"], Runs { runs: 3, failures: 1 });
        assert_eq!(rounds.checks["p (ended in the middle)"], Runs { runs: 1, failures: 1 });
        assert_eq!(rounds.suite_rows()[1], ["tests/boot/s/run", "3", "3.0", "5.0", "9.0"]);
        let words = rounds.check_words();
        assert!(words.contains("tests/boot/s/run: a") && words.ends_with("1 checks passed in every run"), "{words}");
    }

    #[test]
    fn the_code_says_whether_a_check_failed_in_any_round() {
        let code = |is_good: bool| {
            let mut rounds = Rounds::default();
            rounds.add(&round(1.0, is_good));
            format!("{:?}", rounds.tell(&cli::Test::default()).unwrap())
        };
        assert_eq!((code(true), code(false)), (format!("{:?}", ExitCode::SUCCESS), format!("{:?}", ExitCode::from(1))));
    }
}
