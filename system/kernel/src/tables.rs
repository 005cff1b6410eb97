//! An activity for each file system on a disk: what its files share (inode tables, bitmaps, descriptors) is moved in its name, not in that
//! of the process that happens to sync. A member of the tenant, so that its shares, limits and bill hold for it.

use crate::assembly::System;
use crate::processes;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ActivityParams};
use gyre_engine::Engine;
use gyre_object::SpinLock;

/// Its name for people.
const NAME: &str = "file system tables";

/// Those of file systems that are mounted.
static OPEN: SpinLock<Vec<ActivityId>> = SpinLock::new(Vec::new());

/// An activity for a file system of a tenant, in a place of the tenant's processes; `None` where there is none: then who asks pays.
pub fn open(system: &System, tenant: ActivityId) -> Option<ActivityId> {
    // A limit of processes is not meant for what all of them share.
    let params = ActivityParams { is_free_of_member_limit: true, ..ActivityParams::default() };
    let opened = processes::member(system, tenant, NAME, params).ok()?;
    OPEN.lock().push(opened);
    Some(opened)
}

/// True of the activity of a mounted file system.
pub fn is_open(activity: ActivityId) -> bool {
    OPEN.lock().contains(&activity)
}

/// Its file system is unmounted. What is still read of it is its tenant's.
pub fn close(engine: &Engine, tables: Option<ActivityId>) {
    let Some(tables) = tables else { return };
    OPEN.lock().retain(|open| *open != tables);
    processes::close(engine, tables);
}
