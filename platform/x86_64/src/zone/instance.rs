//! An instance that was made: started on cores of the pool, and ended by force.
//!
//! Between [`Instance::start`] and [`Instance::stop`] the supervisor touches nothing of it but the shared page.
//!
//! At the levels of protection that have a wall, each of its cores enters the wall from the parking loop and comes back from there; the rest
//! is the same. An instance that broke out says so by [`Instance::breach`], and is ended as one that fell silent.
//!
//! Left out: how an instance is made (`making.rs`), its parts that come and go (`changes.rs`), its wall (`wall.rs`).

use super::breach::Breach;
use super::calls::{self, CorePlace, NoAnswer};
use super::layout::Layout;
use super::reset::{Force, Reset};
use super::stop::{Stop, StopError};
use super::wall::Wall;
use super::window::SharedPage;
use super::{devices, lots};
use crate::instructions::rdtsc;
use crate::list::List;
use crate::{apic, time};
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use gyre_platform::zone_page::ZONE_DEVICES_MAX;
use gyre_platform::{CORES_MAX, CoreBox, MemoryRegion, OutOfMemory, PciAddress, ZoneLife, ZonePage};

/// An instance that was made. All that it holds stays taken until [`Instance::release`].
#[derive(Debug)]
pub struct Instance {
    pub(super) number: u32,
    pub(super) page: SharedPage,
    pub(super) layout: Layout,
    /// Physical address of its entry.
    pub(super) entry: u64,
    /// The core of each box.
    pub(super) cores: [Option<u32>; CORES_MAX],
    pub(super) devices: List<PciAddress, ZONE_DEVICES_MAX>,
    /// Its wall, at the levels that have one.
    pub(super) wall: Option<&'static Wall>,
}

impl Instance {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The page that it shares with its supervisor.
    pub fn page(&self) -> &ZonePage {
        self.page.get()
    }

    /// All its lots, ascending; image, module and page lie in them.
    pub fn lots(&self) -> &[MemoryRegion] {
        self.layout.lots.as_slice()
    }

    /// Its PCI functions.
    pub fn devices(&self) -> &[PciAddress] {
        self.devices.as_slice()
    }

    /// The hardware ids of its cores, with the numbers of their boxes.
    pub fn cores(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.cores.iter().enumerate().filter_map(|(slot, id)| id.map(|id| (slot, id)))
    }

    /// The physical address of a box.
    fn box_address(&self, slot: usize) -> u64 {
        self.page.pa() + (offset_of!(ZonePage, cores) + slot * size_of::<CoreBox>()) as u64
    }

    /// Sets its first core going; the others wait at their boxes. It stands when its page says so.
    ///
    /// # Errors
    /// [`NoAnswer`] of the core that is not idle or does not go: then [`Instance::stop`] brings back those that went.
    pub fn start(&mut self) -> Result<(), NoAnswer> {
        for slot in 1..CORES_MAX {
            if let Some(id) = self.cores[slot] {
                self.park_at_box(slot, id)?;
            }
        }
        let first = self.cores[0].ok_or(NoAnswer(u32::MAX))?;
        let place = &self.page().cores[0];
        place.since_cycle.store(rdtsc(), Ordering::Relaxed);
        place.state.store(CoreBox::CALLED, Ordering::Release);
        if let Some(wall) = self.wall {
            let way = wall.expect_core(0, first).map_err(|OutOfMemory| NoAnswer(first))?;
            return calls::call_core_at(first, &way, wall.gate_address(0));
        }
        calls::start_core_at(first, self.entry, self.layout.info, self.box_address(0))
    }

    /// Lets an idle core wait at a box.
    pub(super) fn park_at_box(&self, slot: usize, id: u32) -> Result<(), NoAnswer> {
        let mailbox = calls::mailbox(id).ok_or(NoAnswer(id))?;
        let place = &self.page().cores[slot];
        place.hardware_id.store(id, Ordering::Relaxed);
        place.since_cycle.store(rdtsc(), Ordering::Relaxed);
        let address = match self.wall {
            Some(wall) => {
                wall.expect_core(slot, id).map_err(|OutOfMemory| NoAnswer(id))?;
                wall.gate_address(slot)
            }
            None => self.box_address(slot),
        };
        mailbox.wait_at(address).map_err(|_| NoAnswer(id))?;
        place.state.store(CoreBox::PARKED, Ordering::Release);
        Ok(())
    }

    /// Interrupts its first core, which then looks at its page and its messages.
    pub fn ring(&self) {
        if let Some(id) = self.cores[0] {
            apic::ring_core(id);
        }
    }

    /// Begins to bring one of its cores back by force, by NMI only if its kernel can take one.
    ///
    /// # Errors
    /// [`NoAnswer`] if the core is not its own, or is lost.
    pub fn begin_reset(&self, id: u32) -> Result<Reset, NoAnswer> {
        let (slot, id) = self.cores().find(|(_, own)| *own == id).ok_or(NoAnswer(id))?;
        Reset::begin(id, self.force(slot))
    }

    /// The deed by which it broke out of its wall; `None` if it has not, or has no wall.
    pub fn breach(&self) -> Option<Breach> {
        self.wall?.breach.get()
    }

    /// The instructions at which cores were stopped behind its wall, with the numbers of their boxes; none without a wall, and of cores that
    /// left by themselves.
    pub fn stopped_at(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.cores().filter_map(|(slot, _)| Some((slot, self.wall?.stopped_at(slot)?)))
    }

    /// Counts how often its cores have left its wall; 0 without one.
    pub fn exits(&self) -> u64 {
        self.wall.map_or(0, Wall::exits)
    }

    /// The place of the core of a box, as the supervisor knows; `None` for a box without one.
    pub fn core_state(&self, slot: usize) -> Option<CorePlace> {
        calls::core_place(self.cores.get(slot).copied().flatten()?)
    }

    /// Begins to end it by force.
    pub fn begin_stop(&self) -> Stop {
        let mut stop = Stop { resets: [const { None }; CORES_MAX], lost: None };
        for (slot, id) in self.cores() {
            match self.begin_reset(id) {
                Ok(reset) => stop.resets[slot] = Some(reset),
                Err(error) => stop.lost = Some(error),
            }
        }
        stop
    }

    /// A core whose kernel surely has its interrupt table loaded is asked by NMI first.
    fn force(&self, slot: usize) -> Force {
        const SETTLED_MS: u64 = 5;
        if let Some(wall) = self.wall {
            return if wall.order_stop(slot) { Force::Ask } else { Force::Init };
        }
        let place = &self.page().cores[slot];
        let age = rdtsc().saturating_sub(place.since_cycle.load(Ordering::Relaxed));
        let has_table = self.page().life.state.load(Ordering::Acquire) == ZoneLife::STANDING
            && place.state.load(Ordering::Acquire) == CoreBox::RUNNING
            && age > SETTLED_MS * time::cycles_per_ms();
        if has_table { Force::Ask } else { Force::Init }
    }

    /// Ends it by force and waits until all its cores are back in the loop and its devices still: a few seconds at most.
    ///
    /// # Errors
    /// [`StopError`] of the last part that does not obey; the others do.
    pub fn stop(&mut self) -> Result<(), StopError> {
        let mut stop = self.begin_stop();
        while !stop.step() {
            core::hint::spin_loop();
        }
        self.finish(&stop)
    }

    /// Ends what [`Instance::begin_stop`] began, once all its steps are done: the devices are stilled, the boxes empty.
    ///
    /// # Errors
    /// As [`Instance::stop`].
    pub fn finish(&mut self, stop: &Stop) -> Result<(), StopError> {
        for place in &self.page().cores {
            place.state.store(CoreBox::ABSENT, Ordering::Release);
        }
        let mut stuck = None;
        for address in self.devices() {
            stuck = devices::settle(*address).err().or(stuck);
        }
        match (stop.lost, stuck) {
            (Some(error), _) => Err(StopError::Core(error)),
            (None, Some(device)) => Err(StopError::Device(device.0)),
            (None, None) => Ok(()),
        }
    }

    /// Gives up a stopped instance: its lots are dirty from now on, and may be cleared or used again by an instance with its number.
    ///
    /// # Errors
    /// The instance itself, if one of its cores is not in the loop (or lost), so that it may still run.
    pub fn release(self) -> Result<(), Instance> {
        let is_away = |(_, id): (usize, u32)| !matches!(calls::core_place(id), Some(CorePlace::Idle));
        if self.cores().any(is_away) {
            return Err(self);
        }
        lots::leave_all(self.number);
        if let Some(wall) = self.wall {
            wall.tear_down();
        }
        Ok(())
    }
}
