//! The calls of a tracee: it halts before and behind them if its tracer wants that.

use super::bond::Go;
use super::debug_registers::DebugRegisters;
use super::halt::{self, Reason};
use super::registers::NO_CALL;
use crate::run::{self, Running};
use crate::signal::SignalInfo;
use crate::{Errno, Thread, trace};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// The part of a tracee that only its own task sees.
#[derive(Default)]
pub(crate) struct Ptraced {
    /// The number of the call that it is in, for its tracer; the tracer may change it before.
    pub(super) call: Option<u64>,
    /// The trap behind its next instruction is its tracer's wish.
    is_stepped: bool,
    /// Its breakpoints of the processor; in the image while it halts.
    pub(super) debug: DebugRegisters,
}

/// The flag by which the processor traps behind the next instruction.
const TRAP_FLAG: u64 = 1 << 8;

impl Running {
    /// Has the processor trap behind the next instruction, for the tracer.
    pub(super) fn begin_step(&mut self) {
        self.context.registers.rflags |= TRAP_FLAG;
        self.ptraced.is_stepped = true;
    }

    /// Takes back a trap that the tracer wanted; true if it did. The program, its children and its handlers see nothing of it.
    pub(crate) fn end_step(&mut self) -> bool {
        let was_stepped = core::mem::take(&mut self.ptraced.is_stepped);
        if was_stepped {
            self.context.registers.rflags &= !TRAP_FLAG;
        }
        was_stepped
    }
}

/// The numbers of exit and exit_group.
const ENDS: [u64; 2] = [60, 231];

/// Serves a call of a tracee.
pub(crate) async fn serve(thread: &Arc<Thread>, running: &mut Running) {
    let (number, arguments) = run::call_of(running);
    running.ptraced.call = Some(number);
    if thread.tracee.go() == Go::ToCall {
        running.context.registers.rax = Errno::ENOSYS.negated() as u64;
        halt_at_call(thread, running, Reason::Entry { arguments: arguments.0 }).await;
        // The tracer may want another call, or none: then the result is what it says.
        let wanted = running.ptraced.call.unwrap_or(number);
        if wanted != NO_CALL {
            running.context.registers.rax = wanted;
        }
    }
    // It has not been made yet, whatever its registers say.
    running.interrupted = None;
    if running.ptraced.call != Some(NO_CALL) {
        make(thread, running).await;
    }
    match thread.tracee.go() {
        Go::ToCall => halt_at_call(thread, running, Reason::Exit).await,
        Go::Step => halt::step(thread, running).await,
        Go::On => {}
    }
    running.ptraced.call = None;
}

async fn make(thread: &Arc<Thread>, running: &mut Running) {
    let (number, arguments) = run::call_of(running);
    if ENDS.contains(&number) {
        halt::before_end(thread, running, (arguments.int(0) & 0xff) << 8).await;
    }
    match thread.dispatch.is_traced() {
        true => Box::pin(trace::serve(thread, running)).await,
        false => Box::pin(run::serve(thread, running)).await,
    }
}

/// Halts at a call. A signal with which the tracer has it go on is sent to it.
async fn halt_at_call(thread: &Arc<Thread>, running: &mut Running, reason: Reason) {
    let Some(released) = halt::halt(thread, running, reason).await else { return };
    if released.signal != 0 {
        let _ = thread.send(SignalInfo::new(released.signal, crate::signal::info::SI_USER));
    }
}
