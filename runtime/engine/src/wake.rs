//! Waking tasks: here by queueing them, elsewhere by a bit that cannot be lost.

use crate::engine::Engine;
use crate::task::{State, TaskRef};
use gyre_machine::core_index;

impl Engine {
    /// Wakes a task wherever it is. Harmless for one that is gone.
    #[inline]
    pub(crate) fn wake(&self, name: TaskRef) {
        if name.is_thread {
            self.wake_thread(name.index);
        } else if usize::from(name.core) == core_index() {
            self.wake_here(name.index, Some(name.generation));
        } else {
            self.wake_there(usize::from(name.core), name.index);
        }
    }

    /// Wakes a task of this core. The generation is checked if it is known; without it the wake-up may be one too many.
    #[inline]
    pub(crate) fn wake_here(&self, task: u32, generation: Option<u32>) {
        let now = self.line().last();
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let Some(header) = state.tasks.get_mut(task) else {
            return;
        };
        if generation.is_some_and(|generation| generation != header.generation) {
            return;
        }
        match header.state {
            State::Waiting => state.enqueue(task, now, self.ns(now)),
            State::Running => {
                header.woken = true;
                state.calm_until = 0;
            }
            _ => {}
        }
    }

    fn wake_there(&self, core: usize, task: u32) {
        if let Some(inbox) = self.inboxes.get(core) {
            inbox.wakes.set(task);
            self.nudge(core);
        }
    }

    fn wake_thread(&self, thread: u32) {
        let Some((core, task)) = self.threads.place(thread) else {
            return;
        };
        match core == core_index() {
            true => self.wake_here(task, None),
            false => self.wake_there(core, task),
        }
    }

    /// The task being polled goes back to its queue when it suspends; to the front if its request could not be taken.
    pub(crate) fn requeue_running(&self, front: bool) {
        let task = self.hot.here().running.get();
        let mut state = self.state.here().borrow_mut();
        state.calm_until = 0;
        if let Some(header) = state.tasks.get_mut(task) {
            header.woken = true;
            header.front |= front;
        }
    }
}
