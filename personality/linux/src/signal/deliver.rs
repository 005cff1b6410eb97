//! Delivering signals on the way back to the program, and restarting interrupted calls.

use super::action::{SIG_DFL, SIG_IGN};
use super::number::{self, Default as DefaultAction};
use super::{Action, SignalInfo, SignalSet, frame};
use crate::run::{Flow, Running};
use crate::{Errno, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// Length of the `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;
/// The number of restart_syscall.
const RESTART_SYSCALL: u64 = 219;

/// Delivers all signals that wait, then settles an interrupted call.
pub(crate) async fn deliver(thread: &Arc<Thread>, running: &mut Running) -> Flow {
    loop {
        thread.clear_attention();
        if thread.is_dying() {
            return Flow::End;
        }
        if wait_while_stopped(thread).await == Flow::End {
            return Flow::End;
        }
        let Some((info, action)) = next(thread) else {
            break;
        };
        match act(thread, running, info, action).await {
            Flow::Continue => {}
            Flow::End => return Flow::End,
        }
    }
    settle(thread, running);
    Flow::Continue
}

/// No handler runs: an interrupted call is repeated, and a temporary mask ends.
pub(crate) fn settle(thread: &Thread, running: &mut Running) {
    if let Some((number, error)) = running.interrupted.take() {
        let again = match error {
            Errno::ERESTART_RESTARTBLOCK => RESTART_SYSCALL,
            _ => number,
        };
        repeat(running, again);
    }
    thread.end_temporary_mask();
}

fn repeat(running: &mut Running, number: u64) {
    running.context.registers.rax = number;
    let registers = &mut running.context.registers;
    registers.rip = registers.rip.wrapping_sub(SYSCALL_BYTES);
}

async fn wait_while_stopped(thread: &Arc<Thread>) -> Flow {
    let process = thread.process().clone();
    process
        .continued
        .until(|| {
            let stopped = process.signals.lock().stopped;
            (!stopped || thread.is_dying()).then_some(())
        })
        .await;
    match thread.is_dying() {
        true => Flow::End,
        false => Flow::Continue,
    }
}

/// Takes the next signal, with what to do.
fn next(thread: &Thread) -> Option<(SignalInfo, Action)> {
    let mut process = thread.process().signals.lock();
    let mut own = thread.signals.lock();
    let open = SignalSet(!own.blocked.0);
    let info = own.pending.take(open).or_else(|| process.pending.take(open))?;
    let action = process.actions.get(info.signal);
    let caught = action.handler != SIG_DFL && action.handler != SIG_IGN;
    if caught && action.has(raw::SA_RESETHAND) {
        process.actions.set(info.signal, Action::default());
    }
    drop((own, process));
    Some((thread.process().count_taken(info), action))
}

async fn act(thread: &Arc<Thread>, running: &mut Running, info: SignalInfo, action: Action) -> Flow {
    match action.handler {
        SIG_IGN => Flow::Continue,
        SIG_DFL => act_by_default(thread, info.signal),
        _ => handle(thread, running, info, action).await,
    }
}

fn act_by_default(thread: &Thread, signal: i32) -> Flow {
    match number::default_of(signal) {
        DefaultAction::Ignore | DefaultAction::Continue => Flow::Continue,
        DefaultAction::Stop => {
            thread.process().stop(signal);
            Flow::Continue
        }
        DefaultAction::End => {
            thread.process().end(signal);
            Flow::End
        }
    }
}

/// Lets the program's handler run.
async fn handle(thread: &Arc<Thread>, running: &mut Running, info: SignalInfo, action: Action) -> Flow {
    if let Some((number, error)) = running.interrupted.take() {
        let again = error == Errno::ERESTARTNOINTR || error == Errno::ERESTARTSYS && action.has(raw::SA_RESTART);
        match again {
            true => repeat(running, number),
            false => running.context.registers.rax = Errno::EINTR.negated() as u64,
        }
    }
    let mask = {
        let mut own = thread.signals.lock();
        let blocked = own.blocked;
        own.saved.take().unwrap_or(blocked)
    };
    if frame::push(thread, running, &info, &action, mask).await.is_err() {
        if thread.is_dying() {
            return Flow::End;
        }
        if info.signal == number::SIGSEGV {
            thread.process().end(number::SIGSEGV);
            return Flow::End;
        }
        thread.force(SignalInfo::new(number::SIGSEGV, super::info::SI_KERNEL));
        return Flow::Continue;
    }
    let own = match action.has(raw::SA_NODEFER) {
        true => SignalSet::EMPTY,
        false => SignalSet::of(info.signal),
    };
    let blocked = thread.signals.lock().blocked;
    thread.set_blocked(blocked.and(action.mask).and(own));
    Flow::Continue
}
