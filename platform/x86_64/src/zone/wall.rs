//! The wall around a zone: a nested table that grants its own memory and devices, and a [`Warden`] for each of its cores.
//!
//! Each core of the zone's list has a *gate box* here beside its box in the shared page. The parking loop looks at gate boxes alone, which
//! lie in memory of the supervisor, so a zone cannot send a core anywhere but into its warden; it asks by a call. Whatever the zone writes in
//! its own box becomes state of the guest.
//!
//! The table grows while the zone runs: an entry that was absent is remembered by no core. If it shrinks, each core that is in comes out once
//! before [`Wall::withdraw`] returns.
//!
//! Left out: a device that a zone moves, or that it lets write elsewhere: without an IOMMU nobody holds that back.

use super::breach::{Breach, FirstBreach};
use super::parking::parking;
use super::pool::pool;
use super::wall_calls::Called;
use super::warden::{Warden, gyre_warden};
use super::{calls, mailbox, warden_code};
use crate::guest::{self, Flat32, Halt, Interrupts, Levels, NestedTable, Options};
use crate::instructions::{cpuid, rdtsc};
use crate::lock::SpinLock;
use crate::memory::frame::Frame;
use crate::pci::PciDevice;
use crate::{apic, time};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use gyre_platform::zone_page::PARKING_VECTOR;
use gyre_platform::{
    CORES_MAX, CoreBox, MapError, MapFlags, MemoryRegion, OutOfMemory, PAGE_BYTES, Pa, PciAddress, ZonePage, ZonePlan,
};

const PAGE: u64 = PAGE_BYTES as u64;
const NOBODY: u32 = u32::MAX;
const IDENTITY_END: u64 = 4 << 30;
/// The timer's deadline: the register belongs to who runs on the core.
const TSC_DEADLINE: u32 = 0x6e0;
/// One call of a zone waits so long for a core that is on its way to its gate box; the zone may ask again.
const ON_ITS_WAY_US: u64 = 1000;
/// The time that a core may take to come out once; less than a second, since whoever waits spins.
const OUT_MS: u64 = 800;
const BARS: u8 = 6;
/// Instances to which a walled zone has links.
const DOORS: usize = 16;
/// Memory of a zone, and registers of its devices.
const MEMORY: MapFlags = MapFlags::WRITE.union(MapFlags::EXECUTE);
/// Memory of a link: no code.
const LINK: MapFlags = MapFlags::WRITE;
const DEVICE: MapFlags = MapFlags::WRITE.union(MapFlags::DEVICE);

/// The wall of one instance.
pub(crate) struct Wall {
    table: SpinLock<NestedTable>,
    root: u64,
    /// The page of gate boxes.
    boxes: Frame,
    /// The page that zone and supervisor share.
    page: *const ZonePage,
    wardens: [AtomicPtr<Warden>; CORES_MAX],
    /// Hardware ids of the zone's cores.
    members: [AtomicU32; CORES_MAX],
    /// Entry and start information of the first core; 0 once it has begun.
    first: [AtomicU64; 2],
    /// Hardware id of the core that the zone rings.
    supervisor_core: u32,
    /// Hardware ids of the cores that take the interrupts of its links, by the number of the other end.
    doors: [AtomicU32; DOORS],
    /// Commands to cores that are not the zone's.
    dropped: AtomicU64,
    /// The deed that ended the zone.
    pub(super) breach: FirstBreach,
}

// SAFETY: the page is mapped as long as the wall's instance lives, and all that changes in it are atomics; wardens are made by one core and
// opened by the one that is in them; the rest is atomics and a lock.
unsafe impl Sync for Wall {}
// SAFETY: as above.
unsafe impl Send for Wall {}

impl core::fmt::Debug for Wall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Wall")
    }
}

/// The parts of the machine inside of a wall.
pub(super) struct Inner<'a> {
    /// Its lots.
    pub(super) lots: &'a [MemoryRegion],
    /// Its PCI functions.
    pub(super) devices: &'a [PciAddress],
    /// The discriminant of its protection.
    pub(super) protection: u32,
    /// Physical addresses of its entry and of what the loader tells.
    pub(super) first: Flat32,
}

/// True for a level of protection that needs a wall.
pub(super) fn is_walled(protection: u32) -> bool {
    matches!(protection, ZonePlan::NESTED | ZonePlan::NESTED_APIC)
}

/// True if this machine can build walls.
pub fn has_walls() -> bool {
    guest::levels() == Levels::Nested
}

impl Wall {
    /// Builds the wall of an instance that is about to start; it lives until [`Wall::tear_down`].
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn build(inner: &Inner, page: &ZonePage) -> Result<&'static Wall, OutOfMemory> {
        warden_code::prepare()?;
        let boxes = Frame::allocate(0)?;
        if boxes.pa().0 >= IDENTITY_END {
            return Err(OutOfMemory);
        }
        let table = grant(inner)?;
        let wall = Wall {
            root: table.root(),
            table: SpinLock::new(table),
            boxes,
            page,
            wardens: [const { AtomicPtr::new(core::ptr::null_mut()) }; CORES_MAX],
            members: [const { AtomicU32::new(NOBODY) }; CORES_MAX],
            first: [AtomicU64::new(inner.first.rip), AtomicU64::new(inner.first.rbx)],
            supervisor_core: crate::zone().core_ids[0],
            doors: [const { AtomicU32::new(NOBODY) }; DOORS],
            dropped: AtomicU64::new(0),
            breach: FirstBreach::new(),
        };
        Ok(Box::leak(Box::new(wall)))
    }

    /// Tears it down. No core is in it, and the zone has ended.
    pub(super) fn tear_down(&'static self) {
        for place in &self.wardens {
            let warden = place.swap(core::ptr::null_mut(), Ordering::AcqRel);
            if !warden.is_null() {
                // SAFETY: made by `expect_core`, taken out of its place just now, and no core is in it.
                drop(unsafe { (warden.read(), Frame::from_pa(warden as u64 - crate::paging::DIRECT_MAP)) });
            }
        }
        // SAFETY: leaked by `build`; its instance, the only one that knows of it, gives it up.
        drop(unsafe { Box::from_raw(core::ptr::from_ref(self).cast_mut()) });
    }

    /// The root of the nested table.
    pub(super) fn root(&self) -> u64 {
        self.root
    }

    fn warden(&self, slot: usize) -> Option<&Warden> {
        let warden = self.wardens.get(slot)?.load(Ordering::Acquire);
        // SAFETY: null or made by `expect_core`, and kept until the wall is torn down.
        unsafe { warden.as_ref() }
    }

    /// The gate box of a slot.
    fn gate(&self, slot: usize) -> &CoreBox {
        let place = self.boxes.start().cast::<CoreBox>().wrapping_add(slot.min(CORES_MAX - 1));
        // SAFETY: inside the frame, zeroed at first, and made of atomics.
        unsafe { &*place }
    }

    /// The physical address of a gate box.
    pub(super) fn gate_address(&self, slot: usize) -> u64 {
        self.boxes.pa().0 + (slot * size_of::<CoreBox>()) as u64
    }

    /// The box of a slot in the shared page.
    pub(super) fn place(&self, slot: usize) -> &CoreBox {
        // SAFETY: the page is mapped as long as the instance lives.
        &unsafe { &*self.page }.cores[slot.min(CORES_MAX - 1)]
    }

    /// Gets ready for a core of the pool: its warden, and the way there in its gate box.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn expect_core(&self, slot: usize, id: u32) -> Result<calls::ZoneEntry, OutOfMemory> {
        let warden = match self.warden(slot) {
            Some(warden) => warden,
            None => self.make_warden(slot)?,
        };
        warden.get_ready();
        self.members[slot].store(id, Ordering::Release);
        let way = calls::ZoneEntry {
            root: parking().map_or(0, |parking| parking.crossing),
            stack: warden.stack_end(),
            entry: gyre_warden as *const () as u64,
            argument: core::ptr::from_ref(warden) as u64,
        };
        let gate = self.gate(slot);
        gate.root.store(way.root, Ordering::Relaxed);
        gate.stack.store(way.stack, Ordering::Relaxed);
        gate.entry.store(way.entry, Ordering::Relaxed);
        gate.argument.store(way.argument, Ordering::Relaxed);
        gate.state.store(CoreBox::PARKED, Ordering::Release);
        Ok(way)
    }

    fn make_warden(&self, slot: usize) -> Result<&Warden, OutOfMemory> {
        let registers: &[u32] = if cpuid(1, 0)[2] >> 24 & 1 == 1 { &[TSC_DEADLINE] } else { &[] };
        let options = Options { interrupts: Interrupts::Direct, halt: Halt::Stays, ports: &[], registers };
        let core =
            guest::Core::new(&guest::Start::Flat32(Flat32 { rip: 0, rbx: 0 }), &options).map_err(|_| OutOfMemory)?;
        let pages = size_of::<Warden>().div_ceil(PAGE_BYTES).next_power_of_two();
        let frame = Frame::allocate(pages.trailing_zeros() as u8)?;
        let place = frame.start().cast::<Warden>();
        frame.into_pa();
        // SAFETY: frames of at least the warden's length and of its alignment, which are its own from here on.
        unsafe { place.write(Warden::new(self, slot, core)) };
        self.wardens[slot].store(place, Ordering::Release);
        self.warden(slot).ok_or(OutOfMemory)
    }

    /// Forgets a core that has left.
    pub(super) fn forget_core(&self, slot: usize) {
        self.members[slot].store(NOBODY, Ordering::Release);
    }

    /// Orders a core out; true if it is in, and takes an NMI.
    pub(super) fn order_stop(&self, slot: usize) -> bool {
        self.warden(slot).is_some_and(|warden| {
            warden.order_stop();
            warden.is_inside()
        })
    }

    /// The instruction at which the core of a slot was stopped.
    pub(super) fn stopped_at(&self, slot: usize) -> Option<u64> {
        self.warden(slot)?.stopped_at()
    }

    /// Counts how often the zone's cores have left the wall.
    pub(super) fn exits(&self) -> u64 {
        (0..CORES_MAX).filter_map(|slot| self.warden(slot)).fold(0, |sum, warden| sum.wrapping_add(warden.exits()))
    }

    /// Grants memory of the zone while it runs.
    ///
    /// # Errors
    /// [`OutOfMemory`], for tables.
    pub(super) fn extend(&self, region: MemoryRegion) -> Result<(), OutOfMemory> {
        self.table.with(|table| table.map(region, MEMORY)).map_err(|_| OutOfMemory)
    }

    /// Opens a door for a link: the zone reaches the link's memory, and may ring the core of its other end. The memory stays in reach, for programs of
    /// the zone may hold pages of it; the supervisor gives it to no other link.
    ///
    /// # Errors
    /// [`OutOfMemory`], for tables, or for one link too many.
    pub(super) fn open_door(&self, region: MemoryRegion, peer: u16, core: u32) -> Result<(), OutOfMemory> {
        let door = self.doors.get(usize::from(peer)).ok_or(OutOfMemory)?;
        match self.table.with(|table| table.map(region, LINK)) {
            // as it was left by the link's last life
            Ok(()) | Err(MapError::Occupied) => {}
            Err(_) => return Err(OutOfMemory),
        }
        door.store(core, Ordering::Release);
        Ok(())
    }

    /// Closes the door of a link that is down: its other end is rung no more.
    pub(super) fn close_door(&self, peer: u16) {
        self.doors.get(usize::from(peer)).into_iter().for_each(|door| door.store(NOBODY, Ordering::Release));
    }

    /// Takes memory of the zone away while it runs. No core reaches it when this returns.
    ///
    /// # Errors
    /// [`OutOfMemory`], for tables: nothing is taken then. Also if a core does not come out in time: it is to be reset.
    pub(super) fn withdraw(&self, region: MemoryRegion) -> Result<(), OutOfMemory> {
        self.table.with(|table| table.unmap(region)).map_err(|_| OutOfMemory)?;
        if self.all_come_out() { Ok(()) } else { Err(OutOfMemory) }
    }

    /// Grants a PCI function while the zone runs.
    ///
    /// # Errors
    /// [`OutOfMemory`], for tables.
    pub(super) fn extend_device(&self, address: PciAddress) -> Result<(), OutOfMemory> {
        self.table.with(|table| grant_device(table, address))
    }

    /// Takes a PCI function away while the zone runs, as [`Wall::withdraw`].
    ///
    /// # Errors
    /// As [`Wall::withdraw`].
    pub(super) fn withdraw_device(&self, address: PciAddress) -> Result<(), OutOfMemory> {
        let mut is_done = true;
        for_each_range(address, |range| {
            is_done &= self.table.with(|table| table.unmap(range)).is_ok();
            Ok(())
        })?;
        if is_done && self.all_come_out() { Ok(()) } else { Err(OutOfMemory) }
    }

    fn all_come_out(&self) -> bool {
        let is_in = |slot: usize, one: &Warden| one.is_inside() && !self.is_in_the_loop(slot);
        let inside =
            || (0..CORES_MAX).filter_map(|slot| Some((slot, self.warden(slot).filter(|one| is_in(slot, one))?)));
        let before: [u64; CORES_MAX] =
            core::array::from_fn(|slot| self.warden(slot).map_or(0, |warden| warden.exits()));
        for (slot, warden) in inside() {
            warden.order_out();
            apic::send_nmi_to(self.members[slot].load(Ordering::Acquire));
        }
        let is_out = |slot: usize| self.warden(slot).is_none_or(|one| !is_in(slot, one) || one.exits() != before[slot]);
        waits(OUT_MS * time::cycles_per_ms(), || (0..CORES_MAX).all(is_out))
    }

    /// True of a core that was taken back by INIT: its warden never learned that it has left.
    fn is_in_the_loop(&self, slot: usize) -> bool {
        let id = self.members[slot].load(Ordering::Acquire);
        calls::mailbox(id).is_some_and(|mailbox| matches!(mailbox.state(), mailbox::IDLE | mailbox::BOXED))
    }
}

/// The part for wardens: on cores that no engine has.
impl Wall {
    /// The start of the zone, for its first core, once.
    pub(super) fn take_first(&self, slot: usize) -> Option<Flat32> {
        let rip = if slot == 0 { self.first[0].swap(0, Ordering::AcqRel) } else { 0 };
        (rip != 0).then(|| Flat32 { rip, rbx: self.first[1].load(Ordering::Relaxed) })
    }

    /// Says in the shared page that a core is about to wait at its box.
    pub(super) fn tell_parked(&self, slot: usize) {
        self.place(slot).since_cycle.store(rdtsc(), Ordering::Relaxed);
        self.place(slot).state.store(CoreBox::PARKED, Ordering::Release);
    }

    /// Notes a breach that was seen in this slot, calls the other cores out, and tells the supervisor.
    pub(super) fn note(&self, breach: Breach, here: usize) {
        self.breach.note(breach);
        for slot in (0..CORES_MAX).filter(|slot| *slot != here) {
            if self.order_stop(slot) {
                apic::send_nmi_to(self.members[slot].load(Ordering::Acquire));
            }
        }
        self.ring();
    }

    /// Rings the supervisor.
    pub(super) fn ring(&self) {
        apic::ring_core(self.supervisor_core);
    }

    /// Lets the core that waits at a gate box in. One that has told the zone that it parks may take a while to get there.
    pub(super) fn call_core(&self, slot: u64) -> Called {
        let Some(slot) = usize::try_from(slot).ok().filter(|slot| *slot < CORES_MAX) else { return Called::Nobody };
        let id = self.members[slot].load(Ordering::Acquire);
        if id == NOBODY {
            return Called::Nobody;
        }
        let state = &self.gate(slot).state;
        let call = || state.compare_exchange(CoreBox::PARKED, CoreBox::CALLED, Ordering::AcqRel, Ordering::Acquire);
        if !waits(ON_ITS_WAY_US * time::cycles_per_ms() / 1000, || call().is_ok()) {
            return Called::OnItsWay;
        }
        apic::interrupt(id, PARKING_VECTOR);
        Called::Coming
    }

    /// Sends a command of the zone, if it is for a core of its own, the supervisor's bell, or that of a link's other end.
    pub(super) fn send(&self, target: u32, command: u32) {
        let is_among =
            |all: &[AtomicU32]| target != NOBODY && all.iter().any(|id| id.load(Ordering::Acquire) == target);
        let is_bell = target == self.supervisor_core && apic::is_bell(command);
        if is_among(&self.members) || is_bell || apic::is_link_bell(command) && is_among(&self.doors) {
            apic::command_for_zone(target, command);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn waits(cycles: u64, is_so: impl Fn() -> bool) -> bool {
    let end = rdtsc().saturating_add(cycles);
    while rdtsc() < end {
        if is_so() {
            return true;
        }
        core::hint::spin_loop();
    }
    is_so()
}

fn grant(inner: &Inner) -> Result<NestedTable, OutOfMemory> {
    let mut table = NestedTable::new()?;
    for region in inner.lots {
        table.map(*region, MEMORY).map_err(|_| OutOfMemory)?;
    }
    for address in inner.devices {
        grant_device(&mut table, *address)?;
    }
    let registers = apic::registers_address();
    if inner.protection == ZonePlan::NESTED && registers != 0 {
        let page = MemoryRegion { start: Pa(registers), bytes: PAGE };
        table.map(page, DEVICE).map_err(|_| OutOfMemory)?;
    }
    Ok(table)
}

fn grant_device(table: &mut NestedTable, address: PciAddress) -> Result<(), OutOfMemory> {
    for_each_range(address, |range| match table.map(range, DEVICE) {
        // Two registers of a function in one page.
        Ok(()) | Err(MapError::Occupied) => Ok(()),
        Err(_) => Err(OutOfMemory),
    })
}

/// Tells the pages of a function: its configuration space and its memory.
fn for_each_range(
    address: PciAddress,
    mut tell: impl FnMut(MemoryRegion) -> Result<(), OutOfMemory>,
) -> Result<(), OutOfMemory> {
    let configuration = crate::acpi::tables().and_then(|tables| tables.configuration);
    if let Some((base, ..)) = configuration {
        let number = u64::from(address.bus) << 8 | u64::from(address.device) << 3 | u64::from(address.function);
        tell(MemoryRegion { start: Pa(base + number * PAGE), bytes: PAGE })?;
    }
    let Some(device) = device_of(address) else { return Ok(()) };
    for number in 0..BARS {
        let Ok((start, bytes)) = device.bar_range(number) else { continue };
        let end = start.0.saturating_add(bytes).next_multiple_of(PAGE);
        let first = start.0 / PAGE * PAGE;
        tell(MemoryRegion { start: Pa(first), bytes: end - first })?;
    }
    Ok(())
}

fn device_of(address: PciAddress) -> Option<PciDevice> {
    let is_own = pool().devices().contains(&address);
    let listed = crate::pci_listing().iter().find(|function| is_own && function.address == address)?;
    Some(PciDevice { address, id: listed.id })
}
