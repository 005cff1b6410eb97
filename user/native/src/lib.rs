//! The native system calls, for programs in the machine (numbers and layouts: `gyre_contract::native`; for C: `include/gyre.h`).
//!
//! On Linux each of them answers `ENOSYS` ([`std::io::ErrorKind::Unsupported`]).
#![deny(unsafe_op_in_unsafe_fn)]

pub mod aggregate;
mod call;
pub mod cells;
pub mod channel;
mod figures;
pub mod flow;
pub mod goals;
pub mod seats;
pub mod trace;
pub mod zones;

use std::{
    io,
    os::fd::{OwnedFd, RawFd},
};

use gyre_contract::{
    monitor::Snapshot,
    native::{self, Change, SpawnRequest},
};

pub use figures::{FiguresPage, figures};

const SNAPSHOT_BYTES_FIRST: usize = 64 << 10;
const LOG_HEADER_BYTES: usize = 8;

/// Reads the figures of the machine, or, without the rights of the system tenant, one's own.
///
/// # Errors
/// The kernel's error; `InvalidData` when the kernel writes another version.
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
    if version != gyre_contract::monitor::VERSION {
        return Err(wrong(format!(
            "the kernel's figures have version {version}, expected {}",
            gyre_contract::monitor::VERSION
        )));
    }
    postcard::from_bytes(encoded).map_err(|error| wrong(error.to_string()))
}

/// Starts a program in a tenant; the descriptors stay the caller's.
///
/// # Errors
/// The kernel's error.
pub fn spawn(tenant: &str, argv: &[String], environment: &[String], streams: [RawFd; 3]) -> io::Result<i32> {
    let [stdin, stdout, stderr] = streams;
    let request = SpawnRequest {
        tenant: tenant.into(),
        argv: argv.to_vec(),
        environment: environment.to_vec(),
        stdin,
        stdout,
        stderr,
        terminal: None,
    };
    i32::try_from(spawned(&request)?).map_err(io::Error::other)
}

/// Starts a program in a tenant with a terminal of so many rows and columns; returns the terminal's other end, too.
///
/// # Errors
/// The kernel's error.
pub fn spawn_on_terminal(
    tenant: &str,
    argv: &[String],
    environment: &[String],
    size: [u16; 2],
) -> io::Result<(i32, OwnedFd)> {
    let request = SpawnRequest {
        tenant: tenant.into(),
        argv: argv.to_vec(),
        environment: environment.to_vec(),
        stdin: -1,
        stdout: -1,
        stderr: -1,
        terminal: Some(size),
    };
    let both = spawned(&request)?;
    let master = i32::try_from(both >> native::SPAWN_MASTER_SHIFT).map_err(io::Error::other)?;
    Ok(((both & i64::from(u32::MAX)) as i32, call::owned(master)))
}

fn spawned(request: &SpawnRequest) -> io::Result<i64> {
    let bytes = postcard::to_allocvec(request)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    call::with_input(native::SPAWN, &bytes)
}

/// Makes a file of a tenant durable, or without one all that the tenant has written; `None` is the caller's own tenant.
///
/// # Errors
/// The kernel's error.
pub fn checkpoint(tenant: Option<u32>, file: Option<&str>) -> io::Result<()> {
    keep(native::CHECKPOINT, tenant, file).map(drop)
}

/// Does so, and drops it from memory then; answers the bytes that were.
///
/// # Errors
/// The kernel's error.
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
/// The kernel's error.
pub fn wait(pid: i32) -> io::Result<i32> {
    let status = call::plain(native::WAIT, [i64::from(pid), 0])?;
    let (code, signal) = ((status >> 8) & 0xff, status & 0x7f);
    Ok(if signal == 0 { code as i32 } else { 128 + signal as i32 })
}

/// Sends a signal to a program started by [`spawn`].
///
/// # Errors
/// The kernel's error.
pub fn terminate(pid: i32, signal: i32) -> io::Result<()> {
    call::plain(native::TERMINATE, [i64::from(pid), i64::from(signal)]).map(drop)
}

/// Reads what a tenant (its index in the machine) wrote, from an offset on: returns the offset of the first byte, and the bytes.
///
/// # Errors
/// The kernel's error.
pub fn log(tenant: u32, offset: u64, length: usize) -> io::Result<(u64, Vec<u8>)> {
    tail(native::LOG, tenant, offset, length)
}

/// Reads a part of something of which the kernel keeps the last bytes.
fn tail(number: u64, index: u32, offset: u64, length: usize) -> io::Result<(u64, Vec<u8>)> {
    let mut buffer = vec![0; LOG_HEADER_BYTES + length];
    let bytes = call::with_output(number, [i64::from(index), offset as i64], &mut buffer)?;
    let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel wrote no offset");
    let (first, rest) = buffer.split_first_chunk::<LOG_HEADER_BYTES>().ok_or_else(short)?;
    let text = rest.get(..bytes.checked_sub(LOG_HEADER_BYTES).ok_or_else(short)?).ok_or_else(short)?;
    Ok((u64::from_le_bytes(*first), text.to_vec()))
}

/// Types on the console of a tenant (its index in the machine); returns the bytes taken.
///
/// # Errors
/// The kernel's error; `WouldBlock` while nobody reads.
pub fn type_in(tenant: u32, bytes: &[u8]) -> io::Result<usize> {
    let taken = call::with_number_and_input(native::TYPE, u64::from(tenant), bytes)?;
    usize::try_from(taken).map_err(io::Error::other)
}

/// Ends the machine in order: programs have `grace_ms` after SIGTERM. Returns at once; see [`native::END`].
///
/// # Errors
/// The kernel's error.
pub fn end(grace_ms: u64) -> io::Result<()> {
    let grace_ms = i64::try_from(grace_ms).map_err(io::Error::other)?;
    call::plain(native::END, [grace_ms, 0]).map(drop)
}

/// Changes the running machine; needs the rights of the system tenant.
///
/// # Errors
/// The kernel's error; see [`native::SET`].
pub fn set(change: &Change) -> io::Result<()> {
    let bytes = postcard::to_allocvec(change)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    call::with_input(native::SET, &bytes).map(drop)
}
