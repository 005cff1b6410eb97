//! POSIX message queues (mq_overview(7); Linux: ipc/mqueue.c): by name, with priorities, open as descriptors.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | mq_open, mq_unlink, mq_timedsend, mq_timedreceive, mq_getsetattr |
//! | [`notice`] | mq_notify: who is told that an empty queue has got a message |
//! | [`queue`], [`text`] | one queue; the text that its descriptor gives |
//!
//! A queue lives as long as it has a name or is open somewhere. A sender gives the message to the first receiver in
//! line; a receiver lets the first sender in line put its message into the queue.
//!
//! Left out: the file system that shows the queues (mqueue, /dev/mqueue). A name is in no directory.

pub mod calls;
pub mod notice;
mod queue;
mod text;

use crate::credentials::Capability;
use crate::file::permission::Asker;
use crate::{Errno, Thread};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use gyre_object::TenantLock;
pub use queue::Queue;
pub(crate) use text::read;

/// Files of /proc/sys/fs/mqueue that privileged programs may change.
pub(crate) const QUEUES_MAX_AT: &str = "sys/fs/mqueue/queues_max";
pub(crate) const MESSAGES_MAX_AT: &str = "sys/fs/mqueue/msg_max";
pub(crate) const BYTES_MAX_AT: &str = "sys/fs/mqueue/msgsize_max";
pub(crate) const MESSAGES_AT: &str = "sys/fs/mqueue/msg_default";
pub(crate) const BYTES_AT: &str = "sys/fs/mqueue/msgsize_default";
/// Their first values.
pub(crate) const QUEUES_MAX: u64 = 256;
pub(crate) const MESSAGES: u64 = 10;
pub(crate) const BYTES: u64 = 8192;
/// The most that these files, and programs with CAP_SYS_RESOURCE, may ask for (HARD_MSGMAX, HARD_MSGSIZEMAX).
pub(crate) const MESSAGES_HARD: u64 = 65_536;
pub(crate) const BYTES_HARD: u64 = 16 << 20;
/// The longest name, bytes.
const NAME_BYTES_MAX: usize = 255;
/// Priorities there are (MQ_PRIO_MAX).
pub(crate) const PRIORITIES: u32 = 32_768;
/// Bytes that Linux counts for a message beside its own: its head, and a node of the tree of priorities.
const HEAD_BYTES: u64 = 48;
const NODE_BYTES: u64 = 48;

/// The most that a queue holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    /// Messages.
    pub(crate) messages: u64,
    /// Bytes of a message.
    pub(crate) bytes: u64,
}

impl Size {
    /// Returns the bytes that count for RLIMIT_MSGQUEUE (getrlimit(2)).
    fn counted(self) -> u64 {
        let nodes = self.messages.min(u64::from(PRIORITIES)).saturating_mul(NODE_BYTES);
        self.messages.saturating_mul(self.bytes.saturating_add(HEAD_BYTES)).saturating_add(nodes)
    }
}

/// Bytes that the queues of each user count, and how many queues there are.
#[derive(Default)]
struct Sums {
    bytes: BTreeMap<u32, u64>,
    queues: u64,
}

/// The share of a queue in the sums; it is given back when it is dropped.
pub(super) struct Count {
    sums: Arc<TenantLock<Sums>>,
    user: u32,
    bytes: u64,
}

impl Drop for Count {
    fn drop(&mut self) {
        let mut sums = self.sums.lock();
        sums.queues = sums.queues.saturating_sub(1);
        match sums.bytes.get_mut(&self.user) {
            Some(bytes) if *bytes > self.bytes => *bytes = bytes.saturating_sub(self.bytes),
            _ => _ = sums.bytes.remove(&self.user),
        }
    }
}

/// Queues by name.
pub(super) type Names = BTreeMap<Vec<u8>, Arc<Queue>>;

/// The queues of a tenant, by name.
#[derive(Default)]
pub(crate) struct Queues {
    names: TenantLock<Names>,
    sums: Arc<TenantLock<Sums>>,
}

/// A range of sizes.
fn is_in(value: i64, range: RangeInclusive<u64>) -> Option<u64> {
    u64::try_from(value).ok().filter(|value| range.contains(value))
}

impl Queues {
    /// Takes all names out of the table.
    pub(super) fn take_all(&self) -> Names {
        core::mem::take(&mut *self.names.lock())
    }

    /// Takes the name from a queue that could not be opened.
    fn forget(&self, queue: &Arc<Queue>) {
        let mut names = self.names.lock();
        let is_it = names.get(&queue.name).is_some_and(|known| Arc::ptr_eq(known, queue));
        let gone = if is_it { names.remove(&queue.name) } else { None };
        drop(names);
        drop(gone);
    }

    /// Returns the size of a new queue: that which is asked for, or that of the files of /proc.
    ///
    /// # Errors
    /// EINVAL.
    fn size(thread: &Thread, asker: &Asker, wish: Option<(i64, i64)>) -> Result<Size, Errno> {
        let files = thread.process().files();
        let number = |path, first| files.tenant().proc.number_at(path).unwrap_or(first);
        let (messages_max, bytes_max) = (number(MESSAGES_MAX_AT, MESSAGES), number(BYTES_MAX_AT, BYTES));
        let Some((messages, bytes)) = wish else {
            let messages = number(MESSAGES_AT, MESSAGES).min(messages_max);
            return Ok(Size { messages, bytes: number(BYTES_AT, BYTES).min(bytes_max) });
        };
        let (messages_max, bytes_max) = match asker.has(Capability::SysResource) {
            true => (MESSAGES_HARD, BYTES_HARD),
            false => (messages_max, bytes_max),
        };
        let (messages, bytes) = (is_in(messages, 1..=messages_max), is_in(bytes, 1..=bytes_max));
        Ok(Size { messages: messages.ok_or(Errno::EINVAL)?, bytes: bytes.ok_or(Errno::EINVAL)? })
    }

    /// Counts a new queue of the caller.
    ///
    /// # Errors
    /// ENOSPC for too many; EMFILE beyond RLIMIT_MSGQUEUE.
    fn count(&self, thread: &Thread, asker: &Asker, size: Size) -> Result<Count, Errno> {
        let files = thread.process().files();
        let most = files.tenant().proc.number_at(QUEUES_MAX_AT).unwrap_or(QUEUES_MAX);
        let limit = thread.process().limit(linux_raw_sys::general::RLIMIT_MSGQUEUE);
        let user = thread.with_credentials(|who| who.user);
        let mut sums = self.sums.lock();
        if sums.queues >= most && !asker.has(Capability::SysResource) {
            return Err(Errno::ENOSPC);
        }
        let before = sums.bytes.get(&user).copied().unwrap_or(0);
        let after = before.checked_add(size.counted()).filter(|after| *after <= limit).ok_or(Errno::EMFILE)?;
        sums.queues = sums.queues.saturating_add(1);
        sums.bytes.insert(user, after);
        Ok(Count { sums: self.sums.clone(), user, bytes: size.counted() })
    }
}
