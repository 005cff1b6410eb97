//! Cores of this kernel as a zone, which go to the supervisor and come back while it runs.
//!
//! A core that goes is emptied by the engine, leaves the instance, and waits at its box in the supervisor's parking loop. One that comes is
//! called from its box to the lowest slot that has none: the number of its box and that of its slot need not be the same.
//!
//! May be called: on the resident core, by the agent's tasks. Left out: who decides (the supervisor), how a core is emptied (`gyre_engine`).

use crate::kernel::KERNEL;
use alloc::format;
use alloc::string::String;
use gyre_account::ActivityId;
use gyre_engine::{Engine, Holder, RESIDENT, WithdrawError, Withdrawal};
use gyre_interface::zone_messages::{Keeper, Reason};
use gyre_message::sleep_ns;
use gyre_x86_64::{Arrival, NotStarted};

/// How long a core that was called may be on its way, ns.
const ARRIVAL_NS: u64 = 500_000_000;
/// How often it is looked whether it has come, ns.
const LOOK_NS: u64 = 20_000;

/// From now on cores can leave this zone.
pub fn start(engine: &'static Engine) {
    engine.on_leave(crate::seats::leave);
}

/// Takes a core out of use, the one with this hardware id or the last one, and lets it park; answers its hardware id.
///
/// # Errors
/// [`Reason::Kept`] with the work that did not end within the time; others if there is no such core.
pub async fn withdraw(engine: &'static Engine, wanted: Option<u32>, within_ms: u32) -> Result<u32, Reason> {
    let slot = slot_of(engine, wanted)?;
    let hardware_id = gyre_x86_64::hardware_id(slot).ok_or(Reason::NotMine)?;
    // The answer has to arrive within the time, too.
    let patience_ms = u64::from(within_ms).saturating_mul(9).checked_div(10).unwrap_or(0);
    let patience = patience_ms.saturating_mul(gyre_x86_64::cycles_per_ms());
    let deadline_cycles = gyre_x86_64::now().saturating_add(patience);
    let withdrawal = Withdrawal { slot, lessee: ActivityId::INFRASTRUCTURE, deadline_cycles };
    match engine.withdraw_core(withdrawal).await {
        Ok(withdrawn) => {
            log::info!("core {hardware_id} has left slot {slot} after {} us", micros(withdrawn.took_cycles));
            Ok(hardware_id)
        }
        Err(error) => {
            log::info!("core {hardware_id} stays in slot {slot}: {error:?}");
            Err(reason(engine, &error))
        }
    }
}

fn slot_of(engine: &Engine, wanted: Option<u32>) -> Result<usize, Reason> {
    let found = match wanted {
        Some(id) => engine.online().find(|slot| gyre_x86_64::hardware_id(*slot) == Some(id)).ok_or(Reason::NotMine)?,
        None => engine.online().filter(|slot| *slot != RESIDENT).last().ok_or(Reason::Resident)?,
    };
    if found == RESIDENT { Err(Reason::Resident) } else { Ok(found) }
}

fn reason(engine: &Engine, error: &WithdrawError) -> Reason {
    match error {
        WithdrawError::Busy(holders) => Reason::Kept(Keeper::new(&keepers(engine, holders))),
        WithdrawError::Resident => Reason::Resident,
        WithdrawError::Vacant => Reason::NotMine,
        WithdrawError::Leaving => Reason::InUse,
        WithdrawError::NoLine | WithdrawError::NoMemory => Reason::NoRoom,
        WithdrawError::NoWay | WithdrawError::Gone => Reason::Unable,
    }
}

/// Returns the first of those that keep a core, in words.
fn keepers(engine: &Engine, holders: &[Holder]) -> String {
    let Some(first) = holders.iter().max_by_key(|holder| holder.tasks) else { return String::from("work under way") };
    let activities = &engine.accounts().activities;
    let name = activities.info(activities.lead(first.activity)).map_or_else(String::new, |info| info.name);
    format!("work of {name} at {}", engine.resource_name(first.resource))
}

/// Calls the core that waits at a box, and waits until it works here.
///
/// # Errors
/// [`Reason::NoRoom`] if each slot has a core; [`Reason::NotMine`] if none waits there; [`Reason::InUse`] if it does not come in time.
pub async fn join(engine: &'static Engine, place: usize) -> Result<(), Reason> {
    let begun = gyre_x86_64::now();
    let slot = (0..engine.cores()).find(|slot| engine.is_vacant(*slot)).ok_or(Reason::NoRoom)?;
    gyre_x86_64::fetch_core(&Arrival { place, slot, entry: enter }).map_err(|error| match error {
        NotStarted::OutOfMemory | NotStarted::NoSlot => Reason::NoRoom,
        NotStarted::Absent => Reason::NotMine,
        NotStarted::Busy => Reason::InUse,
    })?;
    let deadline = begun.saturating_add(cycles(ARRIVAL_NS));
    while engine.is_vacant(slot) {
        if gyre_x86_64::now() >= deadline && gyre_x86_64::give_up_core() {
            log::warn!("the core at box {place} does not come");
            return Err(Reason::InUse);
        }
        sleep_ns(LOOK_NS).await;
    }
    let took = gyre_x86_64::now().saturating_sub(begun);
    log::info!("a core has come to slot {slot} after {} us", micros(took));
    Ok(())
}

/// The first act of a core that comes: it works in this slot until it leaves.
fn enter(slot: usize) -> ! {
    if let Some(kernel) = KERNEL.get()
        && let Err(error) = kernel.base.engine.join_core(slot)
    {
        log::error!("a core cannot work in slot {slot}: {error:?}");
    }
    gyre_x86_64::return_core()
}

fn cycles(ns: u64) -> u64 {
    ns.saturating_mul(gyre_x86_64::cycles_per_ms()).checked_div(1_000_000).unwrap_or(0)
}

/// Returns the time since a cycle, in us.
pub fn micros_since(begun: u64) -> u64 {
    micros(gyre_x86_64::now().saturating_sub(begun))
}

fn micros(cycles: u64) -> u64 {
    cycles.saturating_mul(1000).checked_div(gyre_x86_64::cycles_per_ms()).unwrap_or(0)
}
