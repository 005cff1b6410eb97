//! A kernel failure in work done for a process ends that process, or its tenant: who is told of it, and how they end.
//!
//! A process ends as by SIGKILL. What its end needs is done in steps, each work of the process itself, so that a step that meets what the
//! failure left behind fails for itself. A tenant as a whole ends where the failure may have hurt what its processes share, where it
//! fails too often, or where one of its processes cannot be ended alone. What is lost stays on its bill.

use crate::assembly::System;
use crate::host::tenant_of;
use crate::tenants::{self, Running};
use crate::{ending, native};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::{Lost, Obituary, Reach};
use gyre_linux::Process;
use gyre_linux::signal::number::SIGKILL;
use gyre_linux::task::exit;
use gyre_message::wait::Either;
use gyre_message::{Gone, keep, reply_pair, select, sleep_ns};
use gyre_object::SpinLock;

/// Failures after which a tenant ends as a whole.
const FAILURES_MAX: u32 = 100;
/// How long a step of an end may take, ns.
const STEP_NS_MAX: u64 = 5_000_000_000;
/// How long it may take to write a tenant's file system back, ns.
const UNMOUNT_NS_MAX: u64 = 10_000_000_000;

/// Resources whose work holds nothing that processes share, beside what the locks say.
const OF_PROCESSES: [&str; 4] = ["process", "async_io", "io_stream", "tmpfs"];
/// Resources whose work may hold what a tenant's processes share: a directory's gate, a place in a commit.
const OF_TENANTS: [&str; 1] = ["ext2"];

/// What a tenant's failures came to.
#[derive(Default)]
pub struct Failures {
    count: AtomicU32,
    has_ended: AtomicBool,
}

impl Failures {
    /// True once the tenant as a whole was ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Kernel failures in work for it.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Processes that are being ended, and threads of each that are lost.
static ENDING: SpinLock<Vec<(ActivityId, usize)>> = SpinLock::new(Vec::new());

/// From now on failures are contained.
pub fn start(system: &'static System) {
    let engine = system.engine;
    let reaches = [(&OF_PROCESSES[..], Reach::Process), (&OF_TENANTS[..], Reach::Tenant)];
    for (names, reach) in reaches {
        names.iter().filter_map(|name| engine.resource(name)).for_each(|resource| engine.set_reach(resource, reach));
    }
    engine.contain_failures(Box::leak(Box::new(move |obituary: &Obituary| mourn(system, obituary))));
}

/// Says what happened and has its process or tenant ended.
fn mourn(system: &'static System, obituary: &Obituary) {
    let index = system.activities.iter().position(|activity| *activity == tenant_of(obituary.activity));
    let running = index.and_then(tenants::running);
    let process = running.and_then(|running| process_of(running, obituary.activity));
    tell(system, obituary, index, process.as_deref());
    let (Some(index), Some(running)) = (index, running) else { return };
    let count = running.failures.count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
    let reason = match (obituary.reach, &process) {
        (Reach::Process, Some(_)) if count < FAILURES_MAX => None,
        (Reach::Process, Some(_)) => Some("it has failed too often"),
        (Reach::Process, None) => Some("the work was for all of it"),
        _ => Some("what its processes share may be hurt"),
    };
    match (reason, process) {
        (Some(reason), _) => end_tenant(system, running, reason),
        (None, Some(process)) => end_process(system, index, process, obituary.kind),
        (None, None) => {}
    }
}

/// One block on the console, and a line in the tenant's log.
fn tell(system: &System, obituary: &Obituary, index: Option<usize>, process: Option<&Process>) {
    let (engine, failure) = (system.engine, &obituary.failure);
    let tenant = index.and_then(|index| system.machine.tenants.get(index)).map_or("?", |tenant| tenant.name.as_str());
    let who = process.map_or(String::from("no single process"), |process| format!("process {}", process.id()));
    let work = match obituary.kind {
        Lost::Thread => "a thread",
        Lost::Request => "a request",
    };
    let resource = engine.resource_name(obituary.resource);
    let failed_in = engine.resource_name(obituary.failed_in);
    log::error!(target: "contained", "a kernel failure in work for tenant {tenant}, {who}: {}", failure.message());
    log::error!(target: "contained", "task {} of {resource} ({work}), in {failed_in}, activity {}", obituary.task, obituary.activity.0);
    for (depth, place) in failure.trace().iter().enumerate() {
        log::error!(target: "trace", "{depth} {place:#018x}");
    }
    log::error!(target: "contained", "the machine goes on");
    if let Some(running) = index.and_then(tenants::running) {
        let line = format!("gyre: {who} was ended by a failure of the kernel: {}\n", failure.message());
        running.files.log.append(line.as_bytes());
    }
}

/// The process that an activity is, where it is one.
fn process_of(running: &Running, activity: ActivityId) -> Option<Arc<Process>> {
    let tree = running.tenant.tree.lock_unless_lost()?;
    let mut found = tree.processes();
    drop(tree);
    found.retain(|process| process.activity() == activity);
    // The tenant's own activity stands for all processes that have none of their own.
    if found.len() == 1 { found.pop() } else { None }
}

/// Starts the end of a process, or notes one more thread of one that ends.
fn end_process(system: &'static System, index: usize, process: Arc<Process>, kind: Lost) {
    let (activity, lost) = (process.activity(), usize::from(kind == Lost::Thread));
    {
        let mut ending = ENDING.lock();
        if let Some((_, threads)) = ending.iter_mut().find(|(ended, _)| *ended == activity) {
            *threads = threads.saturating_add(lost);
            drop(ending);
            return process.threads_changed.wake_all();
        }
        ending.push((activity, lost));
    }
    system.engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        let ended = bury(system, &process).await;
        ENDING.lock().retain(|(ended, _)| *ended != activity);
        let Some(running) = tenants::running(index) else { return };
        if ended.is_err() {
            end_tenant(system, running, "the process cannot be ended alone");
        }
    });
}

/// Ends a process from outside: all its threads are killed, those that are lost are removed.
async fn bury(system: &'static System, process: &Arc<Process>) -> Result<(), Gone> {
    let activity = process.activity();
    let killed = process.clone();
    step(system, activity, async move { killed.end(SIGKILL) }).await?;
    let left = process.clone();
    step(system, activity, async move { left.threads_changed.until(|| are_lost_alone(&left)).await }).await?;
    if process.is_over() {
        return Ok(());
    }
    let held = process.clone();
    // Files and memory may hold what the failure has left closed: then they are lost, and the process ends all the same.
    let _ = step(system, activity, async move { exit::close_files(&held).await }).await;
    let held = process.clone();
    let _ = step(system, activity, async move { exit::give_up_memory(&held).await }).await;
    let removed = process.clone();
    step(system, activity, async move { exit::remove_all(&removed) }).await
}

/// Something once a process has no threads but lost ones.
fn are_lost_alone(process: &Process) -> Option<()> {
    let ending = ENDING.lock().iter().find(|(ended, _)| *ended == process.activity()).map(|(_, threads)| *threads);
    let left = process.threads.lock().len();
    (left <= ending.unwrap_or(0)).then_some(())
}

/// Does something for an activity, bounded in time.
///
/// # Errors
/// [`Gone`] where it failed, or took too long.
async fn step(
    system: &'static System,
    activity: ActivityId,
    work: impl Future<Output = ()> + 'static,
) -> Result<(), Gone> {
    let (reply, call) = reply_pair::<Result<(), Gone>>();
    let resource = system.engine.resource("process").unwrap_or(ResourceId::RUNTIME);
    let work = async move {
        work.await;
        Ok(())
    };
    system.engine.spawn_for(resource, activity, keep(reply, work));
    match select(call, sleep_ns(STEP_NS_MAX)).await {
        Either::First(done) => done,
        Either::Second(()) => Err(Gone),
    }
}

/// Ends a tenant as a whole; nobody touches what its processes share from now on.
fn end_tenant(system: &'static System, running: &'static Running, reason: &'static str) {
    if running.failures.has_ended.swap(true, Ordering::AcqRel) {
        return;
    }
    let name = running.tenant.name();
    log::error!(target: "contained", "tenant {name} ends: {reason}");
    running.files.log.append(format!("gyre: the tenant ends: {reason}\n").as_bytes());
    let resource = ResourceId::RUNTIME;
    system.engine.spawn_for(resource, ActivityId::INFRASTRUCTURE, async move {
        let activity = running.tenant.activity();
        let killed = step(system, activity, async move {
            let processes = running.tenant.tree.lock().processes();
            processes.iter().for_each(|process| process.end(SIGKILL));
        });
        // What cannot be told to end is dropped below.
        let _ = killed.await;
        let _ = step(system, activity, all_over(running)).await;
        let written = unmount(system, activity).await;
        if system.engine.halt(activity).await.is_err() {
            log::error!(target: "contained", "work for tenant {name} goes on: there is no memory to end it");
        }
        native::note_end_of(activity);
        let state = if written.is_ok() { "its disk is in order" } else { "its disk was not written back" };
        log::error!(target: "contained", "tenant {name} has ended, {state}; {} failures", running.failures.count());
    });
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

async fn unmount(system: &'static System, activity: ActivityId) -> Result<(), Gone> {
    match ending::forget(activity) {
        Some(mounted) => {
            let (reply, call) = reply_pair::<Result<(), Gone>>();
            let work = async move { mounted.unmount(system).await.map_err(|_| Gone) };
            let resource = system.engine.resource("ext2").unwrap_or(ResourceId::RUNTIME);
            system.engine.spawn_for(resource, activity, keep(reply, work));
            match select(call, sleep_ns(UNMOUNT_NS_MAX)).await {
                Either::First(done) => done,
                Either::Second(()) => Err(Gone),
            }
        }
        None => Ok(()),
    }
}
