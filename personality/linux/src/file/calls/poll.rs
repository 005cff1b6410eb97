//! poll and ppoll, and the timeouts and signal masks of all calls that wait for files.
//!
//! Each call makes a list of watched files with the wanted events and waits for the first that is ready ([`super::watched`]), until a
//! deadline or a signal. ppoll does that under another signal mask ([`with_mask`]), as pselect6, epoll_pwait and io_uring_enter do.

use super::watched::{Patience, Watched, list_of, wait_for};
use crate::file::buffer::half;
use crate::signal::SignalSet;
use crate::time::{TimeSpec, cycles_from_now};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use linux_raw_sys::general as raw;

/// Bytes of a `struct pollfd`.
const ENTRY_BYTES: usize = 8;
/// Entries of one piece of a long list.
const PIECE: usize = 256;
const PIECE_BYTES: usize = PIECE * ENTRY_BYTES;

/// Runs a call with another signal mask, if `mask` is not null.
pub(super) async fn with_mask(thread: &Thread, mask: u64, bytes: u64, call: impl Future<Output = Outcome>) -> Outcome {
    if mask == 0 {
        return call.await;
    }
    if bytes != 8 {
        return Err(Errno::EINVAL);
    }
    let mut set = [0; 8];
    thread.copy_in(mask, &mut set).await?;
    thread.set_temporary_mask(SignalSet(u64::from_le_bytes(set)));
    let outcome = call.await;
    if !outcome.is_err_and(Errno::asks_restart) {
        thread.end_temporary_mask();
    }
    outcome
}

/// How long a call waits: `None` for ever, 0 not at all.
#[derive(Clone, Copy)]
pub(super) struct Timeout(pub Option<u64>);

impl Timeout {
    /// Converts from `int` milliseconds; negative is for ever.
    pub fn from_ms(ms: i32) -> Timeout {
        Timeout(u64::try_from(ms).ok().map(|ms| ms.saturating_mul(1_000_000)))
    }

    /// Converts from a `struct timespec` in the program; null is for ever.
    pub async fn from_timespec(thread: &Thread, address: u64) -> Result<Timeout, Errno> {
        if address == 0 {
            return Ok(Timeout(None));
        }
        let time: TimeSpec = thread.read_struct(address).await?;
        Ok(Timeout(Some(time.ns()?)))
    }

    pub fn is_zero(self) -> bool {
        self.0 == Some(0)
    }

    /// Returns how long a wait that begins now may last.
    pub fn patience(self) -> Patience {
        if self.is_zero() { Patience::None } else { self.deadline().map_or(Patience::Endless, Patience::UntilCycles) }
    }

    pub fn deadline(self) -> Option<u64> {
        self.0.map(cycles_from_now)
    }
}

/// `poll(entries, count, ms)`.
pub async fn poll(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    poll_entries(thread, a.word(0), a.word(1), Timeout::from_ms(a.int(2))).await
}

/// `ppoll(entries, count, timeout, mask, mask_bytes)`.
pub async fn ppoll(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timeout = Timeout::from_timespec(thread, a.word(2)).await?;
    let call = poll_entries(thread, a.word(0), a.word(1), timeout);
    with_mask(thread, a.word(3), a.word(4), call).await
}

async fn poll_entries(thread: &Thread, address: u64, count: u64, timeout: Timeout) -> Outcome {
    if count > thread.process().limit(raw::RLIMIT_NOFILE) {
        return Err(Errno::EINVAL);
    }
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(ENTRY_BYTES)).ok_or(Errno::EINVAL)?;
    let mut entries = thread.read_vec(address, bytes).await?;
    let watched = watched_of(thread, &entries).await?;
    let found = wait_for(thread, &watched, timeout.patience()).await?;
    let mut ready = 0;
    for (entries, found) in entries.chunks_mut(PIECE_BYTES).zip(found.chunks(PIECE)) {
        ready = u64::saturating_add(ready, note_events(entries, found));
        thread.pause().await;
    }
    thread.copy_out(address, &entries).await?;
    Ok(ready)
}

/// Returns the files that the entries name.
async fn watched_of(thread: &Thread, entries: &[u8]) -> Result<Vec<Watched>, Errno> {
    let files = thread.process().files();
    let mut watched = list_of(entries.len() / ENTRY_BYTES)?;
    for piece in entries.chunks(PIECE_BYTES) {
        let table = files.table();
        watched.extend(piece.chunks_exact(ENTRY_BYTES).map(|entry| {
            let descriptor = half(entry, 0) as i32;
            match table.get(descriptor) {
                Ok(file) => Watched::for_poll(file, half(entry, 4) & 0xffff),
                Err(_) if descriptor < 0 => Watched::Nothing,
                Err(_) => Watched::NotOpen,
            }
        }));
        thread.pause().await;
    }
    Ok(watched)
}

/// Writes the bits found into the entries; returns the number of entries with any.
fn note_events(entries: &mut [u8], found: &[u32]) -> u64 {
    for (entry, bits) in entries.chunks_exact_mut(ENTRY_BYTES).zip(found) {
        entry[6..8].copy_from_slice(&(*bits as u16).to_le_bytes());
    }
    found.iter().filter(|bits| **bits != 0).count() as u64
}
