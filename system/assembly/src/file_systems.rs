//! The file systems of an instance that are mounted, or being mounted.
//!
//! A mount is announced first ([`FileSystems::begin`]), so that the end of the instance can refuse what comes too late and wait for what
//! is under way ([`FileSystems::close`]): no disk is left marked as in use because it was mounted while the others were written back.

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
    door: Door,
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

    /// Lets no further one be mounted, and waits for those that are under way.
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

    /// Takes that of a tenant out of the list: its tenant ends before the machine.
    pub fn take(&self, tenant: ActivityId) -> Option<Mounted> {
        let mut table = self.table.lock();
        let position = table.mounted.iter().position(|mounted| mounted.tenant == tenant)?;
        Some(table.mounted.swap_remove(position))
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
}
