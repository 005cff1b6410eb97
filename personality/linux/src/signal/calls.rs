//! The system calls about signals.

use super::action::{Action, FLAGS_KNOWN};
use super::births::Found;
use super::info::{SI_TKILL, SI_USER, SignalInfo};
use super::number::{self, UNSTOPPABLE};
use super::set::{SIGNAL_MAX, SignalSet};
use super::{AltStack, SS_AUTODISARM, SS_DISABLE, SS_ONSTACK};
use crate::credentials::Capability;
use crate::time::TimeSpec;
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
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

/// Sets an action; a signal that is ignored now is forgotten where it waits.
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
    if let Some(info) = thread.take_signal(wanted) {
        return Ok(info);
    }
    let arrived = thread.interruptible_until(deadline, core::future::pending::<()>()).await;
    match (thread.take_signal(wanted), arrived) {
        (Some(info), _) => Ok(info),
        (None, Ok(_)) => Err(Errno::EAGAIN),
        (None, Err(_)) => Err(Errno::EINTR),
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

/// True where the sender may signal the target (kill(2)).
fn may_signal(sender: &Thread, target: &Process, signal: i32) -> bool {
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

/// `kill(pid, signal)`: a process, a group (negative), the own group (0) or all but the first and oneself (-1).
pub fn kill(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (target, signal) = (a.int(0), a.int(1));
    if signal != 0 {
        checked(signal)?;
    }
    let (targets, found) = find(thread, target, signal);
    if targets.is_empty() {
        return Err(Errno::ESRCH);
    }
    let allowed: Vec<_> = targets.iter().filter(|target| may_signal(thread, target, signal)).collect();
    if allowed.is_empty() {
        return Err(Errno::EPERM);
    }
    if signal != 0 {
        let info = sent_by(thread, signal, SI_USER);
        for target in allowed {
            target.send(info)?;
        }
    }
    drop(found);
    Ok(0)
}

/// Whom `kill(target)` means, and a hold on their forks where they are several: a child is among them or is born when its parent
/// has the signal. Signal 0 only asks and holds nobody.
fn find(thread: &Thread, target: i32, signal: i32) -> (Vec<Arc<Process>>, Vec<Found>) {
    let own = thread.process();
    let tree = own.tenant().tree.lock();
    let targets = match target {
        // The number of any of its threads means a process.
        1.. => {
            let of_thread = || tree.thread(target).map(|thread| thread.process().clone());
            return (tree.process(target).or_else(of_thread).into_iter().collect(), Vec::new());
        }
        0 => tree.group_members(tree.group_of(own.id()).unwrap_or(own.id())),
        -1 => tree.others(own.id()),
        i32::MIN => Vec::new(),
        _ => tree.group_members(target.saturating_neg()),
    };
    let is_held = |target: &&Arc<Process>| signal != 0 && may_signal(thread, target, 0);
    let found = targets.iter().filter(is_held).map(Found::new).collect();
    (targets, found)
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

/// Reads what a program wants to send; it may not pretend to be the kernel or kill.
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

/// `rt_tgsigqueueinfo(pid, tid, signal, info)`.
pub async fn rt_tgsigqueueinfo(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let signal = checked_or_zero(a.int(2))?;
    let to_itself = a.int(0) == thread.process().id();
    let info = read_info(thread, signal, a.word(3), to_itself).await?;
    send_to_thread(thread, Some(a.int(0)), a.int(1), info)
}
