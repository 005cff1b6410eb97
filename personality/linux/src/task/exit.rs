//! The end of threads and processes.
//!
//! * A thread that ends leaves ([`leave`]) while it can still wait: it frees what it holds, the last one the files and the
//!   memory of its process. Then its task ends, and it is removed ([`remove`]), which never waits.
//! * A process without threads is buried: it becomes a zombie, its children get another parent, its parent is told.
//! * Thousands of threads, children or processes keep no core: each that ends tells some others of the end
//!   ([`Process::tell_some`], [`super::doomed`]).
//! * Threads that were lost by a failure of the kernel are removed from outside ([`remove_all`]).

use super::tree::{Change, Ended, Orphans};
use crate::file::pace::Pace;
use crate::ipc::{self, semaphores};
use crate::process::TOLD_AT_ONCE;
use crate::ptrace::tracees;
use crate::signal::info::SI_KERNEL;
use crate::signal::{Action, SIGNAL_MAX, SignalInfo, action, number};
use crate::{Arguments, Outcome, Process, Thread, futex};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_message::within;
use linux_raw_sys::general as raw;

/// How long the end of a process waits for the end of operations that it has submitted, ns.
const OPERATIONS_NS_MAX: u64 = 1_000_000_000;

/// `exit(code)`: ends the calling thread.
pub fn exit(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let status = (a.int(0) & 0xff) << 8;
    let process = thread.process();
    if process.alive_threads.load(Ordering::Acquire) <= 1 {
        process.set_end_status(status);
    }
    thread.tracee.note_end(status);
    thread.kill();
    Ok(0)
}

/// `exit_group(code)`: ends the process.
pub fn exit_group(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.process().end((a.int(0) & 0xff) << 8);
    Ok(0)
}

/// Ends a thread while it can still wait: wakes the threads that wait for it, and frees the state of the process if
/// it is the last.
pub(crate) async fn leave(thread: &Arc<Thread>) {
    let process = thread.process();
    let space = process.space();
    process.tell_some();
    futex::robust::walk(thread).await;
    let word = thread.clear_at_end.swap(0, Ordering::AcqRel);
    if word != 0 && space.copy_out(word, &0u32.to_le_bytes()).await.is_ok() {
        futex::wake_at(thread, &space, word, 1);
    }
    drop(space);
    if process.alive_threads.fetch_sub(1, Ordering::AcqRel) == 1 {
        process.set_end_status(0);
        process.timers.end().await;
        // A failure of the kernel may keep one for ever; that ends the process in another way.
        within(OPERATIONS_NS_MAX, process.under_way.end()).await;
        semaphores::undo::end(process).await;
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

/// Closes the descriptors of a process whose threads are lost. To be called again if it fails: it goes on behind the file that it failed at.
pub async fn close_files(process: &Process) {
    process.files().ended_by_failure().await;
    process.under_way.ask_to_end().await;
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
    // Other owners of the thread must not keep its memory.
    thread.set_space(process.tenant().void());
    // Nor the places that its waiting signals have taken of its user.
    let waiting = core::mem::take(&mut thread.signals.lock().pending);
    drop(waiting);
    process.tenant().tree.lock().remove_thread(thread.id());
    tracees::thread_ended(thread);
    let last = {
        let mut threads = process.threads.lock();
        let before = threads.len();
        threads.retain(|other| !Arc::ptr_eq(other, thread));
        if threads.len() < before {
            process.note_io_of_ended(thread);
        }
        threads.is_empty()
    };
    process.tell_some();
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
    let waiting = core::mem::take(&mut process.signals.lock().pending);
    drop(waiting);
    let tenant = process.tenant();
    process.interval_timers.stop();
    process.timers.stop(tenant.activity());
    semaphores::undo::end_later(process);
    let used = process.close_activity().plus(*process.children_used.lock());
    let status = process.end_status().unwrap_or(number::SIGKILL);
    let mut tree = tenant.tree.lock();
    let (ended, waits) = (tree.note_ended(process.id(), status, used), tree.orphans());
    // In one step with what wait finds: whoever has waited has the signal, and whoever has the signal finds the end (Linux, `exit_notify`).
    let signalled = signal_parent(process, &ended, status);
    drop(tree);
    tell_orphans(process, &ended, waits);
    tenant.doomed.end_some();
    tracees::tracer_ended(process);
    tracees::process_ended(process, status, ended.parent.as_ref());
    tenant.files().tenant().release_terminal(process.id());
    for stranded in &ended.hung_up {
        let _ = stranded.send(SignalInfo::new(number::SIGHUP, SI_KERNEL));
        let _ = stranded.send(SignalInfo::new(number::SIGCONT, SI_KERNEL));
    }
    match &ended.parent {
        Some(parent) => tell_of_end(process, parent, signalled, status),
        None => tenant.tree.lock().forget_zombie(process.id()),
    }
    process.end_watch.ended();
    process.ended.wake_all();
    ipc::end(tenant);
}

/// Sends the signals that orphans want at their parent's end, and tells their new parent of those that have ended; without
/// one they end, too.
fn tell_orphans(process: &Process, ended: &Ended, waits: Orphans) {
    let wants = |(orphan, _): &&(Arc<Process>, bool)| orphan.parent_death_signal.load(Ordering::Relaxed) != 0;
    let wanting: Vec<_> = ended.orphans.iter().filter(wants).map(|(orphan, _)| orphan.clone()).collect();
    match wanting.len() <= TOLD_AT_ONCE {
        true => wanting.iter().for_each(|orphan| tell_of_death(orphan, process.id())),
        false => tell_in_turns(process, wanting),
    }
    match &ended.heir {
        Some(heir) if ended.orphans.iter().any(|(_, is_zombie)| *is_zombie) => {
            heir.children_changed.wake_all();
            let _ = heir.send(SignalInfo::new(number::SIGCHLD, 0));
        }
        Some(_) => {}
        None if waits == Orphans::Tenant => {}
        // The tenant's first process is gone: no process could ever wait for these.
        None => {
            let living = ended.orphans.iter().filter(|(_, is_zombie)| !is_zombie);
            process.tenant().doomed.add(living.map(|(orphan, _)| orphan.clone()));
        }
    }
}

/// Sends what a child wants at its parent's end (PR_SET_PDEATHSIG).
fn tell_of_death(orphan: &Process, parent: i32) {
    let signal = orphan.parent_death_signal.load(Ordering::Relaxed);
    if signal != 0 {
        let _ = orphan.send(SignalInfo::sent(signal, 0, parent, 0));
    }
}

/// [`tell_of_death`] of many, in the name of the tenant: the process is gone.
fn tell_in_turns(process: &Process, orphans: Vec<Arc<Process>>) {
    let (activity, parent) = (process.tenant().activity(), process.id());
    let task = async move {
        let mut pace = Pace::new();
        for orphan in orphans {
            tell_of_death(&orphan, parent);
            pace.step().await;
        }
    };
    gyre_message::spawn_on(gyre_machine::core_index(), activity, Box::new(move || Box::pin(task)));
}

/// The signal for a parent whose child has ended.
enum Signalled {
    /// It has it.
    Done,
    /// It is still to be sent; 0 for none.
    Later(i32),
    /// It is still to be sent, and the parent never waits.
    Unwaited,
}

/// Sends the parent SIGCHLD. Others may end it, or have it tell its own parent, for which the tree must be free: they come later.
fn signal_parent(process: &Process, ended: &Ended, status: i32) -> Signalled {
    let Some(parent) = ended.parent.as_ref().filter(|_| ended.exit_signal == number::SIGCHLD) else {
        return Signalled::Later(ended.exit_signal);
    };
    let action = parent.signals.lock().actions.get(number::SIGCHLD);
    if action.handler == action::SIG_IGN || action.has(raw::SA_NOCLDWAIT) {
        return Signalled::Unwaited;
    }
    let _ = parent.send(child_info(process, Change::Ended(status)));
    Signalled::Done
}

fn tell_of_end(process: &Process, parent: &Arc<Process>, signalled: Signalled, status: i32) {
    let signal = match signalled {
        Signalled::Done => 0,
        Signalled::Later(signal) => signal,
        Signalled::Unwaited => {
            process.tenant().tree.lock().forget_zombie(process.id());
            number::SIGCHLD
        }
    };
    if (1..=SIGNAL_MAX).contains(&signal) {
        let mut info = child_info(process, Change::Ended(status));
        info.signal = signal;
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

/// Returns the CLD_ code and status that siginfo has.
pub(crate) fn code_and_status(change: Change) -> (i32, i32) {
    match change {
        Change::Ended(status) if status & 0x7f == 0 => (raw::CLD_EXITED as i32, status >> 8 & 0xff),
        Change::Ended(status) => (raw::CLD_KILLED as i32, status & 0x7f),
        Change::Stopped(signal) => (raw::CLD_STOPPED as i32, signal),
        Change::Trapped(word) => (raw::CLD_TRAPPED as i32, word),
        Change::Continued => (raw::CLD_CONTINUED as i32, number::SIGCONT),
    }
}
