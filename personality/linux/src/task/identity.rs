//! Who a thread is.

use crate::{Arguments, Outcome, Thread};
use alloc::sync::Arc;

/// `getpid()`.
pub fn getpid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Ok(thread.process().id() as u64)
}
