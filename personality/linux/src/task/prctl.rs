//! `prctl`: names, signals at the parent's end, and answers that libraries ask for.

use super::{capability, dispatch};
use crate::signal::SIGNAL_MAX;
use crate::thread::TIMER_SLACK_NS;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

const PR_SET_PDEATHSIG: u32 = 1;
const PR_GET_PDEATHSIG: u32 = 2;
const PR_GET_DUMPABLE: u32 = 3;
const PR_SET_DUMPABLE: u32 = 4;
const PR_GET_KEEPCAPS: u32 = 7;
const PR_SET_KEEPCAPS: u32 = 8;
const PR_SET_NAME: u32 = 15;
const PR_GET_NAME: u32 = 16;
const PR_CAPBSET_READ: u32 = 23;
const PR_CAPBSET_DROP: u32 = 24;
const PR_GET_SECUREBITS: u32 = 27;
const PR_SET_SECUREBITS: u32 = 28;
const PR_SET_TIMERSLACK: u32 = 29;
const PR_GET_TIMERSLACK: u32 = 30;
const PR_SET_CHILD_SUBREAPER: u32 = 36;
const PR_GET_CHILD_SUBREAPER: u32 = 37;
const PR_SET_NO_NEW_PRIVS: u32 = 38;
const PR_GET_NO_NEW_PRIVS: u32 = 39;
const PR_GET_THP_DISABLE: u32 = 42;
const PR_CAP_AMBIENT: u32 = 47;
const PR_SET_SYSCALL_USER_DISPATCH: u32 = 59;

/// `prctl(option, ...)`.
pub async fn prctl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let process = thread.process();
    match a.unsigned(0) {
        PR_SET_NAME => set_name(thread, a.word(1)).await,
        PR_GET_NAME => {
            let name = *thread.name.lock();
            thread.copy_out(a.word(1), &name).await.map(|()| 0)
        }
        PR_SET_PDEATHSIG if !(0..=SIGNAL_MAX).contains(&a.int(1)) => Err(Errno::EINVAL),
        PR_SET_PDEATHSIG => {
            process.parent_death_signal.store(a.int(1), Ordering::Relaxed);
            Ok(0)
        }
        PR_GET_PDEATHSIG => {
            let signal = process.parent_death_signal.load(Ordering::Relaxed);
            thread.write_struct(a.word(1), &signal).await.map(|()| 0)
        }
        PR_SET_DUMPABLE if a.word(1) > 1 => Err(Errno::EINVAL),
        PR_SET_DUMPABLE => {
            process.dumpable.store(a.word(1) as u8, Ordering::Relaxed);
            Ok(0)
        }
        PR_GET_DUMPABLE => Ok(u64::from(process.dumpable.load(Ordering::Relaxed))),
        PR_SET_CHILD_SUBREAPER => {
            process.is_subreaper.store(a.word(1) != 0, Ordering::Relaxed);
            Ok(0)
        }
        PR_GET_CHILD_SUBREAPER => {
            let value = i32::from(process.is_subreaper.load(Ordering::Relaxed));
            thread.write_struct(a.word(1), &value).await.map(|()| 0)
        }
        PR_SET_NO_NEW_PRIVS if a.word(1) != 1 => Err(Errno::EINVAL),
        PR_SET_NO_NEW_PRIVS => {
            process.no_new_privileges.store(true, Ordering::Relaxed);
            Ok(0)
        }
        PR_GET_NO_NEW_PRIVS => Ok(u64::from(process.no_new_privileges.load(Ordering::Relaxed))),
        PR_CAPBSET_READ => capability::is_bounding(thread, a.word(1)),
        PR_CAPBSET_DROP => capability::drop_bounding(thread, a.word(1)),
        PR_GET_SECUREBITS => capability::secure_bits(thread),
        PR_SET_SECUREBITS => capability::set_secure_bits(thread, a.word(1)),
        PR_GET_KEEPCAPS => capability::keeps(thread),
        PR_SET_KEEPCAPS => capability::set_keeps(thread, a.word(1)),
        PR_CAP_AMBIENT => capability::ambient(thread, a),
        PR_SET_SYSCALL_USER_DISPATCH => dispatch::set(thread, a),
        PR_GET_TIMERSLACK => Ok(thread.timer_slack_ns.load(Ordering::Relaxed)),
        PR_SET_TIMERSLACK => {
            // Timers are exact here: the slack is kept only for PR_GET_TIMERSLACK.
            let wanted = if a.word(1) == 0 { TIMER_SLACK_NS } else { a.word(1) };
            thread.timer_slack_ns.store(wanted, Ordering::Relaxed);
            Ok(0)
        }
        PR_GET_THP_DISABLE => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

async fn set_name(thread: &Thread, address: u64) -> Outcome {
    let given = thread.space().read_string(address, 15).await?;
    let given = match given {
        Some(name) => name,
        None => thread.read_vec(address, 15).await?,
    };
    set_comm(thread, &given);
    Ok(0)
}

/// Sets a thread's name: the first 15 bytes count.
pub(crate) fn set_comm(thread: &Thread, given: &[u8]) {
    let mut name = [0; 16];
    name.iter_mut().take(15).zip(given).for_each(|(slot, byte)| *slot = *byte);
    *thread.name.lock() = name;
}
