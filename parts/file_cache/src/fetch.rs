//! One reader's promise to fill a page, and the tasks that wait for it.

use crate::cache::Notes;
use crate::{FileCache, PageKey};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_message::WaitQueue;
use gyre_object::Page;

/// The end of a fetch, good or bad.
#[derive(Default)]
pub(crate) struct Arrival {
    over: AtomicBool,
    waiters: WaitQueue,
}

impl Arrival {
    pub(crate) fn announce(&self) {
        self.over.store(true, Ordering::Release);
        self.waiters.wake_all();
    }
}

/// The step to take with a page.
pub enum Begin {
    /// It is here.
    Here(Page),
    /// Another task fetches it: await, then begin again.
    Wait(Waiting),
    /// It is yours to fetch.
    Lead(Fetch),
}

/// Waits for the fetch of another task.
pub struct Waiting(pub(crate) Arc<Arrival>);

impl Waiting {
    /// Returns when the fetch has ended, well or not.
    pub async fn done(self) {
        self.0.waiters.until(|| self.0.over.load(Ordering::Acquire).then_some(())).await;
    }
}

/// The promise to fill a page. Dropped unfulfilled, the page is absent again and the next waiting reader leads.
pub struct Fetch {
    cache: &'static FileCache,
    key: PageKey,
    page: Page,
    fulfilled: bool,
    notes: Notes,
}

impl Fetch {
    pub(crate) fn new(cache: &'static FileCache, key: PageKey, page: Page) -> Fetch {
        Fetch { cache, key, page, fulfilled: false, notes: Notes::default() }
    }

    /// Returns the page to fill: zeroed, or with old bytes, as it was begun.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Returns its key.
    pub fn key(&self) -> PageKey {
        self.key
    }

    /// Notes that the disk has room for all of it (see [`FileCache::note_placed`]).
    pub fn note_placed(&mut self) {
        self.notes.placed = true;
    }

    /// Notes that its reader should read on (see [`FileCache::read`]).
    pub fn set_mark(&mut self) {
        self.notes.mark = true;
    }

    /// Takes the promise back before anybody saw it.
    pub(crate) fn forget(mut self) {
        self.fulfilled = true;
    }

    /// Shows the filled page to all.
    pub fn done(mut self) -> Page {
        self.fulfilled = true;
        self.cache.arrived(self.key, &self.page, self.notes);
        self.page.clone()
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        if !self.fulfilled {
            self.cache.abandoned(self.key);
        }
    }
}
