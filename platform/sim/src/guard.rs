//! Work that may fail without ending the process: a panic within [`guarded`] is caught where the judge agrees.
//!
//! Unlike on the machine, what the work has on the stack is dropped. A test that wants to see what is lost fails between two steps, where
//! nothing is there.

use gyre_platform::{FailedAt, Failure, GivenUp, Verdict};
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

thread_local! {
    // Tests run in threads of one process, each a machine of its own.
    static JUDGE: Cell<Option<fn(FailedAt) -> Verdict>> = const { Cell::new(None) };
    static LAST: RefCell<Failure> = const { RefCell::new(Failure::new()) };
}

/// Sets who decides whether a failure within [`guarded`] ends only that.
pub fn set_judge(judge: fn(FailedAt) -> Verdict) {
    JUDGE.set(Some(judge));
}

/// Runs `work`. A failure that is not contained goes on to the caller as a panic.
///
/// # Errors
/// [`GivenUp`] where it failed and the failure was contained. [`last_failure`] tells about it.
#[inline]
pub fn guarded<F: FnOnce()>(work: F) -> Result<(), GivenUp> {
    let Err(payload) = catch_unwind(AssertUnwindSafe(work)) else { return Ok(()) };
    if JUDGE.get().map(|judge| judge(FailedAt::Call)) != Some(Verdict::Contain) {
        resume_unwind(payload);
    }
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    LAST.with_borrow_mut(|last| {
        *last = Failure::new();
        // A message that is too long is cut, which is no error.
        let _ = write!(last, "{}", message.unwrap_or("a panic without a message"));
    });
    Err(GivenUp)
}

/// The last failure that this core contained.
pub fn last_failure() -> Failure {
    LAST.with_borrow(|last| *last)
}

/// A host's stacks are watched by the host.
#[inline(always)]
pub fn check_stack() {}

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
