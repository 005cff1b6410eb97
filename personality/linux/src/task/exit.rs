//! The end of threads and processes.

use super::tree::Change;
use crate::signal::{Action, SignalInfo, action, number};
use crate::{Arguments, Outcome, Process, Thread, futex};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;

/// `exit(code)`: ends the calling thread.
pub fn exit(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let status = (a.int(0) & 0xff) << 8;
    let process = thread.process();
    if process.alive_threads.load(Ordering::Acquire) <= 1 {
        process.set_end_status(status);
    }
    thread.kill();
    Ok(0)
}

/// `exit_group(code)`: ends the process.
pub fn exit_group(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.process().end((a.int(0) & 0xff) << 8);
    Ok(0)
}

/// What a thread does last, while it can still wait: tells who waits for it, and frees what the process holds if it is the last.
pub(crate) async fn leave(thread: &Arc<Thread>) {
    let process = thread.process();
    let space = process.space();
    futex::robust::walk(thread).await;
    let word = thread.clear_at_end.swap(0, Ordering::AcqRel);
    if word != 0 && space.copy_out(word, &0u32.to_le_bytes()).await.is_ok() {
        futex::wake_at(thread, &space, word, 1);
    }
    drop(space);
    if process.alive_threads.fetch_sub(1, Ordering::AcqRel) == 1 {
        process.set_end_status(0);
        process.files().ended().await;
        release_space(process).await;
        process.set_over();
    }
}

/// Gives up the memory of a process that ends.
async fn release_space(process: &Arc<Process>) {
    let former = process.replace_space(process.tenant().void());
    process.stop_borrowing();
    former.leave().await;
}

/// Closes what a process has open whose threads are lost.
pub async fn close_files(process: &Process) {
    process.files().ended().await;
}

/// Gives up the memory of a process whose threads are lost.
pub async fn give_up_memory(process: &Arc<Process>) {
    release_space(process).await;
}

/// Removes the threads that a process has left, which are lost: it becomes a zombie.
pub fn remove_all(process: &Arc<Process>) {
    process.set_over();
    let left = process.threads.lock().clone();
    left.iter().for_each(remove);
}

/// Removes a thread from its process and tenant; with the last one the process becomes a zombie. Never waits.
pub(crate) fn remove(thread: &Arc<Thread>) {
    let process = thread.process();
    // Whoever knows it still must not keep its memory.
    thread.set_space(process.tenant().void());
    process.tenant().tree.lock().remove_thread(thread.id());
    let last = {
        let mut threads = process.threads.lock();
        threads.retain(|other| !Arc::ptr_eq(other, thread));
        threads.is_empty()
    };
    process.threads_changed.wake_all();
    if last {
        bury(process);
    }
}

/// Turns a process without threads into a zombie and tells its family.
fn bury(process: &Arc<Process>) {
    // A process whose task was dropped has no status yet: it was killed. Then its memory is still here too.
    process.end(number::SIGKILL);
    process.stop_borrowing();
    drop(process.replace_space(process.tenant().void()));
    process.set_over();
    let tenant = process.tenant();
    process.interval_timers.stop();
    process.timers.stop();
    let used = process.close_activity().plus(*process.children_used.lock());
    let status = process.end_status().unwrap_or(number::SIGKILL);
    let ended = tenant.tree.lock().note_ended(process.id(), status, used);
    for (orphan, is_zombie) in &ended.orphans {
        let signal = orphan.parent_death_signal.load(Ordering::Relaxed);
        if signal != 0 {
            let _ = orphan.send(SignalInfo::sent(signal, 0, process.id(), 0));
        }
        match &ended.heir {
            Some(heir) if *is_zombie => {
                heir.children_changed.wake_all();
                let _ = heir.send(SignalInfo::new(number::SIGCHLD, 0));
            }
            Some(_) => {}
            // The tenant's first process is gone: nobody could ever wait for this one.
            None => orphan.end(number::SIGKILL),
        }
    }
    match &ended.parent {
        Some(parent) => tell_of_end(process, parent, ended.exit_signal, status),
        None => tenant.tree.lock().forget_zombie(process.id()),
    }
    process.ended.wake_all();
}

fn tell_of_end(process: &Process, parent: &Arc<Process>, exit_signal: i32, status: i32) {
    let action = parent.signals.lock().actions.get(number::SIGCHLD);
    let unwanted = action.handler == action::SIG_IGN || action.has(raw::SA_NOCLDWAIT);
    if exit_signal == number::SIGCHLD && unwanted {
        process.tenant().tree.lock().forget_zombie(process.id());
    }
    if exit_signal != 0 {
        let mut info = child_info(process, Change::Ended(status));
        info.signal = exit_signal;
        let _ = parent.send(info);
    }
    parent.children_changed.wake_all();
}

/// Tells the parent that its child has stopped or goes on.
pub(crate) fn tell_parent(process: &Process, change: Change) {
    let tenant = process.tenant();
    let parent = {
        let tree = tenant.tree.lock();
        tree.parent_of(process.id()).and_then(|parent| tree.process(parent))
    };
    let Some(parent) = parent else {
        return;
    };
    let action: Action = parent.signals.lock().actions.get(number::SIGCHLD);
    if !action.has(raw::SA_NOCLDSTOP) {
        let _ = parent.send(child_info(process, change));
    }
    parent.children_changed.wake_all();
}

fn child_info(process: &Process, change: Change) -> SignalInfo {
    let (code, status) = code_and_status(change);
    SignalInfo::child(code, process.id(), process.with_credentials(|who| who.user), status)
}

/// CLD_ code and status as siginfo has them.
pub(crate) fn code_and_status(change: Change) -> (i32, i32) {
    match change {
        Change::Ended(status) if status & 0x7f == 0 => (raw::CLD_EXITED as i32, status >> 8 & 0xff),
        Change::Ended(status) => (raw::CLD_KILLED as i32, status & 0x7f),
        Change::Stopped(signal) => (raw::CLD_STOPPED as i32, signal),
        Change::Continued => (raw::CLD_CONTINUED as i32, number::SIGCONT),
    }
}
