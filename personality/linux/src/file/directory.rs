//! Reading directories in the form of `struct linux_dirent64` (getdents64(2)).

use super::open_file::OpenFile;
use crate::Errno;
use alloc::vec::Vec;
use gyre_interface::files::{DirectoryEntry, NodeKind};

/// Bytes before the name: inode, offset, length, kind.
const HEADER_BYTES: usize = 19;
/// Bytes of names asked for at once.
const BATCH_BYTES: usize = 32 * 1024;

/// Entries from the position on, which moves behind the last one.
pub(super) async fn read_entries(file: &OpenFile, bytes_max: usize) -> Result<Vec<u8>, Errno> {
    let place = file.place().ok_or(Errno::ENOTDIR)?;
    let position = file.position.hold().await;
    let batch = bytes_max.min(BATCH_BYTES);
    let from = position.get();
    let entries = place.system().read_directory(place.node, from, batch).await?;
    let mut out = Vec::new();
    for entry in &entries {
        if out.len().saturating_add(record_bytes(entry)) > bytes_max {
            if out.is_empty() {
                return Err(Errno::EINVAL);
            }
            break;
        }
        push_record(&mut out, entry);
        position.set(entry.next);
    }
    if !out.is_empty() {
        file.tell(linux_raw_sys::general::IN_ACCESS);
    }
    Ok(out)
}

fn record_bytes(entry: &DirectoryEntry) -> usize {
    // A name has at most 255 bytes.
    entry.name.len().saturating_add(HEADER_BYTES + 1 + 7) & !7
}

fn push_record(out: &mut Vec<u8>, entry: &DirectoryEntry) {
    let end = out.len().saturating_add(record_bytes(entry));
    out.extend_from_slice(&entry.number.to_le_bytes());
    out.extend_from_slice(&entry.next.to_le_bytes());
    out.extend_from_slice(&(record_bytes(entry) as u16).to_le_bytes());
    out.push(kind_number(entry.kind));
    out.extend_from_slice(&entry.name);
    out.resize(end, 0);
}

/// Returns DT_*, the upper bits of `st_mode`.
fn kind_number(kind: NodeKind) -> u8 {
    (super::attributes::mode_kind(kind) >> 12) as u8
}
