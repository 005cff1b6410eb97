//! Waiting for children: wait4, waitid.

use super::exit::code_and_status;
use super::tree::{Change, Report, Wanted, Which};
use super::usage::Usage;
use crate::file::calls::process_file;
use crate::ptrace::tracees::Found;
use crate::signal::SignalInfo;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// Waits for a report; `None` if nothing has happened and the caller does not want to wait.
async fn report(thread: &Thread, which: Which, wanted: Wanted, no_wait: bool) -> Result<Option<Report>, Errno> {
    let process = thread.process();
    let group_of = |id| process.tenant().tree.lock().group_of(id);
    let look = || {
        let traced = process.tracees.report(which, wanted, group_of);
        let found = match traced {
            Found::Report(report) => Ok(Some(report)),
            Found::Somebody => of_children(thread, which, wanted).or(Ok(None)),
            Found::Nobody => of_children(thread, which, wanted),
        };
        match found {
            Ok(None) if !no_wait => None,
            other => Some(other),
        }
    };
    let report = thread.interruptible(process.children_changed.until(look)).await??;
    if let (Some(Report { change: Change::Ended(_), used, .. }), false) = (report, wanted.keep) {
        let mut total = process.children_used.lock();
        *total = total.plus(used);
    }
    Ok(report)
}

fn of_children(thread: &Thread, which: Which, wanted: Wanted) -> Result<Option<Report>, Errno> {
    let process = thread.process();
    process.tenant().tree.lock().take_report(process.id(), which, wanted)
}

/// Returns the status word of wait: exit code or signal, stopped, continued.
fn status_word(change: Change) -> i32 {
    match change {
        Change::Ended(status) => status,
        Change::Stopped(signal) | Change::Trapped(signal) => signal << 8 | 0x7f,
        Change::Continued => 0xffff,
    }
}

/// `wait4(pid, status, options, usage)`.
pub async fn wait4(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (target, options) = (a.int(0), a.unsigned(2));
    let known = raw::WNOHANG | raw::WUNTRACED | raw::WCONTINUED | raw::__WALL | raw::__WCLONE | raw::__WNOTHREAD;
    if options & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let which = match target {
        1.. => Which::One(target),
        0 => Which::Group(own_group(thread)),
        -1 => Which::Any,
        i32::MIN => return Err(Errno::ESRCH),
        _ => Which::Group(target.saturating_neg()),
    };
    let wanted = Wanted {
        ended: true,
        stopped: options & raw::WUNTRACED != 0,
        continued: options & raw::WCONTINUED != 0,
        keep: false,
    };
    let report = report(thread, which, wanted, options & raw::WNOHANG != 0).await?;
    let Some(report) = report else {
        return Ok(0);
    };
    thread.write_optional(a.word(1), &status_word(report.change)).await?;
    thread.write_optional(a.word(3), &Usage::of(report.used, 0)).await?;
    Ok(report.process as u64)
}

fn gone_is_no_child(error: Errno) -> Errno {
    if error == Errno::ESRCH { Errno::ECHILD } else { error }
}

fn own_group(thread: &Thread) -> i32 {
    let id = thread.process().id();
    thread.tenant().tree.lock().group_of(id).unwrap_or(id)
}

/// `waitid(type, id, info, options, usage)`.
pub async fn waitid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (kind, id, options) = (a.unsigned(0), a.int(1), a.unsigned(3));
    let what = raw::WEXITED | raw::WSTOPPED | raw::WCONTINUED;
    let known = what | raw::WNOHANG | raw::WNOWAIT | raw::__WALL | raw::__WCLONE | raw::__WNOTHREAD;
    if options & !known != 0 || options & what == 0 {
        return Err(Errno::EINVAL);
    }
    let which = match kind {
        raw::P_ALL => Which::Any,
        raw::P_PID if id > 0 => Which::One(id),
        raw::P_PGID if id > 0 => Which::Group(id),
        raw::P_PIDFD => Which::One(process_file::process_of(thread, id).map_err(gone_is_no_child)?.id()),
        raw::P_PGID if id == 0 => Which::Group(own_group(thread)),
        _ => return Err(Errno::EINVAL),
    };
    let wanted = Wanted {
        ended: options & raw::WEXITED != 0,
        stopped: options & raw::WSTOPPED != 0,
        continued: options & raw::WCONTINUED != 0,
        keep: options & raw::WNOWAIT != 0,
    };
    let report = report(thread, which, wanted, options & raw::WNOHANG != 0).await?;
    let Some(report) = report else {
        thread.write_optional(a.word(2), &[0u8; 128]).await?;
        return Ok(0);
    };
    let (code, status) = code_and_status(report.change);
    let info = SignalInfo::child(code, report.process, report.user, status);
    thread.write_optional(a.word(2), &info).await?;
    thread.write_optional(a.word(4), &Usage::of(report.used, 0)).await?;
    Ok(0)
}
