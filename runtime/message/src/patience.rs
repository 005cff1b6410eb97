//! Waiting with a bound that a pause of the host does not use up.
//!
//! A hypervisor may let the machine stand still for seconds. The clock goes on meanwhile, and the work that is waited for does not. So the bound is
//! counted in short steps: a pause is a part of one of them, however long it is.

use crate::runtime::sleep_ns;
use crate::wait::{Either, select};
use core::future::Future;

/// The longest step, ns.
const STEP_NS: u64 = 100_000_000;

/// Waits for something at most so long, ns of the machine's own time; `None` if it did not come, and is dropped.
pub async fn within<F: Future>(ns_max: u64, work: F) -> Option<F::Output> {
    match select(work, sleep_in_steps(ns_max)).await {
        Either::First(done) => Some(done),
        Either::Second(()) => None,
    }
}

async fn sleep_in_steps(ns: u64) {
    let mut left_ns = ns;
    while left_ns > 0 {
        let step_ns = left_ns.min(STEP_NS);
        sleep_ns(step_ns).await;
        left_ns = left_ns.saturating_sub(step_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::block_on;

    const MS: u64 = 1_000_000;

    fn passed_ns(since: u64) -> u64 {
        gyre_machine::now().saturating_sub(since) * MS / gyre_machine::cycles_per_ms()
    }

    #[test]
    fn work_that_comes_in_time_is_answered_and_work_that_does_not_is_given_up() {
        block_on(async {
            assert_eq!(within(350 * MS, async { 7 }).await, Some(7));
            let late = async {
                sleep_ns(351 * MS).await;
                7
            };
            let began = gyre_machine::now();
            assert_eq!(within(350 * MS, late).await, None);
            assert_eq!(passed_ns(began) / MS, 350);
            assert_eq!(within(0, core::future::pending::<()>()).await, None);
        });
    }

    #[test]
    fn a_pause_of_the_machine_is_one_step() {
        block_on(async {
            let began = gyre_machine::now();
            let work = async {
                sleep_ns(50 * MS).await;
                // The host takes the processors away here: the clock of all goes on.
                let ms = gyre_machine::cycles_per_ms();
                gyre_machine::set_virtual_time(gyre_machine::now().saturating_add(60_000 * ms));
                sleep_ns(250 * MS).await;
            };
            assert_eq!(within(1000 * MS, work).await, Some(()));
            assert!(passed_ns(began) > 60_000 * MS);
        });
    }
}
