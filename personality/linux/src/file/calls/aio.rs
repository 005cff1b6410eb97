//! The older asynchronous calls: io_setup, io_submit, io_getevents, io_cancel, io_destroy.
//!
//! They use the operations of io_uring ([`super::uring`]): a submission is done at once if the data is in memory,
//! begun at the disk without a task, or done by a piece of work of the asynchronous I/O resource.
//!
//! A context's number is the address of a page that libraries look at: it holds no ring that they know, so they make
//! the calls. A context bounds its operations under way together with its untaken events; it ends with io_destroy,
//! execve or its process, and its operations are cancelled then.

use super::poll::with_mask;
use super::uring::{Cancel, FileRange, Operation, begin_at_once, transfer_at_once};
use super::usable_file;
use crate::file::begun_io::{Asker, Completion};
use crate::file::buffer::{Range, Ranges, half, read_iovecs, word};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::time::{TimeSpec, cycles_from_now};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::pin::pin;
use gyre_address_space::{MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory};
use gyre_machine::PAGE_BYTES;
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, boxed, select};
use gyre_object::{ObjectLock, Page};
use linux_raw_sys::general as raw;

/// Most operations of a context.
const EVENTS_MAX: u32 = 65_536;
/// Most contexts of a process.
const CONTEXTS_MAX: usize = 64;
/// `struct iocb` and `struct io_event`, bytes.
const WISH_BYTES: usize = 64;
const EVENT_BYTES: usize = 32;

const READ: u16 = 0;
const WRITE: u16 = 1;
const SYNC: u16 = 2;
const SYNC_DATA: u16 = 3;
const POLL: u16 = 5;
const READ_PIECES: u16 = 7;
const WRITE_PIECES: u16 = 8;
/// An event counter is told of the end.
const FLAG_EVENT: u32 = 1;

/// The contexts of a process, by number.
pub type Contexts = ObjectLock<BTreeMap<u64, Arc<Context>>>;

#[derive(Default)]
struct State {
    next: u64,
    /// Under way: the program's address of each, and how to end it.
    flights: BTreeMap<u64, (u64, Arc<Cancel>)>,
    events: VecDeque<[u8; EVENT_BYTES]>,
}

/// A context: the operations under way, and the events of those that are done, until they are taken.
pub struct Context {
    most: usize,
    state: ObjectLock<State>,
    changed: WaitQueue,
}

impl Context {
    fn begin(&self, address: u64, cancel: Arc<Cancel>) -> Result<u64, Errno> {
        let mut state = self.state.lock();
        if state.flights.len().saturating_add(state.events.len()) >= self.most {
            return Err(Errno::EAGAIN);
        }
        let number = state.next;
        state.next = state.next.wrapping_add(1);
        state.flights.insert(number, (address, cancel));
        Ok(number)
    }

    fn complete(&self, number: u64, data: u64, result: i64) {
        let mut state = self.state.lock();
        let Some((address, _)) = state.flights.remove(&number) else { return };
        let mut event = [0; EVENT_BYTES];
        let words = [data, address, result as u64, 0];
        event.chunks_exact_mut(8).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
        state.events.push_back(event);
        drop(state);
        self.changed.wake_all();
    }

    /// Ends everything that is under way.
    pub(crate) fn close(&self) {
        let flights: Vec<_> = self.state.lock().flights.values().map(|(_, cancel)| cancel.clone()).collect();
        flights.iter().for_each(|cancel| cancel.ask());
    }

    fn under_way(&self) -> usize {
        self.state.lock().flights.len()
    }

    fn ready(&self) -> usize {
        self.state.lock().events.len()
    }
}

/// An operation under way; if it is dropped before its end, it is answered as cancelled.
struct Flight {
    context: Arc<Context>,
    worker: Arc<Thread>,
    number: u64,
    data: u64,
    event: Option<Arc<OpenFile>>,
    result: i64,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.context.complete(self.number, self.data, self.result);
        if let Some(Object::Event(counter)) = self.event.as_ref().map(|event| event.object()) {
            // A full counter is as readable as it gets.
            let _ = counter.add(1);
        }
    }
}

impl Completion for Flight {
    fn complete(mut self, moved: Result<usize, Errno>) {
        self.result = moved.map_or_else(|error| error.negated(), |bytes| bytes as i64);
    }
}

impl Flight {
    /// Does it, and answers how many bytes it moved.
    async fn run(mut self, operation: Operation, cancel: Arc<Cancel>) -> u64 {
        let moves = operation.bytes().is_some();
        let worker = self.worker.clone();
        let work = pin!(operation.perform_alone(&worker));
        self.result = match select(work, cancel.asked()).await {
            Either::First(Ok(value)) => value as i64,
            Either::First(Err(error)) if error.asks_restart() => Errno::EINTR.negated(),
            Either::First(Err(error)) => error.negated(),
            Either::Second(()) => Errno::ECANCELED.negated(),
        };
        if moves { u64::try_from(self.result).unwrap_or(0) } else { 0 }
    }
}

fn context_of(thread: &Thread, number: u64) -> Result<Arc<Context>, Errno> {
    thread.process().asynchronous.lock().get(&number).cloned().ok_or(Errno::EINVAL)
}

/// `io_setup(events, context)`.
pub async fn io_setup(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.tenant().kernel().async_io().ok_or(Errno::ENOSYS)?;
    let most = a.unsigned(0);
    if word(&thread.read_vec(a.word(1), 8).await?, 0) != 0 || most == 0 {
        return Err(Errno::EINVAL);
    }
    if most > EVENTS_MAX || thread.process().asynchronous.lock().len() >= CONTEXTS_MAX {
        return Err(Errno::EAGAIN);
    }
    let request = MapRequest {
        place: Place::Anywhere(0),
        bytes: PAGE_BYTES as u64,
        rights: Rights::READ,
        rights_max: Rights::READ,
        options: Options::SHARED,
        provider: Provider::Memory(Arc::new(SharedMemory::of_page(Page::zeroed()?))),
        first_index: PageIndex::FIRST,
    };
    let number = thread.space().map(request).await?;
    let context = Context { most: most as usize, state: ObjectLock::default(), changed: WaitQueue::new() };
    thread.process().asynchronous.lock().insert(number, Arc::new(context));
    if let Err(error) = thread.copy_out(a.word(1), &number.to_le_bytes()).await {
        thread.process().asynchronous.lock().remove(&number);
        thread.space().unmap(number, PAGE_BYTES as u64).await?;
        return Err(error);
    }
    Ok(0)
}

/// `io_destroy(context)`: ends the operations under way, and waits for their end.
pub async fn io_destroy(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let context = thread.process().asynchronous.lock().remove(&a.word(0)).ok_or(Errno::EINVAL)?;
    context.close();
    context.changed.until(|| (context.under_way() == 0).then_some(())).await;
    // The program may have unmapped it itself.
    let _ = thread.space().unmap(a.word(0), PAGE_BYTES as u64).await;
    Ok(0)
}

/// `io_submit(context, count, wishes)`: answers how many were taken, the error of the first if that is none.
pub async fn io_submit(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let context = context_of(thread, a.word(0))?;
    let count = usize::try_from(a.signed(1)).map_err(|_| Errno::EINVAL)?.min(context.most);
    let worker = Thread::worker(thread);
    for taken in 0..count {
        let at = entry_at(a.word(2), taken as u64, 8);
        let submitted = match at {
            Ok(at) => submit(thread, &context, &worker, at).await,
            Err(error) => Err(error),
        };
        match submitted {
            Ok(()) => {}
            Err(error) if taken == 0 => return Err(error),
            Err(_) => return Ok(taken as u64),
        }
    }
    Ok(count as u64)
}

async fn submit(thread: &Arc<Thread>, context: &Arc<Context>, worker: &Arc<Thread>, at: u64) -> Result<(), Errno> {
    let address = word(&thread.read_vec(at, 8).await?, 0);
    let wish = thread.read_vec(address, WISH_BYTES).await?;
    let operation = prepare(thread, &wish).await?;
    let event = match half(&wish, 56) {
        0 => None,
        FLAG_EVENT => {
            let event = usable_file(thread, half(&wish, 60) as i32)?;
            if !matches!(event.object(), Object::Event(_)) {
                return Err(Errno::EINVAL);
            }
            Some(event)
        }
        _ => return Err(Errno::EINVAL),
    };
    let resource = thread.tenant().kernel().async_io().ok_or(Errno::ENOSYS)?;
    let cancel = Arc::new(Cancel::default());
    let number = context.begin(address, cancel.clone())?;
    let mut flight = Flight {
        context: context.clone(),
        worker: worker.clone(),
        number,
        data: word(&wish, 0),
        event,
        result: Errno::ECANCELED.negated(),
    };
    if let Some(moved) = transfer_at_once(thread, &operation) {
        flight.result = moved as i64;
        return Ok(());
    }
    let (mut flight, worker) = (Some(flight), || worker.clone());
    if !begin_at_once(&Asker { thread, resource, worker: &worker }, &operation, || flight.take())
        && let Some(flight) = flight
    {
        drop(resource.run(boxed(|| flight.run(operation, cancel))));
    }
    Ok(())
}

/// `struct iocb`: data u64, key u32, flags of the operation u32, operation u16, priority i16, descriptor u32, buffer u64, bytes u64,
/// offset i64, reserved u64, flags u32, event counter u32.
async fn prepare(thread: &Thread, wish: &[u8]) -> Result<Operation, Errno> {
    let (operation, flags) = (half(wish, 16) as u16, half(wish, 12));
    let (buffer, bytes, offset) = (word(wish, 24), word(wish, 32), word(wish, 40));
    if word(wish, 48) != 0 || isize::try_from(bytes).is_err() {
        return Err(Errno::EINVAL);
    }
    let file = usable_file(thread, half(wish, 20) as i32)?;
    let at = match file.object().is_seekable() {
        true => Some(i64::try_from(offset).map_err(|_| Errno::EINVAL)? as u64),
        false => None,
    };
    let durable = raw::RWF_DSYNC | raw::RWF_SYNC;
    if matches!(operation, READ | WRITE | READ_PIECES | WRITE_PIECES) && flags & !(durable | raw::RWF_HIPRI) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let ranges = match operation {
        READ_PIECES | WRITE_PIECES => Ranges::Many(read_iovecs(thread, buffer, bytes as usize).await?),
        _ => Ranges::One(Range { address: buffer, bytes: bytes as usize }),
    };
    let is_open = if matches!(operation, WRITE | WRITE_PIECES) { file.is_writable() } else { file.is_readable() };
    match operation {
        READ | READ_PIECES if is_open => Ok(Operation::Read(FileRange { file, ranges, at, durable: false })),
        WRITE | WRITE_PIECES if is_open => {
            Ok(Operation::Write(FileRange { file, ranges, at, durable: flags & durable != 0 }))
        }
        READ | READ_PIECES | WRITE | WRITE_PIECES => Err(Errno::EBADF),
        SYNC | SYNC_DATA if matches!(file.object(), Object::Regular | Object::Directory) => Ok(Operation::Sync(file)),
        POLL => Ok(Operation::Poll(file, buffer as u32 & 0xffff)),
        _ => Err(Errno::EINVAL),
    }
}

/// `io_getevents(context, least, most, events, timeout)`.
pub async fn io_getevents(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    take_events(thread, a).await
}

/// `io_pgetevents(context, least, most, events, timeout, mask and its bytes)`.
pub async fn io_pgetevents(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (mask, bytes) = match a.word(5) {
        0 => (0, 0),
        pair => {
            let pair = thread.read_vec(pair, 16).await?;
            (word(&pair, 0), word(&pair, 8))
        }
    };
    with_mask(thread, mask, bytes, take_events(thread, a)).await
}

async fn take_events(thread: &Thread, a: Arguments) -> Outcome {
    let context = context_of(thread, a.word(0))?;
    let (least, most) = (a.signed(1), a.signed(2));
    if least < 0 || most < 0 || least > most {
        return Err(Errno::EINVAL);
    }
    let deadline = match a.word(4) {
        0 => None,
        timeout => {
            let time: TimeSpec = thread.read_struct(timeout).await?;
            Some(cycles_from_now(time.ns()?))
        }
    };
    let least = usize::try_from(least).unwrap_or(usize::MAX).min(context.most);
    let enough = || (context.ready() >= least).then_some(());
    if enough().is_none() {
        let waited = thread.interruptible_until(deadline, context.changed.until(enough)).await;
        if waited.is_err() && context.ready() == 0 {
            return Err(Errno::ERESTARTNOHAND);
        }
    }
    let mut taken = 0;
    while taken < most as u64 {
        let Some(event) = context.state.lock().events.pop_front() else { break };
        let to = entry_at(a.word(3), taken, EVENT_BYTES as u64);
        let copied = match to {
            Ok(to) => thread.copy_out(to, &event).await,
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            // Not lost: it comes again.
            context.state.lock().events.push_front(event);
            return if taken == 0 { Err(error) } else { Ok(taken) };
        }
        taken = taken.saturating_add(1);
    }
    Ok(taken)
}

/// Returns the address of entry `index` of a program's list.
fn entry_at(list: u64, index: u64, entry_bytes: u64) -> Result<u64, Errno> {
    index.checked_mul(entry_bytes).and_then(|offset| list.checked_add(offset)).ok_or(Errno::EFAULT)
}

/// `io_cancel(context, wish, event)`: the event comes by io_getevents. An operation that the device has goes on as if
/// it had not been cancelled.
pub fn io_cancel(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let context = context_of(thread, a.word(0))?;
    let state = context.state.lock();
    let found = state.flights.values().find(|(address, _)| *address == a.word(1)).map(|(_, cancel)| cancel.clone());
    drop(state);
    found.ok_or(Errno::EINVAL)?.ask();
    Err(Errno::EINPROGRESS)
}
