//! Files that a call of poll or select watches: what they are ready for now, and the wait for the first that is.
//!
//! A program chooses how many they are (RLIMIT_NOFILE, at most a million). So each way along them goes in pieces, after which the core is
//! given back if it was held for long, and the memory for them may be refused. Without a file that is ready, one subscriber hears of a
//! change in any of them, and the call looks again at all.
//!
//! Called by poll, select and io_uring (POLL_ADD). An interest list that would need too many looks counts as ready; its reader finds out
//! ([`crate::file::epoll`]). Subscriptions end with the call; those of a long list are ended by a task ([`crate::file::remains`]).

use crate::file::open_file::OpenFile;
use crate::file::pace::Pace;
use crate::file::remains::Remain;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::readiness::{Crowded, Source, Subscriber};
use gyre_interface::{Readiness, Ready};
use gyre_message::WaitQueue;
use linux_raw_sys::general as raw;

/// Files that are looked at in one piece. One look at an interest list asks up to a thousand others.
const LOOKS: usize = 8;
/// Files that are subscribed to in one piece.
const SUBSCRIPTIONS: usize = 512;

/// A place in a call's list.
pub(super) enum Watched {
    /// An open file, and the bits of poll that count.
    File(Arc<OpenFile>, u32),
    /// A descriptor that is not open: its answer is POLLNVAL.
    NotOpen,
    /// Nothing (poll: a negative descriptor).
    Nothing,
}

impl Watched {
    /// Watches a file as poll does: errors and hang-ups count, too.
    pub fn for_poll(file: Arc<OpenFile>, wanted: u32) -> Watched {
        Watched::File(file, wanted | raw::POLLERR | raw::POLLHUP)
    }

    /// Returns the bits of poll that are there.
    fn found(&self) -> u32 {
        match self {
            Watched::File(file, wanted) => bits_of(file.ready()) & wanted,
            Watched::NotOpen => raw::POLLNVAL,
            Watched::Nothing => 0,
        }
    }

    fn file(&self) -> Option<&Arc<OpenFile>> {
        match self {
            Watched::File(file, _) => Some(file),
            Watched::NotOpen | Watched::Nothing => None,
        }
    }
}

fn bits_of(ready: Ready) -> u32 {
    let mut bits = ready.bits();
    if bits & raw::POLLIN != 0 {
        bits |= raw::POLLRDNORM;
    }
    if bits & raw::POLLOUT != 0 {
        bits |= raw::POLLWRNORM;
    }
    bits
}

/// Makes room for a list whose length a program chose.
///
/// # Errors
/// ENOMEM.
pub(super) fn list_of<T>(count: usize) -> Result<Vec<T>, Errno> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
    Ok(list)
}

/// How long a call waits for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// It looks once.
    None,
    /// Until the time stamp counter shows so many cycles.
    UntilCycles(u64),
    /// Until a file is ready, or a signal comes.
    Endless,
}

impl Patience {
    fn deadline_cycles(self) -> Option<u64> {
        match self {
            Patience::UntilCycles(deadline) => Some(deadline),
            Patience::None | Patience::Endless => None,
        }
    }

    fn is_over(self) -> bool {
        self.deadline_cycles().is_some_and(|deadline| gyre_machine::now() >= deadline)
    }
}

/// Waits until at least one of the files is ready; returns the bits found, one word for each place. All are 0 if `patience` ends before.
///
/// # Errors
/// ERESTARTNOHAND for a signal, ENOMEM.
pub(super) async fn wait_for(thread: &Thread, watched: &[Watched], patience: Patience) -> Result<Vec<u32>, Errno> {
    let mut found = list_of(watched.len())?;
    found.resize(watched.len(), 0);
    if look_once(thread, watched, &mut found).await? || patience == Patience::None {
        return Ok(found);
    }
    let interest = Interest::in_files(thread, watched).await?;
    loop {
        let change = interest.waiter.0.wait();
        if look_once(thread, watched, &mut found).await? || patience.is_over() {
            return Ok(found);
        }
        thread.interruptible_until(patience.deadline_cycles(), change).await.map_err(|_| Errno::ERESTARTNOHAND)?;
    }
}

/// Looks at all files; true if one is ready. A signal ends it only between two pieces.
async fn look_once(thread: &Thread, watched: &[Watched], found: &mut [u32]) -> Result<bool, Errno> {
    thread.interruptible(look(watched, found)).await.map_err(|_| Errno::ERESTARTNOHAND)
}

async fn look(watched: &[Watched], found: &mut [u32]) -> bool {
    if watched.len() <= LOOKS {
        return look_at_piece(watched, found);
    }
    let mut is_any = false;
    let mut pace = Pace::new();
    for (watched, found) in watched.chunks(LOOKS).zip(found.chunks_mut(LOOKS)) {
        is_any |= look_at_piece(watched, found);
        pace.step().await;
    }
    is_any
}

fn look_at_piece(watched: &[Watched], found: &mut [u32]) -> bool {
    let mut any = 0;
    for (watched, found) in watched.iter().zip(found) {
        *found = watched.found();
        any |= *found;
    }
    any != 0
}

/// Wakes one waiting call when any of its files changes.
#[derive(Default)]
struct Waiter(WaitQueue);

impl Subscriber for Waiter {
    fn changed(&self, _now: Ready) -> Option<Arc<dyn Source>> {
        self.0.wake_all();
        None
    }
}

/// A call's subscriptions to files, until it is dropped.
struct Interest<'a> {
    thread: &'a Thread,
    waiter: Arc<Waiter>,
    files: Vec<Arc<OpenFile>>,
}

impl<'a> Interest<'a> {
    async fn in_files(thread: &'a Thread, watched: &[Watched]) -> Result<Interest<'a>, Errno> {
        let mut interest = Interest { thread, waiter: Arc::default(), files: list_of(watched.len())? };
        let mut pace = Pace::new();
        for piece in watched.chunks(SUBSCRIPTIONS) {
            interest.subscribe(piece)?;
            if watched.len() > SUBSCRIPTIONS {
                thread.interruptible(pace.step()).await.map_err(|_| Errno::ERESTARTNOHAND)?;
            }
        }
        Ok(interest)
    }

    /// Subscribes to the files of a piece. One that it names a thousand times tells once.
    fn subscribe(&mut self, piece: &[Watched]) -> Result<(), Errno> {
        let mut files = list_of(piece.len())?;
        files.extend(piece.iter().filter_map(Watched::file));
        files.sort_unstable_by_key(|file| Arc::as_ptr(file));
        files.dedup_by_key(|file| Arc::as_ptr(file));
        for file in files {
            if let Some(readiness) = file.readiness() {
                readiness.subscribe(self.waiter.clone()).map_err(|Crowded| Errno::ENOMEM)?;
                self.files.push(file.clone());
            }
        }
        Ok(())
    }
}

impl Drop for Interest<'_> {
    /// Ends short lists at once; a task of the tenant ends the rest of long ones.
    fn drop(&mut self) {
        let mut rest = Subscriptions { waiter: self.waiter.clone(), files: core::mem::take(&mut self.files) };
        for _ in 0..SUBSCRIPTIONS {
            if !rest.take_piece() {
                return;
            }
        }
        self.thread.process().files().tenant().leave_behind(Remain::Subscriptions(rest));
    }
}

/// Subscriptions of a call that has ended.
pub(in crate::file) struct Subscriptions {
    waiter: Arc<dyn Subscriber>,
    files: Vec<Arc<OpenFile>>,
}

impl Subscriptions {
    /// Ends one; false if there is none.
    pub fn take_piece(&mut self) -> bool {
        let Some(file) = self.files.pop() else {
            return false;
        };
        if let Some(readiness) = file.readiness() {
            Readiness::unsubscribe(&readiness, &self.waiter);
        }
        true
    }
}
