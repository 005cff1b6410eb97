//! An activity for each file system on a disk: what its files share (inode tables, bitmaps, descriptors) is moved in its name, not in that
//! of the process that happens to sync. A member of the tenant, so that its shares, limits and bill hold for it.

use crate::processes::Processes;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ActivityParams};
use gyre_object::SpinLock;

/// Its name for people.
const NAME: &str = "file system tables";

/// The activities of the file systems that are mounted.
#[derive(Default)]
pub struct Tables(SpinLock<Vec<ActivityId>>);

impl Tables {
    /// Makes an activity for a file system of a tenant, in a place of the tenant's processes. `None` if no place is left: then the activity
    /// that asks pays.
    pub fn open(&self, processes: &Processes, tenant: ActivityId) -> Option<ActivityId> {
        // A limit of processes is not meant for what all of them share.
        let params = ActivityParams { is_free_of_member_limit: true, ..ActivityParams::default() };
        let opened = processes.member(tenant, NAME, params).ok()?;
        self.0.lock().push(opened);
        Some(opened)
    }

    /// Returns true for the activity of a mounted file system.
    pub fn is_open(&self, activity: ActivityId) -> bool {
        self.0.lock().contains(&activity)
    }

    /// Ends the activity of a file system that is unmounted. Later reads of it are its tenant's.
    pub fn close(&self, processes: &Processes, tables: Option<ActivityId>) {
        let Some(tables) = tables else { return };
        self.0.lock().retain(|open| *open != tables);
        processes.close(tables);
    }
}
