//! The rounds that victim and storm report: even ones alone, odd ones beside.

use std::fmt;

/// The times of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// How many.
    pub count: usize,
    /// Half of them took no longer, ms.
    pub p50: f64,
    /// 99 of 100 took no longer, ms.
    pub p99: f64,
}

impl Times {
    fn of(mut times_ms: Vec<f64>) -> Self {
        times_ms.sort_by(f64::total_cmp);
        Self { count: times_ms.len(), p50: at(&times_ms, 50), p99: at(&times_ms, 99) }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "p50 {:.2} ms, p99 {:.2} ms of {}", self.p50, self.p99, self.count)
    }
}

/// A round alone and the next one, beside the storm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The storm rests.
    pub alone: Times,
    /// The storm syncs.
    pub beside: Times,
}

/// All rounds of one machine.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// The victim's times by round, ms.
    times_ms: Vec<Vec<f64>>,
    /// Syncs of the storm a second, in rounds in which it syncs.
    pub stormed_per_second: f64,
}

impl Rounds {
    /// Reads what both tenants said.
    pub fn read(text: &str, seconds: u32) -> Self {
        let mut found = Self::default();
        for (round, ms) in numbers(text, "fsync: took ") {
            found.times_ms.resize(found.times_ms.len().max(round + 1), vec![]);
            found.times_ms.iter_mut().skip(round).take(1).for_each(|times| times.push(ms));
        }
        let counts: Vec<f64> = numbers(text, "fsync: stormed ").map(|(_, count)| count).collect();
        found.stormed_per_second = median(&counts) / f64::from(seconds.max(1));
        found
    }

    /// Returns the rounds, two by two.
    pub fn pairs(&self) -> Vec<Pair> {
        let times = |index: usize| Times::of(self.times_ms.get(index).cloned().unwrap_or_default());
        (0..self.times_ms.len() / 2).map(|pair| Pair { alone: times(2 * pair), beside: times(2 * pair + 1) }).collect()
    }

    /// Returns a value of each pair.
    pub fn each(&self, value: impl Fn(&Pair) -> f64) -> Vec<f64> {
        self.pairs().iter().map(value).collect()
    }

    /// Returns the times of all rounds beside the storm, or of all alone.
    pub fn together(&self, beside: bool) -> Times {
        let of_case = self.times_ms.iter().skip(usize::from(beside)).step_by(2);
        Times::of(of_case.flatten().copied().collect())
    }

    /// Syncs in the round that has the fewest.
    pub fn fewest(&self) -> usize {
        self.times_ms.iter().map(Vec::len).min().unwrap_or(0)
    }
}

/// Returns whether both tenants have come to their end.
pub fn is_over(text: &str) -> bool {
    text.contains("fsync: done") && text.contains("fsync: stormed ")
}

/// Returns the median; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    [low, high].iter().filter_map(|index| sorted.get(*index)).sum::<f64>() / 2.0
}

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0)
}

/// Round and number of all numbers of each line that begins so.
fn numbers<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = (usize, f64)> + 'a {
    let of_line = move |line: &'a str| {
        let (round, numbers) = line.trim().strip_prefix(mark)?.split_once(' ')?;
        let round = round.parse().ok()?;
        Some(numbers.split(' ').filter_map(move |number| Some((round, number.parse().ok()?))))
    };
    text.lines().filter_map(of_line).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_read_from_both_logs_and_paired() {
        let text = "fsync: took 0 4.5\r\nfsync: took 1 9\nfsync: took x\nfsync: took 2 1\nfsync: took 3 2 3\n\
                    fsync: done\nfsync: stormed 1 50\nfsync: stormed 3 70\n";
        let rounds = Rounds::read(text, 10);
        assert!(is_over(text) && rounds.stormed_per_second == 6.0 && rounds.fewest() == 1);
        assert_eq!(rounds.each(|pair| pair.beside.p99 / pair.alone.p99), [2.0, 2.0]);
        assert_eq!((rounds.together(false).count, rounds.together(true).count), (2, 3));
    }

    #[test]
    fn percentiles_and_medians_are_of_the_sorted_values() {
        let times = Times::of((0..100).rev().map(f64::from).collect());
        assert_eq!((times.p50, times.p99), (49.0, 98.0));
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0]), median(&[])), (2.0, 2.5, 0.0));
    }
}
