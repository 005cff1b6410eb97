//! The device: its queues, its interrupts, its failures.

use crate::bus::Bus;
use crate::queue::{CHAIN_PIECES_MAX, Queue, add};
use crate::request::{Answered, DATA_PIECES_MAX, Done, Kind, Pending, Then, total_bytes};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use gyre_interface::block::Geometry;
use gyre_machine::{DeviceError, core_index, cycles_per_ms, now};
use gyre_message::{Late, WaitQueue, at_end_of_turn, reply_pair, sleep_until, spawn};
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
/// Most queues that are used, whatever the device offers.
const QUEUES_MAX: usize = 64;

/// How the driver uses its device.
#[derive(Clone, Copy, Debug)]
pub struct BlockOptions {
    /// Most requests at the device, over all of its queues; the rest waits in order of its scheduler.
    pub depth: u16,
    /// A request that takes longer fails and the device is reset, ms.
    pub timeout_ms: u64,
}

impl Default for BlockOptions {
    fn default() -> BlockOptions {
        BlockOptions { depth: 32, timeout_ms: 10_000 }
    }
}

/// What the driver has seen.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BlockStatistics {
    /// Requests that the device answered.
    pub completed: u64,
    /// Bytes of the data of reads; of a SCSI unit of all that it answered.
    pub read_bytes: u64,
    /// Bytes of the data of writes.
    pub written_bytes: u64,
    /// Flushes of a block device.
    pub flushes: u64,
    /// Times that a request found the device full and waited.
    pub waits: u64,
    /// Times that the device was reset because it was late or lied.
    pub resets: u64,
    /// Requests at the device now.
    pub depth: u16,
}

/// A queue with the core that has its interrupts, and their line there.
struct Lane {
    queue: SpinLock<Queue>,
    core: usize,
    line: u32,
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
    room: WaitQueue,
    busy: WaitQueue,
    /// `None` behind a SCSI host: who speaks to the unit asks it.
    pub(crate) geometry: Option<Geometry>,
    pub(crate) has_flush: bool,
    options: BlockOptions,
}

impl VirtioDisk {
    /// Starts the device with a queue for each of `cores`, up to what it has; a queue's interrupts arrive on its core.
    ///
    /// # Errors
    /// [`DeviceError`]; [`DeviceError::Protocol`] also where it is no disk or takes too few pieces.
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
            lanes.push(Lane { queue: SpinLock::new(queue), core: *core, line });
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
            room: WaitQueue::new(),
            busy: WaitQueue::new(),
            geometry,
            has_flush: features & FEATURE_FLUSH != 0,
            options,
        })
    }

    /// Core and line of each queue's interrupts, for the table that calls [`VirtioDisk::on_interrupt`] with the queue's number.
    pub fn interrupts(&self) -> impl Iterator<Item = (usize, u32)> {
        self.lanes.iter().map(|lane| (lane.core, lane.line))
    }

    pub(crate) fn bus(&self) -> Bus {
        self.bus
    }

    /// True where the device would take a request now.
    pub fn has_room(&self) -> bool {
        self.dead.load(Ordering::Acquire) || self.in_flight.load(Ordering::Acquire) < self.options.depth
    }

    /// Most requests at the device at once.
    pub fn depth(&self) -> u16 {
        self.options.depth
    }

    /// What the driver has seen.
    pub fn statistics(&self) -> BlockStatistics {
        let mut sum = BlockStatistics {
            waits: self.waits.load(Ordering::Relaxed),
            resets: self.resets.load(Ordering::Relaxed),
            depth: self.in_flight.load(Ordering::Relaxed),
            ..BlockStatistics::default()
        };
        for lane in &self.lanes {
            let counts = lane.queue.lock().counts;
            add(&mut sum.completed, counts.completed);
            add(&mut sum.read_bytes, counts.read_bytes);
            add(&mut sum.written_bytes, counts.written_bytes);
            add(&mut sum.flushes, counts.flushes);
        }
        sum
    }

    /// Answers all requests of a queue that the device is done with. Short; never waits. Interrupts of others do no harm.
    pub fn on_interrupt(&self, queue: usize) {
        let Some(lane) = self.lanes.get(queue) else { return };
        let mut done: SmallVec<[Done; 2]> = SmallVec::new();
        let broken = !self.dead.load(Ordering::Acquire) && lane.queue.lock().collect(&mut done);
        let count = done.len() as u16;
        self.in_flight.fetch_sub(count, Ordering::AcqRel);
        // In place: they are large.
        for one in done.drain(..) {
            let (kind, bytes) = (one.pending.kind, total_bytes(&one.pending.data));
            let verdict = self.bus.judge(&one.answer, kind, bytes, one.bytes);
            one.pending.finish(verdict, self.answered_cycles.swap(now(), Ordering::AcqRel));
        }
        if broken {
            self.recover();
        } else if count > 0 {
            self.room.wake_all();
        }
    }

    /// Watches over the device for ever: a task of the infrastructure. Sleeps while nothing is at the device.
    pub async fn watch(&'static self, go_on: impl Fn()) {
        let period = (self.timeout_cycles() / 4).saturating_add(1);
        loop {
            self.busy.until(|| (self.in_flight.load(Ordering::Acquire) > 0).then_some(())).await;
            sleep_until(now().saturating_add(period)).await;
            // A lost interrupt costs time, not the request.
            (0..self.lanes.len()).for_each(|queue| self.on_interrupt(queue));
            let time = now();
            if self.lanes.iter().any(|lane| lane.queue.lock().is_late(time)) {
                self.recover();
            }
            go_on();
        }
    }

    fn timeout_cycles(&self) -> u64 {
        self.options.timeout_ms.saturating_mul(cycles_per_ms())
    }

    /// Has the device do something. Answers what it said, the data, and what it took of the device, in cycles.
    pub(crate) async fn perform(&'static self, kind: Kind, first_sector: u64, data: Vec<Bytes>) -> Answered {
        let (reply, call) = reply_pair();
        self.begin(kind, first_sector, data, Box::new(|answered| reply.send(answered)));
        call.await
    }

    /// Has the device do something; `then` is done in the turn of who takes the answer from the device. Where there is no room, a task of the current activity waits for it.
    pub(crate) fn begin(&'static self, kind: Kind, first_sector: u64, data: Vec<Bytes>, then: Then) {
        let pending = Pending { kind, slot: 0, data, first_sector, submitted_cycles: 0, deadline_cycles: 0, then };
        if let Some(pending) = self.try_start(pending) {
            self.waits.fetch_add(1, Ordering::Relaxed);
            spawn(self.start_when_there_is_room(pending));
        }
    }

    async fn start_when_there_is_room(&'static self, pending: Pending) {
        let mut waiting = Some(pending);
        let start = || {
            waiting = self.try_start(waiting.take()?);
            waiting.is_none().then_some(())
        };
        self.room.until(start).await;
    }

    /// The queue of this core.
    fn lane(&self) -> Option<&Lane> {
        let core = core_index();
        let own = self.lanes.iter().find(|lane| lane.core == core);
        own.or_else(|| self.lanes.get(core.checked_rem(self.lanes.len())?))
    }

    /// Gives a request to the device; gives it back where there is no room now.
    fn try_start(&'static self, mut pending: Pending) -> Option<Pending> {
        let lane = self.lane()?;
        pending.submitted_cycles = now();
        pending.deadline_cycles = pending.submitted_cycles.saturating_add(self.timeout_cycles());
        if self.dead.load(Ordering::Acquire) || !self.bus.can_say(pending.kind) {
            pending.fail();
            return None;
        }
        let more = |count: u16| count.checked_add(1).filter(|more| *more <= self.options.depth.max(1));
        let Ok(before) = self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) else {
            return Some(pending);
        };
        if let Err(pending) = lane.queue.lock().start(pending) {
            self.in_flight.fetch_sub(1, Ordering::AcqRel);
            return Some(pending);
        }
        at_end_of_turn(self);
        if before == 0 {
            self.busy.wake_all();
        }
        None
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
        self.in_flight.fetch_sub(pending.len() as u16, Ordering::AcqRel);
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
        self.room.wake_all();
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
