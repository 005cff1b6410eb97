//! Jobs side by side: each lane takes the next one that nobody has begun.
//!
//! The list has the longest jobs first: then all lanes end at about one time.

use std::{collections::VecDeque, sync::Mutex};

use super::tally::Tally;
use crate::failure::Result;

/// Something that tests, and says what passed and what failed.
pub type Job<'a> = Box<dyn FnOnce() -> Result<Tally> + Send + 'a>;

/// Lanes on a machine of many cores: a job may use hundreds of MiB.
const MOST: usize = 8;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns how many lanes keep all cores busy: one more than there are cores, since jobs wait for files and for each other.
pub fn enough() -> usize {
    cores().saturating_add(1).min(MOST)
}

/// Returns how many threads a job in one of [`enough`] lanes may use: together they want about the cores that there are.
pub fn threads_each() -> usize {
    (cores() / enough()).max(1)
}

/// Runs jobs, as many at once as there are lanes, and adds up what they counted. `what` names them if one panics.
///
/// # Errors
/// The first one of a job that could not even be started; its lane ends then, the others go on.
pub fn run(what: &str, jobs: Vec<Job>, lanes: usize) -> Result<Tally> {
    let waiting = Mutex::new(VecDeque::from(jobs));
    let counts: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..lanes).map(|_| scope.spawn(|| lane(&waiting))).collect();
        running.into_iter().filter_map(|lane| lane.join().ok()).collect()
    });
    let mut tally = Tally::default();
    if counts.len() < lanes {
        tally.failed.push(format!("{what} (a thread of the tool panicked)"));
    }
    counts.into_iter().try_for_each(|count| {
        tally.add(count?);
        Ok::<(), crate::failure::Failure>(())
    })?;
    Ok(tally)
}

fn lane(waiting: &Mutex<VecDeque<Job>>) -> Result<Tally> {
    let mut tally = Tally::default();
    while let Some(job) = next(waiting) {
        tally.add(job()?);
    }
    Ok(tally)
}

fn next<'a>(waiting: &Mutex<VecDeque<Job<'a>>>) -> Option<Job<'a>> {
    waiting.lock().ok()?.pop_front()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::failure::Failure;

    fn passed(count: usize) -> Result<Tally> {
        Ok(Tally { passed: count, ..Tally::default() })
    }

    #[test]
    fn two_lanes_run_two_jobs_at_once_and_count_all() {
        // Each of the first two waits until the other has begun: one lane would never end.
        let both = Barrier::new(2);
        let meet = || -> Result<Tally> {
            both.wait();
            passed(1)
        };
        let failed = || Ok(Tally::of_failure("c"));
        let jobs: Vec<Job> = vec![Box::new(meet), Box::new(meet), Box::new(failed), Box::new(|| passed(3))];
        let tally = run("jobs", jobs, 2).unwrap();
        assert_eq!((tally.passed, tally.failed), (5, vec!["c".to_owned()]));
    }

    #[test]
    fn a_job_that_cannot_start_is_an_error_and_one_that_panics_a_failure() {
        assert!(run("jobs", vec![Box::new(|| Err(Failure::new("no such program")))], 2).is_err());
        let tally = run("jobs", vec![Box::new(|| panic!("on purpose")), Box::new(|| passed(1))], 2).unwrap();
        assert_eq!((tally.passed, tally.failed), (1, vec!["jobs (a thread of the tool panicked)".to_owned()]));
    }
}
