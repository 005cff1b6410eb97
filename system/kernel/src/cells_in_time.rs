//! Cells in time: the tenants' cells of the description, their changes at run time, and their figures.
//!
//! The engine knows cells by activities; here they have the names of tenants. A change is made of the cells that are there and of those that are
//! asked for, and the engine admits the whole or refuses it.
//!
//! [`begin`] is called once, by the start of the kernel. [`call`] serves the native call of the system tenant. A cell of an activity that has
//! ended is left out of the next table.
//!
//! Left out: admission (`gyre_schedulers::multiplexer`), the change itself (`gyre_engine::cells`).

use crate::base::Base;
use crate::kernel::Kernel;
use crate::together;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_contract::boot::Tenant;
use gyre_contract::cells::{Answer, Cell, CellView, CoreFigures, Refusal, Request, Spread, Swap, Timing, View, Why};
use gyre_contract::native::Change;
use gyre_contract::promise::{self, Together};
use gyre_engine::{CellsError, Engine};
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use gyre_schedulers::multiplexer::table::REST;
use gyre_schedulers::multiplexer::{self, CellPlan, Delays, Epoch};

/// A table holds so much later than it is asked for, ns: timers of an emulator are late by more than a millisecond at times.
const MARGIN_NS: u64 = 5_000_000;
/// Longest request, bytes.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// Sets the cells of the description. To be called before anybody works.
pub fn begin(base: &Base) {
    let wish: Request = base.machine.tenants.iter().filter_map(described).collect();
    if wish.is_empty() {
        return;
    }
    match change(base, &wish) {
        Ok(()) => log::info!("{} cells in time", wish.len()),
        Err(refusal) => log::error!("no cells: {refusal}"),
    }
}

fn described(tenant: &Tenant) -> Option<(String, Option<Cell>)> {
    tenant.cell.map(|cell| (tenant.name.clone(), Some(cell)))
}

/// `cells(request, length, answer, room)`.
pub async fn call(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let request: Request = postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)?;
    let done = if request.is_empty() { Ok(()) } else { recorded(kernel, request) };
    let answer: Answer = done.map(|()| view(kernel.base));
    let encoded = postcard::to_allocvec(&answer).map_err(|_| Errno::ENOMEM)?;
    if encoded.len() > arguments.size(3) {
        return Err(Errno::ENOSPC);
    }
    thread.copy_out(arguments.word(2), &encoded).await?;
    Ok(encoded.len() as u64)
}

/// Makes a change of cells alone, as any change is made.
fn recorded(kernel: &'static Kernel, request: Request) -> Result<(), Refusal> {
    let changes = request.into_iter().map(|(tenant, cell)| Change::Cell { tenant, cell }).collect();
    let wish = Together { by: "cells".into(), reason: String::new(), changes };
    together::make(kernel, &wish).map(drop).map_err(|refused| match refused.why {
        promise::Refusal::Cell(refusal) => refusal,
        promise::Refusal::Parts => refusal("", Why::TooMany),
        _ => refusal("", Why::Busy),
    })
}

fn refusal(tenant: &str, why: Why) -> Refusal {
    Refusal { tenant: tenant.into(), why }
}

/// Makes a change of some tenants' cells; the others' stay. After the kernel's start only [`together`] calls it.
///
/// # Errors
/// [`Refusal`]: nothing was changed.
pub fn change(base: &Base, wish: &Request) -> Result<(), Refusal> {
    let mut plans = present(base.engine);
    for (tenant, cell) in wish {
        let activity = activity_of(base, tenant)?;
        let place = plans.iter().position(|plan| plan.id == activity.0);
        match (place, cell.map(|cell| cell.plan(activity.0))) {
            (Some(place), Some(plan)) => plans[place] = plan,
            (Some(place), None) => drop(plans.remove(place)),
            (None, Some(plan)) => plans.push(plan),
            (None, None) => {}
        }
    }
    base.engine.set_cells(&plans, MARGIN_NS).map(|_| ()).map_err(|error| explain(base, error))
}

/// The cells that are there, by top-level activity, without those of activities that have ended.
pub fn present(engine: &Engine) -> Vec<CellPlan> {
    let Some(epoch) = engine.cells() else { return Vec::new() };
    let exists = |plan: &&CellPlan| plan.id != REST && engine.accounts().activities.exists(ActivityId(plan.id));
    epoch.table.cells().iter().filter(exists).copied().collect()
}

fn activity_of(base: &Base, tenant: &str) -> Result<ActivityId, Refusal> {
    let named = |one: &&(usize, &Tenant)| one.1.name == tenant;
    let tenants: Vec<(usize, &Tenant)> = base.machine.tenants.iter().enumerate().collect();
    let (index, known) = tenants.iter().find(named).ok_or_else(|| refusal(tenant, Why::Unknown))?;
    if known.parent.is_some() {
        return Err(refusal(tenant, Why::Grouped));
    }
    base.activities.get(*index).copied().ok_or_else(|| refusal(tenant, Why::Unknown))
}

fn explain(base: &Base, error: CellsError) -> Refusal {
    let (cell, why) = match error {
        CellsError::Busy => (None, Why::Busy),
        CellsError::NoCoreLeft => (None, Why::NoCoreLeft),
        CellsError::Grid(_) => (None, Why::NoRoom),
        CellsError::NoSuchCore { cell } => (Some(cell), Why::NoSuchCore),
        CellsError::Table(fault) => (Some(fault.cell), Why::of(fault.kind)),
    };
    refusal(&cell.and_then(|cell| name_of(base, cell)).unwrap_or_default(), why)
}

fn name_of(base: &Base, id: u32) -> Option<String> {
    Some(base.description_of(ActivityId(id))?.name.clone())
}

fn view(base: &Base) -> View {
    let engine = base.engine;
    let now_ns = engine.ns(gyre_x86_64::now());
    let Some(epoch) = engine.cells() else { return View { now_ns, ..View::default() } };
    View {
        now_ns,
        number: epoch.number,
        change: swap(engine, &epoch),
        interrupts: spread(engine.interrupt_delays()),
        cells: (0..epoch.table.cells().len()).filter_map(|place| cell_view(base, &epoch, place, now_ns)).collect(),
    }
}

fn swap(engine: &Engine, epoch: &Epoch) -> Swap {
    let cores: Vec<usize> = engine.online().collect();
    Swap {
        asked_ns: epoch.asked_ns.load(Ordering::Relaxed),
        returned_ns: epoch.returned_ns.load(Ordering::Relaxed),
        from_ns: epoch.table.from_ns,
        ready_ns: cores.iter().map(|&core| epoch.ready_ns(core).unwrap_or(0)).collect(),
        swapped_ns: cores.iter().map(|&core| epoch.swapped_ns(core).unwrap_or(0)).collect(),
    }
}

fn spread(delays: &Delays) -> Spread {
    Spread { count: delays.count(), median_ns: delays.quantile_ns(500), ninth_ns: delays.quantile_ns(900) }
}

fn cell_view(base: &Base, epoch: &Epoch, place: usize, now_ns: u64) -> Option<CellView> {
    let plan = epoch.plan(place)?;
    let cores = (0..u8::BITS as usize).filter(|core| plan.cores >> core & 1 == 1);
    Some(CellView {
        tenant: (plan.id != REST).then(|| name_of(base, plan.id).unwrap_or_default()),
        cell: Cell {
            timing: timing(plan.timing),
            cores: plan.cores,
            period_ns: plan.period_ns,
            active_ns: plan.active_ns,
            phase_ns: plan.phase_ns,
            lends: plan.lends,
        },
        skew: epoch.skew.get(place).map(spread).unwrap_or_default(),
        cores: cores.filter_map(|core| figures(base.engine, epoch, Spot { core, place }, now_ns)).collect(),
    })
}

/// A cell on a core.
struct Spot {
    core: usize,
    place: usize,
}

fn timing(timing: multiplexer::Timing) -> Timing {
    match timing {
        multiplexer::Timing::Dedicated => Timing::Dedicated,
        multiplexer::Timing::TimeTriggered => Timing::TimeTriggered,
        multiplexer::Timing::EventTriggered => Timing::EventTriggered,
        multiplexer::Timing::BestEffort => Timing::BestEffort,
    }
}

fn figures(engine: &Engine, epoch: &Epoch, Spot { core, place }: Spot, now_ns: u64) -> Option<CoreFigures> {
    let known = epoch.figures(core, place)?;
    let of = |figure: &core::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
    // A dedicated cell has its cores since they changed over.
    let always = epoch.plan(place).is_some_and(|plan| plan.timing == multiplexer::Timing::Dedicated);
    let since_ns = if always { epoch.swapped_ns(core).map_or(0, |at| now_ns.saturating_sub(at)) } else { 0 };
    Some(CoreFigures {
        core: core as u8,
        active_ns: of(&known.active_ns).max(since_ns),
        served_ns: engine.ns(of(&known.served_cycles)),
        stolen_ns: engine.ns(of(&known.stolen_cycles)),
        slots: of(&known.slots),
        late_ns: of(&known.late_ns),
        late_ns_max: of(&known.late_ns_max),
    })
}
