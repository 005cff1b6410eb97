//! epoll_create, epoll_ctl, epoll_wait.
//!
//! * `epoll_wait` has two forms. The one at once takes up to 16 events through the stack, and only if something is ready
//!   and the program's memory is there; the other one waits, and takes as many as are asked for.
//! * Events that the program's memory does not take are given back to the list ([`Epoll::take_back`]).
//! * A list that holds much is looked through in several turns, between which others run.
//!
//! The list itself is [`Epoll`]. Source: epoll_ctl(2), epoll_wait(2).

use super::poll::{Timeout, with_mask};
use super::{answer, file_of, install, usable_file};
use crate::file::buffer::{half, word};
use crate::file::epoll::{Epoll, Event, Told};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::Ready;
use linux_raw_sys::general as raw;

/// `struct epoll_event` is packed on x86-64, bytes.
const EVENT_BYTES: usize = 12;
/// Events of one call.
const EVENTS_MAX: usize = 4096;

/// `epoll_create(size)`.
pub fn epoll_create(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    create(thread, 0)
}

/// `epoll_create1(flags)`.
pub fn epoll_create1(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(0) & !raw::EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    create(thread, a.unsigned(0))
}

fn create(thread: &Thread, flags: u32) -> Outcome {
    let files = thread.process().files();
    let file = OpenFile::new(files.tenant(), Object::Epoll(Epoll::new(files.tenant())), raw::O_RDWR, None)?;
    answer(install(thread, file, flags & raw::EPOLL_CLOEXEC != 0)?)
}

fn list_of(file: &OpenFile) -> Result<&Arc<Epoll>, Errno> {
    match file.object() {
        Object::Epoll(list) => Ok(list),
        _ => Err(Errno::EINVAL),
    }
}

/// `epoll_ctl(list, operation, fd, event)`.
pub async fn epoll_ctl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let holder = file_of(thread, a.int(0))?;
    let file = usable_file(thread, a.int(2))?;
    let list = list_of(&holder)?;
    if Arc::ptr_eq(&holder, &file) {
        return Err(Errno::EINVAL);
    }
    if a.unsigned(1) == raw::EPOLL_CTL_DEL {
        list.remove(a.int(2), &file)?;
        return Ok(0);
    }
    let mut text = [0; EVENT_BYTES];
    thread.copy_in(a.word(3), &mut text).await?;
    let event = Event { events: half(&text, 0), data: word(&text, 4) };
    match a.unsigned(1) {
        raw::EPOLL_CTL_ADD => {
            if event.is_exclusive() && (matches!(file.object(), Object::Epoll(_)) || !event.may_be_exclusive()) {
                return Err(Errno::EINVAL);
            }
            list.add(a.int(2), &file, event)?;
        }
        raw::EPOLL_CTL_MOD => list.modify(a.int(2), &file, event)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// `epoll_wait(list, out, count, ms)`.
pub async fn epoll_wait(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    wait(thread, a, Timeout::from_ms(a.int(3))).await
}

/// Events that a call takes at once at most.
const AT_ONCE_EVENTS: usize = 16;
/// Most calls take so many: their room is made without a call of its own.
const FEW_EVENTS: usize = 4;

/// `epoll_wait` if something is ready and there is room for it.
pub fn epoll_wait_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let holder = file_of(thread, a.int(0)).ok()?;
    let list = list_of(&holder).ok()?;
    let left = list.queued();
    let count = usize::try_from(a.int(2)).ok().filter(|count| *count > 0)?.min(left).min(AT_ONCE_EVENTS);
    let found = match count {
        0 => None,
        1..=FEW_EVENTS => take_at_once::<FEW_EVENTS>(thread, list, a.word(1), Queued { left, count }),
        _ => take_at_once::<AT_ONCE_EVENTS>(thread, list, a.word(1), Queued { left, count }),
    };
    found.map(|found| Ok(found as u64))
}

/// The looks of a call at a list.
struct Queued {
    /// Items to look at.
    left: usize,
    /// Events to take at most.
    count: usize,
}

/// Takes up to `MOST` events, and tells the program of them at `to`; `None`, and nothing is taken, if that does not go at once.
fn take_at_once<const MOST: usize>(thread: &Thread, list: &Epoll, to: u64, queued: Queued) -> Option<usize> {
    let Queued { mut left, count } = queued;
    let mut taken = [None; MOST];
    let mut places = taken.iter_mut();
    // Looking may drop the last use of a file, so no lock is held; the bytes are written all at once.
    let found = list.collect_each(&mut left, count, |told| {
        if let Some(place) = places.next() {
            *place = Some(told);
        }
    });
    if found == 0 {
        return None;
    }
    let taken = taken.get(..found)?;
    let mut bytes = [[0; EVENT_BYTES]; MOST];
    write_events(bytes.as_flattened_mut(), taken.iter().flatten());
    let bytes = bytes.get(..found)?.as_flattened();
    if thread.with_space(|space| space.copy_out_at_once(to, bytes)) {
        return Some(found);
    }
    taken.iter().flatten().for_each(|told| list.take_back(*told));
    None
}

/// `epoll_pwait` without a mask, the same.
pub fn epoll_pwait_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    if a.word(4) == 0 { epoll_wait_at_once(thread, a) } else { None }
}

/// `epoll_pwait(list, out, count, ms, mask, mask_bytes)`.
pub async fn epoll_pwait(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let call = wait(thread, a, Timeout::from_ms(a.int(3)));
    with_mask(thread, a.word(4), a.word(5), call).await
}

/// `epoll_pwait2(list, out, count, timeout, mask, mask_bytes)`.
pub async fn epoll_pwait2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timeout = Timeout::from_timespec(thread, a.word(3)).await?;
    with_mask(thread, a.word(4), a.word(5), wait(thread, a, timeout)).await
}

async fn wait(thread: &Thread, a: Arguments, timeout: Timeout) -> Outcome {
    let holder = file_of(thread, a.int(0))?;
    let list = list_of(&holder)?;
    let count = usize::try_from(a.int(2)).ok().filter(|count| *count > 0).ok_or(Errno::EINVAL)?.min(EVENTS_MAX);
    let deadline = timeout.deadline();
    loop {
        let events = collect(thread, list, count).await?;
        if !events.is_empty() {
            give(thread, a.word(1), &events)
                .await
                .inspect_err(|_| events.iter().for_each(|told| list.take_back(*told)))?;
            return Ok(events.len() as u64);
        }
        if timeout.is_zero() {
            return Ok(0);
        }
        let ready = list.readiness().wait(Ready::READ);
        let waited = thread.interruptible_until(deadline, ready).await;
        // epoll_wait is never restarted by a handler (signal(7)).
        if waited.map_err(|_| Errno::ERESTARTNOHAND)?.is_none() {
            return Ok(0);
        }
    }
}

/// Takes up to `events_max` events; none if nothing is ready. A list that holds much is looked through in several turns.
async fn collect(thread: &Thread, list: &Epoll, events_max: usize) -> Result<Vec<Told>, Errno> {
    let mut left = list.queued();
    let mut events = Vec::with_capacity(left.min(events_max));
    loop {
        list.collect_each(&mut left, events_max, |event| events.push(event));
        if left == 0 || !events.is_empty() {
            return Ok(events);
        }
        thread.interruptible(gyre_message::yield_now()).await.map_err(|_| Errno::ERESTARTNOHAND)?;
    }
}

/// Copies events to the program: a few through the stack.
async fn give(thread: &Thread, to: u64, events: &[Told]) -> Result<(), Errno> {
    const FEW: usize = 4;
    if events.len() > FEW {
        let mut bytes = alloc::vec![0; events.len().saturating_mul(EVENT_BYTES)];
        write_events(&mut bytes, events);
        return thread.copy_out(to, &bytes).await;
    }
    let mut bytes = [0; FEW * EVENT_BYTES];
    write_events(&mut bytes, events);
    thread.copy_out(to, bytes.get(..events.len().saturating_mul(EVENT_BYTES)).unwrap_or_default()).await
}

fn write_events<'a>(into: &mut [u8], events: impl IntoIterator<Item = &'a Told>) {
    for (place, Told { event, .. }) in into.chunks_exact_mut(EVENT_BYTES).zip(events) {
        let (mask, data) = place.split_at_mut(size_of::<u32>());
        mask.copy_from_slice(&event.events.to_le_bytes());
        data.copy_from_slice(&event.data.to_le_bytes());
    }
}
