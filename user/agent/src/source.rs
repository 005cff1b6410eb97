//! Where the figures come from.

mod fake;
mod linux;
mod native;

use std::{
    io,
    io::{PipeReader, PipeWriter},
};

use gyre_config::{monitor::Snapshot, native::Change, session::ExecRequest};

pub use self::{fake::Fake, linux::Linux, native::Native};

/// A machine, seen from inside.
pub trait Source: Send + Sync + 'static {
    /// Reads all figures.
    ///
    /// # Errors
    /// What the kernel answers.
    fn snapshot(&self) -> io::Result<Snapshot>;

    /// Reads what a tenant wrote from an offset on: the offset of the first byte, and the bytes; none is "nothing new".
    ///
    /// # Errors
    /// `NotFound` when there is no such tenant.
    fn log(&self, tenant: &str, offset: u64) -> io::Result<(u64, Vec<u8>)>;

    /// Makes a file of a tenant durable, or all of it without one; with `evict` also drops it from memory, and answers the bytes.
    ///
    /// # Errors
    /// What the kernel answers; `Unsupported` on machines that have no such call.
    fn keep(&self, _tenant: &str, _file: Option<&str>, _evict: bool) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Changes the machine.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the wish.
    fn set(&self, change: &Change) -> io::Result<()>;

    /// Begins to end the machine in order; programs have `grace_ms` after SIGTERM.
    ///
    /// # Errors
    /// What the kernel answers; `Unsupported` on machines that have no such call.
    fn end(&self, _grace_ms: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts a program in a tenant with these streams.
    ///
    /// # Errors
    /// What the kernel answers.
    fn spawn(&self, request: &ExecRequest, streams: Streams) -> io::Result<Box<dyn Program>>;
}

/// Says that there is no such tenant, and which there are.
fn no_tenant(tenant: &str, names: &[&str]) -> io::Error {
    let why = format!("there is no tenant `{tenant}`; there is: {}", names.join(", "));
    io::Error::new(io::ErrorKind::NotFound, why)
}

/// The program's ends of its standard streams.
pub struct Streams {
    /// What it reads.
    pub stdin: PipeReader,
    /// What it writes.
    pub stdout: PipeWriter,
    /// What it complains to.
    pub stderr: PipeWriter,
}

/// A program that runs.
pub trait Program: Send + Sync {
    /// Waits for its end: exit code, or 128 and the signal.
    ///
    /// # Errors
    /// What the kernel answers.
    fn wait(&self) -> io::Result<i32>;

    /// Sends it a signal.
    ///
    /// # Errors
    /// What the kernel answers.
    fn signal(&self, signal: i32) -> io::Result<()>;
}
