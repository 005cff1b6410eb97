//! The pages in which programs count their heartbeats. The kernel reads them when it is asked for goals; nobody is told of a beat.
//!
//! A page is a program's: it may hold any bytes, and may change while it is read. It stays on the list as long as its program has it mapped
//! and lives; who adds or reads takes those off that are no more.

use crate::pages::Kept;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_contract::goals::{Aim, Beats, BeatsPage};
use gyre_linux::Process;
use gyre_object::{Page, SpinLock};
use zerocopy::{FromZeros, IntoBytes};

/// A page, and what its program said of it.
pub struct BeatPage {
    /// Never used again.
    pub id: u64,
    /// The tenant's activity.
    pub tenant: ActivityId,
    /// Its name.
    pub name: String,
    /// The program's own goal.
    pub aim: Option<Aim>,
    /// The program.
    pub process: Arc<Process>,
    /// The page.
    pub page: Page,
    /// Its place among those that the tenant may have.
    pub _place: Kept,
}

/// See the module.
#[derive(Default)]
pub struct BeatPages(SpinLock<List>);

#[derive(Default)]
struct List {
    last_id: u64,
    pages: Vec<BeatPage>,
}

impl BeatPages {
    /// Takes those off the list that are no more: their places are free then.
    pub fn tidy(&self) {
        self.0.lock().tidy();
    }

    /// Adds a page; false without memory for it.
    pub fn add(&self, page: BeatPage) -> bool {
        let mut list = self.0.lock();
        if list.pages.try_reserve(1).is_err() {
            return false;
        }
        list.last_id = list.last_id.saturating_add(1);
        let id = list.last_id;
        list.pages.push(BeatPage { id, ..page });
        true
    }

    /// Reads those of a tenant.
    pub fn of(&self, tenant: ActivityId) -> Vec<Beats> {
        let mut list = self.0.lock();
        list.tidy();
        list.pages.iter().filter(|page| page.tenant == tenant).map(BeatPage::read).collect()
    }
}

impl List {
    fn tidy(&mut self) {
        // The page is held here and by the memory that is mapped.
        self.pages.retain(|page| page.page.is_shared() && !page.process.is_over());
    }
}

impl BeatPage {
    /// Returns what stands there now, whatever that is.
    fn read(&self) -> Beats {
        let mut page = BeatsPage::new_zeroed();
        self.page.read(0, page.as_mut_bytes());
        Beats {
            id: self.id,
            name: self.name.clone(),
            process: self.process.id(),
            aim: self.aim,
            beats: page.beats,
            sum_ns: page.sum_ns,
            buckets: page.buckets.into(),
        }
    }
}
