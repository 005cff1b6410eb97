//! The platform's functions, as the resource of zones needs them.
//!
//! A zone's page is the zone's: what is read there is a copy, and no number in it leads to an access. Counts are cut to what there is room
//! for.
//!
//! An instance is kept from its preparation until its lots go to another hand. The supervisor's ends of its rings are two positions beside it;
//! they begin at 0 with each instance, as the rings do.
//!
//! Parts of a zone that runs are given and taken at its instance ([`gyre_x86_64::Instance`]); the zone learns of it by a message.

use super::region_of;
use crate::base::Base;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};
use gyre_account::{ActivityId, ActivityParams};
use gyre_contract::last_words::LastWords;
use gyre_contract::zones::{Cause, LOT_BYTES};
use gyre_interface::leases::{Lots, ZONES_MAX};
use gyre_interface::zone_messages::LinkOffer;
use gyre_line::{Full, Message, Receiver, Sender};
use gyre_machine::zone_page::{ZONE_TRACE_MAX, ZONE_WORDS_BYTES};
use gyre_machine::{MemoryRegion, PciAddress, ZonePage};
use gyre_object::SpinLock;
use gyre_x86_64::{CorePlace, Deed, Instance, InstancePlan, LotState, PlanError, Progress, Reset};
use gyre_zones::{Fault, Instances, Life, Plan, Stopping};

/// Pages beside image, module and the shared page that an instance's first run holds: tables, command line, and what alignment takes.
const REST_BYTES: u64 = 256 << 10;
/// Slices of a lot that are cleared.
const SLICES_MAX: usize = 64;

/// An instance, and how far the supervisor is with its rings.
#[derive(Default)]
pub(super) struct Held {
    pub(super) instance: Option<Instance>,
    pub(super) sent: u32,
    received: u32,
    resets: Vec<(u32, Reset)>,
}

/// The machine's instances, by the places of their zones.
pub struct Machine {
    base: &'static Base,
    /// The zones' activities.
    payers: &'static [ActivityId],
    pub(super) held: [SpinLock<Held>; ZONES_MAX],
}

/// The platform's number of a zone's instance.
fn number(zone: usize) -> u32 {
    u32::try_from(zone).unwrap_or(u32::MAX).saturating_add(1)
}

fn gone() -> Fault {
    Fault("there is no instance".into())
}

impl Machine {
    /// Makes a machine without instances.
    pub fn new(base: &'static Base, payers: &'static [ActivityId]) -> Machine {
        Machine { base, payers, held: core::array::from_fn(|_| SpinLock::default()) }
    }

    /// Looks at the instance of a zone; `None` if there is none.
    fn on<T>(&self, zone: usize, work: impl FnOnce(&mut Held) -> Option<T>) -> Option<T> {
        work(&mut self.held.get(zone)?.lock())
    }

    fn on_page<T>(&self, zone: usize, work: impl FnOnce(&ZonePage) -> T) -> Option<T> {
        self.on(zone, |held| held.instance.as_ref().map(|instance| work(instance.page())))
    }

    /// Returns the hardware id of the first core of an instance.
    pub fn first_core(&self, zone: usize) -> Option<u32> {
        self.on(zone, |held| held.instance.as_ref()?.cores().find(|(slot, _)| *slot == 0).map(|(_, id)| id))
    }

    /// Changes the parts of an instance that runs.
    fn change(&self, zone: usize, work: impl FnOnce(&mut Instance) -> Result<(), PlanError>) -> Result<(), Fault> {
        let changed = self.on(zone, |held| held.instance.as_mut().map(work)).ok_or_else(gone)?;
        changed.map_err(|error| Fault(alloc::format!("{error}")))
    }

    /// Opens a zone's wall for a lot that the supervisor holds and shares with it.
    ///
    /// # Errors
    /// [`Fault`] without an instance, or without memory for tables.
    pub fn open_to(&self, zone: usize, lot: u64) -> Result<(), Fault> {
        self.change(zone, |instance| instance.show_lot(region_of(Lots { first: lot, count: 1 })))
    }

    /// Opens the wall of an instance for a link, if it has one.
    ///
    /// # Errors
    /// [`Fault`]: there is no memory for tables.
    pub fn open_door(&self, zone: usize, offer: LinkOffer) -> Result<(), Fault> {
        let lot = region_of(Lots { first: offer.lot, count: 1 });
        self.change(zone, |instance| instance.open_door(lot, offer.peer, offer.core))
    }

    /// Closes its way to the other end's bell.
    pub fn close_door(&self, zone: usize, peer: u16) {
        self.on(zone, |held| held.instance.as_ref().map(|instance| instance.close_door(peer)));
    }

    fn module(&self, zone: usize) -> &'static [u8] {
        let described = self.base.machine.zones.get(zone);
        described.and_then(|zone| self.base.module.file(&zone.module)).unwrap_or(&[])
    }
}

impl Instances for Machine {
    fn run_lots(&self, zone: usize, module: Option<&[u8]>) -> u32 {
        let module = module.unwrap_or_else(|| self.module(zone));
        let parts = [gyre_x86_64::pristine_image().bytes as u64, module.len() as u64, size_of::<ZonePage>() as u64];
        let bytes = parts.iter().fold(REST_BYTES, |sum, part| sum.saturating_add(*part));
        u32::try_from(bytes.div_ceil(LOT_BYTES)).unwrap_or(u32::MAX)
    }

    fn rename(&self, zone: usize, name: &str) {
        if let Some(activity) = self.payers.get(zone) {
            self.base.engine.accounts().activities.rename(*activity, name);
        }
    }

    fn set_share(&self, zone: usize, share: u32) {
        let Some(activity) = self.payers.get(zone) else { return };
        let now = self.base.engine.accounts().activities.params(*activity);
        if let Err(error) = self.base.engine.set_activity_params(*activity, ActivityParams { weight: share, ..now }) {
            log::error!("the share of zone {zone} cannot be {share}: {error:?}");
        }
    }

    fn is_dirty(&self, lot: u64, zone: Option<usize>) -> bool {
        let place = region_of(Lots { first: lot, count: 1 }).start.0;
        let is_last = gyre_x86_64::last_holder(place).is_some_and(|last| zone.map(number) == Some(last));
        gyre_x86_64::lot_state(place) == Some(LotState::Dirty) && !is_last
    }

    fn clear(&self, lot: u64) {
        let region = region_of(Lots { first: lot, count: 1 });
        let Ok(mut clearing) = gyre_x86_64::clear_lots(region) else { return };
        for _ in 0..SLICES_MAX {
            if !matches!(clearing.step(), Ok(false)) {
                return;
            }
        }
    }

    fn prepare(&self, plan: Plan<'_>) -> Result<(), Fault> {
        let lots: Vec<MemoryRegion> = plan.parts.lots.iter().copied().map(region_of).collect();
        let wish = InstancePlan {
            number: number(plan.zone),
            name: &plan.description.name,
            cores: &plan.parts.cores,
            lots: &lots,
            devices: &plan.parts.devices,
            module: plan.module.unwrap_or_else(|| self.module(plan.zone)),
            command_line: "",
            protection: plan.description.protection as u32,
        };
        let instance = gyre_x86_64::prepare_instance(&wish).map_err(|error| Fault(alloc::format!("{error}")))?;
        let held = Held { instance: Some(instance), ..Held::default() };
        self.held.get(plan.zone).map(|place| *place.lock() = held).ok_or_else(gone)
    }

    fn start(&self, zone: usize) -> Result<(), Fault> {
        let started = self.on(zone, |held| held.instance.as_mut().map(Instance::start)).ok_or_else(gone)?;
        started.map_err(|core| Fault(alloc::format!("core {} does not start", core.0)))
    }

    fn release(&self, zone: usize) {
        let Some(instance) = self.on(zone, |held| held.instance.take()) else { return };
        if let Err(instance) = instance.release() {
            log::error!("instance {} cannot be given up: a core of it does not obey", instance.number());
        }
    }

    fn life(&self, zone: usize) -> Life {
        let read = |page: &ZonePage| Life {
            state: page.life.state.load(Ordering::Acquire),
            code: page.life.code.load(Ordering::Relaxed),
            beats: page.life.beats.load(Ordering::Relaxed),
            stood_cycle: page.life.stood_cycle.load(Ordering::Relaxed),
        };
        self.on_page(zone, read).unwrap_or_default()
    }

    fn broke_out(&self, zone: usize) -> Option<Cause> {
        // Without a wall nobody sees it: the zone falls silent.
        let breach = self.on(zone, |held| held.instance.as_ref()?.breach())?;
        Some(if breach.deed == Deed::Shutdown { Cause::Shutdown } else { Cause::Violation })
    }

    fn last_words(&self, zone: usize) -> LastWords {
        let breach = self.on(zone, |held| held.instance.as_ref()?.breach());
        let said = self.on_page(zone, said).unwrap_or_default();
        match (breach, said.words.as_str()) {
            (Some(breach), "") => LastWords::new(&alloc::format!("{breach}"), &[breach.rip]),
            (Some(breach), words) => {
                let trace: Vec<u64> = core::iter::once(breach.rip).chain(said.trace.iter().copied()).collect();
                LastWords::new(&alloc::format!("{breach}; it had said: {words}"), &trace)
            }
            (None, "") => self.on(zone, |held| held.instance.as_ref().map(stopped)).unwrap_or_default(),
            (None, _) => said,
        }
    }

    fn is_parked(&self, _zone: usize, core: u32) -> bool {
        matches!(gyre_x86_64::core_place(core), Some(CorePlace::Idle | CorePlace::AtBox))
    }

    fn begin_stop(&self, zone: usize, core: u32) {
        self.on(zone, |held| {
            held.resets.retain(|(known, _)| *known != core);
            let reset = held.instance.as_ref()?.begin_reset(core).ok()?;
            held.resets.push((core, reset));
            Some(())
        });
    }

    fn stopping(&self, zone: usize, core: u32) -> Stopping {
        let step =
            |held: &mut Held| held.resets.iter_mut().find(|(known, _)| *known == core).map(|(_, reset)| reset.step());
        match self.on(zone, step) {
            Some(Progress::UnderWay) => Stopping::UnderWay,
            Some(Progress::Parked) => Stopping::Parked,
            Some(Progress::Lost(_)) | None => Stopping::Lost,
        }
    }

    fn add_core(&self, zone: usize, core: u32) -> Result<u32, Fault> {
        let add = |held: &mut Held| {
            let instance = held.instance.as_mut()?;
            let known = instance.cores().find(|(_, id)| *id == core).map(|(slot, _)| slot);
            Some(known.map_or_else(|| instance.add_core(core), Ok))
        };
        let slot = self.on(zone, add).ok_or_else(gone)?;
        let slot = slot.map_err(|_| Fault(alloc::format!("core {core} is not idle, or there is no box for it")))?;
        u32::try_from(slot).map_err(|_| gone())
    }

    fn remove_core(&self, zone: usize, core: u32) -> Result<(), Fault> {
        let take = |held: &mut Held| {
            let instance = held.instance.as_mut()?;
            let slot = instance.cores().find(|(_, id)| *id == core).map(|(slot, _)| slot)?;
            Some(instance.take_core(slot))
        };
        let taken = self.on(zone, take).ok_or_else(gone)?;
        taken.map(drop).map_err(|_| Fault(alloc::format!("core {core} does not wait at its box")))
    }

    fn add_lots(&self, zone: usize, lots: Lots) -> Result<(), Fault> {
        self.change(zone, |instance| instance.add_lots(region_of(lots)))
    }

    fn remove_lots(&self, zone: usize, lots: Lots) -> Result<(), Fault> {
        self.change(zone, |instance| instance.remove_lots(region_of(lots)))
    }

    fn add_device(&self, zone: usize, device: PciAddress) -> Result<(), Fault> {
        self.change(zone, |instance| instance.add_device(device))
    }

    fn remove_device(&self, zone: usize, device: PciAddress) -> Result<(), Fault> {
        let is_its = self.on(zone, |held| held.instance.as_ref().map(|instance| instance.devices().contains(&device)));
        if is_its == Some(true) {
            return self.change(zone, |instance| instance.remove_device(device));
        }
        gyre_x86_64::settle(device).map_err(|_| Fault(alloc::format!("device {device} does not come to rest")))
    }

    fn ask_to_end(&self, zone: usize) {
        self.on(zone, |held| {
            let instance = held.instance.as_ref()?;
            instance.page().life.asked_to_end.store(1, Ordering::Release);
            instance.ring();
            Some(())
        });
    }

    fn send(&self, zone: usize, message: &Message) -> Result<(), Full> {
        let send = |held: &mut Held| {
            let instance = held.instance.as_ref()?;
            let mut sender = Sender::at(&instance.page().to_zone.0, held.sent);
            let sent = sender.send(message);
            held.sent = sender.position();
            if sent.is_ok() {
                instance.ring();
            }
            Some(sent)
        };
        self.on(zone, send).unwrap_or(Err(Full))
    }

    fn cast(&self, zones: &[usize], message: &Message) -> Result<(), Full> {
        self.cast_to(zones, message)
    }

    fn receive(&self, zone: usize) -> Option<Message> {
        self.on(zone, |held| {
            let instance = held.instance.as_ref()?;
            let mut receiver = Receiver::at(&instance.page().to_supervisor.0, held.received);
            let message = receiver.receive();
            held.received = receiver.position();
            message
        })
    }

    fn may_sleep(&self, zone: usize) -> bool {
        let look = |held: &mut Held| {
            let page = held.instance.as_ref()?.page();
            page.supervisor_bell.leave();
            let has_some = Receiver::at(&page.to_supervisor.0, held.received).has_some();
            if has_some {
                page.supervisor_bell.come_back();
            }
            Some(!has_some)
        };
        self.on(zone, look).unwrap_or(true)
    }

    fn printed(&self, zone: usize, position: u64, room: usize) -> (u64, Vec<u8>) {
        let mut bytes = alloc::vec![0; room];
        let read = self.on_page(zone, |page| page.console.read(position, &mut bytes));
        let (start, count) = read.unwrap_or((position, 0));
        bytes.truncate(count);
        (start, bytes)
    }
}

/// Returns a zone's own last words and the places of its trace.
fn said(page: &ZonePage) -> LastWords {
    let count = (page.life.words_count.load(Ordering::Acquire) as usize).min(ZONE_WORDS_BYTES);
    let bytes: Vec<u8> =
        page.life.words.iter().take(count).map(|byte: &AtomicU8| byte.load(Ordering::Relaxed)).collect();
    let plain = |one: char| if one.is_control() { ' ' } else { one };
    let words: String = String::from_utf8_lossy(&bytes).chars().map(plain).collect();
    let places = (page.life.trace_count.load(Ordering::Acquire) as usize).min(ZONE_TRACE_MAX);
    let trace: Vec<u64> = page.life.trace.iter().take(places).map(|place| place.load(Ordering::Relaxed)).collect();
    LastWords::new(&words, &trace)
}

/// Returns where the cores of a zone were that were taken from behind its wall.
fn stopped(instance: &Instance) -> LastWords {
    let places: Vec<(usize, u64)> = instance.stopped_at().collect();
    let word = |(slot, place): &(usize, u64)| alloc::format!("core {slot} of it was at {place:#x}");
    let words: Vec<String> = places.iter().map(word).collect();
    let trace: Vec<u64> = places.iter().map(|(_, place)| *place).collect();
    LastWords::new(&words.join(", "), &trace)
}
