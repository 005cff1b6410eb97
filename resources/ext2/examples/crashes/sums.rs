//! The sums of operations and comparisons of many simulated machines.

use super::crash::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Numbers by name; those of operations are named "operation NAME".
#[derive(Default)]
pub struct Sums {
    counts: BTreeMap<String, u64>,
    /// Seeds that lost something.
    pub losses: Vec<u64>,
}

const OPERATION: &str = "operation ";

impl Sums {
    /// Adds the outcome of one machine.
    pub fn add(&mut self, outcome: &Outcome) {
        outcome
            .operations
            .iter()
            .for_each(|(operation, count)| self.count(&format!("{OPERATION}{operation:?}"), *count));
        self.count("sectors_at_risk", outcome.sectors_at_risk);
        self.count("sectors_kept", outcome.sectors_kept);
        for compared in &outcome.compared {
            self.count("crashes", 1);
            self.count("names_compared", compared.names);
            self.count("nodes_compared", compared.nodes);
            self.count("bytes_compared", compared.bytes);
            self.count("promises_kept", compared.promises);
            self.count("nodes_in_lost_and_found", compared.lost_and_found);
        }
    }

    fn count(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.into()).or_default() += count;
    }

    /// Returns a line for each number, for another process to read.
    pub fn lines(&self) -> String {
        self.counts.iter().map(|(name, count)| format!("{name} {count}\n")).collect()
    }

    /// Adds the sums that another process has written.
    pub fn add_lines(&mut self, lines: &str) {
        for (name, number) in lines.lines().filter_map(|line| line.rsplit_once(' ')) {
            let Ok(number) = number.parse() else { continue };
            self.count(name, number);
        }
    }

    /// Returns how many crashes were compared.
    pub fn crashes(&self) -> u64 {
        self.counts.get("crashes").copied().unwrap_or(0)
    }

    /// Returns one JSON object; `head` are members that come first.
    pub fn json(&self, head: &str, seconds: f64) -> String {
        let mut text = format!("{{\n{head}");
        let (operations, others): (Vec<_>, Vec<_>) =
            self.counts.iter().partition(|(name, _)| name.starts_with(OPERATION));
        others.iter().for_each(|(name, count)| writeln!(text, "  \"{name}\": {count},").expect("memory"));
        let operations: Vec<String> =
            operations.iter().map(|(name, count)| format!("    \"{}\": {count}", &name[OPERATION.len()..])).collect();
        let losses: Vec<String> = self.losses.iter().map(u64::to_string).collect();
        write!(text, "  \"operations\": {{\n{}\n  }},\n", operations.join(",\n")).expect("memory");
        write!(text, "  \"losses\": [{}],\n  \"seconds\": {seconds:.1}\n}}\n", losses.join(", ")).expect("memory");
        text
    }
}
