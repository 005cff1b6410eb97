//! Work that may fail without ending the process: a panic within [`guarded`] is caught if the judge agrees.
//!
//! Unlike on the machine, what the work has on the stack is dropped. A test that wants to see what is lost fails between two steps, where
//! nothing is there.

use crate::machine::{core_index, with_machine};
use gyre_platform::{FailedAt, Failure, GivenUp, Verdict};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{MutexGuard, PoisonError};

/// The last failure of the core that asks.
fn last() -> MutexGuard<'static, Failure> {
    with_machine(|machine| machine.cores[core_index()].last_failure.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Decides whether a failure ends only the work that failed.
pub(crate) type Judge = fn(FailedAt) -> Verdict;

fn judge() -> MutexGuard<'static, Option<Judge>> {
    with_machine(|machine| machine.judge.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Sets who decides whether a failure within [`guarded`] ends only that.
pub fn set_judge(judge: fn(FailedAt) -> Verdict) {
    *self::judge() = Some(judge);
}

/// Runs `work`, once. A failure that is not contained goes on to the caller as a panic.
///
/// # Errors
/// [`GivenUp`] if it failed and the failure was contained. [`last_failure`] tells about it.
#[inline]
pub fn guarded<F: FnMut()>(work: F) -> Result<(), GivenUp> {
    let Err(payload) = catch_unwind(AssertUnwindSafe(work)) else { return Ok(()) };
    let decide = *judge();
    if decide.map(|judge| judge(FailedAt::Call)) != Some(Verdict::Contain) {
        resume_unwind(payload);
    }
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let mut failure = Failure::new();
    // A message that is too long is cut, which is no error.
    let _ = write!(failure, "{}", message.unwrap_or("a panic without a message"));
    *last() = failure;
    Err(GivenUp)
}

/// The last failure that this core contained.
pub fn last_failure() -> Failure {
    *last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_contained_only_where_the_judge_agrees() {
        assert_eq!(guarded(|| ()), Ok(()));
        set_judge(|_| Verdict::Contain);
        assert_eq!(guarded(|| panic!("the {}th", 7)), Err(GivenUp));
        assert_eq!(last_failure().message(), "the 7th");
        set_judge(|_| Verdict::EndMachine("it holds something"));
        assert!(catch_unwind(|| guarded(|| panic!("on and on"))).is_err());
    }
}
