//! The choice of lots: one run if there is one, else few runs.
//!
//! A run never crosses 4 GiB: the lots that must lie below it (image and module, which are entered in 32-bit mode) are looked for in whole
//! runs.

use alloc::vec::Vec;
use gyre_interface::leases::{Kind, LeaseError, Lots, RUNS_MAX};

/// The first lot at or above 4 GiB, for lots of 2 MiB.
const HIGH: u64 = (4 << 30) / (2 << 20);

/// Gathers numbers of lots, in rising order, into runs.
pub(crate) fn gather(numbers: impl Iterator<Item = u64>) -> Vec<Lots> {
    let mut runs: Vec<Lots> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if follows(run, number) => run.count = run.count.saturating_add(1),
            _ => runs.push(Lots { first: number, count: 1 }),
        }
    }
    runs
}

fn follows(run: &Lots, number: u64) -> bool {
    number != HIGH && run.count < u32::MAX && run.first.checked_add(u64::from(run.count)) == Some(number)
}

/// Chooses `count` lots of free runs, the first `run` of them in one piece below 4 GiB.
///
/// # Errors
/// [`LeaseError::Lacking`], [`LeaseError::Scattered`].
pub(crate) fn choose(free: &[Lots], count: u32, run: u32) -> Result<Vec<Lots>, LeaseError> {
    let sum = free.iter().fold(0, |sum: u64, run| sum.saturating_add(u64::from(run.count)));
    if sum < u64::from(count) {
        return Err(LeaseError::Lacking { kind: Kind::Lot, wanted: u64::from(count), free: sum });
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let may_begin = |candidate: &&Lots| candidate.count >= run && (run == 0 || candidate.first < HIGH);
    let fits = free.iter().filter(may_begin).filter(|candidate| candidate.count >= count);
    if let Some(best) = fits.min_by_key(|candidate| (candidate.count, candidate.first)) {
        return Ok(alloc::vec![Lots { first: best.first, count }]);
    }
    let scattered = || {
        let lengths =
            free.iter().filter(|candidate| candidate.first < HIGH).map(|candidate| u64::from(candidate.count));
        LeaseError::Scattered { run: u64::from(run), longest: lengths.max().unwrap_or(0) }
    };
    let longest = |candidates: &mut dyn Iterator<Item = &Lots>| {
        candidates.max_by_key(|run| (run.count, u64::MAX.wrapping_sub(run.first))).copied()
    };
    let first = longest(&mut free.iter().filter(may_begin)).ok_or_else(scattered)?;
    let mut chosen = alloc::vec![first];
    let mut left = count.saturating_sub(first.count);
    while left > 0 {
        let others = &mut free.iter().filter(|run| !chosen.iter().any(|taken| taken.first == run.first));
        let next = longest(others).filter(|_| chosen.len() < RUNS_MAX).ok_or_else(scattered)?;
        chosen.push(Lots { first: next.first, count: next.count.min(left) });
        left = left.saturating_sub(next.count);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, count: u32) -> Lots {
        Lots { first, count }
    }

    #[test]
    fn the_smallest_run_that_holds_all_is_taken() {
        let free = [run(10, 9), run(100, 4), run(200, 5)];
        assert_eq!(choose(&free, 4, 2), Ok(alloc::vec![run(100, 4)]));
        assert_eq!(choose(&free, 5, 0), Ok(alloc::vec![run(200, 5)]));
    }

    #[test]
    fn few_long_runs_come_before_many_short_ones_and_the_first_holds_the_image() {
        let free = [run(1, 3), run(10, 6), run(HIGH + 8, 50)];
        assert_eq!(choose(&free, 52, 4), Ok(alloc::vec![run(10, 6), run(HIGH + 8, 46)]));
        let error = choose(&free, 52, 7);
        assert_eq!(error, Err(LeaseError::Scattered { run: 7, longest: 6 }));
    }

    #[test]
    fn runs_end_at_4_gib_and_are_not_too_many() {
        assert_eq!(gather(HIGH - 2..HIGH + 2), [run(HIGH - 2, 2), run(HIGH, 2)]);
        let single: Vec<Lots> = (0..20).map(|at| run(at * 2, 1)).collect();
        assert_eq!(choose(&single, 8, 1).map(|runs| runs.len()), Ok(8));
        assert!(matches!(choose(&single, 9, 1), Err(LeaseError::Scattered { .. })));
        assert_eq!(choose(&single, 21, 1), Err(LeaseError::Lacking { kind: Kind::Lot, wanted: 21, free: 20 }));
    }
}
