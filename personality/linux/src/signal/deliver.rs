//! Delivering signals on the way back to the program, and restarting interrupted calls.

use super::action::{SIG_DFL, SIG_IGN};
use super::number::{self, Default as DefaultAction};
use super::{Action, SignalInfo, SignalSet, frame};
use crate::process::ProcessSignals;
use crate::ptrace::halt;
use crate::run::{Next, Running};
use crate::{Errno, Thread, pulse};
use alloc::boxed::Box;
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// Length of the `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;
/// The number of restart_syscall.
const RESTART_SYSCALL: u64 = 219;

/// Delivers all signals that wait, then ends an interrupted call.
pub(crate) async fn deliver(thread: &Arc<Thread>, running: &mut Running) -> Next {
    loop {
        thread.clear_attention();
        if thread.is_dying() {
            return Next::End;
        }
        if wait_while_stopped(thread).await == Next::End {
            return Next::End;
        }
        let next = match thread.tracee.is_on() {
            true => Box::pin(next_of_tracee(thread, running)).await,
            false => next(thread),
        };
        let Some((info, action)) = next else {
            break;
        };
        match act(thread, running, info, action).await {
            // A timer's next signal may wait already: each takes time, and the program comes after the last of them.
            Next::Continue => thread.pause().await,
            Next::End => return Next::End,
        }
    }
    end_interrupted_call(thread, running);
    Next::Continue
}

/// Ends an interrupted call without a handler: it is repeated, and a temporary mask ends.
pub(crate) fn end_interrupted_call(thread: &Thread, running: &mut Running) {
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

async fn wait_while_stopped(thread: &Arc<Thread>) -> Next {
    let process = thread.process().clone();
    process
        .continued
        .until(|| {
            let stopped = process.signals.lock().stopped;
            // A tracee halts in a way of its own.
            (!stopped || thread.is_dying() || thread.tracee.is_on()).then_some(())
        })
        .await;
    match thread.is_dying() {
        true => Next::End,
        false => Next::Continue,
    }
}

/// Takes the next signal, with its action.
fn next(thread: &Thread) -> Option<(SignalInfo, Action)> {
    let mut process = thread.process().signals.lock();
    let mut own = thread.signals.lock();
    let open = SignalSet(!own.blocked.0);
    let info = own.pending.take(open).or_else(|| process.pending.take(open))?;
    let action = process.take_action(info.signal);
    drop((own, process));
    Some((thread.process().count_taken(info), action))
}

/// Takes the next signal of a tracee, as its tracer wants it; halts before, if it must.
async fn next_of_tracee(thread: &Arc<Thread>, running: &mut Running) -> Option<(SignalInfo, Action)> {
    if halt::before_program(thread, running).await == Next::End {
        return None;
    }
    loop {
        let open = SignalSet(!thread.signals.lock().blocked.0);
        let info = halt::before_signal(thread, running, thread.take_signal(open)?).await;
        if let Some(info) = info {
            let action = thread.process().signals.lock().take_action(info.signal);
            return Some((info, action));
        }
        thread.pause().await;
    }
}

impl ProcessSignals {
    /// Returns the action of a signal that is taken; a handler for one signal alone (SA_RESETHAND) is forgotten.
    fn take_action(&mut self, signal: i32) -> Action {
        let action = self.actions.get(signal);
        let caught = action.handler != SIG_DFL && action.handler != SIG_IGN;
        if caught && action.has(raw::SA_RESETHAND) {
            self.actions.set(signal, Action::default());
        }
        action
    }
}

async fn act(thread: &Arc<Thread>, running: &mut Running, info: SignalInfo, action: Action) -> Next {
    match action.handler {
        SIG_IGN => Next::Continue,
        SIG_DFL => {
            if thread.tracee.is_on() && number::default_of(info.signal) == DefaultAction::End {
                Box::pin(halt::before_end(thread, running, info.signal)).await;
            }
            act_by_default(thread, info.signal)
        }
        _ => handle(thread, running, info, action).await,
    }
}

fn act_by_default(thread: &Thread, signal: i32) -> Next {
    // The signal waited, blocked, while it had a handler or before it was known whether it would have one.
    if thread.process().signals.lock().protects_from(signal) {
        return Next::Continue;
    }
    match number::default_of(signal) {
        DefaultAction::Ignore | DefaultAction::Continue => Next::Continue,
        DefaultAction::Stop => {
            thread.process().stop(signal);
            Next::Continue
        }
        DefaultAction::End => {
            thread.process().end(signal);
            Next::End
        }
    }
}

/// Lets the program's handler run.
async fn handle(thread: &Arc<Thread>, running: &mut Running, info: SignalInfo, action: Action) -> Next {
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
    // A step ends in the handler.
    running.end_step();
    let is_ready = running.pulse.is_none() || pulse::before_handler(thread, running).await.is_ok();
    if !is_ready || frame::push(thread, running, &info, &action, mask).await.is_err() {
        if thread.is_dying() {
            return Next::End;
        }
        if info.signal == number::SIGSEGV {
            thread.process().end(number::SIGSEGV);
            return Next::End;
        }
        thread.force(SignalInfo::new(number::SIGSEGV, super::info::SI_KERNEL));
        return Next::Continue;
    }
    let own = match action.has(raw::SA_NODEFER) {
        true => SignalSet::EMPTY,
        false => SignalSet::of(info.signal),
    };
    let blocked = thread.signals.lock().blocked;
    thread.set_blocked(blocked.and(action.mask).and(own));
    if thread.tracee.is_on() {
        Box::pin(halt::in_handler(thread, running)).await;
    }
    Next::Continue
}
