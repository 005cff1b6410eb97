//! The start of the tenants: each gets its files and its first program, as work of its own activity.

use crate::change;
use crate::kernel::Kernel;
use crate::living;
use crate::services::Services;
use crate::start_error::StartError;
use crate::tenant_files::{self, Opened};
use crate::tenants::{Failures, Running};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_assembly::grid::id;
use gyre_contract::boot::{self, Program, Tenant as Description, User};
use gyre_contract::catalogue::Resource;
use gyre_contract::monitor::State;
use gyre_flow::Guard;
use gyre_linux::credentials::Credentials;
use gyre_linux::file::FileContext;
use gyre_linux::file::outside;
use gyre_linux::file::tenant_files::TenantFiles;
use gyre_linux::task::launch::Launch;
use gyre_linux::task::limits::ResourceLimits;
use gyre_linux::task::tree::Orphans;
use gyre_linux::tenant::TenantLimits;
use gyre_linux::{Errno, Process, Tenant};
use gyre_tmpfs::Tmpfs;

/// Starts all tenants, each as work of its own activity.
pub fn start(kernel: &'static Kernel) {
    kernel.services.set(Box::leak(Box::new(Services::new(kernel))));
    for (index, description) in kernel.base.roll.present() {
        start_one(kernel, index, description);
    }
}

/// Starts one tenant, as work of its activity.
pub fn start_one(kernel: &'static Kernel, index: usize, description: &'static Description) {
    let (Some(activity), Some(services)) = (kernel.base.activities.get(index), kernel.services.get()) else { return };
    let work = run(kernel, services, index, description);
    kernel.base.engine.spawn_for(id(Resource::Process), *activity, work);
}

/// Starts a tenant, and its program as often as its owner wishes.
async fn run(kernel: &'static Kernel, services: &'static Services, index: usize, description: &'static Description) {
    match start_tenant(kernel, services, index, description).await {
        Ok(running) => living::live(kernel, index, description, running).await,
        Err(error) => {
            let program = description.program.as_ref().and_then(|program| program.argv.first());
            let program = program.map_or("none", String::as_str);
            log::error!("tenant {} (program {program}) does not run: {error}", description.name);
            kernel.tenants.set_state(index, State::Failed { why: alloc::format!("{error} (program {program})") });
        }
    }
}

async fn start_tenant(
    kernel: &'static Kernel,
    services: &'static Services,
    index: usize,
    description: &'static Description,
) -> Result<&'static Running, StartError> {
    let activity = kernel.base.activities.get(index).ok_or(StartError::NoDisk)?;
    let Opened { files, memory } = tenant_files::open(kernel, services.passage, index).await?;
    let limits = change::limits(kernel, index).unwrap_or_else(|| described_limits(description));
    let bare = FileContext::bare(&files)?;
    let tenant = Tenant::new(&description.name, *activity, services, bare, limits);
    let tenant = tenant.map_err(|_| StartError::OutOfMemory)?;
    *tenant.flow_guard.lock() = flow_guard(kernel, *activity, description);
    if description.orphans == boot::Orphans::Kernel {
        tenant.tree.lock().set_orphans(Orphans::Tenant);
    }
    let running = running(&tenant, &files, memory);
    kernel.tenants.begin(index, running);
    Ok(running)
}

/// Starts the program of a tenant that has begun.
///
/// # Errors
/// Those of execve, and of its working directory.
pub async fn start_program(
    description: &Description,
    program: &Program,
    running: &Running,
) -> Result<Arc<Process>, StartError> {
    let files = FileContext::new(&running.files)?;
    outside::enter(&files, program.directory.as_bytes()).await.map_err(|_| StartError::NoDirectory)?;
    let process = running.tenant.launch(launch(description, program, files)).await?;
    log::info!("{}: {} runs as process {}", description.name, program_name(program), process.id());
    Ok(process)
}

fn described_limits(description: &Description) -> TenantLimits {
    let most = description.limits.processes as usize;
    TenantLimits { processes: most, threads: most }
}

/// Returns the overload controller of a tenant's flows. It keeps the delay of the one at its listeners, which may have changed since the machine
/// began and outlives the tenant's programs.
fn flow_guard(kernel: &Kernel, activity: ActivityId, description: &Description) -> Option<Arc<Guard>> {
    let present = kernel.network.and_then(|network| network.net.overload_delay_of(activity));
    description.overload.map(|overload| Arc::new(Guard::new(present.unwrap_or(overload.delay_ns), EARLY, now_ns)))
}

/// The error of flows that end early: EAGAIN.
const EARLY: i32 = Errno::EAGAIN.0;

/// The clock of overload controllers.
fn now_ns() -> u64 {
    let ns = u128::from(gyre_machine::now())
        .saturating_mul(1_000_000)
        .checked_div(u128::from(gyre_machine::cycles_per_ms()));
    ns.unwrap_or(0) as u64
}

fn running(tenant: &Arc<Tenant>, files: &Arc<TenantFiles>, memory: Vec<&'static Tmpfs>) -> &'static Running {
    let (tenant, files) = (tenant.clone(), files.clone());
    let running = Running { tenant, files, memory, failures: Failures::default() };
    let running: &'static Running = Box::leak(Box::new(running));
    let name = |what: &str| &*alloc::format!("{}: {what}", running.tenant.name()).leak();
    gyre_object::register_lock(name("processes"), &running.tenant.tree);
    gyre_object::register_lock(name("futexes"), running.tenant.futexes.lock());
    running
}

/// Returns the credentials that a program begins with.
fn credentials(user: &User) -> Credentials {
    Credentials { groups: user.groups.clone(), ..Credentials::of_user(user.user, user.group) }
}

fn program_name(program: &Program) -> &str {
    program.argv.first().map_or("", String::as_str)
}

/// Says what the personality is to start as the first program of a tenant.
fn launch(description: &Description, program: &Program, files: Arc<FileContext>) -> Launch {
    let bytes = |list: &Vec<String>| list.iter().map(|text| text.as_bytes().to_vec()).collect();
    Launch {
        path: program_name(program).as_bytes().to_vec(),
        arguments: bytes(&program.argv),
        environment: bytes(&program.environment),
        files,
        credentials: credentials(&program.user),
        limits: limits(description),
        terminal: None,
    }
}

/// Returns the limits that a tenant's first programs begin with.
pub fn limits(description: &Description) -> ResourceLimits {
    ResourceLimits::with_files(u64::from(description.limits.files))
}
