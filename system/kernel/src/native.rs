//! The native calls: figures, programs in tenants, logs, changes, the end of the machine.
//!
//! The numbers, arguments and errors are those of `gyre_contract::native`. [`call`] is the only entry: the personality hands every number
//! that is no Linux call to it, through `KernelServices::native`.
//!
//! Groups, in the order in which [`call`] tries them: flows and streams, CPU aggregates, then channels, for every program; a process' own figures and its tenant's
//! files (`checkpoint`, `evict`) and cells (`cell_leases`), for every program within its tenant; and all others, for the system tenant alone (EPERM).
//!
//! A program that `spawn` started is known by a number of [`crate::programs::Programs`] until `wait` has told how it ended. Calls of the
//! system tenant find a tenant by its index in the description; a tenant that was ended as a whole keeps only its log.

use crate::kernel::Kernel;
use crate::seats::device;
use crate::starting;
use crate::tenants::Running;
use crate::zones::calls as zones;
use crate::{aggregates, behalf, cells_in_time, ending, figures, goals, living, seats, snapshot, together, traces};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_cell_abi::ASK;
use gyre_cell_abi::device::{DEVICE_CLOSE, DEVICE_OPEN};
use gyre_contract::native::{
    CELL_LEASES, CELL_LIST, CELL_LOG, CELL_OFFER, CELL_POOL, CELL_REVOKE, CELLS, CHANGE, CHANGES, CHANNEL_ACCEPT,
    CHANNEL_CLOSE, CHANNEL_FIGURES, CHANNEL_FIGURES_BYTES, CHANNEL_MAP, CHANNEL_OPEN, CHANNEL_READ, CHANNEL_UNMAP,
    CHANNEL_WRITE, CHECKPOINT, Change, ChannelFigures, END, EVICT, FIGURES, FIGURES_MAP, FLOW, FLOW_CLOSE, FLOW_SOURCE,
    GOAL, GOALS, GRANT, LOG, OWN_TENANT, SET, SNAPSHOT, SPAWN, SPAWN_MASTER_SHIFT, STREAM, STREAM_READ, STREAM_WRITE,
    SpawnRequest, TERMINATE, TYPE, WAIT, ZONE_CONSOLE, ZONE_CONTROL, ZONE_LOG, ZONE_MODULE, ZONE_WISH, ZONES,
};
use gyre_contract::promise::Together;
use gyre_contract::snapshot_bytes;
use gyre_linux::file::FileContext;
use gyre_linux::file::calls::{channel, flow};
use gyre_linux::file::open_file::OpenFile;
use gyre_linux::file::outside::Pair;
use gyre_linux::signal::info::SignalInfo;
use gyre_linux::signal::number::SIGKILL;
use gyre_linux::task::launch::Launch;
use gyre_linux::task::limits::ResourceLimits;
use gyre_linux::{Arguments, Errno, Outcome, Process, Thread};

#[cfg(feature = "fault-injection")]
use gyre_contract::native::{ATTACK, FAIL};

/// Longest argument of a spawn call, bytes.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Longest path (PATH_MAX).
const PATH_BYTES_MAX: usize = 4096;
/// Most bytes of a log read at once.
const LOG_BYTES_MAX: usize = 64 * 1024;
/// Most bytes typed at once.
const TYPED_BYTES_MAX: usize = 4096;
/// Directories in which a bare name of a program is looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Serves a native call.
pub async fn call(kernel: &'static Kernel, thread: Arc<Thread>, number: u64, arguments: Arguments) -> Outcome {
    if let Some(outcome) = flow_call(kernel, &thread, number, arguments).await {
        return outcome;
    }
    if let Some(outcome) = aggregates::call(kernel, &thread, number, arguments).await {
        return outcome;
    }
    if let Some(outcome) = channel_call(kernel, &thread, number, arguments).await {
        return outcome;
    }
    match number {
        FIGURES => return figures::read(kernel, &thread, arguments).await,
        FIGURES_MAP => return figures::map(kernel, &thread, arguments).await,
        GOAL => return goals::map(kernel, &thread, arguments).await,
        #[cfg(feature = "fault-injection")]
        FAIL => return crate::fault::inject(kernel, &thread, arguments).await,
        #[cfg(feature = "fault-injection")]
        ATTACK => return crate::fault::attack(arguments),
        CELL_LEASES => return seats::leases::list(kernel, &thread, arguments).await,
        ASK => return seats::plain::ask::ask(kernel, &thread, arguments).await,
        DEVICE_OPEN => return device::open(kernel, &thread, arguments).await,
        DEVICE_CLOSE => return device::close(kernel, &thread, arguments).await,
        CHECKPOINT | EVICT => return keep(kernel, &thread, number, arguments).await,
        _ if !is_system(kernel, &thread) => return Err(Errno::EPERM),
        _ => {}
    }
    if let Some(outcome) = traces::call(kernel, &thread, number, arguments).await {
        return outcome;
    }
    match number {
        SNAPSHOT => take_snapshot(kernel, &thread, arguments).await,
        SPAWN => spawn(kernel, &thread, arguments).await,
        WAIT => wait(kernel, &thread, arguments).await,
        LOG => read_log(kernel, &thread, arguments).await,
        TERMINATE => terminate(kernel, arguments),
        TYPE => type_in(kernel, &thread, arguments).await,
        SET => set(kernel, &thread, arguments).await,
        CELL_LIST => seats::calls::list(kernel, &thread, arguments).await,
        CELL_LOG => seats::calls::log(kernel, &thread, arguments).await,
        CELL_OFFER => seats::calls::offer(kernel, &thread, arguments).await,
        CELL_POOL => seats::calls::pool(kernel, arguments),
        CELL_REVOKE => seats::calls::revoke(kernel, &thread, arguments).await,
        CELLS => cells_in_time::call(kernel, &thread, arguments).await,
        GOALS => goals::read(kernel, &thread, arguments).await,
        CHANGE => change(kernel, &thread, arguments).await,
        CHANGES => changes(kernel, &thread, arguments).await,
        ZONE_CONTROL => zones::control(kernel, &thread, arguments).await,
        ZONE_MODULE => zones::stage(kernel, &thread, arguments).await,
        ZONES => zones::show(kernel, &thread, arguments).await,
        ZONE_CONSOLE => zones::console(kernel, &thread, arguments).await,
        ZONE_LOG => zones::log(kernel, &thread, arguments).await,
        ZONE_WISH => zones::wish(kernel, &thread, arguments).await,
        END => ending::begin(kernel, arguments.word(0)).then_some(0).ok_or(Errno::EALREADY),
        _ => Err(Errno::ENOSYS),
    }
}

/// The calls of flows and streams, which every program may make.
async fn flow_call(
    kernel: &'static Kernel,
    thread: &Arc<Thread>,
    number: u64,
    arguments: Arguments,
) -> Option<Outcome> {
    Some(match number {
        FLOW => flow::flow(thread, aggregates::group(kernel.base.engine), arguments).await,
        FLOW_SOURCE => flow::flow_source(thread, arguments).await,
        FLOW_CLOSE => flow::flow_close(thread, arguments).await,
        STREAM => flow::stream(thread, arguments).await,
        STREAM_WRITE => flow::stream_write(thread, arguments).await,
        STREAM_READ => flow::stream_read(thread, arguments).await,
        _ => return None,
    })
}

/// The calls of channels, which every program may make.
async fn channel_call(
    kernel: &'static Kernel,
    thread: &Arc<Thread>,
    number: u64,
    arguments: Arguments,
) -> Option<Outcome> {
    Some(match number {
        CHANNEL_OPEN => {
            let own = kernel.base.description_of(thread.tenant().activity());
            let Some(own) = own else { return Some(Err(Errno::EPERM)) };
            let names = channel::Names { channels: kernel.channels, abroad: &kernel.links.trunks };
            channel::open(names, &own.name, thread, arguments).await
        }
        CHANNEL_CLOSE => channel::close(thread, arguments).await,
        CHANNEL_READ => channel::read(thread, arguments).await,
        CHANNEL_WRITE => channel::write(thread, arguments).await,
        CHANNEL_MAP => channel::map(thread, arguments).await,
        CHANNEL_UNMAP => channel::unmap(thread, arguments).await,
        CHANNEL_ACCEPT => channel::accept(thread, arguments).await,
        CHANNEL_FIGURES => channel::figures(thread, arguments, channel_figures).await,
        GRANT => behalf::grant(kernel, thread, arguments),
        _ => return None,
    })
}

fn channel_figures(seen: &gyre_channel::Figures) -> [u8; CHANNEL_FIGURES_BYTES] {
    let figures = ChannelFigures {
        pages: seen.pages as u64,
        received: seen.received,
        received_bytes: seen.received_bytes,
        sent: seen.sent,
        sent_bytes: seen.sent_bytes,
        waiting: seen.waiting as u64,
        next_bytes: seen.next_bytes as u64,
    };
    figures.encode(&seen.peer)
}

/// Makes files durable; for EVICT drops them from memory too.
async fn keep(kernel: &'static Kernel, thread: &Thread, number: u64, arguments: Arguments) -> Outcome {
    let running = match arguments.word(0) {
        OWN_TENANT => kernel.tenants.of_activity(thread.tenant().activity()),
        index if is_system(kernel, thread) => {
            kernel.tenants.running(usize::try_from(index).map_err(|_| Errno::ENOENT)?)
        }
        _ => return Err(Errno::EPERM),
    };
    let running = running.ok_or(Errno::ENOENT)?;
    if arguments.size(2) > PATH_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let path = thread.read_vec(arguments.word(1), arguments.size(2)).await?;
    let path = (!path.is_empty()).then_some(path.as_slice());
    if let (EVICT, Some(path)) = (number, path) {
        return gyre_linux::file::checkpoint::evict(&running.files, path).await;
    }
    gyre_linux::file::checkpoint::checkpoint(&running.files, path).await?;
    if number == CHECKPOINT {
        return Ok(0);
    }
    let activity = running.tenant.activity();
    let mut bytes = 0;
    // Twice: what address spaces give back in the first round, the cache can drop in the second.
    for _ in 0..2 {
        bytes = u64::saturating_add(
            bytes,
            kernel.memory.client.take_back(activity, u64::MAX).await.map_err(|_| Errno::EIO)?,
        );
    }
    Ok(bytes)
}

fn is_system(kernel: &Kernel, thread: &Thread) -> bool {
    kernel.base.is_system(thread.tenant().activity())
}

async fn take_snapshot(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let figures = kernel.base.engine.snapshot().await.map_err(|_| Errno::ENOMEM)?;
    let figures = if gyre_x86_64::zone_page().is_some() { figures.without_time_away() } else { figures };
    let snapshot = snapshot::export(kernel, &figures).await;
    let bytes = snapshot_bytes::to_bytes(&snapshot, gyre_message::yield_now).await.map_err(|_| Errno::ENOMEM)?;
    if bytes.len() <= arguments.size(1) {
        thread.copy_out(arguments.word(0), &bytes).await?;
    }
    Ok(bytes.len() as u64)
}

async fn spawn(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let request: SpawnRequest = postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)?;
    let index = kernel.base.roll.find(&request.tenant).ok_or(Errno::ENOENT)?;
    let running = kernel.tenants.running(index).ok_or(Errno::ENOENT)?;
    let environment = environment(kernel, index, &request);
    let limits = kernel.base.roll.tenant(index).map(starting::limits).unwrap_or_default();
    let streams = Streams::of(thread, running, &request).await?;
    let mut last = Errno::ENOENT;
    for path in candidates(&request, &environment) {
        match launch(running, &request, &environment, limits, (path, &streams)).await {
            Ok(process) => return streams.answer(thread, kernel.programs.add(process)),
            Err(Errno::ENOENT) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The environment of the tenant's own program with what is asked for in place of or beside it, and a usable PATH.
fn environment(kernel: &Kernel, index: usize, request: &SpawnRequest) -> Vec<String> {
    let own = living::duty(kernel, index);
    let mut environment = own.map_or_else(Vec::new, |duty| duty.program.environment.clone());
    for entry in &request.environment {
        let name = entry.split_inclusive('=').next().unwrap_or_default();
        environment.retain(|other| !other.starts_with(name));
        environment.push(entry.clone());
    }
    if !environment.iter().any(|entry| entry.starts_with("PATH=")) {
        environment.push(alloc::format!("PATH={PATH}"));
    }
    environment
}

/// Returns the paths that the program may have: as named, or in the directories of PATH.
fn candidates(request: &SpawnRequest, environment: &[String]) -> Vec<String> {
    let name = request.argv.first().map_or("", String::as_str);
    if name.contains('/') {
        return alloc::vec![name.into()];
    }
    let path = environment.iter().find_map(|entry| entry.strip_prefix("PATH=")).unwrap_or(PATH);
    path.split(':').filter(|_| !name.is_empty()).map(|directory| alloc::format!("{directory}/{name}")).collect()
}

/// The standard streams of a program.
struct Streams {
    files: [Arc<OpenFile>; 3],
    terminal: Option<Pair>,
}

impl Streams {
    /// Returns the caller's descriptors, or a terminal if that is asked for.
    async fn of(thread: &Thread, running: &Running, request: &SpawnRequest) -> Result<Streams, Errno> {
        if let Some(size) = request.terminal {
            let pair = Pair::new(&running.files, size).await?;
            let slave = || pair.slave.clone();
            return Ok(Streams { files: [slave(), slave(), slave()], terminal: Some(pair) });
        }
        let own = |descriptor| thread.process().files().table().get(descriptor);
        Ok(Streams { files: [own(request.stdin)?, own(request.stdout)?, own(request.stderr)?], terminal: None })
    }

    /// Gives the caller the terminal's other end, and answers the call.
    fn answer(self, thread: &Thread, number: u64) -> Outcome {
        let Some(pair) = self.terminal else { return Ok(number) };
        let master = thread.process().files().table().install(pair.master, true, 0, u64::MAX)?;
        Ok(number | u64::from(master.unsigned_abs()) << SPAWN_MASTER_SHIFT)
    }
}

async fn launch(
    running: &Running,
    request: &SpawnRequest,
    environment: &[String],
    limits: ResourceLimits,
    (path, streams): (String, &Streams),
) -> Result<Arc<Process>, Errno> {
    let files = FileContext::bare(&running.files)?;
    for file in &streams.files {
        files.table().install(file.clone(), false, 0, 3)?;
    }
    let bytes = |list: &[String]| list.iter().map(|text| text.as_bytes().to_vec()).collect();
    let launch = Launch {
        path: path.into_bytes(),
        arguments: bytes(&request.argv),
        environment: bytes(environment),
        files,
        credentials: Default::default(),
        limits,
        terminal: streams.terminal.as_ref().map(|pair| pair.terminal.clone()),
    };
    running.tenant.launch(launch).await
}

async fn wait(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let number = arguments.word(0);
    let process = kernel.programs.get(number)?;
    let status = thread.interruptible(process.ended.until(|| status_of(kernel, &process))).await?;
    kernel.programs.remove(number);
    Ok(u64::from(status.unsigned_abs()))
}

/// Returns how a program ended: as by SIGKILL if its tenant was ended as a whole, also if that lives again by now.
fn status_of(kernel: &Kernel, process: &Process) -> Option<i32> {
    let present = kernel.tenants.of_activity(process.tenant().activity());
    match present.filter(|running| Arc::ptr_eq(&running.tenant, process.tenant())) {
        Some(_) => process.is_over().then(|| process.end_status()).flatten(),
        None => Some(SIGKILL),
    }
}

async fn read_log(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let index = arguments.size(0);
    let running = kernel.tenants.begun(index).ok_or(Errno::ENOENT)?;
    let room = arguments.size(3).checked_sub(8).ok_or(Errno::EINVAL)?.min(LOG_BYTES_MAX);
    running.files.log.note_asked(arguments.word(1));
    let (position, bytes) = running.files.log.read(arguments.word(1), room);
    let mut answer = Vec::from(position.to_le_bytes());
    answer.extend_from_slice(&bytes);
    thread.copy_out(arguments.word(2), &answer).await?;
    Ok(answer.len() as u64)
}

async fn set(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let wish: Change = postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)?;
    let together = Together { by: "set".into(), reason: String::new(), changes: alloc::vec![wish] };
    together::make(kernel, &together).map(|_| 0).map_err(|refused| together::errno(&refused))
}

async fn change(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let wish: Together = postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)?;
    let answer = together::make(kernel, &wish);
    let bytes = postcard::to_allocvec(&answer).map_err(|_| Errno::ENOMEM)?;
    if bytes.len() > arguments.size(3) {
        return Err(Errno::ENOSPC);
    }
    thread.copy_out(arguments.word(2), &bytes).await?;
    Ok(bytes.len() as u64)
}

async fn changes(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let records = kernel.promises.records(arguments.word(0), arguments.size(2).min(REQUEST_BYTES_MAX));
    let bytes = postcard::to_allocvec(&records).map_err(|_| Errno::ENOMEM)?;
    if bytes.len() > arguments.size(2) {
        return Err(Errno::ENOSPC);
    }
    thread.copy_out(arguments.word(1), &bytes).await?;
    Ok(bytes.len() as u64)
}

/// Types on the console of a tenant.
async fn type_in(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let index = usize::try_from(arguments.word(0)).map_err(|_| Errno::ENOENT)?;
    let running = kernel.tenants.running(index).ok_or(Errno::ENOENT)?;
    if arguments.size(2) > TYPED_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(1), arguments.size(2)).await?;
    running.files.console.input(&bytes).map(|taken| taken as u64)
}

fn terminate(kernel: &Kernel, arguments: Arguments) -> Outcome {
    let process = kernel.programs.get(arguments.word(0))?;
    kernel.tenants.of_activity(process.tenant().activity()).ok_or(Errno::ESRCH)?;
    process.send_from_outside(SignalInfo::sent(arguments.int(1), 0, 0, 0))?;
    Ok(0)
}
