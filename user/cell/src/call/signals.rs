//! Signals: wishes, masks, stacks; signals that threads send each other ([`send`]), and waits for signals ([`wait`]).

mod send;
mod wait;

use linux_raw_sys::general as nr;

pub use wait::{after, awaits, end_mask, taken_meanwhile};

use super::Outcome;
use crate::{
    error::Errno,
    fiber::{Call, NEVER, State},
    machine::Machine,
    runtime::Runtime,
    signal::{Action, Deed, UNBLOCKABLE, bit},
};

/// Bytes of a mask.
const MASK_BYTES: u64 = 8;
const SS_DISABLE: u64 = 2;
const MINSIGSTKSZ: u64 = 2048;

/// Answers calls about signals.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [first, second, ..] = call.arguments;
    match call.number {
        nr::__NR_rt_sigaction => action(runtime, call),
        nr::__NR_rt_sigprocmask => Outcome::done(mask(runtime, call)),
        nr::__NR_sigaltstack => Outcome::done(stack(runtime, [first, second])),
        nr::__NR_rt_sigreturn => match runtime.return_from_handler() {
            Ok(()) => Outcome::Registers,
            Err(_) => runtime.machine.die(nr::SIGSEGV),
        },
        nr::__NR_tgkill | nr::__NR_tkill => send::answer(runtime, call),
        nr::__NR_rt_sigpending => Outcome::Line,
        nr::__NR_rt_sigtimedwait => wait::timed(runtime, call),
        nr::__NR_ppoll | nr::__NR_pselect6 | nr::__NR_epoll_pwait | nr::__NR_epoll_pwait2 => {
            wait::masked(runtime, call)
        }
        nr::__NR_pause => Outcome::Wait(State::Asleep(NEVER)),
        _ => suspend(runtime, first),
    }
}

/// Notes a wish; the kernel hears of it too, for it does what no handler does.
fn action<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [signal, new, old, ..] = call.arguments;
    match change_action(runtime, signal as u32, [new, old]) {
        Ok(()) if new == 0 => Outcome::Value(0),
        Ok(()) => Outcome::Line,
        Err(errno) => Outcome::refused(errno),
    }
}

fn change_action<M: Machine>(runtime: &mut Runtime<M>, signal: u32, [new, old]: [u64; 2]) -> Result<(), Errno> {
    let before = runtime.signals.action(signal).filter(|_| bit(signal) & UNBLOCKABLE == 0).ok_or(Errno::INVAL)?;
    let wish = match new {
        0 => None,
        _ => Some(Action::of_words([
            word(runtime, new)?,
            word(runtime, new.wrapping_add(8))?,
            word(runtime, new.wrapping_add(16))?,
            word(runtime, new.wrapping_add(24))?,
        ])),
    };
    if old != 0 {
        for (index, word) in (0u64..).zip(before.words()) {
            runtime.write(old.wrapping_add(8 * index), &word.to_le_bytes())?;
        }
    }
    if let Some(wish) = wish {
        runtime.signals.set_action(signal, wish);
        if runtime.signals.deed(signal) == Deed::Nothing {
            runtime.forget_signals(bit(signal));
        }
    }
    Ok(())
}

fn mask<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Result<(), Errno> {
    let [how, new, old, bytes, ..] = call.arguments;
    if bytes != MASK_BYTES {
        return Err(Errno::INVAL);
    }
    let before = runtime.fiber().blocked;
    if new != 0 {
        let bits = word(runtime, new)?;
        let blocked = match how as u32 {
            nr::SIG_BLOCK => before | bits,
            nr::SIG_UNBLOCK => before & !bits,
            nr::SIG_SETMASK => bits,
            _ => return Err(Errno::INVAL),
        };
        runtime.fiber().blocked = blocked & !UNBLOCKABLE;
        runtime.hold();
    }
    match old {
        0 => Ok(()),
        _ => runtime.write(old, &before.to_le_bytes()),
    }
}

fn stack<M: Machine>(runtime: &mut Runtime<M>, [new, old]: [u64; 2]) -> Result<(), Errno> {
    let [start, bytes] = runtime.fiber().signal_stack;
    let wish = match new {
        0 => None,
        _ => Some([word(runtime, new)?, word(runtime, new.wrapping_add(8))?, word(runtime, new.wrapping_add(16))?]),
    };
    if old != 0 {
        let flags = if bytes == 0 { SS_DISABLE } else { 0 };
        for (index, word) in (0u64..).zip([start, flags, bytes]) {
            runtime.write(old.wrapping_add(8 * index), &word.to_le_bytes())?;
        }
    }
    match wish {
        None => {}
        Some([_, flags, _]) if flags & SS_DISABLE != 0 => runtime.fiber().signal_stack = [0; 2],
        Some([_, _, bytes]) if bytes < MINSIGSTKSZ => return Err(Errno::NOMEM),
        Some([start, _, bytes]) => runtime.fiber().signal_stack = [start, bytes],
    }
    Ok(())
}

/// Waits for a signal with another mask.
fn suspend<M: Machine>(runtime: &mut Runtime<M>, new: u64) -> Outcome {
    match word(runtime, new) {
        Ok(mask) => {
            wait::begin_mask(runtime, mask);
            Outcome::Wait(State::Asleep(NEVER))
        }
        Err(errno) => Outcome::refused(errno),
    }
}

fn word<M: Machine>(runtime: &mut Runtime<M>, address: u64) -> Result<u64, Errno> {
    runtime.read(address).map(u64::from_le_bytes)
}
