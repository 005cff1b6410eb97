//! Memory policies: set_mempolicy, get_mempolicy, mbind, migrate_pages. There is one node, number 0: every policy means it, wishes for others
//! are errors.

use super::PAGE;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

const DEFAULT: u32 = 0;
const PREFERRED: u32 = 1;
const LOCAL: u32 = 4;
const MODE_LAST: u32 = 5;
/// MPOL_F_STATIC_NODES and MPOL_F_RELATIVE_NODES, which exclude each other.
const STATIC: u32 = 1 << 15;
const RELATIVE: u32 = 1 << 14;
/// Flags of get_mempolicy: the node instead of the mode, of an address, all nodes.
const OF_NODE: u32 = 1;
const OF_ADDRESS: u32 = 2;
const ALL_NODES: u32 = 4;
/// Flags of mbind.
const MOVE_FLAGS: u32 = 7;
/// Bits of a mask that is read at all: a page of them, as on Linux.
const MASK_BITS_MAX: u64 = 4096 * 8;

/// Reads a mask of nodes; its count of bits is one too many, as on Linux.
async fn nodes(thread: &Thread, address: u64, bits: u64) -> Result<u8, Errno> {
    let bits = bits.saturating_sub(1);
    if address == 0 || bits == 0 {
        return Ok(0);
    }
    if bits > MASK_BITS_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = usize::try_from(bits.div_ceil(64).saturating_mul(8)).map_err(|_| Errno::EINVAL)?;
    let mask = thread.read_vec(address, bytes).await?;
    let has = |bit: u64| {
        let byte = usize::try_from(bit / 8).ok().and_then(|index| mask.get(index)).copied().unwrap_or(0);
        byte >> (bit % 8) & 1 == 1
    };
    if (1..bits).any(has) {
        return Err(Errno::EINVAL);
    }
    Ok(u8::from(has(0)))
}

/// Returns the mode and flags if they can be, with these nodes.
fn checked(mode: u32, nodes: u8) -> Result<u32, Errno> {
    let kind = mode & !(STATIC | RELATIVE);
    let flags = mode & (STATIC | RELATIVE);
    let fits = match kind {
        DEFAULT => nodes == 0 && flags == 0,
        LOCAL => nodes == 0,
        PREFERRED => nodes != 0 || flags == 0,
        _ => nodes != 0,
    };
    if kind > MODE_LAST || flags == STATIC | RELATIVE || !fits { Err(Errno::EINVAL) } else { Ok(mode) }
}

/// `set_mempolicy(mode, nodes, bits)`.
pub async fn set_mempolicy(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let nodes = nodes(thread, a.word(1), a.word(2)).await?;
    let mode = checked(a.unsigned(0), nodes)?;
    thread.preferences.memory.store(mode, Ordering::Relaxed);
    thread.preferences.memory_nodes.store(nodes, Ordering::Relaxed);
    Ok(0)
}

/// `get_mempolicy(mode, nodes, bits, address, flags)`.
pub async fn get_mempolicy(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (flags, address) = (a.unsigned(4), a.word(3));
    let is_odd = flags & !(OF_NODE | OF_ADDRESS | ALL_NODES) != 0
        || flags & ALL_NODES != 0 && flags != ALL_NODES
        || flags & OF_ADDRESS == 0 && address != 0;
    // A mask must have room for the one node.
    if is_odd || a.word(1) != 0 && a.word(2) < 1 {
        return Err(Errno::EINVAL);
    }
    if flags & OF_ADDRESS != 0 && thread.with_space(|space| !space.is_mapped(address & !(PAGE - 1), PAGE)) {
        return Err(Errno::EFAULT);
    }
    let of_thread = flags & OF_ADDRESS == 0;
    let mode = if of_thread { thread.preferences.memory.load(Ordering::Relaxed) } else { DEFAULT };
    let nodes = if of_thread { thread.preferences.memory_nodes.load(Ordering::Relaxed) } else { 0 };
    if flags != ALL_NODES {
        thread.write_optional(a.word(0), &if flags & OF_NODE != 0 { 0 } else { mode }).await?;
    }
    if a.word(1) != 0 {
        let bits = a.word(2).saturating_sub(1).max(1);
        if bits > MASK_BITS_MAX {
            return Err(Errno::EINVAL);
        }
        let bytes = usize::try_from(bits.div_ceil(64).saturating_mul(8)).map_err(|_| Errno::EINVAL)?;
        let mut mask = alloc::vec![0; bytes];
        if let Some(first) = mask.first_mut() {
            *first = if flags == ALL_NODES { 1 } else { nodes };
        }
        thread.copy_out(a.word(1), &mask).await?;
    }
    Ok(0)
}

/// `mbind(address, bytes, mode, nodes, bits, flags)`.
pub async fn mbind(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (address, bytes) = (a.word(0), a.word(1));
    if !address.is_multiple_of(PAGE) || a.unsigned(5) & !MOVE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let bytes = bytes
        .checked_next_multiple_of(PAGE)
        .filter(|bytes| address.checked_add(*bytes).is_some())
        .ok_or(Errno::EINVAL)?;
    checked(a.unsigned(2), nodes(thread, a.word(3), a.word(4)).await?)?;
    let is_mapped = thread.with_space(|space| space.is_mapped(address, bytes));
    if bytes == 0 || is_mapped { Ok(0) } else { Err(Errno::EFAULT) }
}

/// `migrate_pages(pid, bits, from, to)`: all pages are where they are asked to be.
pub async fn migrate_pages(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    nodes(thread, a.word(2), a.word(1)).await?;
    nodes(thread, a.word(3), a.word(1)).await?;
    let known = a.int(0) == 0 || thread.tenant().tree.lock().process(a.int(0)).is_some();
    if known { Ok(0) } else { Err(Errno::ESRCH) }
}
