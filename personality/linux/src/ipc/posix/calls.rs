//! mq_open, mq_unlink, mq_timedsend, mq_timedreceive, mq_getsetattr (mq_open(3) and so on).
//!
//! * The C library takes the slash from a name; another one is refused (EACCES), and so are `.` and `..`.
//! * Rights are those of files (path_resolution(7)); only the owner and CAP_FOWNER may remove a name, as in a sticky
//!   directory.
//! * Waits end by the clock of the day, by a signal (restarted with SA_RESTART), or by the other side. O_NONBLOCK of the
//!   open file lets nobody wait.
//! * A descriptor is closed by exec. Errors come in Linux' order: times first, then numbers, then the descriptor.

use super::super::message::Message;
use super::notice::Sender;
use super::queue::{Outcome as Performed, Owner, Queue, Wait};
use super::{NAME_BYTES_MAX, PRIORITIES, Queues};
use crate::credentials::Capability;
use crate::file::calls::answer_with;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::permission::{Asker, READ, WRITE};
use crate::run::has_room;
use crate::time::{TimeSpec, cycles_from_now, realtime_ns};
use crate::user_memory::PATH_MAX;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct mq_attr`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Attributes {
    flags: i64,
    messages_max: i64,
    bytes_max: i64,
    messages: i64,
    reserved: [i64; 4],
}

/// Returns the queue of an open file.
///
/// # Errors
/// EBADF if it is something else.
pub(super) fn queue_of(file: &OpenFile) -> Result<&Arc<Queue>, Errno> {
    match file.object() {
        Object::MessageQueue(queue) if !file.is_path_only() => Ok(queue),
        _ => Err(Errno::EBADF),
    }
}

async fn read_name(thread: &Thread, address: u64) -> Result<Vec<u8>, Errno> {
    let name = thread.read_string(address, PATH_MAX, Errno::ENAMETOOLONG).await?;
    match &name[..] {
        b"" => Err(Errno::ENOENT),
        b"." | b".." => Err(Errno::EACCES),
        _ if name.contains(&b'/') => Err(Errno::EACCES),
        _ if name.len() > NAME_BYTES_MAX => Err(Errno::ENAMETOOLONG),
        _ => Ok(name),
    }
}

/// `mq_open(name, flags, mode, attributes)`: a descriptor, which does not outlive exec.
pub async fn mq_open(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = a.unsigned(1);
    let attributes = match a.word(3) {
        0 => None,
        address => Some(thread.read_struct::<Attributes>(address).await?),
    };
    let name = read_name(thread, a.word(0)).await?;
    let asker = Asker::of(thread);
    let known = thread.tenant().ipc.posix.names.lock().get(&name).cloned();
    let (queue, is_new) = match known {
        Some(queue) => (allowed(&asker, &queue, flags)?, false),
        None if flags & raw::O_CREAT != 0 => make(thread, &asker, name, a, attributes)?,
        None => return Err(Errno::ENOENT),
    };
    let opened = open(thread, &queue, flags);
    if opened.is_err() && is_new {
        thread.tenant().ipc.posix.forget(&queue);
    }
    opened
}

fn open(thread: &Thread, queue: &Arc<Queue>, flags: u32) -> Outcome {
    let files = thread.process().files();
    let kept = flags & (raw::O_ACCMODE | raw::O_NONBLOCK);
    let file = OpenFile::new(files.tenant(), Object::MessageQueue(queue.clone()), kept, None)?;
    answer_with(thread, file)
}

/// Answers a queue that there is already, if the caller may open it.
fn allowed(asker: &Asker, queue: &Arc<Queue>, flags: u32) -> Result<Arc<Queue>, Errno> {
    if flags & raw::O_CREAT != 0 && flags & raw::O_EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    asker.check(&queue.attributes(), wanted(flags)?)?;
    Ok(queue.clone())
}

/// Returns the rights that an access mode needs.
fn wanted(flags: u32) -> Result<u16, Errno> {
    match flags & raw::O_ACCMODE {
        raw::O_RDONLY => Ok(READ),
        raw::O_WRONLY => Ok(WRITE),
        raw::O_RDWR => Ok(READ | WRITE),
        _ => Err(Errno::EINVAL),
    }
}

/// Makes a queue, or answers that which another thread has made meanwhile; the latter with false.
fn make(
    thread: &Thread,
    asker: &Asker,
    name: Vec<u8>,
    a: Arguments,
    attributes: Option<Attributes>,
) -> Result<(Arc<Queue>, bool), Errno> {
    let queues = &thread.tenant().ipc.posix;
    let size = Queues::size(thread, asker, attributes.map(|wish| (wish.messages_max, wish.bytes_max)))?;
    let mode = a.unsigned(2) & 0o7777 & !thread.process().files().mask();
    let owner = Owner { user: asker.user, group: asker.group, mode: mode as u16 };
    let mut names = queues.names.lock();
    if let Some(queue) = names.get(&name) {
        return Ok((allowed(asker, queue, a.unsigned(1))?, false));
    }
    let count = queues.count(thread, asker, size)?;
    let queue = Queue::new(name.clone(), owner, size, count, thread.tenant().activity());
    names.insert(name, queue.clone());
    Ok((queue, true))
}

/// `mq_unlink(name)`: the directory of queues is sticky.
pub async fn mq_unlink(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let name = read_name(thread, a.word(0)).await?;
    let asker = Asker::of(thread);
    let mut names = thread.tenant().ipc.posix.names.lock();
    let queue = names.get(&name).ok_or(Errno::ENOENT)?;
    if asker.user != queue.owner.user && !asker.has(Capability::Fowner) {
        return Err(Errno::EPERM);
    }
    let gone = names.remove(&name);
    drop(names);
    drop(gone);
    Ok(0)
}

/// Reads the time until which a call waits, by the clock of the day; cycles.
async fn deadline(thread: &Thread, address: u64) -> Result<Option<u64>, Errno> {
    if address == 0 {
        return Ok(None);
    }
    let ns = thread.read_struct::<TimeSpec>(address).await?.ns()?;
    Ok(Some(cycles_from_now(ns.saturating_sub(realtime_ns()))))
}

async fn wait_for<T>(thread: &Thread, wait: Wait<T>, deadline: Option<u64>) -> Result<T, Errno> {
    wait.waiter.wait(thread, deadline, Errno::ETIMEDOUT, || wait.leave()).await
}

/// `mq_timedsend(queue, message, bytes, priority, until)`.
pub async fn mq_timedsend(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let deadline = deadline(thread, a.word(4)).await?;
    if a.unsigned(3) >= PRIORITIES {
        return Err(Errno::EINVAL);
    }
    let file = thread.process().open_file(a.int(0))?;
    let queue = queue_of(&file)?;
    if !file.is_writable() {
        return Err(Errno::EBADF);
    }
    if a.word(2) > queue.size.bytes {
        return Err(Errno::EMSGSIZE);
    }
    if !has_room(thread, a.size(2)).await {
        return Err(Errno::ENOMEM);
    }
    let text = thread.read_vec(a.word(1), a.size(2)).await?;
    let message = Message::new(i64::from(a.unsigned(3)), text);
    let sender = Sender { process: thread.process().id(), user: thread.with_credentials(|who| who.user) };
    match queue.send(message, sender, || !file.is_nonblocking())? {
        Performed::Done(()) => Ok(0),
        Performed::Waits(wait) => wait_for(thread, wait, deadline).await.map(|()| 0),
    }
}

/// `mq_timedreceive(queue, buffer, bytes, priority, until)`.
pub async fn mq_timedreceive(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let deadline = deadline(thread, a.word(4)).await?;
    let file = thread.process().open_file(a.int(0))?;
    let queue = queue_of(&file)?;
    if !file.is_readable() {
        return Err(Errno::EBADF);
    }
    if a.word(2) < queue.size.bytes {
        return Err(Errno::EMSGSIZE);
    }
    let message = match queue.receive(|| !file.is_nonblocking())? {
        Performed::Done(message) => message,
        Performed::Waits(wait) => wait_for(thread, wait, deadline).await?,
    };
    let priority = message.kind as u32;
    thread.write_optional(a.word(3), &priority).await?;
    thread.copy_out(a.word(1), &message.text).await?;
    Ok(message.text.len() as u64)
}

/// `mq_getsetattr(queue, new, old)`: only O_NONBLOCK can be set.
pub async fn mq_getsetattr(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let wish = match a.word(1) {
        0 => None,
        address => Some(thread.read_struct::<Attributes>(address).await?),
    };
    if wish.is_some_and(|wish| wish.flags & !i64::from(raw::O_NONBLOCK) != 0) {
        return Err(Errno::EINVAL);
    }
    let file = thread.process().open_file(a.int(0))?;
    let queue = queue_of(&file)?;
    let before = Attributes {
        flags: i64::from(file.flags() & raw::O_NONBLOCK),
        messages_max: queue.size.messages as i64,
        bytes_max: queue.size.bytes as i64,
        messages: queue.len() as i64,
        reserved: [0; 4],
    };
    if let Some(wish) = wish {
        file.change_flags(raw::O_NONBLOCK, wish.flags != 0);
    }
    thread.write_optional(a.word(2), &before).await?;
    Ok(0)
}
