//! Asynchronous input and output: work that its asker does not wait for.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use gyre_message::{Gone, protocol};

/// A piece of work: it does its requests one after the other, and tells whom it concerns itself. Answers how many bytes it moved.
pub type Work = Pin<Box<dyn Future<Output = u64> + Send>>;

/// Most pieces of work that one activity has under way.
pub const UNDER_WAY_MAX: usize = 4096;

/// Why work was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsyncIoError {
    /// The activity has as much under way as it may: later, when some of it is done.
    Full,
    /// The server is gone.
    Gone,
}

impl From<Gone> for AsyncIoError {
    fn from(_: Gone) -> AsyncIoError {
        AsyncIoError::Gone
    }
}

protocol! {
    /// What the asynchronous I/O resource does for others.
    pub mod async_io {
        /// Does the work in the name of who asks, in the order of the resource's scheduler. Answers when it is done; the work goes on if
        /// nobody waits for the answer.
        async fn run(work: Work) -> Result<(), AsyncIoError>;
    }
}
