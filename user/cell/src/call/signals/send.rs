//! Signals that threads of the program send each other.

use linux_raw_sys::general as nr;

use super::{super::Outcome, awaits};
use crate::{
    error::Errno,
    fiber::{Call, FiberId, State},
    machine::Machine,
    runtime::Runtime,
    signal::{Come, Deed, INFO_WORDS, bit},
};

/// Words of a `siginfo_t`.
const WORDS: usize = 16;

/// Answers tgkill(2) and tkill(2). Threads of other processes are the kernel's affair.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [first, second, third, ..] = call.arguments.map(|argument| argument as u32);
    match call.number {
        nr::__NR_tgkill if first == runtime.pid => send(runtime, second, third),
        nr::__NR_tkill if runtime.fibers.iter().any(|fiber| fiber.state != State::Free && fiber.tid == first) => {
            send(runtime, first, second)
        }
        _ => Outcome::Line,
    }
}

fn send<M: Machine>(runtime: &mut Runtime<M>, tid: u32, signal: u32) -> Outcome {
    let place = runtime.fibers.iter().position(|fiber| fiber.state != State::Free && fiber.tid == tid);
    let Some(id) = place else {
        return Outcome::refused(Errno::SRCH);
    };
    if signal != 0 && bit(signal) == 0 {
        return Outcome::refused(Errno::INVAL);
    }
    let is_held = runtime.fibers[id].blocked & bit(signal) != 0;
    let live = runtime.fibers.iter().take(runtime.fibers_end).filter(|fiber| fiber.state != State::Free).count();
    match runtime.signals.deed(signal) {
        _ if signal == 0 => {}
        _ if is_held && (live == 1 || is_read(runtime, id, signal)) => return hand_over(runtime, signal),
        Deed::Nothing if !is_held => {}
        Deed::End if !is_held => runtime.machine.die(signal),
        _ => runtime.signal_thread(id, signal),
    }
    Outcome::Value(0)
}

/// Returns whether all threads hold a signal back, and one reads it in the kernel.
fn is_read<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, signal: u32) -> bool {
    runtime.signals.held & bit(signal) != 0 && awaits(runtime, id, bit(signal))
}

/// Lets a signal wait in the kernel that all threads hold back: there a descriptor finds it, too.
fn hand_over<M: Machine>(runtime: &mut Runtime<M>, signal: u32) -> Outcome {
    let mut info = [0; WORDS];
    info[..INFO_WORDS].copy_from_slice(&Come { signal, info: runtime.signals.own }.words());
    let arguments = [runtime.pid.into(), signal.into(), (&raw const info) as u64, 0, 0, 0];
    Outcome::Value(runtime.machine.call(nr::__NR_rt_sigqueueinfo, arguments))
}
