//! The native call by which a plain cell asks for what a cell with a machine of its own has by exits: the numbers are the same.

use super::{Ask, Plain, QUESTIONS_MAX, enter};
use crate::kernel::Kernel;
use crate::seats::Seats;
use crate::seats::seat::Seat;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_cell_abi::exit;
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use gyre_message::{Gone, reply_pair};

/// A question that was answered.
pub(super) struct Asked {
    pub(super) seat: Arc<Seat>,
    pub(super) plain: Arc<Plain>,
    pub(super) answer: Outcome,
}

/// `cell_ask(number, first)`: MORE, GIVE, GIVE_CORE, GET_CORE and LEAVE of [`gyre_cell_abi::exit`].
///
/// # Errors
/// ENOSYS without cells and for unknown numbers, ESRCH for who is no plain cell, EOPNOTSUPP for what ordinary calls do there (waiting, faults,
/// threads), EINVAL for parts that the cell does not have, EBUSY for its first core and for a place that has a core, ENOMEM, EAGAIN if no core is free or too many ask at once, EINTR if the cell
/// ends meanwhile.
pub async fn ask(kernel: &'static Kernel, thread: &Arc<Thread>, arguments: Arguments) -> Outcome {
    let seats = kernel.seats.ok_or(Errno::ENOSYS)?;
    let first = arguments.word(1);
    let question = match arguments.word(0) {
        exit::MORE => Ask::More(first),
        exit::GIVE => Ask::Give(first),
        exit::GIVE_CORE => Ask::GiveCore(first),
        exit::GET_CORE => Ask::GetCore(first),
        exit::LEAVE => return enter::leave(seats, thread).await,
        exit::IDLE | exit::BELL | exit::EXIT | exit::FAULT | exit::START | exit::KICK | exit::FLUSH => {
            return super::of(seats, thread).and(Err(Errno::EOPNOTSUPP));
        }
        _ => return Err(Errno::ENOSYS),
    };
    put(seats, thread, question).await?.answer
}

/// Has the keeper answer a question.
///
/// # Errors
/// ESRCH for who is no plain cell, EAGAIN, EINTR.
pub(super) async fn put(seats: &Seats, thread: &Thread, question: Ask) -> Result<Asked, Errno> {
    let (seat, plain) = super::of(seats, thread)?;
    let (reply, call) = reply_pair::<Result<Outcome, Gone>>();
    {
        let mut questions = plain.questions.lock();
        let questions = questions.as_mut().ok_or(Errno::EINTR)?;
        if questions.len() >= QUESTIONS_MAX {
            return Err(Errno::EAGAIN);
        }
        questions.push((question, reply));
    }
    let asked = seat.exits.fetch_add(1, Ordering::Relaxed);
    plain.memory.lines.set_exits(asked.saturating_add(1));
    seat.changed.wake_all();
    let answer = call.await.map_err(|Gone| Errno::EINTR)?;
    Ok(Asked { seat, plain, answer })
}
