//! One set of semaphores, and the calls on it.

use super::super::waiting::{Left, Waiter, go_on};
use super::lines::{Place, Waiting, Wish};
use super::state::{Done, Semaphore, State, Stop, Times};
use crate::Errno;
use crate::file::pace::Pace;
use crate::objects::SEMAPHORE_SETS;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_object::{Counter, ObjectLock};

/// Calls that are told of the end of a set in one turn, and values that are taken back.
const PIECES_AT_ONCE: usize = 64;

/// A set of semaphores.
pub(crate) struct Set {
    _count: Counter,
    count: usize,
    /// The tenant's, for long walks.
    activity: ActivityId,
    state: ObjectLock<State>,
}

/// The result of operations.
pub(super) enum Outcome {
    /// They are done.
    Done,
    /// They wait.
    Waits(Wait),
}

/// A call in a line. It leaves when this is dropped.
pub(super) struct Wait {
    set: Arc<Set>,
    place: Place,
    pub(super) waiter: Arc<Waiter<()>>,
}

impl Wait {
    /// Leaves the line.
    pub(super) fn leave(&self) -> Left {
        let mut state = self.set.state.lock();
        let found = state.lines.leave(self.place);
        if let Some(waiting) = &found {
            state.count_out(waiting.obstacle);
        }
        drop(state);
        Left::by(&found)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Set {
    /// Makes a set of so many semaphores, all zero.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn new(count: usize, activity: ActivityId) -> Result<Arc<Set>, Errno> {
        let mut semaphores = Vec::new();
        semaphores.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        semaphores.resize(count, Semaphore::default());
        let state = State::new(semaphores);
        Ok(Arc::new(Set { _count: SEMAPHORE_SETS.count(), count, activity, state: ObjectLock::new(state) }))
    }

    /// Returns the bytes that so many semaphores take.
    pub(super) fn bytes(count: usize) -> usize {
        count.saturating_mul(size_of::<Semaphore>())
    }

    /// Returns how many semaphores it has.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns its times.
    pub(crate) fn times(&self) -> Times {
        self.state.lock().times
    }

    /// Looks at its state, or changes it; then does what has become possible.
    ///
    /// # Errors
    /// EIDRM once it is removed; those of `work`.
    pub(super) fn with<T>(self: &Arc<Set>, work: impl FnOnce(&mut State) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut state = self.state.lock();
        if state.is_removed {
            return Err(Errno::EIDRM);
        }
        let answer = work(&mut state);
        let done = state.walk();
        let starts = state.is_due() && !core::mem::replace(&mut state.is_walked, true);
        drop(state);
        tell(done);
        if starts {
            go_on(self.activity, walk_on(Walk { set: self.clone(), is_over: false }));
        }
        answer
    }

    /// Does the operations of a call, or lets it wait in line.
    ///
    /// # Errors
    /// EAGAIN; ERANGE; EIDRM.
    pub(super) fn perform(self: &Arc<Set>, wish: Wish) -> Result<Outcome, Errno> {
        let waits = self.with(|state| match state.attempt(&wish) {
            Ok(()) => {
                state.note_done(&wish);
                Ok(None)
            }
            Err(Stop::Fails(errno)) => Err(errno),
            Err(Stop::Waits(obstacle)) => {
                let waiter = Waiter::new();
                state.count_in(obstacle);
                Ok(Some((state.lines.join(Waiting { wish, obstacle, waiter: waiter.clone() }), waiter)))
            }
        })?;
        Ok(match waits {
            None => Outcome::Done,
            Some((place, waiter)) => Outcome::Waits(Wait { set: self.clone(), place, waiter }),
        })
    }

    /// Ends it: who waits is answered EIDRM, some at once and the others in turns.
    pub(crate) fn remove(self: &Arc<Set>) {
        self.state.lock().is_removed = true;
        if self.end_some() {
            let set = self.clone();
            go_on(self.activity, async move {
                let mut pace = Pace::new();
                while set.end_some() {
                    pace.step().await;
                }
            });
        }
    }

    /// Takes a piece of a removed set apart; true if there is more.
    fn end_some(&self) -> bool {
        let mut state = self.state.lock();
        let some: Vec<Waiting> = (0..PIECES_AT_ONCE).map_while(|_| state.lines.pop()).collect();
        let is_apart = some.is_empty() && state.adjustments.drop_some(PIECES_AT_ONCE);
        drop(state);
        tell(some.into_iter().map(|waiting| (waiting.waiter, Err(Errno::EIDRM))).collect());
        !is_apart
    }

    /// Takes back some of what a process that ends has done with SEM_UNDO; true if there is more.
    pub(super) fn undo_some(self: &Arc<Set>, undo: u64, process: i32) -> bool {
        let more = self.with(|state| {
            let some = state.adjustments.take(undo, PIECES_AT_ONCE);
            some.iter().for_each(|(semaphore, adjustment)| state.take_back(*semaphore, *adjustment, process));
            Ok(some.len() == PIECES_AT_ONCE)
        });
        more.unwrap_or(false)
    }
}

fn tell(done: Vec<Done>) {
    done.into_iter().for_each(|(waiter, answer)| waiter.answer(answer));
}

/// A walk with which a task goes on. If the task is dropped before its end, the next call begins another one.
struct Walk {
    set: Arc<Set>,
    is_over: bool,
}

impl Drop for Walk {
    fn drop(&mut self) {
        if !self.is_over {
            self.set.state.lock().is_walked = false;
        }
    }
}

/// Goes on with the walk over a set until it is at its end.
async fn walk_on(mut walk: Walk) {
    let mut pace = Pace::new();
    loop {
        let mut state = walk.set.state.lock();
        let done = state.walk();
        state.is_walked = state.is_due();
        let goes_on = state.is_walked;
        drop(state);
        tell(done);
        if !goes_on {
            walk.is_over = true;
            return;
        }
        pace.step().await;
    }
}
