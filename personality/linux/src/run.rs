//! The loop of a thread: run, trap, serve, deliver signals.

use crate::table::{self, report_missing};
use crate::{Arguments, Outcome, Thread, file};
use alloc::sync::Arc;

/// Serves one system call.
pub async fn system_call(thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Outcome {
    if let Some(outcome) = file::table::dispatch(thread, number, arguments).await {
        return outcome;
    }
    if let Some(outcome) = table::dispatch(thread, number, arguments).await {
        return outcome;
    }
    report_missing(thread, number)
}
