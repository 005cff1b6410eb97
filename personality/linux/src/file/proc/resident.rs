//! The resident memory of a process by kind: /proc/PID/status and statm (proc(5)).
//!
//! RssAnon is private memory, with the copies that the process wrote of files; RssFile shows pages of files; RssShmem is memory without a
//! disk that others can see: tmpfs, memfd, segments, shared anonymous mappings. VmRSS is the sum of the three. A page counts whole, however
//! many processes show it; smaps_rollup has the parts.

use super::process_files::{self, Kind};
use super::view::ProcessView;
use alloc::format;
use alloc::vec::Vec;
use gyre_address_space::Usage;
use gyre_interface::files::FileError;

/// Bytes of a page, the unit of statm.
const PAGE_BYTES: u64 = 4096;

/// Returns the text of a file that tells resident memory by kind. It looks at all present pages, in turns.
///
/// # Errors
/// Invalid for another file.
pub(super) async fn text(view: ProcessView, kind: Kind) -> Result<Vec<u8>, FileError> {
    let usage = match &view.space {
        Some(space) => space.usage().await,
        None => Usage::default(),
    };
    match kind {
        Kind::Status => Ok(process_files::status(&view, &usage).into_bytes()),
        Kind::Statm => Ok(statm(&view, &usage).into_bytes()),
        _ => Err(FileError::Invalid),
    }
}

fn statm(view: &ProcessView, usage: &Usage) -> alloc::string::String {
    let pages = |bytes: u64| bytes / PAGE_BYTES;
    let shared = usage.shared.resident.saturating_add(usage.files.resident);
    let (all, resident) = (pages(view.virtual_bytes), pages(usage.resident()));
    format!("{all} {resident} {} 0 0 {all} 0\n", pages(shared))
}
