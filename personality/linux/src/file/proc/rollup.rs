//! /proc/PID/smaps_rollup (proc(5)): the memory of a process in one sum, each page divided among the processes that
//! show it.
//!
//! It is not known which pages of a file were written: those of files are shown as clean, all others as dirty.

use alloc::format;
use alloc::vec::Vec;
use gyre_address_space::{AddressSpace, FRACTION_BITS, Usage};

/// Returns the text of the file.
pub(super) async fn text(space: &AddressSpace) -> Vec<u8> {
    let (first, last) = space.extent().unwrap_or_default();
    let mut text = format!("{first:08x}-{last:08x} ---p 00000000 00:00 0 {:24}[rollup]\n", "").into_bytes();
    for (name, bytes) in lines(&space.usage().await, space.locked_bytes()) {
        text.extend_from_slice(format!("{:<16}{:8} kB\n", format!("{name}:"), bytes / 1024).as_bytes());
    }
    text
}

/// Returns the lines in Linux's order, bytes.
pub(super) fn lines(usage: &Usage, locked: u64) -> [(&'static str, u64); 22] {
    let (anonymous, shared, files) = (usage.anonymous, usage.shared, usage.files);
    let all = |parts: [u64; 2]| u64::saturating_add(parts[0], parts[1]);
    let (own, own_private) = (all([anonymous.resident, shared.resident]), all([anonymous.private, shared.private]));
    let resident = all([own, files.resident]);
    let part = |fraction: u64| fraction >> FRACTION_BITS;
    [
        ("Rss", resident),
        ("Pss", part(usage.part())),
        ("Pss_Dirty", part(all([anonymous.part, shared.part]))),
        ("Pss_Anon", part(anonymous.part)),
        ("Pss_File", part(files.part)),
        ("Pss_Shmem", part(shared.part)),
        ("Shared_Clean", files.resident.saturating_sub(files.private)),
        ("Shared_Dirty", own.saturating_sub(own_private)),
        ("Private_Clean", files.private),
        ("Private_Dirty", own_private),
        ("Referenced", resident),
        ("Anonymous", anonymous.resident),
        ("KSM", 0),
        ("LazyFree", 0),
        ("AnonHugePages", usage.huge),
        ("ShmemPmdMapped", 0),
        ("FilePmdMapped", 0),
        ("Shared_Hugetlb", 0),
        ("Private_Hugetlb", 0),
        ("Swap", 0),
        ("SwapPss", 0),
        ("Locked", locked),
    ]
}
