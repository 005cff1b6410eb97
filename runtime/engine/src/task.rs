//! Tasks of a core: a header per future, in a table; names that grow stale harmlessly.
//!
//! ```text
//!   Free -> Starting -> Queued -> Running -> Waiting -> Queued ...      a request or a thread
//!                    -> Parked -> Queued                                behind another one with its dependency label
//!           any of Queued, Parked, Waiting -> Running -> Free           killed: dropped in place
//!                                  Running -> Free                      ended, or killed while it was polled
//! ```
//! `allocate` takes a header and memory; the caller fills the memory before anything else happens to the task. The future is valid from
//! Queued to Waiting, and only the code that put the header into Running polls or drops it.
//!
//! A [`TaskRef`] names core, index and generation (for threads: their number). A header's generation changes when it is freed, so a waker
//! of a task that has ended wakes none.
//!
//! Only the core's own code may call. Left out: queues (`queue.rs`), memory (`slab.rs`).

use crate::aggregate::Standing;
use crate::limits::TASKS_MAX;
use crate::slab::Slabs;
use crate::vtable::Vtable;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::NonNull;
use gyre_account::{ActivityId, ResourceId};

/// No task, no queue.
pub(crate) const NIL: u32 = u32::MAX;

/// The state of a task's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The header is unused.
    Free,
    /// Its memory is being filled.
    Starting,
    /// In its queue.
    Queued,
    /// Behind another one with the same dependency label.
    Parked,
    /// Being polled, or being dropped.
    Running,
    /// Suspended until it is woken.
    Waiting,
}

/// The header of a task.
pub(crate) struct Header {
    /// The future. Valid in the states from Queued to Waiting.
    pub(crate) memory: NonNull<u8>,
    pub(crate) vtable: Option<&'static Vtable>,
    /// When it was queued, in cycles.
    pub(crate) queued_at: u64,
    /// The next one in the queue.
    pub(crate) next: u32,
    /// The queue that its start and resumptions go to.
    pub(crate) queue: u32,
    /// The gate's queue in which it began, if it has left that; else [`NIL`].
    pub(crate) gate_queue: u32,
    pub(crate) activity: ActivityId,
    pub(crate) generation: u32,
    /// Its number among the threads, or [`NIL`].
    pub(crate) thread: u32,
    /// Its number among the labelled requests of its resource, if `label` is not 0.
    pub(crate) ticket: u64,
    pub(crate) label: u64,
    /// Cores that may run it, for threads: those of its wish that are online, or all if none is.
    pub(crate) cores: u8,
    /// Cores that it asks for.
    pub(crate) wish: u8,
    pub(crate) resource: ResourceId,
    pub(crate) state: State,
    /// Woken while it was being polled.
    pub(crate) woken: bool,
    /// Goes to the front of its queue when it suspends.
    pub(crate) front: bool,
    /// To be dropped as soon as its poll returns.
    pub(crate) killed: bool,
    /// A thread that is queued, and parked: may move to another core.
    pub(crate) movable: bool,
    /// A thread whose registers are all in memory.
    pub(crate) parked: bool,
    /// A thread that is queued or runs.
    pub(crate) wants_core: bool,
    /// Top-level activity of a thread.
    pub(crate) root: ActivityId,
    /// The aggregate in which a thread stands.
    pub(crate) stands: Option<Arc<Standing>>,
    /// A thread that is to go to its queue in another aggregate, or to the common one.
    pub(crate) is_restanding: bool,
}

/// Names a task for wakers: core, index, generation; or the number of a thread, which may be on any core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskRef {
    pub(crate) core: u8,
    pub(crate) is_thread: bool,
    /// Index in the core's table, or number of the thread.
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl TaskRef {
    #[inline]
    pub(crate) const fn encode(self) -> u64 {
        (self.index & 0xff_ffff) as u64
            | (self.core as u64 & 0x7f) << 24
            | (self.is_thread as u64) << 31
            | (self.generation as u64) << 32
    }

    #[inline]
    pub(crate) const fn decode(word: u64) -> TaskRef {
        TaskRef {
            index: (word & 0xff_ffff) as u32,
            core: (word >> 24 & 0x7f) as u8,
            is_thread: word >> 31 & 1 == 1,
            generation: (word >> 32) as u32,
        }
    }
}

/// The tasks of one core.
pub(crate) struct Tasks {
    headers: Vec<Header>,
    free: u32,
    live: usize,
    pub(crate) slabs: Slabs,
}

impl Tasks {
    pub(crate) const fn new() -> Tasks {
        Tasks { headers: Vec::new(), free: NIL, live: 0, slabs: Slabs::new() }
    }

    /// Gives what some activities have under way to others: each goes on, paid by the heir.
    pub(crate) fn pass_on(&mut self, is_ended: impl Fn(ActivityId) -> bool, heir: impl Fn(ActivityId) -> ActivityId) {
        for header in self.headers.iter_mut().filter(|header| header.state != State::Free && is_ended(header.activity))
        {
            header.activity = heir(header.activity);
        }
    }

    /// Takes a header and memory for a future; the caller fills the memory before anything else happens to the task.
    #[inline]
    pub(crate) fn allocate(
        &mut self,
        vtable: &'static Vtable,
        queue: u32,
        activity: ActivityId,
        resource: ResourceId,
        state: State,
    ) -> Option<(u32, NonNull<u8>, u32)> {
        let index = match self.free {
            NIL => self.grow()?,
            index => index,
        };
        let memory = self.slabs.take(vtable.place)?;
        let header = self.headers.get_mut(index as usize)?;
        self.free = header.next;
        self.live += 1;
        let generation = header.generation;
        *header = Header {
            memory,
            vtable: Some(vtable),
            queued_at: 0,
            next: NIL,
            queue,
            gate_queue: NIL,
            activity,
            generation,
            thread: NIL,
            ticket: 0,
            label: 0,
            cores: u8::MAX,
            wish: u8::MAX,
            resource,
            state,
            woken: false,
            front: false,
            killed: false,
            movable: false,
            parked: false,
            wants_core: false,
            root: ActivityId::INFRASTRUCTURE,
            stands: None,
            is_restanding: false,
        };
        Some((index, memory, generation))
    }

    #[cold]
    fn grow(&mut self) -> Option<u32> {
        let index = self.headers.len();
        if index >= TASKS_MAX || self.headers.try_reserve(1).is_err() {
            return None;
        }
        self.headers.push(Header::unused());
        self.free = index as u32;
        Some(index as u32)
    }

    /// Frees a header and its memory, which holds no value any more.
    #[inline]
    pub(crate) fn release(&mut self, index: u32) {
        let Some(header) = self.headers.get_mut(index as usize) else {
            return;
        };
        if let Some(vtable) = header.vtable.take() {
            // SAFETY: the memory was taken in `allocate` with this vtable's place, and taking the vtable out makes this happen once.
            unsafe { self.slabs.give(vtable.place, header.memory) };
        }
        header.generation = header.generation.wrapping_add(1);
        header.state = State::Free;
        header.next = self.free;
        self.free = index;
        self.live -= 1;
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Header> {
        self.headers.get(index as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Header> {
        self.headers.get_mut(index as usize)
    }

    /// Tasks alive.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Headers in the table, used or not.
    pub(crate) fn len(&self) -> u32 {
        self.headers.len() as u32
    }
}

impl Header {
    fn unused() -> Header {
        Header {
            memory: NonNull::dangling(),
            vtable: None,
            queued_at: 0,
            next: NIL,
            queue: NIL,
            gate_queue: NIL,
            activity: ActivityId::INFRASTRUCTURE,
            generation: 0,
            thread: NIL,
            ticket: 0,
            label: 0,
            cores: u8::MAX,
            wish: u8::MAX,
            resource: ResourceId::RUNTIME,
            state: State::Free,
            woken: false,
            front: false,
            killed: false,
            movable: false,
            parked: false,
            wants_core: false,
            root: ActivityId::INFRASTRUCTURE,
            stands: None,
            is_restanding: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vtable::Erased;

    fn vtable_of<F: Future<Output = ()>>(_: &F) -> &'static Vtable {
        &<F as Erased>::VTABLE
    }

    #[test]
    fn names_survive_encoding() {
        for is_thread in [false, true] {
            let name = TaskRef { core: 7, is_thread, index: 0xab_cdef, generation: 0x1234_5678 };
            assert_eq!(TaskRef::decode(name.encode()), name);
        }
    }

    #[test]
    fn a_header_used_again_has_another_generation() {
        let mut tasks = Tasks::new();
        let vtable = vtable_of(&async {});
        let (index, ..) = tasks.allocate(vtable, 0, ActivityId(1), ResourceId(1), State::Starting).unwrap();
        let generation = tasks.get(index).unwrap().generation;
        tasks.release(index);
        let (again, ..) = tasks.allocate(vtable, 0, ActivityId(1), ResourceId(1), State::Starting).unwrap();
        assert_eq!(index, again);
        assert_ne!(tasks.get(again).unwrap().generation, generation);
        assert_eq!(tasks.live(), 1);
        tasks.release(again);
    }

    #[test]
    fn a_full_table_refuses() {
        let mut tasks = Tasks::new();
        let vtable = vtable_of(&async {});
        for _ in 0..TASKS_MAX {
            tasks.allocate(vtable, 0, ActivityId(1), ResourceId(1), State::Starting).unwrap();
        }
        assert!(tasks.allocate(vtable, 0, ActivityId(1), ResourceId(1), State::Starting).is_none());
    }
}
