//! The boot, in order: cores, accounts, grid, devices, memory, tenants.
//!
//! Nothing runs before [`boot`] has returned from [`start`]: what the parts spawn waits in queues. So each part gets the parts that it
//! needs as they stand, and the [`Kernel`] is complete when the first task runs.

use crate::base::Base;
use crate::beats::BeatPages;
use crate::cards::Cards;
use crate::dying::Dying;
use crate::kernel::{KERNEL, Kernel};
use crate::pages::Pages;
use crate::payer::payer;
use crate::processes::Processes;
use crate::programs::Programs;
use crate::promises::Promises;
use crate::roll::Roll;
use crate::tables::Tables;
use crate::tenants::Tenants;
use crate::zones::{Above, links::Below};
use crate::{
    cells_in_time, containment, entitlements, heartbeat, memory, network, report, seats, starting, storage, tree, zones,
};
use alloc::boxed::Box;
use core::sync::atomic::AtomicBool;
use gyre_account::Accounts;
use gyre_assembly::file_systems::FileSystems;
use gyre_assembly::grid;
use gyre_channel::Channels;
use gyre_contract::boot::{LogLevel, Machine, Module};
use gyre_engine::Engine;
use gyre_x86_64::{boot_module, refuse, start_cores, zone};

/// Memory that the kernel's own tables and one small tenant need; with less, an allocation would fail before anybody could be told.
const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// Boots and becomes the first core; ends the instance if it cannot start.
pub fn boot() -> ! {
    match start() {
        Ok(engine) => engine.run_core(),
        Err(reason) => refuse(reason),
    }
}

/// Keeps a value for as long as the machine runs.
fn keep<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn start() -> Result<&'static Engine, &'static str> {
    check_memory()?;
    let module = keep(read_module()?);
    let machine = &module.machine;
    log::set_max_level(level(machine.log_level));
    let cores = bring_up_cores(usize::from(machine.cores));
    let base = base(module, places(machine, cores))?;
    entitlements::grant(base);
    cells_in_time::begin(base);
    log::info!("{}: {cores} cores, {} tenants", machine.name, machine.tenants.len());
    let kernel = kernel(base)?;
    containment::start(kernel);
    report::start(kernel);
    starting::start(kernel);
    heartbeat::start(kernel);
    release_cores(kernel);
    Ok(base.engine)
}

fn check_memory() -> Result<(), &'static str> {
    let zone = zone();
    if zone.memory.iter().take(zone.memory_count).map(|region| region.bytes).sum::<u64>() < MEMORY_BYTES_MIN {
        return Err("there is too little memory: less than 8 MiB beside the kernel and its boot module");
    }
    Ok(())
}

fn read_module() -> Result<Module<'static>, &'static str> {
    Module::decode(boot_module()).map_err(|error| {
        log::error!("{error}");
        "give the boot module that 'gyre' made for this kernel"
    })
}

fn level(configured: LogLevel) -> log::LevelFilter {
    match configured {
        LogLevel::Error => log::LevelFilter::Error,
        LogLevel::Warn => log::LevelFilter::Warn,
        LogLevel::Info => log::LevelFilter::Info,
        LogLevel::Debug => log::LevelFilter::Debug,
        LogLevel::Trace => log::LevelFilter::Trace,
    }
}

/// Makes the accounts of the description's activities, and the engine, with so many places for cores.
fn base(module: &'static Module<'static>, places: usize) -> Result<&'static Base, &'static str> {
    let machine = &module.machine;
    let accounts = keep(Accounts::new(places));
    gyre_x86_64::set_memory_meter(&accounts.activities);
    let planted = tree::plant(accounts, machine)?;
    let engine = grid::build(machine, accounts).map_err(|error| {
        log::error!("{error}");
        "this kernel cannot have the resources and policies of its description"
    })?;
    let (activities, groups) = (planted.tenants.leak(), planted.groups.leak());
    let (roll, payer) = (Roll::new(machine), payer(accounts, activities));
    Ok(keep(Base { engine, machine, module, roll, activities, groups, payer }))
}

/// Starts the parts, each after those that it needs.
fn kernel(base: &'static Base) -> Result<&'static Kernel, &'static str> {
    let processes = keep(Processes::new(base.engine, base.roll.at_once_max(), base.activities.len()));
    processes.start();
    let storage: &'static storage::Storage = keep(storage::start(base));
    let started = network::start(base);
    let network = started.network;
    let tenants = keep(Tenants::new(base.activities.len()));
    let file_systems = keep(FileSystems::default());
    let keepers = memory::Keepers { cache: storage.cache, tenants, file_systems };
    let seats = seats::start(base)?;
    let memory = memory::start(base, keepers);
    let channels: &'static Channels = keep(Channels::default());
    let payers = zones::payers(base)?;
    let links = zones::links::start(base, Below { started, channels, payers });
    let supervised = zones::start(base, Above { links, storage, payers })?;
    Ok(keep(Kernel {
        base,
        storage,
        network,
        memory,
        file_systems,
        processes,
        tables: Tables::default(),
        tenants,
        programs: Programs::default(),
        promises: Promises::new(&base.module.machine),
        beats: BeatPages::default(),
        pages: Pages::default(),
        traces: Default::default(),
        dying: Dying::default(),
        channels,
        behalf: Default::default(),
        links,
        cards: started.card.map(|(address, device)| Cards::begun_with(address, device)).unwrap_or_default(),
        supervised,
        zone_agent: gyre_object::SetOnce::new(),
        seats,
        services: gyre_object::SetOnce::new(),
        is_ending: AtomicBool::new(false),
    }))
}

/// Starts the cores; each waits halted until the kernel stands. Returns how many there are.
fn bring_up_cores(wanted: usize) -> usize {
    let found = start_cores(|_| {
        loop {
            if let Some(kernel) = KERNEL.get() {
                kernel.base.engine.run_core();
            }
            gyre_x86_64::idle();
            gyre_x86_64::take_events();
        }
    });
    let wanted = if gyre_x86_64::zone_page().is_some() { zone().core_count } else { wanted };
    if found < wanted {
        log::warn!("the description asks for {wanted} cores, the machine has {found}");
    }
    found
}

/// Returns how many places for cores there are: a zone's description says how many it may grow to.
fn places(machine: &Machine, found: usize) -> usize {
    if gyre_x86_64::zone_page().is_some() { usize::from(machine.cores).max(found) } else { found }
}

/// Wakes the cores that wait for the kernel.
fn release_cores(kernel: &'static Kernel) {
    KERNEL.set(kernel);
    kernel.base.engine.online().for_each(gyre_x86_64::wake_core);
}
