//! A page of 2 MiB as an address space holds it: its own, or one that processes share since a fork.
//!
//! A writer cuts a shared one first: 512 pages then lie in its place, which the others go on to map by one entry. So
//! a fork costs an entry, and a write a copy of 4 KiB.

use crate::page_view::{enter_all, leave_all};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_machine::PAGE_BYTES;
use gyre_object::{Page, TenantLock};

/// A page of 2 MiB.
pub(crate) enum HugePage {
    /// Only this space has it.
    Own(Page),
    /// Other spaces may have it; no one may write it.
    Shared(Holder),
}

/// One of the spaces that share a page.
pub(crate) struct Holder {
    shared: Arc<TenantLock<Shared>>,
    /// The payer of its part.
    viewer: ActivityId,
}

/// The common state of the sharers.
struct Shared {
    holders: usize,
    form: Form,
}

enum Form {
    Whole(Page),
    /// It was cut: its single pages, in order. Each counts as mapped by every holder, as the whole one did.
    Parts(Vec<Page>),
}

impl HugePage {
    /// Returns the page of one viewer for two of them.
    pub(crate) fn shared(self, viewer: ActivityId, other: ActivityId) -> (HugePage, HugePage) {
        let holder = match self {
            HugePage::Own(page) => {
                page.enter_now(viewer.0);
                Holder { shared: Arc::new(TenantLock::new(Shared { holders: 1, form: Form::Whole(page) })), viewer }
            }
            HugePage::Shared(holder) => holder,
        };
        let other = holder.again(other);
        (HugePage::Shared(holder), HugePage::Shared(other))
    }

    /// Returns the page as the caller's own, which it may write.
    ///
    /// # Errors
    /// The page itself if another space has it or has cut it.
    pub(crate) fn into_own(self) -> Result<Page, HugePage> {
        let holder = match self {
            HugePage::Own(page) => return Ok(page),
            HugePage::Shared(holder) => holder,
        };
        holder.take_whole().ok_or(HugePage::Shared(holder))
    }

    /// Returns the single pages that it consists of, in order. Other spaces keep it.
    ///
    /// # Errors
    /// The page itself if it cannot be cut, because a view of it is held.
    pub(crate) fn split(self) -> Result<Vec<Page>, HugePage> {
        let holder = match self {
            HugePage::Own(page) => return Ok(page.split().map_err(HugePage::Own)?.collect()),
            HugePage::Shared(holder) => holder,
        };
        holder.parts().ok_or(HugePage::Shared(holder))
    }

    /// Works on the page that holds byte `offset` of it, and the offset in that.
    pub(crate) fn with<T>(&self, offset: usize, work: impl FnOnce(&Page, usize) -> T) -> Option<T> {
        match self {
            HugePage::Own(page) => Some(work(page, offset)),
            HugePage::Shared(holder) => match &holder.shared.lock().form {
                Form::Whole(page) => Some(work(page, offset)),
                Form::Parts(parts) => parts.get(offset / PAGE_BYTES).map(|page| work(page, offset % PAGE_BYTES)),
            },
        }
    }

    /// Calls `each` with how many address spaces show some bytes of it, and the number of these bytes.
    pub(crate) fn for_each_part(&self, mut each: impl FnMut(u64, u64)) {
        match self {
            HugePage::Own(page) => each(1, page.len() as u64),
            HugePage::Shared(holder) => {
                let shared = holder.shared.lock();
                match &shared.form {
                    Form::Whole(page) => each(shared.holders as u64, page.len() as u64),
                    Form::Parts(parts) => {
                        parts.iter().for_each(|part| each(u64::from(part.mappings()), part.len() as u64));
                    }
                }
            }
        }
    }
}

impl Holder {
    fn again(&self, viewer: ActivityId) -> Holder {
        let mut shared = self.shared.lock();
        shared.holders = shared.holders.saturating_add(1);
        enter_all(shared.form.pages().iter(), &mut gyre_machine::viewing(viewer.0));
        Holder { shared: self.shared.clone(), viewer }
    }

    /// Returns the page if this is the only holder and it is in one piece.
    fn take_whole(&self) -> Option<Page> {
        let mut shared = self.shared.lock();
        if shared.holders != 1 || !matches!(shared.form, Form::Whole(_)) {
            return None;
        }
        match core::mem::replace(&mut shared.form, Form::Parts(Vec::new())) {
            Form::Whole(page) => {
                page.leave_now(self.viewer.0);
                Some(page)
            }
            Form::Parts(_) => None,
        }
    }

    fn parts(&self) -> Option<Vec<Page>> {
        let mut shared = self.shared.lock();
        if let Form::Parts(parts) = &shared.form {
            return Some(parts.clone());
        }
        let Form::Whole(page) = core::mem::replace(&mut shared.form, Form::Parts(Vec::new())) else { return None };
        match page.split() {
            Ok(parts) => {
                let parts: Vec<Page> = parts.collect();
                shared.form = Form::Parts(parts.clone());
                Some(parts)
            }
            Err(page) => {
                shared.form = Form::Whole(page);
                None
            }
        }
    }
}

impl Form {
    fn pages(&self) -> &[Page] {
        match self {
            Form::Whole(page) => core::slice::from_ref(page),
            Form::Parts(parts) => parts,
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let mut shared = self.shared.lock();
        shared.holders = shared.holders.saturating_sub(1);
        leave_all(shared.form.pages().iter(), &mut gyre_machine::viewing(self.viewer.0));
    }
}
