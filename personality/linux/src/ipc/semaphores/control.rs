//! semctl (semctl(2)).

use super::super::ids::Entry;
use super::super::{LIMITS, REMOVE, SET, STATUS, permission, words};
use super::set::Set;
use super::state::Semaphore;
use super::{OPERATIONS_MAX, SEMAPHORES_MAX, SET_SEMAPHORES_MAX, SETS_MAX, VALUE_MAX};
use crate::file::permission::Asker;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Commands (linux/sem.h).
const GET_PROCESS: u32 = 11;
const GET_VALUE: u32 = 12;
const GET_ALL: u32 = 13;
const GET_TAKERS: u32 = 14;
const GET_ZEROES: u32 = 15;
const SET_VALUE: u32 = 16;
const SET_ALL: u32 = 17;
const STATUS_AT: u32 = 18;
const INFO: u32 = 19;
const STATUS_AT_ANY: u32 = 20;
/// Bytes of `struct semid64_ds` of x86-64.
const STATUS_BYTES: usize = 104;
/// Bytes of `struct seminfo`.
const LIMITS_BYTES: usize = 40;
/// SEMUSZ: what Linux says of the size of an undo.
const UNDO_BYTES: u32 = 20;

/// `semctl(set, semaphore, command, argument)`.
pub async fn semctl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    match a.unsigned(2) {
        LIMITS | INFO => tell_limits(thread, a).await,
        STATUS | STATUS_AT | STATUS_AT_ANY => tell_status(thread, a).await,
        SET => set_permission(thread, a).await,
        REMOVE => remove(thread, a),
        SET_VALUE => set_value(thread, a),
        SET_ALL => set_all(thread, a).await,
        GET_ALL => get_all(thread, a).await,
        GET_PROCESS | GET_VALUE | GET_TAKERS | GET_ZEROES => get_one(thread, a),
        _ => Err(Errno::EINVAL),
    }
}

async fn tell_limits(thread: &Thread, a: Arguments) -> Outcome {
    let (highest, sets, semaphores) = {
        let table = thread.tenant().ipc.semaphores.table.lock();
        (table.sets.highest(), table.sets.count() as u32, table.semaphores as u32)
    };
    let (used, most) = match a.unsigned(2) {
        LIMITS => (UNDO_BYTES, VALUE_MAX.unsigned_abs()),
        _ => (sets, semaphores),
    };
    let all = SEMAPHORES_MAX as u32;
    let operations = OPERATIONS_MAX as u32;
    let (of_set, value) = (SET_SEMAPHORES_MAX as u32, VALUE_MAX.unsigned_abs());
    let limits = [all, SETS_MAX as u32, all, all, of_set, operations, operations, used, value, most];
    thread.copy_out(a.word(3), &words::<LIMITS_BYTES>(&limits)).await?;
    Ok(highest)
}

/// Returns the set as `struct semid64_ds`: permission, time of operation, 0, time of change, 0, count, 0, 0.
fn encode(entry: &Entry<Arc<Set>>) -> [u8; STATUS_BYTES] {
    let mut out = [0; STATUS_BYTES];
    let times = entry.item.times();
    let longs = [times.operated_s, 0, times.changed_s, 0, entry.item.count() as u64, 0, 0];
    let head = entry.permission.encode(entry.sequence(), 0);
    let parts = head.into_iter().chain(longs.into_iter().flat_map(u64::to_le_bytes));
    out.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
    out
}

async fn tell_status(thread: &Thread, a: Arguments) -> Outcome {
    let asker = Asker::effective(thread);
    let (status, number) = {
        let mut table = thread.tenant().ipc.semaphores.table.lock();
        let entry = match a.unsigned(2) {
            STATUS => table.sets.find(a.unsigned(0))?,
            _ => table.sets.at(a.unsigned(0))?,
        };
        if a.unsigned(2) != STATUS_AT_ANY {
            entry.permission.check_read(&asker)?;
        }
        (encode(entry), entry.number())
    };
    thread.copy_out(a.word(3), &status).await?;
    Ok(if a.unsigned(2) == STATUS { 0 } else { u64::from(number) })
}

async fn set_permission(thread: &Thread, a: Arguments) -> Outcome {
    let wish = thread.read_vec(a.word(3), permission::BYTES).await?;
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().ipc.semaphores.table.lock();
    let entry = table.sets.find(a.unsigned(0))?;
    entry.permission.check_owner(&asker)?;
    entry.permission.set(&wish)?;
    let set = entry.item.clone();
    drop(table);
    set.with(|state| {
        state.times.changed_s = super::super::now_s();
        Ok(0)
    })
}

fn remove(thread: &Thread, a: Arguments) -> Outcome {
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().ipc.semaphores.table.lock();
    table.sets.find(a.unsigned(0))?.permission.check_owner(&asker)?;
    let gone = table.sets.remove(a.unsigned(0)).ok_or(Errno::EINVAL)?;
    table.semaphores = table.semaphores.saturating_sub(gone.item.count());
    drop(table);
    gone.item.remove();
    Ok(0)
}

/// Finds a set that the caller may read, or also change.
fn find(thread: &Thread, a: Arguments, wanted: u32) -> Result<Arc<Set>, Errno> {
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().ipc.semaphores.table.lock();
    let entry = table.sets.find(a.unsigned(0))?;
    entry.permission.check(&asker, wanted)?;
    Ok(entry.item.clone())
}

fn get_one(thread: &Thread, a: Arguments) -> Outcome {
    let set = find(thread, a, super::super::READ)?;
    set.with(|state| {
        let Semaphore { value, process, takers, zeroes, .. } = *state.semaphore(a.int(1))?;
        Ok(match a.unsigned(2) {
            GET_VALUE => u64::from(value),
            GET_PROCESS => u64::from(process.unsigned_abs()),
            GET_TAKERS => u64::from(takers),
            _ => u64::from(zeroes),
        })
    })
}

fn set_value(thread: &Thread, a: Arguments) -> Outcome {
    let value = a.int(3);
    let value = u16::try_from(value).ok().filter(|_| value <= VALUE_MAX).ok_or(Errno::ERANGE)?;
    let set = set_of_index(thread, a)?;
    let process = thread.process().id();
    set.with(|state| {
        state.set_values(a.unsigned(1) as u16, &[value], process);
        state.times.changed_s = super::super::now_s();
        Ok(0)
    })
}

/// Finds a set that has this semaphore and that the caller may change: Linux looks in this order.
fn set_of_index(thread: &Thread, a: Arguments) -> Result<Arc<Set>, Errno> {
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().ipc.semaphores.table.lock();
    let entry = table.sets.find(a.unsigned(0))?;
    if !usize::try_from(a.int(1)).is_ok_and(|index| index < entry.item.count()) {
        return Err(Errno::EINVAL);
    }
    entry.permission.check_write(&asker)?;
    Ok(entry.item.clone())
}

async fn get_all(thread: &Thread, a: Arguments) -> Outcome {
    let set = find(thread, a, super::super::READ)?;
    let mut values = Vec::new();
    values.try_reserve_exact(set.count().saturating_mul(2)).map_err(|_| Errno::ENOMEM)?;
    set.with(|state| {
        values.extend(state.semaphores.iter().flat_map(|semaphore| semaphore.value.to_le_bytes()));
        Ok(())
    })?;
    thread.copy_out(a.word(3), &values).await?;
    Ok(0)
}

async fn set_all(thread: &Thread, a: Arguments) -> Outcome {
    let set = find(thread, a, super::super::WRITE)?;
    let raw = thread.read_vec(a.word(3), set.count().saturating_mul(2)).await?;
    let values: Vec<u16> = raw.as_chunks().0.iter().map(|raw| u16::from_le_bytes(*raw)).collect();
    if values.iter().any(|value| i32::from(*value) > VALUE_MAX) {
        return Err(Errno::ERANGE);
    }
    let process = thread.process().id();
    set.with(|state| {
        state.set_values(0, &values, process);
        state.times.changed_s = super::super::now_s();
        Ok(0)
    })
}
