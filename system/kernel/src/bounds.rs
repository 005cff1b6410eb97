//! Whether a limit that the owner wishes for makes sense: at least what is held now, at most what the machine has.

use crate::base::Base;
use crate::kernel::Kernel;
use gyre_account::ActivityId;
use gyre_contract::bounds::{Floor, MEMORY_BYTES_MIN, PROCESSES_MAX, SHARE_MAX};
use gyre_engine::Engine;
use gyre_linux::Errno;

/// A percentage of everything, in thousandths: if shares are percentages, no tenant can have it all.
const WHOLE: u32 = 100_000;

/// Checks a weight.
///
/// # Errors
/// EINVAL for what is none.
pub fn share(base: &Base, share: Option<u32>) -> Result<(), Errno> {
    let most = if base.machine.has_percent_shares { WHOLE - 1 } else { SHARE_MAX };
    if share.is_some_and(|share| !(1..=most).contains(&share)) { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Checks a limit of the memory of tenants, of whom `activity` is one or above all.
///
/// # Errors
/// EINVAL for less than any program needs, ERANGE for more than the machine has, EBUSY for less than is held.
pub fn memory(engine: &Engine, activity: ActivityId, bytes: u64, floor: Floor) -> Result<(), Errno> {
    range(bytes, gyre_x86_64::memory_statistics().total_bytes as u64)?;
    if floor == Floor::Held && bytes < engine.accounts().activities.held_bytes(activity) {
        Err(Errno::EBUSY)
    } else {
        Ok(())
    }
}

/// Checks a limit of each process' memory.
///
/// # Errors
/// As [`memory`], with the tenant's limit in place of the machine's memory.
pub fn process_memory(kernel: &Kernel, index: usize, bytes: u64, tenant_bytes: u64, floor: Floor) -> Result<(), Errno> {
    range(bytes, tenant_bytes)?;
    let processes =
        kernel.tenants.running(index).map(|running| running.tenant.tree.lock().processes()).unwrap_or_default();
    let held = |activity| kernel.base.engine.accounts().activities.held_bytes(activity);
    let largest = processes.iter().map(|process| held(process.activity())).max().unwrap_or(0);
    if floor == Floor::Held && bytes < largest { Err(Errno::EBUSY) } else { Ok(()) }
}

/// Checks a limit of processes and threads.
///
/// # Errors
/// EINVAL for none, ERANGE for more than can be, EBUSY for fewer than there are.
pub fn processes(kernel: &Kernel, index: usize, count: u32, floor: Floor) -> Result<(), Errno> {
    kernel.tenants.begun(index).ok_or(Errno::ENOENT)?;
    let threads = kernel.tenants.running(index).map_or(0, |running| running.tenant.tree.lock().thread_count());
    match count {
        0 => Err(Errno::EINVAL),
        _ if count > PROCESSES_MAX => Err(Errno::ERANGE),
        _ if floor == Floor::Held && (count as usize) < threads => Err(Errno::EBUSY),
        _ => Ok(()),
    }
}

fn range(bytes: u64, most: u64) -> Result<(), Errno> {
    match bytes {
        0..MEMORY_BYTES_MIN => Err(Errno::EINVAL),
        _ if bytes > most => Err(Errno::ERANGE),
        _ => Ok(()),
    }
}
