//! Goals: a page of heartbeats for any program; all goals and changes as one for the system tenant.

use std::{
    io, mem, ptr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use gyre_contract::{
    goals::{Aim, BUCKETS, BeatsPage, GOALS_VERSION, Goals, bucket_of},
    native,
    promise::{Answer, Record, Together},
};

use crate::call;

const GOALS_BYTES_FIRST: usize = 32 << 10;
const ANSWER_BYTES: usize = 4 << 10;
const RECORDS_BYTES: usize = 128 << 10;

/// Reads all goals and measures; needs the rights of the system tenant.
///
/// # Errors
/// The kernel's error; `InvalidData` when the kernel writes another version.
pub fn goals() -> io::Result<Goals> {
    let mut buffer = vec![0; GOALS_BYTES_FIRST];
    loop {
        let bytes = call::with_output(native::GOALS, [], &mut buffer)?;
        match buffer.get(..bytes) {
            Some(encoded) => return decode(encoded),
            // It grows while we ask: leave some room.
            None => buffer.resize(bytes + bytes / 4, 0),
        }
    }
}

fn decode(encoded: &[u8]) -> io::Result<Goals> {
    let (version, _) = postcard::take_from_bytes::<u32>(encoded).map_err(invalid)?;
    if version != GOALS_VERSION {
        return Err(invalid(format!("the kernel's goals have version {version}, expected {GOALS_VERSION}")));
    }
    postcard::from_bytes(encoded).map_err(invalid)
}

fn invalid(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// Makes several changes as one; needs the rights of the system tenant.
///
/// # Errors
/// The kernel's error; a refusal is an answer.
pub fn change(together: &Together) -> io::Result<Answer> {
    let bytes = postcard::to_allocvec(together).map_err(invalid)?;
    let mut answer = vec![0; ANSWER_BYTES];
    let length = call::with_both(native::CHANGE, &bytes, &mut answer)?;
    postcard::from_bytes(answer.get(..length).unwrap_or_default()).map_err(invalid)
}

/// Reads the changes that were made, from an epoch on; needs the rights of the system tenant.
///
/// # Errors
/// The kernel's error.
pub fn changes(from: u64) -> io::Result<Vec<Record>> {
    let mut buffer = vec![0; RECORDS_BYTES];
    let length = call::with_output(native::CHANGES, [from as i64], &mut buffer)?;
    postcard::from_bytes(buffer.get(..length).unwrap_or_default()).map_err(invalid)
}

/// [`BeatsPage`] as its program writes it.
#[repr(C)]
struct Page {
    _head: u64,
    beats: AtomicU64,
    beat_ns: AtomicU64,
    sum_ns: AtomicU64,
    last_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

const _: () = assert!(mem::size_of::<Page>() == mem::size_of::<BeatsPage>());

/// A page of heartbeats of this program; given back when dropped.
pub struct Heartbeats(ptr::NonNull<Page>);

impl Heartbeats {
    /// Maps a page. A goal of the machine's owner counts more than `aim`.
    ///
    /// # Errors
    /// The kernel's error: a name of more than 24 bytes, a goal without sense, or more pages than a tenant may have.
    pub fn map(name: &str, aim: Option<Aim>) -> io::Result<Self> {
        let (kind, number) = match aim {
            None => (native::GOAL_NONE, 0),
            Some(Aim::Rate(beats)) => (native::GOAL_RATE, beats),
            Some(Aim::Response { target_ns, .. }) => (native::GOAL_RESPONSE, target_ns),
        };
        let words = [name.as_ptr() as i64, name.len() as i64, kind as i64, number as i64];
        let address = usize::try_from(call::numbers(native::GOAL, words)?).map_err(io::Error::other)?;
        ptr::NonNull::new(ptr::with_exposed_provenance_mut(address)).map(Self).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Counts a beat that took so long. Any thread may.
    pub fn beat(&self, took: Duration) {
        // SAFETY: the page is mapped as long as this value lives, is as large as `Page`, and all that is shared in it are atomics.
        let page = unsafe { self.0.as_ref() };
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = page.buckets.get(bucket_of(ns)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        page.sum_ns.fetch_add(ns, Ordering::Relaxed);
        page.last_ns.store(ns, Ordering::Relaxed);
        page.beats.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        // SAFETY: the page was mapped for this value alone, and nothing points into it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), mem::size_of::<Page>()) };
    }
}

// SAFETY: the page is written by atomic operations only, by any thread of the process alike.
unsafe impl Send for Heartbeats {}
// SAFETY: as above.
unsafe impl Sync for Heartbeats {}
