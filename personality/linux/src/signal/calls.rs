//! The system calls about signals: actions, masks, waiting, sending.
//!
//! Actions belong to the process, masks to the thread ([`super`] says how a signal travels). Calls that set a mask
//! for a while (sigsuspend, ppoll) leave the former mask in the thread; the return from a handler or the end of the
//! call brings it back.
//!
//! Sending checks permission first ([`may_signal`], kill(2)); a program cannot pretend to be the kernel. A target may
//! be one process, a group or all of the tenant; with several targets their forks are held until all have the signal
//! ([`super::forks`]).

use super::action::{Action, FLAGS_KNOWN};
use super::hunt::Hunt;
use super::info::{SI_TKILL, SI_USER, SignalInfo};
use super::number::{self, UNSTOPPABLE};
use super::set::{SIGNAL_MAX, SignalSet};
use super::{AltStack, SS_AUTODISARM, SS_DISABLE, SS_ONSTACK};
use crate::credentials::Capability;
use crate::file::pace::Pace;
use crate::time::TimeSpec;
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// Size of `sigset_t` that programs must give.
const SET_BYTES: usize = 8;
/// Least size of an alternative stack (MINSIGSTKSZ).
const STACK_BYTES_MIN: u64 = 2048;

fn checked(signal: i32) -> Result<i32, Errno> {
    (1..=SIGNAL_MAX).contains(&signal).then_some(signal).ok_or(Errno::EINVAL)
}

/// `rt_sigaction(signal, new, old, set_bytes)`.
pub async fn rt_sigaction(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(3) != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let signal = checked(a.int(0))?;
    let new = match a.word(1) {
        0 => None,
        address => Some(thread.read_struct::<Action>(address).await?),
    };
    if new.is_some() && UNSTOPPABLE.has(signal) {
        return Err(Errno::EINVAL);
    }
    let before = thread.process().signals.lock().actions.get(signal);
    if let Some(mut action) = new {
        action.flags &= FLAGS_KNOWN;
        action.mask = action.mask.without(UNSTOPPABLE);
        install(thread.process(), signal, action);
    }
    thread.write_optional(a.word(2), &before).await?;
    Ok(0)
}

/// Sets an action; waiting signals that are ignored from now on are forgotten.
fn install(process: &Process, signal: i32, action: Action) {
    let threads = process.threads.lock().clone();
    let mut signals = process.signals.lock();
    signals.actions.set(signal, action);
    if action.ignores(signal) {
        signals.pending.forget(SignalSet::of(signal));
        for thread in threads {
            thread.signals.lock().pending.forget(SignalSet::of(signal));
        }
    }
}

/// `rt_sigprocmask(how, new, old, set_bytes)`.
pub async fn rt_sigprocmask(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(3) != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let before = thread.signals.lock().blocked;
    if a.word(1) != 0 {
        let set: SignalSet = thread.read_struct(a.word(1)).await?;
        let blocked = match a.unsigned(0) {
            raw::SIG_BLOCK => before.and(set),
            raw::SIG_UNBLOCK => before.without(set),
            raw::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        thread.set_blocked(blocked);
    }
    thread.write_optional(a.word(2), &before).await?;
    Ok(0)
}

/// `rt_sigpending(set, set_bytes)`.
pub async fn rt_sigpending(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(1) > SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let waiting = {
        let process = thread.process().signals.lock();
        let own = thread.signals.lock();
        own.pending.set().and(process.pending.set()).common(own.blocked)
    };
    thread.write_struct(a.word(0), &waiting).await?;
    Ok(0)
}

/// `rt_sigsuspend(set, set_bytes)`.
pub async fn rt_sigsuspend(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(1) != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let set: SignalSet = thread.read_struct(a.word(0)).await?;
    thread.set_temporary_mask(set);
    wait_for_handler(thread).await
}

/// `pause()`.
pub async fn pause(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    wait_for_handler(thread).await
}

async fn wait_for_handler(thread: &Thread) -> Outcome {
    match thread.interruptible(core::future::pending::<()>()).await {
        Ok(()) => Ok(0),
        Err(_) => Err(Errno::ERESTARTNOHAND),
    }
}

/// `rt_sigtimedwait(set, info, timeout, set_bytes)`.
pub async fn rt_sigtimedwait(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(3) != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let wanted: SignalSet = thread.read_struct(a.word(0)).await?;
    let wanted = wanted.without(UNSTOPPABLE);
    let deadline = match a.word(2) {
        0 => None,
        address => Some(thread.read_struct::<TimeSpec>(address).await?.deadline_cycles()?),
    };
    thread.signals.lock().awaited = wanted;
    let waited = wait_for_signal(thread, wanted, deadline).await;
    thread.signals.lock().awaited = SignalSet::EMPTY;
    let info = waited?;
    thread.write_optional(a.word(1), &info).await?;
    Ok(info.signal as u64)
}

async fn wait_for_signal(thread: &Thread, wanted: SignalSet, deadline: Option<u64>) -> Result<SignalInfo, Errno> {
    // It looks by itself at each wake: others may wait in the thread's name, too (calls of a cell).
    let arrival = thread.arrived.until(|| thread.take_signal(wanted));
    match thread.interruptible_until(deadline, arrival).await {
        Ok(Some(info)) => Ok(info),
        Ok(None) => Err(Errno::EAGAIN),
        Err(_) => Err(Errno::EINTR),
    }
}

/// `sigaltstack(new, old)`.
pub async fn sigaltstack(thread: &Arc<Thread>, a: Arguments, stack_pointer: u64) -> Outcome {
    let before = thread.signals.lock().stack;
    let busy = before.holds(stack_pointer) && before.flags & SS_AUTODISARM == 0;
    if a.word(0) != 0 {
        let new: AltStack = thread.read_struct(a.word(0)).await?;
        if busy {
            return Err(Errno::EPERM);
        }
        let stack = match new.flags & !SS_AUTODISARM {
            SS_DISABLE => AltStack::default(),
            0 | SS_ONSTACK if new.bytes < STACK_BYTES_MIN => return Err(Errno::ENOMEM),
            0 | SS_ONSTACK => AltStack::new(new.address, new.bytes, new.flags & SS_AUTODISARM),
            _ => return Err(Errno::EINVAL),
        };
        thread.signals.lock().stack = stack;
    }
    let shown = match busy {
        true => AltStack::new(before.address, before.bytes, before.flags | SS_ONSTACK),
        false => before,
    };
    thread.write_optional(a.word(1), &shown).await?;
    Ok(0)
}

/// Returns whether the sender may signal the target (kill(2)).
pub(super) fn may_signal(sender: &Thread, target: &Process, signal: i32) -> bool {
    let (from, to) = (sender.credentials(), target.credentials());
    let sender = sender.process();
    let same_session = || {
        let tree = sender.tenant().tree.lock();
        tree.session_of(sender.id()) == tree.session_of(target.id())
    };
    from.has(Capability::Kill)
        || [to.user, to.user_saved].contains(&from.user)
        || [to.user, to.user_saved].contains(&from.user_effective)
        || signal == number::SIGCONT && same_session()
}

fn sent_by(thread: &Thread, signal: i32, code: i32) -> SignalInfo {
    let process = thread.process();
    SignalInfo::sent(signal, code, process.id(), thread.with_credentials(|who| who.user))
}

/// `kill(pid, signal)`: a process, a group (negative), the own group (0) or all but the first and oneself (-1). Many are looked for, and get it,
/// in turns.
pub async fn kill(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if let Some(answer) = kill_one(thread, a) {
        return answer;
    }
    let mut hunt = Hunt::new(thread, checked_or_zero(a.int(1))?, group_of(thread, a.int(0)));
    hunt.look().await;
    hunt.check()?;
    let mut pace = Pace::new();
    while let Some(target) = hunt.next() {
        send_to(thread, &target.process, hunt.signal)?;
        pace.step().await;
    }
    Ok(0)
}

/// [`kill`] of a single process, which never waits.
pub fn kill_one(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    (a.int(0) > 0).then(|| send_to_number(thread, a.int(0), checked_or_zero(a.int(1))?))
}

/// The number of any of its threads means a process.
fn send_to_number(thread: &Thread, number: i32, signal: i32) -> Outcome {
    let target = {
        let tree = thread.tenant().tree.lock();
        let of_thread = || tree.thread(number).map(|thread| thread.process().clone());
        tree.process(number).or_else(of_thread).ok_or(Errno::ESRCH)?
    };
    if !may_signal(thread, &target, signal) {
        return Err(Errno::EPERM);
    }
    send_to(thread, &target, signal)?;
    Ok(0)
}

/// Returns the group that a target of kill names; `None` for all processes.
fn group_of(thread: &Thread, target: i32) -> Option<i32> {
    match target {
        0 => {
            let own = thread.process().id();
            Some(thread.tenant().tree.lock().group_of(own).unwrap_or(own))
        }
        -1 => None,
        _ => Some(target.saturating_neg()),
    }
}

fn send_to(thread: &Thread, target: &Process, signal: i32) -> Result<(), Errno> {
    if signal == 0 { Ok(()) } else { target.send(sent_by(thread, signal, SI_USER)) }
}

fn send_to_thread(thread: &Thread, group: Option<i32>, id: i32, info: SignalInfo) -> Outcome {
    let target = thread.tenant().tree.lock().thread(id).ok_or(Errno::ESRCH)?;
    if group.is_some_and(|group| group != target.process().id()) {
        return Err(Errno::ESRCH);
    }
    if !may_signal(thread, target.process(), info.signal) {
        return Err(Errno::EPERM);
    }
    if info.signal != 0 {
        target.send(info)?;
    }
    Ok(0)
}

fn checked_or_zero(signal: i32) -> Result<i32, Errno> {
    match signal {
        0 => Ok(0),
        _ => checked(signal),
    }
}

/// `tkill(tid, signal)`.
pub fn tkill(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let signal = checked_or_zero(a.int(1))?;
    if a.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    send_to_thread(thread, None, a.int(0), sent_by(thread, signal, SI_TKILL))
}

/// `tgkill(pid, tid, signal)`.
pub fn tgkill(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let signal = checked_or_zero(a.int(2))?;
    if a.int(0) <= 0 || a.int(1) <= 0 {
        return Err(Errno::EINVAL);
    }
    send_to_thread(thread, Some(a.int(0)), a.int(1), sent_by(thread, signal, SI_TKILL))
}

/// Reads a signal from the program; it may not pretend to be the kernel or kill.
async fn read_info(thread: &Thread, signal: i32, address: u64, to_itself: bool) -> Result<SignalInfo, Errno> {
    let mut info: SignalInfo = thread.read_struct(address).await?;
    if (info.code >= 0 || info.code == SI_TKILL) && !to_itself {
        return Err(Errno::EPERM);
    }
    info.signal = signal;
    Ok(info)
}

/// `rt_sigqueueinfo(pid, signal, info)`.
pub async fn rt_sigqueueinfo(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let signal = checked_or_zero(a.int(1))?;
    let to_itself = a.int(0) == thread.process().id();
    let info = read_info(thread, signal, a.word(2), to_itself).await?;
    let target = thread.tenant().tree.lock().process(a.int(0)).ok_or(Errno::ESRCH)?;
    if !may_signal(thread, &target, signal) {
        return Err(Errno::EPERM);
    }
    if signal != 0 {
        target.send(info)?;
    }
    Ok(0)
}

/// Sends a signal to a process that is known, with the information at `address`, or as kill does without one.
///
/// # Errors
/// EINVAL; EPERM; ESRCH for a process that has ended.
pub(crate) async fn send_to_process(thread: &Thread, target: &Process, signal: i32, address: u64) -> Outcome {
    let signal = checked_or_zero(signal)?;
    let info = match address {
        0 => sent_by(thread, signal, SI_USER),
        _ => {
            let info = read_info(thread, signal, address, target.id() == thread.process().id()).await?;
            if thread.read_struct::<i32>(address).await? == signal { info } else { return Err(Errno::EINVAL) }
        }
    };
    if !may_signal(thread, target, signal) {
        return Err(Errno::EPERM);
    }
    if signal != 0 {
        target.send(info)?;
    }
    Ok(0)
}

/// `rt_tgsigqueueinfo(pid, tid, signal, info)`.
pub async fn rt_tgsigqueueinfo(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let signal = checked_or_zero(a.int(2))?;
    let to_itself = a.int(0) == thread.process().id();
    let info = read_info(thread, signal, a.word(3), to_itself).await?;
    send_to_thread(thread, Some(a.int(0)), a.int(1), info)
}
