//! Asynchronous input and output: pieces of work that run without a waiting caller.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use gyre_message::{Gone, protocol};

/// A piece of work. It makes its requests one after the other, tells its outcome to its owner itself, and answers how
/// many bytes it moved.
pub type Work = Pin<Box<dyn Future<Output = u64> + Send>>;

/// Most pieces of work that one activity has under way.
pub const UNDER_WAY_MAX: usize = 4096;

/// The reason why work was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsyncIoError {
    /// The activity has [`UNDER_WAY_MAX`] pieces of work under way. Ask again when some of them are done.
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
    /// The requests of the asynchronous I/O resource.
    pub mod async_io {
        /// Does the work in the name of the caller's activity, in the order of the resource's scheduler. Answers when
        /// it is done. The work goes on if the caller drops the answer.
        async fn run(work: Work) -> Result<(), AsyncIoError>;
    }
}
