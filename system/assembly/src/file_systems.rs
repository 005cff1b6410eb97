//! The file systems of an instance that are mounted, or being mounted.
//!
//! * A mount is announced first ([`FileSystems::begin`]), so that the end of the instance can refuse what comes too late and wait for what
//!   is under way ([`FileSystems::close`]): no disk is left marked as in use because it was mounted while the others were written back.
//! * A tenant whose end has begun leaves ([`FileSystems::leave`]): whoever ends it writes its file systems back, nobody else does, and the end
//!   of the instance waits for that ([`FileSystems::until_all_have_left`]). Once the instance ends, no further one leaves.
//!
//! Called by whoever starts tenants, ends them, and ends the instance. Left out: the writing itself, which is the caller's.

use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_ext2::Ext2;
use gyre_interface::memory::{Effort, MemoryError, reclaim};
use gyre_message::WaitQueue;
use gyre_object::SpinLock;

/// A file system on a disk that is mounted.
#[derive(Clone, Copy)]
pub struct Mounted {
    /// Whose it is.
    pub tenant: ActivityId,
    /// Its server.
    pub server: &'static Ext2,
    /// Its number in the file cache.
    pub number: u32,
    /// The number that names its server to its clients ([`gyre_message::Link::server`]).
    pub port: usize,
    /// Pays for what its files share; `None` if there was no place for such an activity.
    pub tables: Option<ActivityId>,
}

/// Whether file systems may still be mounted.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Door {
    #[default]
    Open,
    Closed,
}

#[derive(Default)]
struct Table {
    mounted: Vec<Mounted>,
    /// Those that are being mounted.
    beginning: usize,
    /// The tenants that leave.
    leaving: Vec<ActivityId>,
    /// File systems of tenants that left after the door was closed, and that could not be written back.
    lost: usize,
    door: Door,
}

impl Table {
    fn of(&self, tenant: ActivityId) -> Vec<Mounted> {
        self.mounted.iter().filter(|mounted| mounted.tenant == tenant).copied().collect()
    }

    fn leaves(&self, mounted: &Mounted) -> bool {
        self.leaving.contains(&mounted.tenant)
    }
}

/// The file systems that are mounted: who ends the machine finds them here, and the memory resource asks them as one keeper of memory.
/// They write dirty pages back, so that the cache can give them.
#[derive(Default)]
pub struct FileSystems {
    table: SpinLock<Table>,
    settled: WaitQueue,
}

impl FileSystems {
    /// Begins to mount one; `None` says that the instance ends.
    pub fn begin(&self) -> Option<Mounting<'_>> {
        let mut table = self.table.lock();
        if table.door == Door::Closed {
            return None;
        }
        table.beginning = table.beginning.saturating_add(1);
        Some(Mounting { all: self })
    }

    /// Lets no further one be mounted and no further tenant leave, and waits for mounts that are under way.
    pub async fn close(&self) {
        self.table.lock().door = Door::Closed;
        self.settled.until(|| (self.table.lock().beginning == 0).then_some(())).await;
    }

    /// Returns all of them.
    pub fn all(&self) -> Vec<Mounted> {
        self.table.lock().mounted.clone()
    }

    /// Returns that of a tenant.
    pub fn of(&self, tenant: ActivityId) -> Option<Mounted> {
        self.table.lock().mounted.iter().find(|mounted| mounted.tenant == tenant).copied()
    }

    /// Returns the one with this number in the file cache.
    pub fn numbered(&self, number: u32) -> Option<Mounted> {
        self.table.lock().mounted.iter().find(|mounted| mounted.number == number).copied()
    }

    /// Begins the end of a tenant before that of the instance; `None` if that has begun, or its own has.
    pub fn leave(&self, tenant: ActivityId) -> Option<Leaving<'_>> {
        let mut table = self.table.lock();
        if table.door == Door::Closed || table.leaving.contains(&tenant) {
            return None;
        }
        table.leaving.push(tenant);
        Some(Leaving { all: self, tenant })
    }

    /// Returns whether a tenant leaves and its file systems are still being written back.
    pub fn is_leaving(&self, tenant: ActivityId) -> bool {
        self.table.lock().leaving.contains(&tenant)
    }

    /// Returns those whose tenants do not leave.
    pub fn staying(&self) -> Vec<Mounted> {
        let table = self.table.lock();
        table.mounted.iter().filter(|mounted| !table.leaves(mounted)).copied().collect()
    }

    /// Waits until the file systems of all tenants that leave are written back, or given up.
    pub async fn until_all_have_left(&self) {
        self.settled.until(|| self.table.lock().leaving.is_empty().then_some(())).await;
    }

    /// Returns how many are not written back of tenants that leave, or have left since the door was closed.
    pub fn left_unwritten(&self) -> usize {
        let table = self.table.lock();
        let leaving = table.mounted.iter().filter(|mounted| table.leaves(mounted)).count();
        leaving.saturating_add(table.lost)
    }
}

/// How the file systems of a tenant are that has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// All that the tenant wrote is on its disks.
    Back,
    /// Some of it may not be.
    InPart,
}

/// A tenant that leaves, until [`Leaving::end`]. If this is dropped before, its file systems are whose they were.
pub struct Leaving<'a> {
    all: &'a FileSystems,
    tenant: ActivityId,
}

impl Leaving<'_> {
    /// Returns its file systems.
    pub fn mounted(&self) -> Vec<Mounted> {
        self.all.table.lock().of(self.tenant)
    }

    /// Takes its file systems out of the list, and says how they are.
    pub fn end(self, written: Written) {
        let mut table = self.all.table.lock();
        table.mounted.retain(|mounted| mounted.tenant != self.tenant);
        if table.door == Door::Closed && written == Written::InPart {
            table.lost = table.lost.saturating_add(1);
        }
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.all.table.lock().leaving.retain(|leaving| *leaving != self.tenant);
        self.all.settled.wake_all();
    }
}

/// A file system that is being mounted, until it is in the list or is given up.
pub struct Mounting<'a> {
    all: &'a FileSystems,
}

impl Mounting<'_> {
    /// Puts the file system into the list.
    pub fn add(self, mounted: Mounted) {
        self.all.table.lock().mounted.push(mounted);
    }
}

impl Drop for Mounting<'_> {
    fn drop(&mut self) {
        let mut table = self.all.table.lock();
        table.beginning = table.beginning.saturating_sub(1);
        drop(table);
        self.all.settled.wake_all();
    }
}

impl reclaim::Server for FileSystems {
    async fn reclaim(&'static self, activity: ActivityId, bytes: u64, effort: Effort) -> Result<u64, MemoryError> {
        let mut given = 0;
        for Mounted { server, .. } in self.all() {
            if given < bytes {
                let more = reclaim::Server::reclaim(server, activity, bytes.saturating_sub(given), effort).await?;
                given = u64::saturating_add(given, more);
            }
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Waker};

    #[test]
    fn who_closes_waits_for_what_is_under_way_and_lets_nothing_further_in() {
        let all = FileSystems::default();
        let first = all.begin().expect("the door is open");
        let mut close = pin!(all.close());
        let mut context = Context::from_waker(Waker::noop());
        assert!(close.as_mut().poll(&mut context).is_pending(), "one is under way");
        assert!(all.begin().is_none(), "the door is closed");
        drop(first);
        assert!(close.as_mut().poll(&mut context).is_ready(), "the last has settled");
        assert!(all.begin().is_none(), "the door stays closed");
    }

    #[test]
    fn who_closes_waits_for_who_leaves_and_lets_nobody_leave_any_more() {
        let all = FileSystems::default();
        let [slow, lost, late] = [1, 2, 3].map(ActivityId);
        let leaving = all.leave(slow).expect("nothing ends");
        let other = all.leave(lost).expect("nothing ends");
        assert!(all.leave(slow).is_none(), "it leaves already");
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(all.close()).poll(&mut context).is_ready(), "nothing is being mounted");
        assert!(all.leave(late).is_none(), "whoever closed writes the others back");
        let mut left = pin!(all.until_all_have_left());
        assert!(left.as_mut().poll(&mut context).is_pending(), "two are leaving");
        leaving.end(Written::Back);
        assert!(left.as_mut().poll(&mut context).is_pending() && all.is_leaving(lost) && !all.is_leaving(slow));
        other.end(Written::InPart);
        assert!(left.as_mut().poll(&mut context).is_ready(), "the last one has left");
        assert_eq!(all.left_unwritten(), 1);
    }
}
