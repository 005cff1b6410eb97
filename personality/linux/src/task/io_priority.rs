//! Priorities of input and output: ioprio_set, ioprio_get. They are kept and told; a tenant's share of the disk is its owner's to give.

use super::schedule::{may_order, thread_or_own};
use crate::credentials::{Capability, Credentials};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// Bits of the level, below the class.
const CLASS_SHIFT: u16 = 13;
const CLASS_NONE: u16 = 0;
const CLASS_REAL_TIME: u16 = 1;
const CLASS_BEST_EFFORT: u16 = 2;
const CLASS_IDLE: u16 = 3;
/// Levels of a class.
const LEVELS: u16 = 8;

/// Returns the threads that `which` and `id` mean: one, or those of a group or a user.
fn meant(thread: &Arc<Thread>, which: u32, id: i32) -> Result<Vec<Arc<Thread>>, Errno> {
    const PROCESS: u32 = 1;
    const GROUP: u32 = 2;
    const USER: u32 = 3;
    if which == PROCESS {
        return Ok([thread_or_own(thread, id)?].into());
    }
    let tree = thread.tenant().tree.lock();
    let processes = match which {
        GROUP => {
            let own = || tree.group_of(thread.process().id()).unwrap_or(0);
            tree.group_members(if id == 0 { own() } else { id })
        }
        USER => {
            let user = if id == 0 { thread.with_credentials(|who| who.user) } else { id.cast_unsigned() };
            tree.processes().into_iter().filter(|other| other.with_credentials(|who| who.user) == user).collect()
        }
        _ => return Err(Errno::EINVAL),
    };
    let threads: Vec<_> = processes.iter().flat_map(|process| process.threads.lock().clone()).collect();
    if threads.is_empty() { Err(Errno::ESRCH) } else { Ok(threads) }
}

/// `ioprio_set(which, id, priority)`.
pub fn ioprio_set(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let wanted = u16::try_from(a.unsigned(2)).map_err(|_| Errno::EINVAL)?;
    let (class, level) = (wanted >> CLASS_SHIFT, wanted & ((1 << CLASS_SHIFT) - 1));
    match class {
        CLASS_REAL_TIME => {
            let may = thread.with_credentials(|who| who.has(Capability::SysNice) || who.has(Capability::SysAdmin));
            if !may {
                return Err(Errno::EPERM);
            }
            if level >= LEVELS {
                return Err(Errno::EINVAL);
            }
        }
        CLASS_BEST_EFFORT if level < LEVELS => {}
        CLASS_IDLE => {}
        CLASS_NONE if level == 0 => {}
        _ => return Err(Errno::EINVAL),
    }
    for target in meant(thread, a.unsigned(0), a.int(1))? {
        may_order(thread, target.with_credentials(Credentials::users))?;
        target.preferences.io.store(wanted, Ordering::Relaxed);
    }
    Ok(0)
}

/// `ioprio_get(which, id)`: the highest of those meant.
pub fn ioprio_get(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let own = |target: &Arc<Thread>| target.preferences.io.load(Ordering::Relaxed);
    // No class is best effort when they are compared.
    let rank = |wanted: &u16| if *wanted == 0 { CLASS_BEST_EFFORT << CLASS_SHIFT | 4 } else { *wanted };
    let best = meant(thread, a.unsigned(0), a.int(1))?.iter().map(own).min_by_key(rank);
    Ok(u64::from(best.unwrap_or(0)))
}
