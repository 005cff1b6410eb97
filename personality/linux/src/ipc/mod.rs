//! Objects by which processes of a tenant meet by number or name: semaphores and message queues of System V
//! (sysvipc(7)), and POSIX message queues (mq_overview(7)). Shared memory by number is in [`crate::memory::segments`].
//!
//! | module | holds |
//! |---|---|
//! | [`ids`], [`permission`] | numbers, keys and rights, the same for all kinds of System V |
//! | [`waiting`] | the place of a thread that waits until another one has done its operation |
//! | [`semaphores`] | sets of semaphores, their lines of waiters, what SEM_UNDO takes back |
//! | [`messages`] | message queues by number |
//! | [`posix`] | message queues by name, with priorities |
//!
//! Numbers, keys and names are a tenant's own. Its memory pays: an object and what is in it are charged to the process
//! whose call made them, and so to the tenant.
//!
//! Invariants: who waits stands in a line of the object, and who makes room does the operation of the one that waits,
//! in the order of the line (as Linux does). A walk over a line goes in pieces; a task of the tenant goes on with a long
//! one. A thread that is killed leaves the line, since its place is dropped.

pub mod ids;
pub(crate) mod message;
pub mod messages;
pub mod permission;
pub mod posix;
pub mod semaphores;
mod waiting;

use crate::file::pace::Pace;
use crate::memory::segments::Segment;
use crate::{Errno, Tenant};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ids::Ids;
pub(crate) use waiting::go_on;

/// Flags and commands that all kinds have (sys/ipc.h).
pub(crate) const CREATE: u32 = 0o1000;
pub(crate) const EXCLUSIVE: u32 = 0o2000;
pub(crate) const NO_WAIT: u32 = 0o4000;
pub(crate) const REMOVE: u32 = 0;
pub(crate) const SET: u32 = 1;
pub(crate) const STATUS: u32 = 2;
pub(crate) const LIMITS: u32 = 3;

/// To read, in the bits of a mode.
pub(crate) const READ: u32 = 4;
/// To write, in the bits of a mode.
pub(crate) const WRITE: u32 = 2;

/// The objects of a tenant.
#[derive(Default)]
pub struct Ipc {
    /// Sets of semaphores.
    pub(crate) semaphores: semaphores::Sets,
    /// Message queues by number.
    pub(crate) messages: messages::Queues,
    /// Message queues by name.
    pub(crate) posix: posix::Queues,
}

/// Lines that one look at a list gives (/proc/sysvipc).
pub(crate) const LINES_AT_ONCE: usize = 64;

/// A kind of objects of System V, as /proc/sysvipc lists them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Shared memory.
    Segments,
    /// Sets of semaphores.
    Semaphores,
    /// Message queues.
    Messages,
}

impl Kind {
    /// Returns the first line of its list (proc(5)).
    pub(crate) fn head(self) -> &'static str {
        match self {
            Kind::Segments => crate::memory::segments::HEAD,
            Kind::Semaphores => semaphores::HEAD,
            Kind::Messages => messages::HEAD,
        }
    }
}

/// Objects that are taken apart at once when a tenant has no processes left.
const ENDED_AT_ONCE: usize = 64;

/// The objects that a tenant without processes has left, out of its tables: a process that it starts meanwhile makes
/// new ones.
struct Left {
    sets: Ids<Arc<semaphores::Set>>,
    queues: Ids<Arc<messages::Queue>>,
    names: posix::Names,
    segments: Ids<Segment>,
}

/// Takes apart what a tenant has left if it has no process; much of it in turns: there may be millions of messages.
pub(crate) fn end(tenant: &Arc<Tenant>) {
    let mut left = {
        let tree = tenant.tree.lock();
        if tree.counted().0 != 0 {
            return;
        }
        let ipc = &tenant.ipc;
        let (sets, queues) = (ipc.semaphores.take_all(), ipc.messages.take_all());
        Left { sets, queues, names: ipc.posix.take_all(), segments: tenant.segments.take_all() }
    };
    if (0..ENDED_AT_ONCE).any(|_| !left.end_one()) {
        return;
    }
    waiting::go_on(tenant.activity(), async move {
        let mut pace = Pace::new();
        // Each removal goes on by itself if it is long.
        while left.end_one() {
            pace.step().await;
        }
    });
}

impl Left {
    /// Removes an object; false if there is none.
    fn end_one(&mut self) -> bool {
        let queue = self.queues.pop().inspect(|queue| queue.remove()).is_some();
        let set = queue || self.sets.pop().inspect(|set| set.remove()).is_some();
        set || self.names.pop_first().is_some() || self.segments.pop().is_some()
    }
}

impl Tenant {
    /// Returns some lines of a list, each with the index of its object, from an index on; none if there are no more.
    pub(crate) fn ipc_lines(&self, kind: Kind, first: u32) -> Vec<(u32, String)> {
        match kind {
            Kind::Segments => self.segments.lines(first),
            Kind::Semaphores => self.ipc.semaphores.lines(first),
            Kind::Messages => self.ipc.messages.lines(first),
        }
    }
}

/// Returns seconds since 1970.
pub(crate) fn now_s() -> u64 {
    gyre_machine::wall_clock_ns() / crate::time::NS_PER_S
}

/// Writes 32-bit words one after the other.
pub(crate) fn words<const BYTES: usize>(words: &[u32]) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    out.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())).for_each(|(place, byte)| *place = byte);
    out
}

/// Turns the end of a wait by a signal into what semop answers: it is never restarted (signal(7)).
pub(crate) fn never_restarted(error: Errno) -> Errno {
    if error.asks_restart() { Errno::EINTR } else { error }
}

/// Turns the end of a wait by a signal into what msgsnd and msgrcv answer: they are restarted only if no handler runs.
pub(crate) fn without_handler(error: Errno) -> Errno {
    if error.asks_restart() { Errno::ERESTARTNOHAND } else { error }
}
