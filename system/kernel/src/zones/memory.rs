//! Memory of this kernel as a zone, which goes to the supervisor and comes back while it runs.
//!
//! Lots that go are those in which the kernel has nothing of its own, and of these the emptiest and highest ones. Nobody gets a frame of them any
//! more; pages of files in them are dropped, those of programs copied, until they are empty or the time is over. Then they are taken out of
//! the kernel's page table, and each core forgets them. If one does not become empty, all of them stay.
//!
//! May be called: on the resident core, by the agent's tasks. Left out: who decides (the supervisor), and the allocator
//! (`gyre_x86_64`).

use crate::kernel::Kernel;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use gyre_engine::Engine;
use gyre_interface::leases::Lots;
use gyre_interface::zone_messages::{Keeper, Reason};
use gyre_machine::Pa;
use gyre_message::{sleep_ns, yield_now};
use gyre_x86_64::{JoinError, LOT_BYTES};

/// How often lots that are not empty are asked for again, ns.
const LOOK_NS: u64 = 500_000;
/// Lots that are looked at before others have their turn.
const SURVEY_LOTS: usize = 32;
/// Pages of files that are dropped at once if there is no room for copies.
const DROPPED_PAGES: usize = 256;
/// Free memory below which pages of files are dropped, bytes.
const ROOM_BYTES: usize = 4 << 20;
/// Runs of lots that one answer has at most: the supervisor keeps so many messages.
const RUNS_MAX: usize = 48;

/// Takes lots into use.
///
/// # Errors
/// [`Reason::NotMine`] if they are no lots, or in use; [`Reason::NoRoom`] without memory for tables.
pub fn join(kernel: &'static Kernel, lots: Lots) -> Result<(), Reason> {
    let begun = gyre_x86_64::now();
    gyre_x86_64::join_lots(&super::region_of(lots)).map_err(|error| match error {
        JoinError::Shape | JoinError::Present => Reason::NotMine,
        JoinError::OutOfMemory => Reason::NoRoom,
    })?;
    kernel.memory.follow(kernel.storage.cache);
    log::info!("{} lots have come after {} us", lots.count, super::cores::micros_since(begun));
    Ok(())
}

/// Takes lots out of use; answers them in runs.
///
/// # Errors
/// [`Reason::Kept`] with who keeps memory, if there are not so many lots that could be emptied in time; then all of them stay.
pub async fn withdraw(kernel: &'static Kernel, count: u32, within_ms: u32) -> Result<Vec<Lots>, Reason> {
    let begun = gyre_x86_64::now();
    // The answer has to arrive within the time, too.
    let patience_ms = u64::from(within_ms).saturating_mul(9).checked_div(10).unwrap_or(0);
    let deadline = begun.saturating_add(patience_ms.saturating_mul(gyre_x86_64::cycles_per_ms()));
    let mut leaving = Leaving { kernel, lots: Vec::new(), failed: Vec::new() };
    leaving.add(count as usize).await?;
    leaving.empty(deadline).await.inspect_err(|reason| log::info!("{count} lots stay: {reason}"))?;
    let runs = leaving.finish().await?;
    kernel.memory.follow(kernel.storage.cache);
    log::info!("{count} lots have left after {} us", super::cores::micros_since(begun));
    Ok(runs)
}

fn kept(words: &str) -> Reason {
    Reason::Kept(Keeper::new(words))
}

/// Lots that are leaving. They stay if this is dropped.
struct Leaving {
    kernel: &'static Kernel,
    lots: Vec<u32>,
    /// Those that turned out to hold frames which cannot move.
    failed: Vec<u32>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.lots.iter().for_each(|lot| gyre_x86_64::stay(*lot));
    }
}

impl Leaving {
    /// Lets so many more lots leave.
    async fn add(&mut self, count: usize) -> Result<(), Reason> {
        let mut found = Vec::new();
        let own: Vec<u32> = gyre_x86_64::own_lots().collect();
        for lots in own.chunks(SURVEY_LOTS) {
            let others = lots.iter().filter(|lot| !self.lots.contains(lot) && !self.failed.contains(lot));
            let uses = others.filter_map(|lot| Some((gyre_x86_64::lot_use(*lot)?, *lot)));
            found.extend(uses.filter(|(of, _)| of.fixed == 0).map(|(of, lot)| (of.movable, Reverse(lot))));
            yield_now().await;
        }
        found.sort_unstable();
        let begun = found.into_iter().map(|(_, Reverse(lot))| lot).filter(|lot| gyre_x86_64::begin_leaving(*lot));
        let before = self.lots.len();
        self.lots.extend(begun.take(count));
        match self.lots.len().saturating_sub(before) < count {
            true => Err(kept("memory of the kernel itself")),
            false => Ok(()),
        }
    }

    /// Empties them, by the deadline.
    async fn empty(&mut self, deadline: u64) -> Result<(), Reason> {
        loop {
            each_core(self.kernel.base.engine, gyre_x86_64::empty_frame_cache).await;
            let mut left: Vec<u32> = self.lots.iter().copied().filter(|lot| !gyre_x86_64::has_left(*lot)).collect();
            if left.is_empty() {
                return Ok(());
            }
            left.sort_unstable();
            let keeper = self.vacate(&left).await;
            let is_left = left.iter().any(|lot| !gyre_x86_64::has_left(*lot));
            if is_left && gyre_x86_64::now() >= deadline {
                return Err(kept(&keeper.unwrap_or_else(|| "work under way".into())));
            }
            self.replace_fixed(&left).await?;
            if is_left {
                sleep_ns(LOOK_NS).await;
            }
        }
    }

    /// Has pages dropped and copied; answers who keeps some.
    async fn vacate(&self, lots: &[u32]) -> Option<String> {
        let is_leaving = |pa: Pa| {
            let lot = pa.0.checked_div(LOT_BYTES).and_then(|lot| u32::try_from(lot).ok());
            lot.is_some_and(|lot| lots.binary_search(&lot).is_ok())
        };
        self.make_room();
        let mut keeper = None;
        for (index, tenant) in self.kernel.base.machine.tenants.iter().enumerate() {
            let Some(running) = self.kernel.tenants.begun(index) else { continue };
            let processes = running.tenant.tree.lock().processes();
            for process in processes {
                if process.space().vacate(&is_leaving).await > 0 {
                    keeper.get_or_insert_with(|| format!("memory of {}", tenant.name));
                }
            }
        }
        let of_files = self.kernel.storage.cache.vacate(&is_leaving).await;
        keeper.or_else(|| (of_files > 0).then(|| "pages of files in use".into()))
    }

    /// Drops pages of files if there is little room for copies.
    fn make_room(&self) {
        let cache = self.kernel.storage.cache;
        if gyre_x86_64::free_bytes() < ROOM_BYTES {
            for usage in cache.usage() {
                cache.reclaim(usage.activity, DROPPED_PAGES);
            }
        }
    }

    /// Puts other lots in the places of those of which the kernel has frames.
    async fn replace_fixed(&mut self, left: &[u32]) -> Result<(), Reason> {
        let is_fixed = |lot: &u32| gyre_x86_64::lot_use(*lot).is_some_and(|of| of.fixed > 0);
        let fixed: Vec<u32> = left.iter().copied().filter(is_fixed).collect();
        if fixed.is_empty() {
            return Ok(());
        }
        self.lots.retain(|lot| !fixed.contains(lot));
        fixed.iter().for_each(|lot| gyre_x86_64::stay(*lot));
        let count = fixed.len();
        self.failed.extend(fixed);
        self.add(count).await
    }

    /// Ends their use, once all are empty.
    async fn finish(mut self) -> Result<Vec<Lots>, Reason> {
        self.lots.sort_unstable();
        let runs = runs(&self.lots);
        if runs.len() > RUNS_MAX {
            return Err(kept("memory in too many pieces"));
        }
        if !gyre_x86_64::finish_leaving(&self.lots) {
            return Err(Reason::InUse);
        }
        self.lots.clear();
        each_core(self.kernel.base.engine, gyre_x86_64::forget_lots).await;
        Ok(runs)
    }
}

/// Has a short work done on each core. A core that leaves meanwhile does it on its way.
async fn each_core(engine: &'static Engine, work: fn()) {
    let all: Vec<usize> = engine.online().collect();
    for core in all {
        // One that cannot answer for want of memory is asked again.
        while engine.online().any(|online| online == core) && engine.at_once(core, work).await.is_err() {
            yield_now().await;
        }
    }
}

/// Gathers numbers in rising order into runs.
fn runs(lots: &[u32]) -> Vec<Lots> {
    let mut runs: Vec<Lots> = Vec::new();
    for lot in lots.iter().copied().map(u64::from) {
        match runs.last_mut() {
            Some(run) if run.first.saturating_add(u64::from(run.count)) == lot => {
                run.count = run.count.saturating_add(1)
            }
            _ => runs.push(Lots { first: lot, count: 1 }),
        }
    }
    runs
}
