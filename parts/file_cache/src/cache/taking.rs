//! Taking a page for a fetch: a free one, or the place of one that may go.
//!
//! A payer near its limit loses one of its own pages that may go, a process near its own limit one that it pays for
//! itself, so that its siblings lose nothing. If none may go, a page that somebody needs is asked for all the same; a
//! guess is given up, so that the room that is left stays for what is needed.
//!
//! Called by file systems in the turn of the request's activity; nothing here waits.

use super::{FileCache, PageKey, Slot, known};
use crate::account::Account;
use crate::fetch::{Begin, Fetch};
use gyre_machine::OutOfMemory;
use gyre_object::Page;

/// How much a new page is worth.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// Somebody waits for it: the granter of pages decides.
    Needed,
    /// A guess: it may take what is free, and the place of one that may go, but not the payer's last room.
    Guess,
}

impl FileCache {
    /// Returns the page, or its fetch.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the activity is at its budget and none of its pages may go.
    pub fn begin(&'static self, key: PageKey) -> Result<Begin, OutOfMemory> {
        self.begin_with(key, Page::zeroed, Worth::Needed)
    }

    /// Begins as [`FileCache::begin`] does, for a writer of the whole page: a new page holds old bytes.
    ///
    /// # Errors
    /// As [`FileCache::begin`].
    pub fn begin_uncleared(&'static self, key: PageKey) -> Result<Begin, OutOfMemory> {
        self.begin_with(key, Page::uncleared, Worth::Needed)
    }

    #[inline]
    fn begin_with(
        &'static self,
        key: PageKey,
        make: fn() -> Result<Page, OutOfMemory>,
        worth: Worth,
    ) -> Result<Begin, OutOfMemory> {
        if let Some(found) = self.shelf.with(&key, |slot, _| known(slot)) {
            return Ok(found);
        }
        let account = self.shelf.account();
        let page = self.take_page(&account, make, worth)?;
        let fetch = Fetch::new(self, key, page);
        let add = || (Some(Slot::Fetching(None)), None);
        let found = self.shelf.with_or_add(key, account.clone(), |slot| Some(known(slot)), add);
        Ok(match found {
            None => {
                account.add_miss();
                Begin::Lead(fetch)
            }
            Some(found) => {
                fetch.forget();
                found
            }
        })
    }

    /// Returns the promise to fetch a page that is absent, for reading ahead: `None` if it is known or there is no room. It is not cleared.
    pub fn begin_absent(&'static self, key: PageKey) -> Option<Fetch> {
        match self.begin_uncleared(key) {
            Ok(Begin::Lead(fetch)) => Some(fetch),
            _ => None,
        }
    }

    /// Returns the promise to fetch an absent page beside one that is needed, as [`FileCache::begin_absent`] does, but
    /// not if its payer is near its limit and none of its pages may go: the needed one is to be mapped yet.
    pub fn begin_beside(&'static self, key: PageKey) -> Option<Fetch> {
        match self.begin_with(key, Page::uncleared, Worth::Guess) {
            Ok(Begin::Lead(fetch)) => Some(fetch),
            _ => None,
        }
    }

    fn take_page(
        &self,
        account: &Account,
        make: fn() -> Result<Page, OutOfMemory>,
        worth: Worth,
    ) -> Result<Page, OutOfMemory> {
        if !self.shelf.make_room(account, &Slot::may_go) {
            return Err(OutOfMemory);
        }
        if self.room.get().is_some_and(|room| !(room.has_room)(account.activity())) {
            // If none of its own may go, the page is asked for all the same: the granter of pages decides.
            let is_made = self.shelf.evict_soon(account, &Slot::may_go);
            if !is_made && worth == Worth::Guess {
                return Err(OutOfMemory);
            }
        }
        let process = gyre_account::current_activity();
        let is_near = process.is_member() && self.room.get().is_some_and(|room| !(room.has_room)(process));
        if is_near && !self.evict_of(account, process, true) && worth == Worth::Guess {
            return Err(OutOfMemory);
        }
        loop {
            if let Ok(page) = make() {
                return Ok(page);
            }
            let is_room = match is_near {
                true => self.evict_of(account, process, true),
                false => self.shelf.evict_soon(account, &Slot::may_go),
            };
            if !is_room {
                return Err(OutOfMemory);
            }
        }
    }
}
