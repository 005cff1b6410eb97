//! Telling each open file description once that contents of its file were lost at a write-back (fsync(2), since Linux 4.13).
//!
//! The file system tells a loss to whoever syncs first, and counts what it has told. A description knows that count as it was when the file was
//! opened, or when it was told last; a higher one is news. A mapping tells by the description that it was made of, which it keeps.
//!
//! Left out: syncfs tells a loss once for each file system, not for each description.

use super::mapped;
use super::mount::Place;
use super::open_file::OpenFile;
use crate::{Errno, Thread};
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_address_space::MappedFile;
use gyre_interface::files::{Attributes, FileError};

/// The losses that a description was told, or that were told to others before it was opened.
#[derive(Default)]
pub struct KnownLosses(AtomicU32);

impl KnownLosses {
    /// Notes what was told before the file was opened with these attributes.
    pub fn begin(&self, opened: &Attributes) {
        self.0.store(opened.losses, Ordering::Release);
    }

    /// Returns whether a count is news, once.
    fn learn(&self, losses: u32) -> bool {
        self.0.fetch_max(losses, Ordering::AcqRel) < losses
    }
}

/// Makes a file durable.
///
/// # Errors
/// EIO if contents were lost and this description was not told yet; the file system's.
pub async fn sync(file: &OpenFile, place: &Place) -> Result<(), Errno> {
    let synced = place.system().sync(place.node).await;
    tell(file, place, synced).await
}

/// Answers a request that tells losses, for a description.
///
/// # Errors
/// As [`sync`].
pub async fn tell(file: &OpenFile, place: &Place, answer: Result<(), FileError>) -> Result<(), Errno> {
    let losses = place.system().attributes(place.node).await.map(|attributes| attributes.losses);
    match losses {
        Ok(losses) if file.losses.learn(losses) => Err(Errno::EIO),
        _ => Ok(answer?),
    }
}

/// Makes the files durable that a program may write through its mappings in a range (msync, MS_SYNC).
///
/// # Errors
/// EIO as [`sync`]; ENOMEM for a hole, once the rest is done.
pub async fn sync_mappings(thread: &Thread, address: u64, bytes: u64) -> Result<(), Errno> {
    let shown = thread.space().written_files(address, bytes)?;
    for file in &shown.files {
        sync_mapping(file).await?;
    }
    if shown.is_whole { Ok(()) } else { Err(Errno::ENOMEM) }
}

async fn sync_mapping(mapped: &MappedFile) -> Result<(), Errno> {
    match mapped::described(mapped) {
        Some((file, place)) => sync(file, place).await,
        None => Ok(mapped.client().sync(mapped.node()).await?),
    }
}
