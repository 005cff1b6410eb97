//! semget, semop, semtimedop (semget(2), semop(2)).

use super::super::ids::Request;
use super::super::never_restarted;
use super::lines::{Operation, Wish};
use super::set::{Outcome as Performed, Set};
use super::state::UNDO;
use super::{OPERATIONS_MAX, SEMAPHORES_MAX, SET_SEMAPHORES_MAX, SETS_MAX, undo};
use crate::file::permission::Asker;
use crate::run::has_room;
use crate::time::TimeSpec;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// Bytes of `struct sembuf`.
const OPERATION_BYTES: usize = 6;

/// `semget(key, count, flags)`.
pub async fn semget(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let count = usize::try_from(a.int(1)).ok().filter(|count| *count <= SET_SEMAPHORES_MAX).ok_or(Errno::EINVAL)?;
    if !has_room(thread, Set::bytes(count)).await {
        return Err(Errno::ENOMEM);
    }
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().ipc.semaphores.table.lock();
    let all = table.semaphores.saturating_add(count);
    let fits = |set: &Arc<Set>| if count > set.count() { Err(Errno::EINVAL) } else { Ok(()) };
    let mut made = false;
    let make = || match count {
        0 => Err(Errno::EINVAL),
        _ if all > SEMAPHORES_MAX => Err(Errno::ENOSPC),
        _ => {
            made = true;
            Set::new(count, thread.tenant().activity())
        }
    };
    let request = Request { asker: &asker, key: a.unsigned(0), flags: a.unsigned(2), most: SETS_MAX };
    let number = table.sets.get(&request, fits, make)?;
    if made {
        table.semaphores = all;
    }
    Ok(u64::from(number))
}

/// `semop(set, operations, count)`.
pub async fn semop(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    operate(thread, a, None).await
}

/// `semtimedop(set, operations, count, timeout)`; without a timeout it is semop.
pub async fn semtimedop(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    match a.word(3) {
        0 => operate(thread, a, None).await,
        address => {
            let timeout = thread.read_struct(address).await?;
            operate(thread, a, Some(timeout)).await
        }
    }
}

async fn operate(thread: &Arc<Thread>, a: Arguments, timeout: Option<TimeSpec>) -> Outcome {
    let operations = read_operations(thread, a).await?;
    let deadline = timeout.map(|timeout| timeout.deadline_cycles()).transpose()?;
    let set = find(thread, a, &operations)?;
    let takes_back = operations.iter().any(|operation| operation.flags & UNDO != 0);
    // The amounts to be taken back are kept: up to 500 amounts for each call.
    if takes_back && !has_room(thread, 0).await {
        return Err(Errno::ENOMEM);
    }
    let process = thread.process();
    let undo = if takes_back { undo::note(process, a.unsigned(0), &set) } else { 0 };
    match set.perform(Wish { operations, process: process.id(), undo })? {
        Performed::Done => {}
        Performed::Waits(wait) => {
            let waited = wait.waiter.wait(thread, deadline, Errno::EAGAIN, || wait.leave()).await;
            waited.map_err(never_restarted)?;
        }
    }
    Ok(0)
}

async fn read_operations(thread: &Thread, a: Arguments) -> Result<Box<[Operation]>, Errno> {
    let count = a.unsigned(2) as usize;
    if a.int(0) < 0 || count == 0 {
        return Err(Errno::EINVAL);
    }
    if count > OPERATIONS_MAX {
        return Err(Errno::E2BIG);
    }
    let raw = thread.read_vec(a.word(1), count.saturating_mul(OPERATION_BYTES)).await?;
    let decode = |raw: &[u8; OPERATION_BYTES]| {
        let [semaphore, change, flags] = [[raw[0], raw[1]], [raw[2], raw[3]], [raw[4], raw[5]]];
        Operation {
            semaphore: u16::from_le_bytes(semaphore),
            change: i16::from_le_bytes(change),
            flags: u16::from_le_bytes(flags),
        }
    };
    Ok(raw.as_chunks().0.iter().map(decode).collect())
}

/// Finds the set of operations that the caller may do.
fn find(thread: &Thread, a: Arguments, operations: &[Operation]) -> Result<Arc<Set>, Errno> {
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().ipc.semaphores.table.lock();
    let entry = table.sets.find(a.unsigned(0))?;
    if operations.iter().any(|operation| usize::from(operation.semaphore) >= entry.item.count()) {
        return Err(Errno::EFBIG);
    }
    match operations.iter().any(|operation| operation.change != 0) {
        true => entry.permission.check_write(&asker)?,
        false => entry.permission.check_read(&asker)?,
    }
    Ok(entry.item.clone())
}
