//! Traces of processes, for the system tenant.

use std::io;

use gyre_contract::{
    native,
    trace::{BATCH_BYTES_MAX, Batch},
};

use crate::call;

/// A trace; ends when dropped.
#[derive(Debug)]
pub struct Trace {
    number: i64,
    buffer: Vec<u8>,
}

impl Trace {
    /// Begins to keep the calls of a process of a tenant (its index in the machine).
    ///
    /// # Errors
    /// The kernel's error; see [`native::TRACE_BEGIN`].
    pub fn begin(tenant: u32, process: i32) -> io::Result<Self> {
        let number = call::plain(native::TRACE_BEGIN, [i64::from(tenant), i64::from(process)])?;
        Ok(Self { number, buffer: vec![0; BATCH_BYTES_MAX] })
    }

    /// Takes the calls since the last time. Never waits.
    ///
    /// # Errors
    /// The kernel's error; see [`native::TRACE_READ`].
    pub fn read(&mut self) -> io::Result<Batch> {
        let bytes = call::with_output(native::TRACE_READ, [self.number], &mut self.buffer)?;
        let wrong = |error: postcard::Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        postcard::from_bytes(self.buffer.get(..bytes).unwrap_or_default()).map_err(wrong)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // It ends with this process at the latest.
        let _ = call::plain(native::TRACE_END, [self.number, 0]);
    }
}
