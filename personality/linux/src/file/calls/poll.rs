//! poll and select in all their forms.
//!
//! Each call makes a list of watched files with the wanted events, looks at all of them, and waits on their readiness
//! if none is ready, until a deadline or a signal. ppoll and pselect6 do that under another signal mask
//! ([`with_mask`]). select's three sets are bits of poll in groups ([`SETS`]).
//!
//! Called by io_uring (POLL_ADD) and epoll_pwait, too. An interest list that would need too many looks counts as
//! ready; its reader finds out ([`crate::file::epoll`]).

use crate::file::buffer::{half, word};
use crate::file::open_file::OpenFile;
use crate::signal::SignalSet;
use crate::time::{TimeSpec, cycles_from_now};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use gyre_interface::readiness::{Crowded, Source, Subscriber};
use gyre_interface::{Readiness, Ready};
use gyre_message::WaitQueue;
use linux_raw_sys::general as raw;

/// Descriptors of one select.
const SELECT_MAX: usize = 1024;

/// Wakes one waiting call when any of its files changes.
#[derive(Default)]
struct Waiter(WaitQueue);

impl Subscriber for Waiter {
    fn changed(&self, _now: Ready) -> Option<Arc<dyn Source>> {
        self.0.wake_all();
        None
    }
}

/// Interest in files until dropped.
struct Interest<'a> {
    files: Vec<&'a Arc<OpenFile>>,
    waiter: Arc<Waiter>,
}

impl<'a> Interest<'a> {
    fn new(files: impl Iterator<Item = &'a Arc<OpenFile>>) -> Result<Interest<'a>, Errno> {
        let waiter = Arc::new(Waiter::default());
        let mut files: Vec<_> = files.collect();
        // A file that is named a thousand times tells once.
        files.sort_unstable_by_key(|file| Arc::as_ptr(file));
        files.dedup_by_key(|file| Arc::as_ptr(file));
        let interest = Interest { files, waiter };
        for readiness in interest.files.iter().filter_map(|file| file.readiness()) {
            readiness.subscribe(interest.waiter.clone()).map_err(|Crowded| Errno::ENOMEM)?;
        }
        Ok(interest)
    }
}

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        let waiter: Arc<dyn Subscriber> = self.waiter.clone();
        for readiness in self.files.iter().filter_map(|file| file.readiness()) {
            Readiness::unsubscribe(&readiness, &waiter);
        }
    }
}

/// A file that a call looks at, and the bits that count.
pub(super) struct Watched {
    pub file: Option<Arc<OpenFile>>,
    pub wanted: u32,
}

impl Watched {
    /// Returns the bits of poll that are there: POLLNVAL for a descriptor that is not open.
    fn found(&self) -> u32 {
        let Some(file) = &self.file else {
            return u32::from(raw::POLLNVAL as u16);
        };
        let mut bits = file.ready().bits();
        if bits & raw::POLLIN != 0 {
            bits |= raw::POLLRDNORM;
        }
        if bits & raw::POLLOUT != 0 {
            bits |= raw::POLLWRNORM;
        }
        bits & (self.wanted | raw::POLLERR | raw::POLLHUP)
    }
}

/// Waits until `count` of the files is not zero, or the deadline; returns the events found.
pub(super) async fn wait_for(
    thread: &Thread,
    watched: &[Watched],
    deadline: Option<u64>,
    at_once: bool,
) -> Result<Vec<u32>, Errno> {
    let look = || -> Vec<u32> { watched.iter().map(Watched::found).collect() };
    let found = look();
    if at_once || found.iter().any(|bits| *bits != 0) {
        return Ok(found);
    }
    let interest = Interest::new(watched.iter().filter_map(|watched| watched.file.as_ref()))?;
    let any = interest.waiter.0.until(|| {
        let found = look();
        found.iter().any(|bits| *bits != 0).then_some(found)
    });
    let waited = thread.interruptible_until(deadline, any).await;
    let waited = waited.map_err(|_| Errno::ERESTARTNOHAND)?;
    Ok(waited.unwrap_or_else(|| alloc::vec![0; watched.len()]))
}

/// Runs a call with another signal mask, if `mask` is not null.
pub(super) async fn with_mask(thread: &Thread, mask: u64, bytes: u64, call: impl Future<Output = Outcome>) -> Outcome {
    if mask == 0 {
        return call.await;
    }
    if bytes != 8 {
        return Err(Errno::EINVAL);
    }
    let mut set = [0; 8];
    thread.copy_in(mask, &mut set).await?;
    thread.set_temporary_mask(SignalSet(u64::from_le_bytes(set)));
    let outcome = call.await;
    if !outcome.is_err_and(Errno::asks_restart) {
        thread.end_temporary_mask();
    }
    outcome
}

/// How long a call waits: `None` for ever, 0 not at all.
#[derive(Clone, Copy)]
pub(super) struct Timeout(pub Option<u64>);

impl Timeout {
    /// Converts from `int` milliseconds; negative is for ever.
    pub fn from_ms(ms: i32) -> Timeout {
        Timeout(u64::try_from(ms).ok().map(|ms| ms.saturating_mul(1_000_000)))
    }

    /// Converts from a `struct timespec` in the program; null is for ever.
    pub async fn from_timespec(thread: &Thread, address: u64) -> Result<Timeout, Errno> {
        if address == 0 {
            return Ok(Timeout(None));
        }
        let time: TimeSpec = thread.read_struct(address).await?;
        Ok(Timeout(Some(time.ns()?)))
    }

    pub fn is_zero(self) -> bool {
        self.0 == Some(0)
    }

    pub fn deadline(self) -> Option<u64> {
        self.0.map(cycles_from_now)
    }
}

/// `poll(entries, count, ms)`.
pub async fn poll(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    poll_entries(thread, a.word(0), a.word(1), Timeout::from_ms(a.int(2))).await
}

/// `ppoll(entries, count, timeout, mask, mask_bytes)`.
pub async fn ppoll(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timeout = Timeout::from_timespec(thread, a.word(2)).await?;
    let call = poll_entries(thread, a.word(0), a.word(1), timeout);
    with_mask(thread, a.word(3), a.word(4), call).await
}

async fn poll_entries(thread: &Thread, address: u64, count: u64, timeout: Timeout) -> Outcome {
    if count > thread.process().limit(raw::RLIMIT_NOFILE) {
        return Err(Errno::EINVAL);
    }
    let mut entries = thread.read_vec(address, (count as usize).checked_mul(8).ok_or(Errno::EINVAL)?).await?;
    let files = thread.process().files();
    let mut watched = Vec::with_capacity(count as usize);
    let mut ignored = Vec::with_capacity(count as usize);
    for entry in entries.chunks_exact(8) {
        let descriptor = half(entry, 0) as i32;
        ignored.push(descriptor < 0);
        watched.push(Watched { file: files.table().get(descriptor).ok(), wanted: half(entry, 4) & 0xffff });
    }
    let chosen: Vec<usize> = (0..watched.len()).filter(|index| !ignored.get(*index).copied().unwrap_or(true)).collect();
    let mut slots: Vec<Option<Watched>> = watched.into_iter().map(Some).collect();
    let looked: Vec<Watched> = chosen.iter().filter_map(|index| slots.get_mut(*index)?.take()).collect();
    let found = wait_for(thread, &looked, timeout.deadline(), timeout.is_zero()).await?;
    let mut ready = 0;
    let mut results = alloc::vec![0u16; slots.len()];
    for (index, bits) in chosen.iter().zip(&found) {
        if let Some(result) = results.get_mut(*index) {
            *result = *bits as u16;
        }
        ready = u64::saturating_add(ready, u64::from(*bits != 0));
    }
    for (entry, result) in entries.chunks_exact_mut(8).zip(results) {
        entry[6..8].copy_from_slice(&result.to_le_bytes());
    }
    thread.copy_out(address, &entries).await?;
    Ok(ready)
}

/// `select(count, read, write, except, timeout)`: the timeout is a `struct timeval`, which gets the time left.
pub async fn select(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let mut timeout = Timeout(None);
    if a.word(4) != 0 {
        let time: crate::time::TimeVal = thread.read_struct(a.word(4)).await?;
        timeout = Timeout(Some(time.ns()?));
    }
    let deadline = timeout.deadline();
    let outcome = select_sets(thread, a, timeout, deadline).await;
    if let Some(deadline) = deadline {
        let left = deadline.saturating_sub(gyre_machine::now());
        let left = crate::time::TimeVal::from_ns(crate::time::cycles_to_ns(left));
        thread.write_struct(a.word(4), &left).await?;
    }
    outcome
}

/// `pselect6(count, read, write, except, timeout, mask)`: the last points to the mask's address and length.
pub async fn pselect6(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timeout = Timeout::from_timespec(thread, a.word(4)).await?;
    let mut mask = (0, 0);
    if a.word(5) != 0 {
        let pair = thread.read_vec(a.word(5), 16).await?;
        mask = (word(&pair, 0), word(&pair, 8));
    }
    let call = select_sets(thread, a, timeout, timeout.deadline());
    with_mask(thread, mask.0, mask.1, call).await
}

/// The meaning of select's three sets in poll's bits.
const SETS: [u32; 3] = [
    raw::POLLIN | raw::POLLRDNORM | raw::POLLHUP | raw::POLLERR,
    raw::POLLOUT | raw::POLLWRNORM | raw::POLLERR,
    raw::POLLPRI,
];

async fn select_sets(thread: &Thread, a: Arguments, timeout: Timeout, deadline: Option<u64>) -> Outcome {
    let count = usize::try_from(a.int(0)).map_err(|_| Errno::EINVAL)?.min(SELECT_MAX);
    let bytes = count.div_ceil(64).saturating_mul(8);
    let addresses = [a.word(1), a.word(2), a.word(3)];
    let mut sets = [const { Vec::new() }; 3];
    for (set, address) in sets.iter_mut().zip(addresses) {
        if address != 0 {
            *set = thread.read_vec(address, bytes).await?;
        }
    }
    let files = thread.process().files();
    let mut watched = Vec::new();
    let mut descriptors = Vec::new();
    for descriptor in 0..count {
        let member = |set: &Vec<u8>| set.get(descriptor / 8).is_some_and(|byte| byte >> (descriptor % 8) & 1 == 1);
        let wanted = sets.iter().zip(SETS).filter(|(set, _)| member(set)).fold(0, |bits, (_, set)| bits | set);
        if wanted != 0 {
            let file = files.table().get(descriptor as i32)?;
            watched.push(Watched { file: Some(file), wanted });
            descriptors.push(descriptor);
        }
    }
    let found = wait_for_sets(thread, &watched, &descriptors, &sets, deadline, timeout.is_zero()).await?;
    let mut ready = 0;
    for ((set, address), mask) in sets.iter_mut().zip(addresses).zip(SETS) {
        let mut out = alloc::vec![0u8; set.len()];
        for (descriptor, bits) in descriptors.iter().zip(&found) {
            let (byte, bit) = (descriptor / 8, descriptor % 8);
            let asked = set.get(byte).is_some_and(|byte| byte >> bit & 1 == 1);
            if asked && bits & mask != 0 {
                if let Some(byte) = out.get_mut(byte) {
                    *byte |= 1 << bit;
                }
                ready = u64::saturating_add(ready, 1);
            }
        }
        if address != 0 {
            thread.copy_out(address, &out).await?;
        }
    }
    Ok(ready)
}

/// Waits as [`wait_for`] does, but a hang-up counts only for the sets that ask for it, so that it does not end the
/// wait of others.
async fn wait_for_sets(
    thread: &Thread,
    watched: &[Watched],
    descriptors: &[usize],
    sets: &[Vec<u8>; 3],
    deadline: Option<u64>,
    at_once: bool,
) -> Result<Vec<u32>, Errno> {
    let counts = |index: usize, bits: u32| {
        let descriptor = descriptors.get(index).copied().unwrap_or(0);
        sets.iter().zip(SETS).any(|(set, mask)| {
            let member = set.get(descriptor / 8).is_some_and(|byte| byte >> (descriptor % 8) & 1 == 1);
            member && bits & mask != 0
        })
    };
    let look = || -> Vec<u32> {
        let all = watched.iter().map(Watched::found).enumerate();
        all.map(|(index, bits)| if counts(index, bits) { bits } else { 0 }).collect()
    };
    let found = look();
    if at_once || found.iter().any(|bits| *bits != 0) {
        return Ok(found);
    }
    let interest = Interest::new(watched.iter().filter_map(|watched| watched.file.as_ref()))?;
    let any = interest.waiter.0.until(|| {
        let found = look();
        found.iter().any(|bits| *bits != 0).then_some(found)
    });
    let waited = thread.interruptible_until(deadline, any).await;
    let waited = waited.map_err(|_| Errno::ERESTARTNOHAND)?;
    Ok(waited.unwrap_or_else(|| alloc::vec![0; watched.len()]))
}
