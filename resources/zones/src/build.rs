//! An instance made in a zone's parts, and put down.

use crate::handler::{Zones, now_ns};
use crate::instances::{Fault, Plan, Stopping};
use crate::life::Signs;
use crate::slot::{Presence, Slot};
use alloc::vec::Vec;
use gyre_contract::zones::{Refusal, State};
use gyre_interface::leases::{Goods, Holder, Lots, Move, Parts, Terms};
use gyre_message::{sleep_ns, yield_now};

/// How long the stopping of cores may take, ns.
const STOP_NS_MAX: u64 = 2_000_000_000;
/// How often it is looked at, ns.
const LOOK_NS: u64 = 200_000;

impl Zones {
    /// Makes an instance in the parts that the zone holds, and starts it. The caller is at the zone's work.
    ///
    /// # Errors
    /// [`Refusal::Machine`]; there is no instance then.
    pub(crate) async fn begin(&self, place: usize) -> Result<(), Refusal> {
        let slot = self.slot(place)?;
        let (begun_cycle, begun_ns) = (gyre_machine::now(), now_ns());
        let described = slot.described();
        let module = described.module.as_deref();
        let run = self.run_lots(place);
        let parts = ordered(slot.known().parts, run);
        if parts.cores.is_empty() || parts.lots.first().is_none_or(|first| first.count < run) {
            return Err(machine(slot, &Fault("too little is left to make it of".into())));
        }
        self.clear(place, &parts.lots).await;
        let lease_begun = self.lease_of(place).await;
        self.machine
            .prepare(Plan { zone: place, description: &described.zone, module, parts: &parts, begun_cycle })
            .map_err(|fault| machine(slot, &fault))?;
        {
            let mut inner = slot.inner.lock();
            inner.presence = Presence::There;
            inner.signs = Signs::new(now_ns());
            (inner.begun_ns, inner.stood_ns, inner.again_ns, inner.own) = (begun_ns, None, None, None);
            (inner.start_ns, inner.console_at, inner.lease_begun, inner.figures_asked_ns) = (0, 0, lease_begun, None);
            inner.created = inner.created.saturating_add(1);
            inner.known.state = State::Booting;
        }
        if let Err(fault) = self.machine.start(place) {
            let refusal = machine(slot, &fault);
            let _ = self.put_down(place).await;
            slot.set_state(State::Absent);
            return Err(refusal);
        }
        slot.rung.wake_all();
        slot.changed.wake_all();
        Ok(())
    }

    /// Returns the lots that the zone's image, module and page take.
    pub(crate) fn run_lots(&self, place: usize) -> u32 {
        let described = self.slots.get(place).map(Slot::described);
        let module = described.as_ref().and_then(|described| described.module.as_deref());
        self.machine.run_lots(place, module)
    }

    /// Clears those of a zone's new lots that others have had.
    pub(crate) async fn clear(&self, place: usize, lots: &[Lots]) {
        let all = lots.iter().flat_map(|run| run.first..run.first.saturating_add(u64::from(run.count)));
        for lot in all.filter(|lot| self.machine.is_dirty(*lot, Some(place))) {
            self.machine.clear(lot);
            yield_now().await;
        }
    }

    /// Waits until an instance stands.
    ///
    /// # Errors
    /// [`Refusal::Machine`] with its last words if it ends before.
    pub(crate) async fn stand(&self, place: usize) -> Result<(), Refusal> {
        let slot = self.slot(place)?;
        let look = || {
            let inner = slot.inner.lock();
            match &inner.known.state {
                State::Booting => None,
                State::Running => Some(Ok(())),
                _ => {
                    let (name, words) = (slot.name(), &inner.last_words);
                    let why = alloc::format!("zone {name} ended before it stood: {words}");
                    Some(Err(Refusal::Machine { why }))
                }
            }
        };
        slot.changed.until(look).await
    }

    /// Ends what is left of an instance: its cores park, its devices are reset, its page is forgotten. The caller is at the
    /// zone's work.
    ///
    /// # Errors
    /// [`Fault`]: a core or a device did not obey. It is in the supervisor's hands then, with the memory that it may still reach.
    pub(crate) async fn put_down(&self, place: usize) -> Result<(), Fault> {
        let Ok(slot) = self.slot(place) else { return Ok(()) };
        let parts = slot.known().parts;
        if slot.inner.lock().presence == Presence::Gone {
            return Ok(());
        }
        let mut lost = self.stop_cores(place, &parts.cores).await;
        if let State::Crashed { cause } = slot.state() {
            // Before its page is forgotten.
            self.hear_last_words(place, cause);
        }
        for device in &parts.devices {
            if let Err(fault) = self.machine.remove_device(place, *device) {
                log::error!("zone {}: device {device} does not reset: {}", slot.name(), fault.0);
                lost.devices.push(*device);
            }
        }
        for core in parts.cores.iter().filter(|core| !lost.cores.contains(core)) {
            // The box is forgotten with the page.
            let _ = self.machine.remove_core(place, *core);
        }
        self.machine.release(place);
        slot.inner.lock().presence = Presence::Gone;
        slot.changed.wake_all();
        if lost.is_empty() {
            return Ok(());
        }
        // A core that runs on, or a device that was not reset, may still write into the zone's memory.
        lost.lots = parts.lots;
        let goods = Goods::These(lost);
        let kept = Move { from: Holder::Zone(place as u16), to: Holder::Supervisor, goods, terms: Terms::Kept };
        let _ = self.leases.exchange(alloc::vec![kept]).await;
        self.refresh().await;
        Err(Fault(alloc::format!("parts of zone {} do not obey and are out of use", slot.name())))
    }

    /// Gets cores into the parking loop; answers those that did not come.
    pub(crate) async fn stop_cores(&self, place: usize, cores: &[u32]) -> Parts {
        let away = cores.iter().copied().filter(|core| !self.machine.is_parked(place, *core));
        let mut away: Vec<u32> = away.collect();
        away.iter().for_each(|core| self.machine.begin_stop(place, *core));
        let mut lost = Parts::default();
        let deadline = now_ns().saturating_add(STOP_NS_MAX);
        while !away.is_empty() {
            let is_late = now_ns() >= deadline;
            away.retain(|core| match self.machine.stopping(place, *core) {
                Stopping::UnderWay if !is_late => true,
                Stopping::Parked => false,
                Stopping::UnderWay | Stopping::Lost => {
                    log::error!("core {core} does not obey");
                    lost.cores.push(*core);
                    false
                }
            });
            if !away.is_empty() {
                sleep_ns(LOOK_NS).await;
            }
        }
        lost
    }

    pub(crate) fn slot(&self, place: usize) -> Result<&Slot, Refusal> {
        self.slots.get(place).ok_or(Refusal::Unknown { zone: "?".into() })
    }
}

/// Puts a run that holds the image first.
fn ordered(mut parts: Parts, run: u32) -> Parts {
    let fits = |lots: &Lots| lots.count >= run && lots.first.saturating_add(u64::from(run)) <= HIGH;
    if let Some(at) = parts.lots.iter().position(fits) {
        parts.lots.swap(0, at);
    }
    parts
}

/// The first lot at 4 GiB.
const HIGH: u64 = (4 << 30) / gyre_contract::zones::LOT_BYTES;

fn machine(slot: &Slot, fault: &Fault) -> Refusal {
    Refusal::Machine { why: alloc::format!("zone {}: {}", slot.name(), fault.0) }
}
