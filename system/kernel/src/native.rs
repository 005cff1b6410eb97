//! The native calls: figures, programs in tenants, logs, changes. Only the system tenant may make them, but for those that give a
//! process its own figures.

use crate::assembly::System;
use crate::memory;
use crate::tenants::{self, Running};
use crate::{change, ending, figures, snapshot};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_config::boot::TenantKind;
use gyre_config::native::{
    CHECKPOINT, Change, END, EVICT, FIGURES, FIGURES_MAP, FLOW, FLOW_CLOSE, FLOW_SOURCE, LOG, OWN_TENANT, SET,
    SNAPSHOT, SPAWN, STREAM, STREAM_READ, STREAM_WRITE, SpawnRequest, TERMINATE, WAIT,
};
use gyre_linux::file::FileContext;
use gyre_linux::file::calls::flow;
use gyre_linux::signal::info::SignalInfo;
use gyre_linux::signal::number::SIGKILL;
use gyre_linux::task::launch::Launch;
use gyre_linux::task::limits::ResourceLimits;
use gyre_linux::{Arguments, Errno, Outcome, Process, Thread};
use gyre_object::SpinLock;

#[cfg(feature = "fault-injection")]
use gyre_config::native::FAIL;

/// Longest argument of a spawn call, bytes.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Longest path (PATH_MAX).
const PATH_BYTES_MAX: usize = 4096;
/// Most bytes of a log read at once.
const LOG_BYTES_MAX: usize = 64 * 1024;
/// Where a bare name of a program is looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs started by spawn and not waited for yet, by the number that the caller knows them by. Numbers are not used again, so
/// that a signal that comes late never meets another program.
static STARTED: SpinLock<BTreeMap<u64, Arc<Process>>> = SpinLock::new(BTreeMap::new());
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Serves a native call.
pub async fn call(system: &'static System, thread: Arc<Thread>, number: u64, arguments: Arguments) -> Outcome {
    if let Some(outcome) = flow_call(&thread, number, arguments).await {
        return outcome;
    }
    match number {
        FIGURES => return figures::read(system, &thread, arguments).await,
        FIGURES_MAP => return figures::map(system, &thread, arguments).await,
        #[cfg(feature = "fault-injection")]
        FAIL => return crate::fault::inject(system, &thread, arguments),
        CHECKPOINT | EVICT => return keep(system, &thread, number, arguments).await,
        _ if !is_system(system, &thread) => return Err(Errno::EPERM),
        _ => {}
    }
    match number {
        SNAPSHOT => take_snapshot(system, &thread, arguments).await,
        SPAWN => spawn(system, &thread, arguments).await,
        WAIT => wait(&thread, arguments).await,
        LOG => read_log(&thread, arguments).await,
        TERMINATE => terminate(arguments),
        SET => set(system, &thread, arguments).await,
        END => ending::begin(system, arguments.word(0)).then_some(0).ok_or(Errno::EALREADY),
        _ => Err(Errno::ENOSYS),
    }
}

/// The calls of flows and streams, which every program may make.
async fn flow_call(thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Option<Outcome> {
    Some(match number {
        FLOW => flow::flow(thread, arguments).await,
        FLOW_SOURCE => flow::flow_source(thread, arguments).await,
        FLOW_CLOSE => flow::flow_close(thread, arguments).await,
        STREAM => flow::stream(thread, arguments).await,
        STREAM_WRITE => flow::stream_write(thread, arguments).await,
        STREAM_READ => flow::stream_read(thread, arguments).await,
        _ => return None,
    })
}

/// Makes files durable; for EVICT drops them from memory too.
async fn keep(system: &'static System, thread: &Thread, number: u64, arguments: Arguments) -> Outcome {
    let running = match arguments.word(0) {
        OWN_TENANT => tenants::of_activity(thread.tenant().activity()),
        index if is_system(system, thread) => tenants::running(usize::try_from(index).map_err(|_| Errno::ENOENT)?),
        _ => return Err(Errno::EPERM),
    };
    let running = running.ok_or(Errno::ENOENT)?;
    if arguments.size(2) > PATH_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let path = thread.read_vec(arguments.word(1), arguments.size(2)).await?;
    let path = (!path.is_empty()).then_some(path.as_slice());
    if let (EVICT, Some(path)) = (number, path) {
        return gyre_linux::file::keep::evict(&running.files, path).await;
    }
    gyre_linux::file::keep::checkpoint(&running.files, path).await?;
    if number == CHECKPOINT {
        return Ok(0);
    }
    let memory = memory::client().ok_or(Errno::ENOSYS)?;
    let activity = running.tenant.activity();
    let mut bytes = 0;
    // Twice: what address spaces give back in the first round, the cache can drop in the second.
    for _ in 0..2 {
        bytes = u64::saturating_add(bytes, memory.take_back(activity, u64::MAX).await.map_err(|_| Errno::EIO)?);
    }
    Ok(bytes)
}

fn is_system(system: &System, thread: &Thread) -> bool {
    let index = system.activities.iter().position(|activity| *activity == thread.tenant().activity());
    let tenant = index.and_then(|index| system.machine.tenants.get(index));
    tenant.is_some_and(|tenant| tenant.kind == TenantKind::System)
}

async fn take_snapshot(system: &'static System, thread: &Thread, arguments: Arguments) -> Outcome {
    let figures = system.engine.snapshot().await.map_err(|_| Errno::ENOMEM)?;
    let bytes = postcard::to_allocvec(&snapshot::export(system, &figures)).map_err(|_| Errno::ENOMEM)?;
    if bytes.len() <= arguments.size(1) {
        thread.copy_out(arguments.word(0), &bytes).await?;
    }
    Ok(bytes.len() as u64)
}

async fn spawn(system: &'static System, thread: &Thread, arguments: Arguments) -> Outcome {
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let request: SpawnRequest = postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)?;
    let index = system.machine.tenants.iter().position(|tenant| tenant.name == request.tenant).ok_or(Errno::ENOENT)?;
    let running = tenants::running(index).ok_or(Errno::ENOENT)?;
    let environment = environment(system, index, &request);
    let limits = system.machine.tenants.get(index).map(tenants::limits).unwrap_or_default();
    let mut last = Errno::ENOENT;
    for path in candidates(&request, &environment) {
        match launch(thread, running, &request, (&environment, limits), path).await {
            Ok(process) => return Ok(remember(process)),
            Err(Errno::ENOENT) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The environment asked for, or that of the tenant's own program with a usable PATH.
fn environment(system: &System, index: usize, request: &SpawnRequest) -> Vec<String> {
    let own = system.machine.tenants.get(index).and_then(|tenant| tenant.program.as_ref());
    let mut environment = match (request.environment.is_empty(), own) {
        (true, Some(program)) => program.environment.clone(),
        _ => request.environment.clone(),
    };
    if !environment.iter().any(|entry| entry.starts_with("PATH=")) {
        environment.push(alloc::format!("PATH={PATH}"));
    }
    environment
}

/// Where the program may be: as named, or in the directories of PATH.
fn candidates(request: &SpawnRequest, environment: &[String]) -> Vec<String> {
    let name = request.argv.first().map_or("", String::as_str);
    if name.contains('/') {
        return alloc::vec![name.into()];
    }
    let path = environment.iter().find_map(|entry| entry.strip_prefix("PATH=")).unwrap_or(PATH);
    path.split(':').filter(|_| !name.is_empty()).map(|directory| alloc::format!("{directory}/{name}")).collect()
}

async fn launch(
    thread: &Thread,
    running: &Running,
    request: &SpawnRequest,
    (environment, limits): (&[String], ResourceLimits),
    path: String,
) -> Result<Arc<Process>, Errno> {
    let files = FileContext::bare(&running.files)?;
    let own = thread.process().files();
    for descriptor in [request.stdin, request.stdout, request.stderr] {
        files.table().install(own.table().get(descriptor)?, false, 0, 3)?;
    }
    let bytes = |list: &[String]| list.iter().map(|text| text.as_bytes().to_vec()).collect();
    let launch = Launch {
        path: path.into_bytes(),
        arguments: bytes(&request.argv),
        environment: bytes(environment),
        files,
        credentials: Default::default(),
        limits,
    };
    running.tenant.launch(launch).await
}

fn remember(process: Arc<Process>) -> u64 {
    let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    STARTED.lock().insert(number, process);
    number
}

fn started(number: u64) -> Result<Arc<Process>, Errno> {
    STARTED.lock().get(&number).cloned().ok_or(Errno::ECHILD)
}

async fn wait(thread: &Thread, arguments: Arguments) -> Outcome {
    let number = arguments.word(0);
    let process = started(number)?;
    let status = thread.interruptible(process.ended.until(|| status_of(&process))).await?;
    STARTED.lock().remove(&number);
    Ok(u64::from(status.unsigned_abs()))
}

/// How a program ended; as by SIGKILL where its tenant did as a whole.
fn status_of(process: &Process) -> Option<i32> {
    match tenants::of_activity(process.tenant().activity()) {
        Some(_) => process.is_over().then(|| process.end_status()).flatten(),
        None => Some(SIGKILL),
    }
}

/// A tenant was ended as a whole: who waits for its programs hears of it.
pub fn note_end_of(tenant: ActivityId) {
    let started: Vec<Arc<Process>> = STARTED.lock().values().cloned().collect();
    started.iter().filter(|process| process.tenant().activity() == tenant).for_each(|process| process.ended.wake_all());
}

async fn read_log(thread: &Thread, arguments: Arguments) -> Outcome {
    let index = arguments.size(0);
    let running = tenants::begun(index).ok_or(Errno::ENOENT)?;
    let room = arguments.size(3).checked_sub(8).ok_or(Errno::EINVAL)?.min(LOG_BYTES_MAX);
    let (position, bytes) = running.files.log.read(arguments.word(1), room);
    let mut answer = Vec::from(position.to_le_bytes());
    answer.extend_from_slice(&bytes);
    thread.copy_out(arguments.word(2), &answer).await?;
    Ok(answer.len() as u64)
}

async fn set(system: &'static System, thread: &Thread, arguments: Arguments) -> Outcome {
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let wish: Change = postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)?;
    change::make(system, &wish).map(|()| 0)
}

fn terminate(arguments: Arguments) -> Outcome {
    let process = started(arguments.word(0))?;
    tenants::of_activity(process.tenant().activity()).ok_or(Errno::ESRCH)?;
    process.send(SignalInfo::sent(arguments.int(1), 0, 0, 0))?;
    Ok(0)
}
