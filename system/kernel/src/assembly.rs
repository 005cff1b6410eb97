//! What happens at boot, in order.

use crate::{containment, entitlements, host, memory, network, processes, storage, tenants, tree};
use alloc::boxed::Box;
use gyre_account::{Accounts, ActivityId};
use gyre_assembly::grid;
use gyre_config::boot::{Machine, Module};
use gyre_engine::Engine;
use gyre_x86_64::{NO_START_CODE, boot_module, shut_down, start_cores, zone};

gyre_x86_64::entry!(main);

/// Memory that the kernel's own tables and one small tenant need; with less, an allocation would fail before anybody could be told.
const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// What the parts of the system are put together from.
pub struct System {
    /// Queues, schedulers, tasks.
    pub engine: &'static Engine,
    /// The description.
    pub machine: &'static Machine,
    /// Its embedded files.
    pub module: &'static Module<'static>,
    /// The activities of the tenants, in the description's order.
    pub activities: &'static [ActivityId],
    /// Those of the groups above them.
    pub groups: &'static [ActivityId],
}

fn main() -> ! {
    match start() {
        Ok(engine) => engine.run_core(),
        Err(reason) => {
            log::error!("the machine cannot start: {reason}");
            shut_down(NO_START_CODE)
        }
    }
}

fn start() -> Result<&'static Engine, &'static str> {
    let zone = zone();
    if zone.memory.iter().take(zone.memory_count).map(|region| region.bytes).sum::<u64>() < MEMORY_BYTES_MIN {
        return Err("there is too little memory: less than 8 MiB beside the kernel and its boot module");
    }
    let module: &'static Module<'static> = Box::leak(Box::new(read_module()?));
    let machine = &module.machine;
    log::set_max_level(level(machine.log_level));
    let cores = bring_up_cores(usize::from(machine.cores));
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(cores)));
    gyre_x86_64::set_memory_meter(&accounts.activities);
    let planted = tree::plant(accounts, machine)?;
    let config = grid::configure(machine).map_err(|_| "a policy of the description cannot be built")?;
    let engine = Engine::build(config, accounts).map_err(|_| "the grid of the description cannot be built")?;
    let (activities, groups) = (planted.tenants.leak(), planted.groups.leak());
    let system: &'static System = Box::leak(Box::new(System { engine, machine, module, activities, groups }));
    entitlements::grant(system);
    host::remember_tenants(system.activities);
    containment::start(system);
    log::info!("{}: {cores} cores, {} tenants", machine.name, machine.tenants.len());
    processes::start(system);
    let disks = storage::start(system);
    let net = network::start(system);
    memory::start(system, disks.cache);
    tenants::start(system, disks, net);
    release_cores(engine);
    Ok(engine)
}

fn read_module() -> Result<Module<'static>, &'static str> {
    Module::decode(boot_module()).map_err(|error| {
        log::error!("{error}");
        "give the boot module that 'gyre' made for this kernel"
    })
}

fn level(configured: gyre_config::boot::LogLevel) -> log::LevelFilter {
    use gyre_config::boot::LogLevel;
    match configured {
        LogLevel::Error => log::LevelFilter::Error,
        LogLevel::Warn => log::LevelFilter::Warn,
        LogLevel::Info => log::LevelFilter::Info,
        LogLevel::Debug => log::LevelFilter::Debug,
        LogLevel::Trace => log::LevelFilter::Trace,
    }
}

/// The engine for the other cores, which wait for it.
static CORES: gyre_object::SetOnce<&'static Engine> = gyre_object::SetOnce::new();

/// Starts the cores; each waits halted until the grid stands.
fn bring_up_cores(wanted: usize) -> usize {
    let found = start_cores(|_| {
        loop {
            if let Some(engine) = CORES.get() {
                engine.run_core();
            }
            gyre_x86_64::idle();
            gyre_x86_64::take_events();
        }
    });
    if found < wanted {
        log::warn!("the description asks for {wanted} cores, the machine has {found}");
    }
    found
}

/// Wakes the cores that wait for the grid.
fn release_cores(engine: &'static Engine) {
    CORES.set(engine);
    (1..engine.cores()).for_each(gyre_x86_64::wake_core);
}
