//! Request queues of a core: one for each resource, source and activity that sends to it here.
//!
//! A queue is made when its first request comes (the scheduler hears of it then) and forgotten when it was not used for long, or its
//! activity ends. Tasks are linked through their headers, so putting one back cannot fail.
//!
//! [`QueueState`] is the state of a queue: idle (empty, or being served), in the ready set of its scheduler, or in the turn that is open. It is
//! found by its tag, in a small table before the hash table; its index stays valid as long as a task's header names it.
//!
//! Only the core's own code may call. Left out: the choice among queues (`state.rs`), bounds on their length (`port.rs`).

use crate::aggregate::Standing;
use crate::map::Map;
use crate::task::{NIL, State, Tasks};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId};

/// The scheduler's knowledge of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueState {
    /// Empty, or being served.
    Idle,
    /// In the ready set of its scheduler.
    Ready,
    /// Waits for its place in the turn that is going on.
    InTurn,
}

/// A queue.
pub(crate) struct Queue {
    head: u32,
    tail: u32,
    pub(crate) len: u32,
    pub(crate) state: QueueState,
    pub(crate) resource: ResourceId,
    pub(crate) source: ResourceId,
    pub(crate) activity: ActivityId,
    /// When it was last used, in cycles.
    pub(crate) used_at: u64,
    /// Tasks whose header names this queue, queued or not: it must stay as long as there are any.
    pub(crate) tasks: u32,
    /// The thread whose queue it is, and where that stands; none for common queues.
    pub(crate) standing: Option<(u32, Arc<Standing>)>,
    /// True if its resource's gate schedules it, not the CPU's policy.
    pub(crate) is_gated: bool,
    used: bool,
}

impl Queue {
    fn tag(&self) -> u64 {
        let common = tag(self.resource, self.source, self.activity);
        self.standing.as_ref().map_or(common, |(thread, _)| tag_of_thread(common, *thread))
    }
}

/// Entries of the small table before the hash table. 64 entries of 16 bytes: the study saw 3 to 14 % misses.
const CACHE: usize = 64;

/// The queues of one core.
pub(crate) struct Queues {
    queues: Vec<Queue>,
    free: Vec<u32>,
    by_tag: Map<u64, u32>,
    cache: [(u64, u32); CACHE],
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// Sender, destination and activity of a queue, as one number.
#[inline]
pub(crate) fn tag(resource: ResourceId, source: ResourceId, activity: ActivityId) -> u64 {
    u64::from(activity.0) | u64::from(resource.0) << 32 | u64::from(source.0) << 40
}

/// The tag of the queue of one thread, which stands in an aggregate.
pub(crate) fn tag_of_thread(common: u64, thread: u32) -> u64 {
    common | (u64::from(thread) + 1) << 48
}

#[inline]
fn slot(tag: u64) -> usize {
    (tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % CACHE
}

impl Queues {
    pub(crate) fn new() -> Queues {
        Queues {
            queues: Vec::new(),
            free: Vec::new(),
            by_tag: Map::default(),
            cache: [(u64::MAX, NIL); CACHE],
            hits: 0,
            misses: 0,
        }
    }

    /// Returns the queue of a tag.
    #[inline]
    pub(crate) fn find(&mut self, tag: u64) -> Option<u32> {
        let entry = &mut self.cache[slot(tag)];
        if entry.0 == tag {
            self.hits += 1;
            return Some(entry.1);
        }
        self.misses += 1;
        let queue = *self.by_tag.get(&tag)?;
        *entry = (tag, queue);
        Some(queue)
    }

    /// Makes a queue for a tag that has none.
    pub(crate) fn make(
        &mut self,
        resource: ResourceId,
        source: ResourceId,
        activity: ActivityId,
        is_gated: bool,
        standing: Option<(u32, Arc<Standing>)>,
    ) -> Option<u32> {
        self.by_tag.try_reserve(1).ok()?;
        let fresh = Queue {
            head: NIL,
            tail: NIL,
            len: 0,
            state: QueueState::Idle,
            resource,
            source,
            activity,
            used_at: 0,
            tasks: 0,
            is_gated,
            standing,
            used: true,
        };
        let tag = fresh.tag();
        let index = match self.free.pop() {
            Some(index) => {
                *self.queues.get_mut(index as usize)? = fresh;
                index
            }
            None => {
                self.queues.try_reserve(1).ok()?;
                // Room to give every index back without taking memory.
                self.free.try_reserve(self.queues.len() + 1).ok()?;
                self.queues.push(fresh);
                self.queues.len() as u32 - 1
            }
        };
        self.by_tag.insert(tag, index);
        Some(index)
    }

    /// Forgets an empty queue without tasks.
    pub(crate) fn forget(&mut self, index: u32) {
        let Some(queue) = self.queues.get_mut(index as usize).filter(|queue| queue.used) else {
            return;
        };
        queue.used = false;
        let tag = queue.tag();
        queue.standing = None;
        self.by_tag.remove(&tag);
        let entry = &mut self.cache[slot(tag)];
        if entry.0 == tag {
            *entry = (u64::MAX, NIL);
        }
        self.free.push(index);
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Queue> {
        self.queues.get(index as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Queue> {
        self.queues.get_mut(index as usize)
    }

    /// Places for queues, used or not.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Returns the queues in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Queue)> {
        (0..).zip(&self.queues).filter(|(_, queue)| queue.used)
    }

    /// Links a task behind the others of its queue.
    #[inline]
    pub(crate) fn push_back(&mut self, tasks: &mut Tasks, task: u32, now: u64) -> Option<u32> {
        let header = tasks.get_mut(task)?;
        let index = header.queue;
        let queue = self.queues.get_mut(index as usize)?;
        header.state = State::Queued;
        header.next = NIL;
        header.queued_at = now;
        let last = core::mem::replace(&mut queue.tail, task);
        queue.len += 1;
        if last == NIL {
            queue.head = task;
        } else if let Some(last) = tasks.get_mut(last) {
            last.next = task;
        }
        Some(index)
    }

    /// Links a task before the others of its queue.
    pub(crate) fn push_front(&mut self, tasks: &mut Tasks, task: u32, now: u64) -> Option<u32> {
        let header = tasks.get_mut(task)?;
        let index = header.queue;
        let queue = self.queues.get_mut(index as usize)?;
        header.state = State::Queued;
        header.queued_at = now;
        header.next = core::mem::replace(&mut queue.head, task);
        if queue.tail == NIL {
            queue.tail = task;
        }
        queue.len += 1;
        Some(index)
    }

    /// Takes the first task out; one that was dropped meanwhile counts too.
    #[inline]
    pub(crate) fn pop(&mut self, tasks: &Tasks, index: u32) -> Option<u32> {
        let queue = self.queues.get_mut(index as usize)?;
        let task = queue.head;
        let header = tasks.get(task)?;
        queue.head = header.next;
        if queue.head == NIL {
            queue.tail = NIL;
        }
        queue.len -= 1;
        Some(task)
    }

    /// Returns the tasks of a queue, first to last.
    pub(crate) fn members<'a>(&'a self, tasks: &'a Tasks, index: u32) -> impl Iterator<Item = u32> + 'a {
        let head = self.get(index).map_or(NIL, |queue| queue.head);
        let first = (head != NIL).then_some(head);
        core::iter::successors(first, |&task| tasks.get(task).map(|header| header.next).filter(|&next| next != NIL))
    }

    /// Takes a task out of the middle of its queue. O(length): for threads that move to another core.
    pub(crate) fn unlink(&mut self, tasks: &mut Tasks, task: u32) {
        let Some((index, next)) = tasks.get(task).map(|header| (header.queue, header.next)) else {
            return;
        };
        let before =
            self.members(tasks, index).find(|&member| tasks.get(member).is_some_and(|header| header.next == task));
        let Some(queue) = self.queues.get_mut(index as usize) else {
            return;
        };
        match before.and_then(|before| tasks.get_mut(before)) {
            Some(before) => before.next = next,
            None if queue.head == task => queue.head = next,
            None => return,
        }
        if queue.tail == task {
            queue.tail = before.unwrap_or(NIL);
        }
        queue.len -= 1;
    }
}
