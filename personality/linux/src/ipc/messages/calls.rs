//! msgget, msgsnd, msgrcv (msgget(2), msgop(2)).

use super::super::ids::Request;
use super::super::message::Message;
use super::super::{NO_WAIT, READ, WRITE, without_handler};
use super::queue::{Outcome as Performed, Queue, Wait};
use super::state::{Receiving, Sending};
use super::store::Wanted;
use super::{MESSAGE_BYTES_MAX, QUEUES_MAX};
use crate::file::permission::Asker;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;

/// Flags of msgrcv.
const NO_ERROR: u32 = 0o10_000;
pub(super) const EXCEPT: u32 = 0o20_000;
const COPY: u32 = 0o40_000;
/// Bytes of the type before the text.
const KIND_BYTES: u64 = 8;

/// `msgget(key, flags)`.
pub fn msgget(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let asker = Asker::effective(thread);
    let queues = &thread.tenant().ipc.messages;
    let request = Request { asker: &asker, key: a.unsigned(0), flags: a.unsigned(1), most: QUEUES_MAX };
    let make = || Ok(Queue::new(thread.tenant().activity(), &queues.totals));
    Ok(u64::from(queues.table.lock().get(&request, |_| Ok(()), make)?))
}

fn find(thread: &Thread, asker: &Asker, number: u32, wanted: u32) -> Result<Arc<Queue>, Errno> {
    let mut table = thread.tenant().ipc.messages.table.lock();
    let entry = table.find(number)?;
    entry.permission.check(asker, wanted)?;
    Ok(entry.item.clone())
}

/// `msgsnd(queue, message, bytes, flags)`.
pub async fn msgsnd(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let kind: i64 = thread.read_struct(a.word(1)).await?;
    let bytes = a.size(2);
    if bytes > MESSAGE_BYTES_MAX || a.int(0) < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    let text = thread.read_vec(a.word(1).saturating_add(KIND_BYTES), bytes).await?;
    let asker = Asker::effective(thread);
    let queue = find(thread, &asker, a.unsigned(0), WRITE)?;
    let sending = Sending { message: Message::new(kind, text), process: thread.process().id(), asker };
    match queue.send(sending, || a.unsigned(3) & NO_WAIT == 0)? {
        Performed::Done(()) => Ok(0),
        Performed::Waits(wait) => wait_for(thread, wait).await.map(|()| 0),
    }
}

/// Waits in a line. A call that a handler interrupts is never restarted (signal(7)).
async fn wait_for<T>(thread: &Thread, wait: Wait<T>) -> Result<T, Errno> {
    let waited = wait.waiter.wait(thread, None, Errno::EAGAIN, || wait.leave()).await;
    waited.map_err(without_handler)
}

/// `msgrcv(queue, message, bytes, type, flags)`.
pub async fn msgrcv(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (bytes_max, flags) = (a.size(2), a.unsigned(4));
    if a.int(0) < 0 || i64::try_from(bytes_max).is_err() {
        return Err(Errno::EINVAL);
    }
    if flags & COPY != 0 {
        return copy(thread, a).await;
    }
    let asker = Asker::effective(thread);
    let queue = find(thread, &asker, a.unsigned(0), READ)?;
    let receiving = Receiving {
        wanted: Wanted::decode(a.signed(3), flags),
        bytes_max,
        cuts: flags & NO_ERROR != 0,
        process: thread.process().id(),
        asker,
    };
    let message = match queue.receive(receiving, || flags & NO_WAIT == 0)? {
        Performed::Done(message) => message,
        Performed::Waits(wait) => wait_for(thread, wait).await?,
    };
    deliver(thread, a, &message).await
}

/// Writes a message, its type before its text, and answers the bytes of the text.
async fn deliver(thread: &Thread, a: Arguments, message: &Message) -> Outcome {
    let text = message.text.get(..a.size(2).min(message.text.len())).unwrap_or_default();
    thread.write_struct(a.word(1), &message.kind).await?;
    thread.copy_out(a.word(1).saturating_add(KIND_BYTES), text).await?;
    Ok(text.len() as u64)
}

/// Copies a message by its place in the queue (MSG_COPY).
async fn copy(thread: &Thread, a: Arguments) -> Outcome {
    let flags = a.unsigned(4);
    if flags & EXCEPT != 0 || flags & NO_WAIT == 0 {
        return Err(Errno::EINVAL);
    }
    let queue = find(thread, &Asker::effective(thread), a.unsigned(0), READ)?;
    let index = usize::try_from(a.signed(3)).map_err(|_| Errno::ENOMSG)?;
    let (message, bytes) = queue.copy(index, a.size(2)).await?;
    if bytes > a.size(2) && flags & NO_ERROR == 0 {
        return Err(Errno::E2BIG);
    }
    deliver(thread, a, &message).await
}
