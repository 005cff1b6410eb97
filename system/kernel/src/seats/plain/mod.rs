//! Plain cells: a process at ring 3 that has cores and lots for itself, for processors without virtual machines or by choice.
//!
//! * [`enter`]: the process asks by the same call and request. Its lots appear as shared memory in a window, and its cores stay in the grid,
//!   kept for its threads (`gyre_engine`, `kept`). The call returns to the same program, whose calls and faults are ordinary ones.
//! * [`keep`]: the keeper, a task of the infrastructure, moves all parts, one after the other: it answers what the cell asks for ([`ask`]), and
//!   takes everything back at the end.
//!
//! The end comes by the memory: a [`super::seat::Guard`] lies in it, which is dropped with the last mapping. So a process that is killed,
//! exits, or runs another program gives everything back, and one that unmaps all of its lots does too. No child inherits them. If the owner's
//! time is over the keeper ends the process and takes the lots away from it.
//!
//! Left out: lines, exits and devices, which only cells with a machine of their own have.

pub mod ask;
pub mod enter;
mod keep;

use super::Seats;
use super::seat::Seat;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_cell_memory::PlainMemory;
use gyre_linux::{Errno, Outcome, Process, Thread};
use gyre_message::{Gone, Reply};
use gyre_object::SpinLock;

/// Questions of a cell that wait, at most.
const QUESTIONS_MAX: usize = 16;

/// A question of a plain cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    /// More memory, bytes.
    More(u64),
    /// To give the lot of a place back.
    Give(u64),
    /// To give a core back, by its number in the cell.
    GiveCore(u64),
    /// To have a core in the place of one that it gave back.
    GetCore(u64),
    /// To be an ordinary process again.
    Leave,
}

type Question = (Ask, Reply<Result<Outcome, Gone>>);

/// The parts of a seat that only a plain cell has.
pub struct Plain {
    /// Its memory.
    pub memory: PlainMemory,
    process: Weak<Process>,
    /// The address of the window.
    window: AtomicU64,
    /// The address of the shared page.
    page: u64,
    /// The cores to which the thread that entered was bound before, a bit each.
    bound_before: u64,
    /// Those to which it was bound for the cell, and so the threads that it started since.
    bound: AtomicU64,
    /// Those that wait; `None` once nobody answers any more.
    questions: SpinLock<Option<Vec<Question>>>,
}

impl Plain {
    fn has_questions(&self) -> bool {
        self.questions.lock().as_ref().is_some_and(|questions| !questions.is_empty())
    }

    fn next_question(&self) -> Option<Question> {
        let mut questions = self.questions.lock();
        let questions = questions.as_mut()?;
        (!questions.is_empty()).then(|| questions.remove(0))
    }

    /// Answers nobody from now on: who waits hears that it is over.
    fn close(&self) {
        let waiting = self.questions.lock().take();
        drop(waiting);
    }

    fn window(&self) -> u64 {
        self.window.load(Ordering::Relaxed)
    }
}

/// Returns the plain cell of a thread's process.
///
/// # Errors
/// ESRCH if it is none.
fn of(seats: &Seats, thread: &Thread) -> Result<(Arc<Seat>, Arc<Plain>), Errno> {
    let seat = seats.seat_of(thread).ok_or(Errno::ESRCH)?;
    let plain = seat.plain().ok_or(Errno::ESRCH)?;
    Ok((seat, plain))
}
