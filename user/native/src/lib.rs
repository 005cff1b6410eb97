//! The native system calls, for programs in the machine (numbers and layouts: `gyre_config::native`; for C: `include/gyre.h`).
//!
//! On Linux each of them answers `ENOSYS` ([`std::io::ErrorKind::Unsupported`]).
#![deny(unsafe_op_in_unsafe_fn)]

mod call;
mod figures;
pub mod flow;

use std::{io, os::fd::RawFd};

use gyre_config::{
    monitor::Snapshot,
    native::{self, Change, SpawnRequest},
};

pub use figures::{FiguresPage, figures};

const SNAPSHOT_BYTES_FIRST: usize = 64 << 10;
const LOG_HEADER_BYTES: usize = 8;

/// Reads the figures of the machine, or, without the rights of the system tenant, one's own.
///
/// # Errors
/// What the kernel answers; `InvalidData` when the kernel writes another version.
pub fn snapshot() -> io::Result<Snapshot> {
    let mut buffer = vec![0; SNAPSHOT_BYTES_FIRST];
    loop {
        let bytes = call::with_output(native::SNAPSHOT, [], &mut buffer)?;
        match buffer.get(..bytes) {
            Some(encoded) => return decode(encoded),
            // It grows while we ask: leave some room.
            None => buffer.resize(bytes + bytes / 4, 0),
        }
    }
}

fn decode(encoded: &[u8]) -> io::Result<Snapshot> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    // The version stands first, so that another one is seen before the rest is misread.
    let version: u32 = postcard::take_from_bytes(encoded).map_err(|error| wrong(error.to_string()))?.0;
    if version != gyre_config::monitor::VERSION {
        return Err(wrong(format!(
            "the kernel's figures have version {version}, expected {}",
            gyre_config::monitor::VERSION
        )));
    }
    postcard::from_bytes(encoded).map_err(|error| wrong(error.to_string()))
}

/// Starts a program in a tenant; the descriptors stay the caller's.
///
/// # Errors
/// What the kernel answers.
pub fn spawn(tenant: &str, argv: &[String], environment: &[String], streams: [RawFd; 3]) -> io::Result<i32> {
    let [stdin, stdout, stderr] = streams;
    let request = SpawnRequest {
        tenant: tenant.into(),
        argv: argv.to_vec(),
        environment: environment.to_vec(),
        stdin,
        stdout,
        stderr,
    };
    let bytes = postcard::to_allocvec(&request)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let pid = call::with_input(native::SPAWN, &bytes)?;
    i32::try_from(pid).map_err(io::Error::other)
}

/// Makes a file of a tenant durable, or without one all that the tenant has written; `None` is the caller's own tenant.
///
/// # Errors
/// What the kernel answers.
pub fn checkpoint(tenant: Option<u32>, file: Option<&str>) -> io::Result<()> {
    keep(native::CHECKPOINT, tenant, file).map(drop)
}

/// The same, and drops it from memory then; answers the bytes that were.
///
/// # Errors
/// What the kernel answers.
pub fn evict(tenant: Option<u32>, file: Option<&str>) -> io::Result<u64> {
    keep(native::EVICT, tenant, file).map(|bytes| bytes as u64)
}

fn keep(number: u64, tenant: Option<u32>, file: Option<&str>) -> io::Result<i64> {
    let tenant = tenant.map_or(native::OWN_TENANT, u64::from);
    call::with_number_and_input(number, tenant, file.unwrap_or_default().as_bytes())
}

/// Waits for the end of a program started by [`spawn`]; returns its exit code, or 128 and the signal that ended it.
///
/// # Errors
/// What the kernel answers.
pub fn wait(pid: i32) -> io::Result<i32> {
    let status = call::plain(native::WAIT, [i64::from(pid), 0])?;
    let (code, signal) = ((status >> 8) & 0xff, status & 0x7f);
    Ok(if signal == 0 { code as i32 } else { 128 + signal as i32 })
}

/// Sends a signal to a program started by [`spawn`].
///
/// # Errors
/// What the kernel answers.
pub fn terminate(pid: i32, signal: i32) -> io::Result<()> {
    call::plain(native::TERMINATE, [i64::from(pid), i64::from(signal)]).map(drop)
}

/// Reads what a tenant (its index in the machine) wrote, from an offset on: returns the offset of the first byte, and the bytes.
///
/// # Errors
/// What the kernel answers.
pub fn log(tenant: u32, offset: u64, length: usize) -> io::Result<(u64, Vec<u8>)> {
    let mut buffer = vec![0; LOG_HEADER_BYTES + length];
    let bytes = call::with_output(native::LOG, [i64::from(tenant), offset as i64], &mut buffer)?;
    let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel wrote no offset");
    let (first, rest) = buffer.split_first_chunk::<LOG_HEADER_BYTES>().ok_or_else(short)?;
    let text = rest.get(..bytes.checked_sub(LOG_HEADER_BYTES).ok_or_else(short)?).ok_or_else(short)?;
    Ok((u64::from_le_bytes(*first), text.to_vec()))
}

/// Ends the machine in order: programs have `grace_ms` after SIGTERM. Returns at once; see [`native::END`].
///
/// # Errors
/// What the kernel answers.
pub fn end(grace_ms: u64) -> io::Result<()> {
    let grace_ms = i64::try_from(grace_ms).map_err(io::Error::other)?;
    call::plain(native::END, [grace_ms, 0]).map(drop)
}

/// Changes the running machine; needs the rights of the system tenant.
///
/// # Errors
/// What the kernel answers; see [`native::SET`].
pub fn set(change: &Change) -> io::Result<()> {
    let bytes = postcard::to_allocvec(change)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    call::with_input(native::SET, &bytes).map(drop)
}
