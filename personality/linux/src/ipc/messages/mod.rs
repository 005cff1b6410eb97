//! Message queues of System V (msgget(2), msgop(2), msgctl(2); Linux: ipc/msg.c).
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | msgget, msgsnd, msgrcv |
//! | [`control`] | msgctl |
//! | [`queue`], [`state`] | one queue; its messages, and who waits to send or to receive |
//! | [`store`] | the messages of a queue, by age and by type |
//!
//! A sender gives its message to the first receiver in line that wants its type; a receiver lets the first sender in
//! line whose message fits put it into the queue.

pub mod calls;
pub mod control;
mod queue;
mod state;
mod store;

use super::LINES_AT_ONCE;
use super::ids::{Entry, Ids};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicUsize;
use gyre_object::TenantLock;
pub(crate) use queue::Queue;

/// Queues of a tenant (MSGMNI).
pub const QUEUES_MAX: usize = 32_000;
/// Bytes of a message (MSGMAX).
pub const MESSAGE_BYTES_MAX: usize = 8192;
/// Bytes of a queue when it is made (MSGMNB); CAP_SYS_RESOURCE may raise it.
pub const QUEUE_BYTES: u64 = 16_384;

/// Messages and their bytes in all queues of a tenant.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) messages: AtomicUsize,
    pub(super) bytes: AtomicUsize,
}

/// The queues of a tenant.
#[derive(Default)]
pub(crate) struct Queues {
    table: TenantLock<Ids<Arc<Queue>>>,
    totals: Arc<Totals>,
}

/// The first line of /proc/sysvipc/msg.
pub(crate) const HEAD: &str = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n";

impl Queues {
    /// Takes all queues out of the table.
    pub(super) fn take_all(&self) -> Ids<Arc<Queue>> {
        core::mem::take(&mut *self.table.lock())
    }

    /// Returns lines of /proc/sysvipc/msg (proc(5)) from an index on.
    pub(crate) fn lines(&self, first: u32) -> Vec<(u32, String)> {
        self.table.lock().lines(first, LINES_AT_ONCE, line)
    }
}

fn line(entry: &Entry<Arc<Queue>>) -> String {
    let (who, figures) = (entry.permission, entry.item.figures());
    format!(
        "{:10} {:10}  {:4o}  {:10} {:10} {:5} {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10}\n",
        who.key.cast_signed(),
        entry.number(),
        who.mode,
        figures.bytes,
        figures.messages,
        figures.sender,
        figures.receiver,
        who.owner.0,
        who.owner.1,
        who.maker.0,
        who.maker.1,
        figures.sent_s,
        figures.received_s,
        figures.changed_s,
    )
}
