//! A kernel failure in work done for a process ends that process, or its tenant: who is told of it, and how they end.
//!
//! The engine calls [`mourn`] once for each task that failed, after [`start`]. It is told on the console and in the tenant's log; then:
//!
//! * A process ends as by SIGKILL ([`end_process`]). Its end is done in steps, each as work of the process itself: a step that meets what the
//!   failure left behind fails alone.
//! * A tenant ends as a whole ([`end_tenant`]) if the failure may have hurt what its processes share, if it fails too often, or if one of its
//!   processes cannot be ended alone. Its programs are killed, its file system is written back, its work is halted; then it may be
//!   started again ([`crate::again`]).
//! * A failure in work of the infrastructure, or of a resource that may hold what all tenants share, ends the machine; the engine does not
//!   call here then. The catalogue of the contract says which resources those are.
//!
//! A tenant that ends as a whole leaves the machine's file systems ([`Leaving`]): whoever has that right ends it and writes them back. If the
//! machine ends already, or its owner has the tenant leave, they do it, and its programs are killed alone.
//!
//! Each step has a time that it may take. Lost memory stays on the bill of whose it was. [`crate::dying::Dying`] knows the processes that end,
//! [`crate::tenants::Failures`] the tenants that ended.

use crate::again;
use crate::dying::Noted;
use crate::ending;
use crate::kernel::Kernel;
use crate::rest::until_at_rest;
use crate::tenants::{Ended, Running};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::future::Future;
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::file_systems::{Leaving, Mounted, Written};
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_engine::{Lost, Obituary, RESIDENT, Reach};
use gyre_linux::Process;
use gyre_linux::signal::number::SIGKILL;
use gyre_linux::task::exit;
use gyre_message::{Gone, keep, reply_pair, within, yield_now};

/// Failures after which a tenant ends as a whole.
const FAILURES_MAX: u32 = 100;
/// How long a step of an end may take, ns.
const STEP_NS_MAX: u64 = 5_000_000_000;
/// Files of a process at which its end may fail, before the others stay open.
const LOST_FILES_MAX: usize = 16;
/// Processes that are told at once that their tenant ends.
const ENDED_AT_ONCE: usize = 64;
/// How long it may take to write a tenant's file system back, ns.
const UNMOUNT_NS_MAX: u64 = 10_000_000_000;

/// From now on failures are contained.
pub fn start(kernel: &'static Kernel) {
    let engine = kernel.base.engine;
    engine.contain_failures(Box::leak(Box::new(move |obituary: &Obituary| mourn(kernel, obituary))));
}

/// Says what happened and has its process or tenant ended.
fn mourn(kernel: &'static Kernel, obituary: &Obituary) {
    let index = kernel.base.index_of(kernel.base.tenant_of(obituary.activity));
    let running = index.and_then(|index| kernel.tenants.running(index));
    let process = running.and_then(|running| process_of(running, obituary.activity));
    tell(kernel, obituary, index, process.as_deref());
    let (Some(index), Some(running)) = (index, running) else { return };
    let count = running.failures.add_one();
    let reason = match (obituary.reach, &process) {
        (Reach::Process, Some(_)) if count < FAILURES_MAX => None,
        (Reach::Process, Some(_)) => Some("it has failed too often"),
        (Reach::Process, None) => Some("the work was for all of it"),
        _ => Some("what its processes share may be hurt"),
    };
    match (reason, process) {
        (Some(reason), _) => end_tenant(kernel, running, reason),
        (None, Some(process)) => end_process(kernel, index, process, obituary.kind),
        (None, None) => {}
    }
}

/// One block on the console, and the same in the tenant's log.
fn tell(kernel: &Kernel, obituary: &Obituary, index: Option<usize>, process: Option<&Process>) {
    let (engine, failure) = (kernel.base.engine, &obituary.failure);
    let tenant = index.and_then(|index| kernel.base.roll.tenant(index)).map_or("?", |tenant| tenant.name.as_str());
    let who = process.map_or(String::from("no single process"), |process| format!("process {}", process.id()));
    let work = match obituary.kind {
        Lost::Thread => "a thread",
        Lost::Request => "a request",
    };
    let resource = engine.resource_name(obituary.resource);
    let failed_in = engine.resource_name(obituary.failed_in);
    log::error!(target: "contained", "a kernel failure in work for tenant {tenant}, {who}: {}", failure.message());
    let task =
        format!("task {} of {resource} ({work}), in {failed_in}, activity {}", obituary.task, obituary.activity.0);
    log::error!(target: "contained", "{task}");
    for (depth, place) in failure.trace().iter().enumerate() {
        log::error!(target: "trace", "{depth} {place:#018x}");
    }
    log::error!(target: "contained", "the machine goes on");
    if let Some(running) = index.and_then(|index| kernel.tenants.running(index)) {
        let line = format!("gyre: {who} was ended by a failure of the kernel: {}; {task}\n", failure.message());
        running.files.log.append(line.as_bytes());
        for (depth, place) in failure.trace().iter().enumerate() {
            running.files.log.append(format!("gyre: trace: {depth} {place:#018x}\n").as_bytes());
        }
    }
}

/// Returns the process that an activity stands for, if there is one.
fn process_of(running: &Running, activity: ActivityId) -> Option<Arc<Process>> {
    let tree = running.tenant.tree.lock_unless_lost()?;
    let mut found = tree.processes();
    drop(tree);
    found.retain(|process| process.activity() == activity);
    // The tenant's own activity stands for all processes that have none of their own.
    if found.len() == 1 { found.pop() } else { None }
}

/// Starts the end of a process, or notes one more thread of one that ends.
fn end_process(kernel: &'static Kernel, index: usize, process: Arc<Process>, kind: Lost) {
    let activity = process.activity();
    if kernel.dying.note(activity, usize::from(kind == Lost::Thread)) == Noted::Again {
        return process.threads_changed.wake_all();
    }
    spawn_resident(kernel, move || async move {
        let ended = bury(kernel, &process).await;
        kernel.dying.forget(activity);
        let Some(running) = kernel.tenants.running(index) else { return };
        if ended.is_err() {
            end_tenant(kernel, running, "the process cannot be ended alone");
        }
    });
}

/// Starts the end of something on the resident core: it waits for seconds, and keeps no other core.
fn spawn_resident<F: Future<Output = ()> + 'static>(kernel: &Kernel, end: impl FnOnce() -> F + Send + 'static) {
    kernel.base.engine.spawn_for_on(RESIDENT, ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, end);
}

/// Ends a process from outside: all its threads are killed, those that are lost are removed.
async fn bury(kernel: &'static Kernel, process: &Arc<Process>) -> Result<(), Gone> {
    let activity = process.activity();
    let killed = process.clone();
    step(kernel, activity, async move { killed.end(SIGKILL) }).await?;
    let left = process.clone();
    step(kernel, activity, async move { left.threads_changed.until(|| are_lost_alone(kernel, &left)).await }).await?;
    if process.is_over() {
        return Ok(());
    }
    // Files and memory may hold what the failure has left closed: then they are lost, and the process ends all the same.
    close_files(kernel, activity, process).await;
    let held = process.clone();
    let _ = step(kernel, activity, async move { exit::give_up_memory(&held).await }).await;
    let removed = process.clone();
    step(kernel, activity, async move { exit::remove_all(&removed) }).await
}

/// Closes the files of a process whose threads are lost, but those that cannot be closed: else its sockets would keep their ports.
async fn close_files(kernel: &Kernel, activity: ActivityId, process: &Arc<Process>) {
    for _ in 0..LOST_FILES_MAX {
        let held = process.clone();
        if step(kernel, activity, async move { exit::close_files(&held).await }).await.is_ok() {
            return;
        }
    }
}

/// Something once a process has no threads but lost ones.
fn are_lost_alone(kernel: &Kernel, process: &Process) -> Option<()> {
    let left = process.threads.lock().len();
    (left <= kernel.dying.lost_threads(process.activity())).then_some(())
}

/// Does something for an activity, bounded in time.
///
/// # Errors
/// [`Gone`] if it failed, or took too long.
async fn step(kernel: &Kernel, activity: ActivityId, work: impl Future<Output = ()> + 'static) -> Result<(), Gone> {
    let (reply, call) = reply_pair::<Result<(), Gone>>();
    let resource = id(Resource::Process);
    let work = async move {
        work.await;
        Ok(())
    };
    kernel.base.engine.spawn_for(resource, activity, keep(reply, work));
    within(STEP_NS_MAX, call).await.unwrap_or(Err(Gone))
}

/// Ends a tenant as a whole; nobody touches what its processes share from now on.
fn end_tenant(kernel: &'static Kernel, running: &'static Running, reason: &'static str) {
    if running.failures.end_tenant() == Ended::Before {
        return;
    }
    let name = running.tenant.name();
    log::error!(target: "contained", "tenant {name} ends: {reason}");
    running.files.log.append(format!("gyre: the tenant ends: {reason}\n").as_bytes());
    let leaving = kernel.file_systems.leave(running.tenant.activity());
    spawn_resident(kernel, move || async move {
        let Some(leaving) = leaving else { return kill_all(kernel, running).await };
        let closed = end_all_of(kernel, running, leaving).await;
        let state = how(closed);
        log::error!(target: "contained", "tenant {name} has ended, {state}; {} failures", running.failures.count());
        let Some(index) = kernel.base.index_of(running.tenant.activity()) else { return };
        match closed {
            Ok(()) => again::start_again(kernel, index, reason).await,
            Err(_) => kernel.tenants.set_state(index, again::ENDED),
        }
    });
}

/// The reason why nobody may have a tenant's disks after its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unclosed {
    /// Some of them were not written back.
    NotWritten,
    /// Somebody may still write to them.
    NotAtRest,
}

/// Returns how a tenant's disks are, for people.
fn how(closed: Result<(), Unclosed>) -> &'static str {
    match closed {
        Ok(()) => "its disk is in order",
        Err(Unclosed::NotWritten) => "its disk was not written back",
        Err(Unclosed::NotAtRest) => "its disk does not come to rest",
    }
}

/// Ends a tenant as a whole because its owner takes it away.
///
/// # Errors
/// [`Unclosed`].
pub async fn end_for_owner(
    kernel: &'static Kernel,
    running: &'static Running,
    leaving: Leaving<'static>,
) -> Result<(), Unclosed> {
    // A failure meanwhile has killed its programs: the rest is for who has it leave.
    running.failures.end_tenant();
    end_ended(kernel, running, leaving).await
}

/// Ends a tenant that is noted as ended as a whole ([`Failures::end_tenant`](crate::tenants::Failures::end_tenant)) by the caller.
///
/// # Errors
/// [`Unclosed`].
pub async fn end_ended(
    kernel: &'static Kernel,
    running: &'static Running,
    leaving: Leaving<'static>,
) -> Result<(), Unclosed> {
    let name = running.tenant.name();
    let closed = end_all_of(kernel, running, leaving).await;
    let state = how(closed);
    match closed {
        Ok(()) => log::info!("tenant {name} has gone, {state}"),
        Err(_) => log::error!("tenant {name} has gone, {state}"),
    }
    closed
}

/// Kills all programs of a tenant, writes its file systems back and halts its work.
async fn end_all_of(
    kernel: &'static Kernel,
    running: &'static Running,
    leaving: Leaving<'static>,
) -> Result<(), Unclosed> {
    kill_all(kernel, running).await;
    let activity = running.tenant.activity();
    // Contents that a failure has left closed stay on the tenant's bill.
    let _ = step(kernel, activity, discard(running)).await;
    close(kernel, activity, leaving).await
}

/// Kills all programs of a tenant, and closes the files of those that do not end.
async fn kill_all(kernel: &'static Kernel, running: &'static Running) {
    let activity = running.tenant.activity();
    let killed = step(kernel, activity, async move {
        let processes = running.tenant.tree.lock().processes();
        // Thousands keep no core.
        for some in processes.chunks(ENDED_AT_ONCE) {
            some.iter().for_each(|process| process.end(SIGKILL));
            yield_now().await;
        }
    });
    // A process that cannot be told to end is dropped below.
    let _ = killed.await;
    if step(kernel, activity, all_over(running)).await.is_err() {
        let left = running.tenant.tree.lock_unless_lost().map(|tree| tree.processes()).unwrap_or_default();
        for process in left.iter().filter(|process| !process.is_over()) {
            close_files(kernel, activity, process).await;
        }
    }
}

/// Frees what a tenant's file systems in memory hold.
async fn discard(running: &'static Running) {
    for memory in &running.memory {
        memory.discard().await;
    }
}

/// Writes the file systems of a tenant without processes back, halts its work, and waits until its disks are at rest.
///
/// # Errors
/// [`Unclosed`]: one of them was not written back, there was no memory to end its work, or a device is still at work.
pub async fn close(kernel: &'static Kernel, activity: ActivityId, leaving: Leaving<'static>) -> Result<(), Unclosed> {
    let mounted = leaving.mounted();
    let written = unmount(kernel, activity, &mounted).await;
    leaving.end(written.map_or(Written::InPart, |()| Written::Back));
    let halted = kernel.base.engine.halt(activity).await;
    if halted.is_err() {
        log::error!(target: "contained", "work for activity {} goes on: there is no memory to end it", activity.0);
    }
    kernel.programs.tell_end_of(activity);
    written.map_err(|Gone| Unclosed::NotWritten)?;
    halted.map_err(|_| Unclosed::NotAtRest)?;
    until_at_rest(kernel, activity, &mounted).await.ok_or(Unclosed::NotAtRest)
}

async fn all_over(running: &'static Running) {
    let first = || {
        let processes = running.tenant.tree.lock().processes();
        processes.into_iter().find(|process| !process.is_over())
    };
    while let Some(process) = first() {
        process.ended.until(|| process.is_over().then_some(())).await;
    }
}

/// Writes all file systems of a tenant back; an error says that one of them could not be.
async fn unmount(kernel: &'static Kernel, activity: ActivityId, mounted: &[Mounted]) -> Result<(), Gone> {
    let mut all = Ok(());
    for mounted in mounted.iter().copied() {
        let (reply, call) = reply_pair::<Result<(), Gone>>();
        let work = async move {
            ending::unmount(kernel, mounted).await.map_err(|_| Gone)?;
            mounted.server.forget_all().await;
            Ok(())
        };
        kernel.base.engine.spawn_for(id(Resource::Ext2), activity, keep(reply, work));
        all = all.and(within(UNMOUNT_NS_MAX, call).await.unwrap_or(Err(Gone)));
    }
    all
}
