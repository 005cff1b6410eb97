//! The device: its queues, its interrupts, its failures.
//!
//! A request is in one of these states:
//!
//! ```text
//!   begin --room--> at the device (in a queue's ring) --collect--> answered
//!     |                  ^                            --recover--> failed, after a reset
//!     +--no room--> waiting, in order --an answer makes room--+
//!     +--dead device--> refused
//! ```
//!
//! `begin` may run on any core; a core uses the queue whose interrupts it has. `collect` runs after an interrupt of a queue, `look` at each tick. The count
//! `in_flight` bounds what is at the device over all queues. The doorbell is rung at the end of a core's turn, once for all requests of that turn.
//!
//! Locks: the list of waiting requests before a queue; all queues in their order, for a reset. None is held while an asker gets its answer. A device is
//! given up under the locks of all queues, so that no request enters a ring that is not looked at any more.

use crate::bus::Bus;
use crate::own_time::OwnTime;
use crate::queue::{CHAIN_PIECES_MAX, Queue, add};
use crate::request::{Asker, DATA_PIECES_MAX, Done, Kind, Pending, total_bytes};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use gyre_device::{DiskStatistics, InterruptLine};
use gyre_interface::block::Geometry;
use gyre_machine::{DeviceError, core_index, cycles_per_ms, now};
use gyre_message::{Late, at_end_of_turn};
use gyre_object::{Bytes, SpinLock};
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio::{Transport, begin, finish, startup};
use smallvec::SmallVec;

const FEATURE_SEGMENTS_MAX: u64 = 1 << 2;
const FEATURE_READ_ONLY: u64 = 1 << 5;
const FEATURE_FLUSH: u64 = 1 << 9;
const FEATURE_QUEUES: u64 = 1 << 12;
const RING_FEATURES: u64 = INDIRECT_DESCRIPTORS | EVENT_INDEX;
const BLOCK_FEATURES: u64 = FEATURE_SEGMENTS_MAX | FEATURE_READ_ONLY | FEATURE_FLUSH | FEATURE_QUEUES | RING_FEATURES;
const CONFIG_CAPACITY: usize = 0;
const CONFIG_SEGMENTS_MAX: usize = 12;
const CONFIG_QUEUES: usize = 34;
const CONFIG_SCSI_QUEUES: usize = 0;
const CONFIG_SCSI_SEGMENTS_MAX: usize = 4;
/// A device is looked at so many times while a request may take.
const LOOKS_PER_TIMEOUT: u64 = 12;
/// The driver uses so many queues at most.
const QUEUES_MAX: usize = 64;

/// How the driver uses its device.
#[derive(Clone, Copy, Debug)]
pub struct BlockOptions {
    /// Most requests at the device, over all of its queues; the rest waits in order of its scheduler.
    pub depth: u16,
    /// A request that takes longer fails and the device is reset, ms of the device's own time: a pause of the whole machine is no time of it.
    pub timeout_ms: u64,
}

impl Default for BlockOptions {
    fn default() -> BlockOptions {
        // As Linux gives a SCSI disk (SD_TIMEOUT in drivers/scsi/sd.h): a host that writes much may need 10 s for a flush.
        BlockOptions { depth: 32, timeout_ms: 30_000 }
    }
}

/// Why a request was not given to the device.
enum Refusal {
    /// The device has as many as it takes.
    Full(Pending),
    /// The device was given up.
    Dead(Pending),
}

/// A queue, and the line of its interrupts.
struct Lane {
    queue: SpinLock<Queue>,
    line: InterruptLine,
}

/// A disk behind virtio: a block device, or the host adapter of a SCSI unit. Lives as long as the instance.
pub struct VirtioDisk {
    transport: Box<dyn Transport>,
    bus: Bus,
    lanes: Vec<Lane>,
    /// Requests at the device: what bounds them over all queues.
    in_flight: AtomicU16,
    /// When the device last answered: until then others had it, cycles.
    answered_cycles: AtomicU64,
    dead: AtomicBool,
    /// Data that a device which does not reset may still write to.
    kept: SpinLock<Vec<Vec<Bytes>>>,
    waits: AtomicU64,
    resets: AtomicU64,
    waiting: SpinLock<VecDeque<Pending>>,
    /// Requests that wait, counted before they look for room for the last time.
    waiting_count: AtomicU16,
    /// `None` behind a SCSI host: who speaks to the unit asks it.
    pub(crate) geometry: Option<Geometry>,
    pub(crate) has_flush: bool,
    options: BlockOptions,
    own_time: OwnTime,
}

impl VirtioDisk {
    /// Starts the device with a queue for each of `cores`, up to what it has; a queue's interrupts arrive on its core.
    ///
    /// # Errors
    /// [`DeviceError`]; [`DeviceError::Protocol`] also if it is no disk or takes too few pieces.
    pub fn new(
        transport: Box<dyn Transport>,
        cores: &[usize],
        options: BlockOptions,
    ) -> Result<VirtioDisk, DeviceError> {
        let bus = Bus::of(transport.device_kind())?;
        let features = begin(&*transport, wanted(bus))?;
        let offered = offered_queues(&*transport, bus, features)?;
        let mut lanes = Vec::new();
        for (number, core) in (0..offered).zip(cores) {
            let line = transport.attach_interrupt(number, *core)?;
            let queue = Queue::new(&*transport, bus, bus.queue(number), (features, options.depth), number)?;
            lanes.push(Lane { queue: SpinLock::new(queue), line: InterruptLine { core: *core, line } });
        }
        if lanes.is_empty() {
            return Err(DeviceError::Protocol);
        }
        let geometry = (bus == Bus::Block).then(|| Geometry {
            sectors: transport.config_u64(CONFIG_CAPACITY),
            read_only: features & FEATURE_READ_ONLY != 0,
        });
        finish(&*transport);
        Ok(VirtioDisk {
            transport,
            bus,
            lanes,
            in_flight: AtomicU16::new(0),
            answered_cycles: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            kept: SpinLock::default(),
            waits: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            waiting: SpinLock::default(),
            waiting_count: AtomicU16::new(0),
            geometry,
            has_flush: features & FEATURE_FLUSH != 0,
            options,
            own_time: OwnTime::default(),
        })
    }

    pub(crate) fn lines(&self) -> Vec<InterruptLine> {
        self.lanes.iter().map(|lane| lane.line).collect()
    }

    /// Returns true if this is a SCSI host: it takes commands in place of transfers.
    pub fn is_scsi(&self) -> bool {
        self.bus == Bus::Scsi
    }

    pub(crate) fn has_place(&self) -> bool {
        self.dead.load(Ordering::Acquire) || self.in_flight.load(Ordering::Acquire) < self.options.depth
    }

    pub(crate) fn depth_max(&self) -> u16 {
        self.options.depth
    }

    pub(crate) fn seen(&self) -> DiskStatistics {
        let mut sum = DiskStatistics {
            waits: self.waits.load(Ordering::Relaxed),
            resets: self.resets.load(Ordering::Relaxed),
            depth: self.in_flight.load(Ordering::Relaxed),
            ..DiskStatistics::default()
        };
        for lane in &self.lanes {
            let counts = lane.queue.lock().counts;
            add(&mut sum.completed, counts.completed);
            add(&mut sum.read_bytes, counts.read_bytes);
            add(&mut sum.written_bytes, counts.written_bytes);
            add(&mut sum.reads, counts.reads);
            add(&mut sum.writes, counts.writes);
            add(&mut sum.flushes, counts.flushes);
        }
        sum
    }

    /// Answers all requests of a queue that the device is done with. Short; never waits.
    pub(crate) fn collect(&'static self, queue: usize) {
        let Some(lane) = self.lanes.get(queue) else { return };
        let mut done: SmallVec<[Done; 2]> = SmallVec::new();
        let broken = !self.dead.load(Ordering::Acquire) && lane.queue.lock().collect(&mut done);
        let count = done.len() as u16;
        self.in_flight.fetch_sub(count, Ordering::SeqCst);
        // In place: they are large.
        for one in done.drain(..) {
            let (kind, bytes) = (one.pending.kind, total_bytes(&one.pending.data));
            let verdict = self.bus.judge(&one.answer, kind, bytes, one.bytes);
            one.pending.finish(verdict, self.answered_cycles.swap(now(), Ordering::AcqRel));
        }
        if broken {
            self.recover();
        }
        self.start_waiting();
    }

    /// Looks for lost interrupts, lost doorbells and late requests. Returns after how many cycles to look again, if requests are at the device.
    pub(crate) fn look(&'static self) -> Option<u64> {
        // A lost interrupt costs time, not the request.
        (0..self.lanes.len()).for_each(|queue| self.collect(queue));
        let period = self.period_cycles();
        let time = self.own_time.look(now(), period);
        if self.lanes.iter().any(|lane| lane.queue.lock().is_late(time)) {
            self.recover();
            self.start_waiting();
        }
        self.ring_again();
        (self.in_flight.load(Ordering::SeqCst) > 0).then_some(period)
    }

    /// Tells the device of all requests that it has, whatever it wishes to be told: an emulator that does not keep the order of our index and its wish
    /// misses one of them now and then (QEMU before 8.1 leaves fences out of a machine of one processor).
    fn ring_again(&self) {
        if self.dead.load(Ordering::Acquire) {
            return;
        }
        let doorbells = self.lanes.iter().filter_map(|lane| lane.queue.lock().doorbell_again());
        doorbells.for_each(|doorbell| self.transport.notify(doorbell));
    }

    /// The time between two looks, cycles.
    fn period_cycles(&self) -> u64 {
        (self.timeout_cycles() / LOOKS_PER_TIMEOUT).saturating_add(1)
    }

    fn timeout_cycles(&self) -> u64 {
        self.options.timeout_ms.saturating_mul(cycles_per_ms())
    }

    /// Has the device do something. A request that finds no room waits here, in order, until an answer makes room.
    pub(crate) fn begin(&'static self, kind: Kind, first_sector: u64, data: Vec<Bytes>, asker: Asker) {
        let pending = Pending { kind, slot: 0, data, first_sector, submitted_cycles: 0, deadline_own: 0, asker };
        match self.try_start(pending) {
            Ok(()) => {}
            Err(Refusal::Full(pending)) => self.wait_for_room(pending),
            Err(Refusal::Dead(pending)) => pending.refuse(),
        }
    }

    /// Lets a request wait, unless there is room after all: (1) it is counted, (2) it looks again. Whoever makes room does so before it reads the
    /// count. So either this look finds the room, or that reader finds the request.
    #[cold]
    fn wait_for_room(&'static self, pending: Pending) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waiting_count.fetch_add(1, Ordering::SeqCst);
        self.waiting.lock().push_back(pending);
        self.start_waiting();
    }

    /// Starts requests that wait, as many as there is room for.
    fn start_waiting(&'static self) {
        while self.waiting_count.load(Ordering::SeqCst) > 0 {
            let mut waiting = self.waiting.lock();
            let Some(first) = waiting.pop_front() else { return };
            // Under the list's lock, so that none is put back behind one that came later.
            let refused = match self.try_start(first) {
                Ok(()) => None,
                Err(Refusal::Full(first)) => return waiting.push_front(first),
                Err(Refusal::Dead(first)) => Some(first),
            };
            drop(waiting);
            self.waiting_count.fetch_sub(1, Ordering::SeqCst);
            refused.into_iter().for_each(Pending::refuse);
        }
    }

    /// The queue of this core.
    fn lane(&self) -> Option<&Lane> {
        let core = core_index();
        let own = self.lanes.iter().find(|lane| lane.line.core == core);
        own.or_else(|| self.lanes.get(core.checked_rem(self.lanes.len())?))
    }

    /// Gives a request to the device; gives it back if there is no room now or never will be.
    fn try_start(&'static self, mut pending: Pending) -> Result<(), Refusal> {
        let Some(lane) = self.lane() else { return Err(Refusal::Dead(pending)) };
        let more = |count: u16| count.checked_add(1).filter(|more| *more <= self.options.depth.max(1));
        if self.in_flight.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
            return Err(Refusal::Full(pending));
        }
        pending.submitted_cycles = now();
        pending.deadline_own = self.own_time.deadline(self.timeout_cycles(), self.period_cycles());
        let mut queue = lane.queue.lock();
        // A device is given up under the locks of all queues.
        let refused = match self.dead.load(Ordering::Acquire) {
            true => Err(Refusal::Dead(pending)),
            false => queue.start(pending).map_err(Refusal::Full),
        };
        drop(queue);
        match refused {
            Ok(()) => at_end_of_turn(self),
            Err(_) => _ = self.in_flight.fetch_sub(1, Ordering::SeqCst),
        }
        refused
    }

    /// Returns whether requests are at the device, or wait for it. One that comes out of the list of those who wait is counted at the device
    /// before it is no longer counted there.
    fn has_requests(&self) -> bool {
        self.waiting_count.load(Ordering::SeqCst) > 0 || self.in_flight.load(Ordering::SeqCst) > 0
    }

    /// Returns whether the device works and has no request. A reset, which takes requests back, is over or has not begun.
    pub(crate) fn is_still(&self) -> bool {
        let queues: Vec<_> = self.lanes.iter().map(|lane| lane.queue.lock()).collect();
        let is_still = !self.dead.load(Ordering::Acquire) && !self.has_requests();
        drop(queues);
        is_still
    }

    /// Resets the device and takes no request any more; false if it has one.
    pub(crate) fn retire(&self) -> bool {
        let queues: Vec<_> = self.lanes.iter().map(|lane| lane.queue.lock()).collect();
        if self.has_requests() {
            return false;
        }
        self.dead.store(true, Ordering::Release);
        // A device that does not reset is the supervisor's to deal with: it still stops its accesses to memory.
        let _ = startup::reset(&*self.transport);
        drop(queues);
        true
    }

    /// Resets the device and fails everything that it had.
    fn recover(&self) {
        // All queues, always in this order: nobody holds one and waits for another.
        let mut queues: Vec<_> = self.lanes.iter().map(|lane| lane.queue.lock()).collect();
        if self.dead.load(Ordering::Acquire) {
            return;
        }
        self.resets.fetch_add(1, Ordering::Relaxed);
        let alive = startup::reset(&*self.transport).is_ok();
        let pending: Vec<Pending> = queues.iter_mut().flat_map(|queue| queue.clear()).collect();
        self.in_flight.fetch_sub(pending.len() as u16, Ordering::SeqCst);
        let works = alive && begin(&*self.transport, wanted(self.bus)).is_ok() && {
            let mut numbered = queues.iter_mut().zip(0..);
            let again = |(queue, number): (&mut _, u16)| {
                Queue::enable_again(queue, &*self.transport, self.bus.queue(number), number).is_ok()
            };
            numbered.all(|(queue, number)| again((&mut **queue, number)))
        };
        match works {
            true => finish(&*self.transport),
            false => self.dead.store(true, Ordering::Release),
        }
        drop(queues);
        let data: Vec<_> = pending.into_iter().map(Pending::fail).collect();
        if !alive {
            self.kept.lock().extend(data);
        }
    }
}

impl Late for VirtioDisk {
    /// Tells the device of all requests that this core has put into its queue since it was told last: once for those that come together, which
    /// it may then join.
    fn do_late(&self) {
        let doorbell = self.lane().and_then(|lane| lane.queue.lock().publish());
        if let Some(doorbell) = doorbell {
            self.transport.notify(doorbell);
        }
    }
}

fn wanted(bus: Bus) -> u64 {
    if bus == Bus::Scsi { RING_FEATURES } else { BLOCK_FEATURES }
}

/// How many request queues the device has, at least one.
fn offered_queues(transport: &dyn Transport, bus: Bus, features: u64) -> Result<u16, DeviceError> {
    let (segments, queues) = match bus {
        Bus::Scsi => (transport.config_u32(CONFIG_SCSI_SEGMENTS_MAX), transport.config_u32(CONFIG_SCSI_QUEUES)),
        Bus::Block => {
            let segments = features & FEATURE_SEGMENTS_MAX != 0;
            let queues = features & FEATURE_QUEUES != 0;
            (
                if segments { transport.config_u32(CONFIG_SEGMENTS_MAX) } else { 1 },
                if queues { u32::from(transport.config_u16(CONFIG_QUEUES)) } else { 1 },
            )
        }
    };
    // Of a SCSI host's limit, the descriptors of request and answer are a part.
    let needed = if bus == Bus::Scsi { u32::from(CHAIN_PIECES_MAX) } else { DATA_PIECES_MAX as u32 };
    if segments < needed || queues == 0 {
        return Err(DeviceError::Protocol);
    }
    Ok(queues.min(QUEUES_MAX as u32) as u16)
}

#[cfg(test)]
mod tests;
