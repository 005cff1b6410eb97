//! msgctl (msgctl(2)).

use super::super::ids::Entry;
use super::super::{LIMITS, REMOVE, SET, STATUS, words};
use super::{MESSAGE_BYTES_MAX, QUEUE_BYTES, QUEUES_MAX, queue::Queue};
use crate::credentials::Capability;
use crate::file::permission::Asker;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// Commands (linux/msg.h).
const STATUS_AT: u32 = 11;
const INFO: u32 = 12;
const STATUS_AT_ANY: u32 = 13;
/// Bytes of `struct msqid64_ds` of x86-64.
const STATUS_BYTES: usize = 120;
/// The place of its msg_qbytes.
const BYTES_MAX_AT: usize = 88;
/// Bytes of `struct msginfo`.
const LIMITS_BYTES: usize = 32;
/// The numbers that Linux says of its memory (MSGSSZ, MSGSEG).
const PIECE_BYTES: u32 = 16;
const PIECES: u32 = 0xffff;

/// `msgctl(queue, command, argument)`.
pub async fn msgctl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    match a.unsigned(1) {
        LIMITS | INFO => tell_limits(thread, a).await,
        STATUS | STATUS_AT | STATUS_AT_ANY => tell_status(thread, a).await,
        SET => change(thread, a).await,
        REMOVE => remove(thread, a),
        _ => Err(Errno::EINVAL),
    }
}

async fn tell_limits(thread: &Thread, a: Arguments) -> Outcome {
    let queues = &thread.tenant().ipc.messages;
    let (highest, count) = {
        let table = queues.table.lock();
        (table.highest(), table.count() as u32)
    };
    let bytes = QUEUE_BYTES as u32;
    let [messages, all_bytes] =
        [&queues.totals.messages, &queues.totals.bytes].map(|sum| sum.load(Ordering::Relaxed) as u32);
    let [pool, map, total] = match a.unsigned(1) {
        LIMITS => [(QUEUES_MAX as u32).saturating_mul(bytes / 1024), bytes, bytes],
        _ => [count, messages, all_bytes],
    };
    let limits = [pool, map, MESSAGE_BYTES_MAX as u32, bytes, QUEUES_MAX as u32, PIECE_BYTES, total, PIECES];
    thread.copy_out(a.word(2), &words::<LIMITS_BYTES>(&limits)).await?;
    Ok(highest)
}

/// Returns the queue as `struct msqid64_ds`: permission; times of sending, receiving and change; bytes, messages, most
/// bytes; the last sender and receiver.
fn encode(entry: &Entry<Arc<Queue>>) -> [u8; STATUS_BYTES] {
    let mut out = [0; STATUS_BYTES];
    let figures = entry.item.figures();
    let longs =
        [figures.sent_s, figures.received_s, figures.changed_s, figures.bytes, figures.messages, figures.bytes_max];
    let processes = [figures.sender, figures.receiver];
    let head = entry.permission.encode(entry.sequence(), 0);
    let parts = head.into_iter().chain(longs.into_iter().flat_map(u64::to_le_bytes));
    let parts = parts.chain(processes.into_iter().flat_map(i32::to_le_bytes));
    out.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
    out
}

async fn tell_status(thread: &Thread, a: Arguments) -> Outcome {
    let asker = Asker::effective(thread);
    let (status, number) = {
        let mut table = thread.tenant().ipc.messages.table.lock();
        let entry = match a.unsigned(1) {
            STATUS => table.find(a.unsigned(0))?,
            _ => table.at(a.unsigned(0))?,
        };
        if a.unsigned(1) != STATUS_AT_ANY {
            entry.permission.check_read(&asker)?;
        }
        (encode(entry), entry.number())
    };
    thread.copy_out(a.word(2), &status).await?;
    Ok(if a.unsigned(1) == STATUS { 0 } else { u64::from(number) })
}

/// Changes owner, mode and most bytes; only CAP_SYS_RESOURCE may give more bytes than a new queue has.
async fn change(thread: &Thread, a: Arguments) -> Outcome {
    let wish = thread.read_vec(a.word(2), STATUS_BYTES).await?;
    let bytes_max =
        wish.get(BYTES_MAX_AT..).and_then(|raw| raw.first_chunk()).map_or(0, |raw| u64::from_le_bytes(*raw));
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().ipc.messages.table.lock();
    let entry = table.find(a.unsigned(0))?;
    entry.permission.check_owner(&asker)?;
    if bytes_max > QUEUE_BYTES {
        asker.needs(Capability::SysResource)?;
    }
    entry.permission.set(&wish)?;
    let queue = entry.item.clone();
    // Under the lock: two changes come to the queue in their order.
    queue.set_permission(entry.permission);
    drop(table);
    queue.set_bytes_max(bytes_max)?;
    Ok(0)
}

fn remove(thread: &Thread, a: Arguments) -> Outcome {
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().ipc.messages.table.lock();
    table.find(a.unsigned(0))?.permission.check_owner(&asker)?;
    let gone = table.remove(a.unsigned(0)).ok_or(Errno::EINVAL)?;
    drop(table);
    gone.item.remove();
    Ok(0)
}
