//! The device: its ring, its interrupt, its failures.

use crate::request::{Answer, DATA_PIECES_MAX, Kind, Pending, data_pieces, total_bytes};
use crate::slots::Slots;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_interface::block::Geometry;
use gyre_machine::{DeviceError, cycles_per_ms, now};
use gyre_message::{Call, WaitQueue, reply_pair, sleep_until};
use gyre_object::{Bytes, SpinLock};
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio::{Doorbell, Full, Ring, RingOptions, Transport, begin, finish, startup};

/// The type of block devices (virtio 1.2 §5.2.1).
pub const DEVICE_KIND: u16 = 2;

const FEATURE_SEGMENTS_MAX: u64 = 1 << 2;
const FEATURE_READ_ONLY: u64 = 1 << 5;
const FEATURE_FLUSH: u64 = 1 << 9;
const WANTED: u64 = FEATURE_SEGMENTS_MAX | FEATURE_READ_ONLY | FEATURE_FLUSH | INDIRECT_DESCRIPTORS | EVENT_INDEX;
const CONFIG_CAPACITY: usize = 0;
const CONFIG_SEGMENTS_MAX: usize = 12;

/// How the driver uses its device.
#[derive(Clone, Copy, Debug)]
pub struct BlockOptions {
    /// Most requests at the device; the rest waits in order of its scheduler.
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
    /// Bytes of the data of reads.
    pub read_bytes: u64,
    /// Bytes of the data of writes.
    pub written_bytes: u64,
    /// Times that a request found the device full and waited.
    pub waits: u64,
    /// Times that the device was reset because it was late or lied.
    pub resets: u64,
    /// Requests at the device now.
    pub depth: u16,
}

impl BlockStatistics {
    fn count(&mut self, pending: &Pending) {
        self.completed += 1;
        let bytes = total_bytes(&pending.data) as u64;
        match pending.kind {
            Kind::Read => self.read_bytes += bytes,
            Kind::Write => self.written_bytes += bytes,
            Kind::Flush => {}
        }
    }
}

pub(crate) struct State {
    ring: Ring<Pending>,
    slots: Slots,
    doorbell: Doorbell,
    dead: bool,
    /// Data that a device which does not reset may still write to.
    kept: Vec<Vec<Bytes>>,
    statistics: BlockStatistics,
}

/// A virtio block device. Lives as long as the instance.
pub struct VirtioBlock {
    transport: Box<dyn Transport>,
    state: SpinLock<State>,
    room: WaitQueue,
    busy: WaitQueue,
    pub(crate) geometry: Geometry,
    pub(crate) has_flush: bool,
    options: BlockOptions,
    line: u32,
}

impl VirtioBlock {
    /// Starts the device, whose interrupts arrive on `core`.
    ///
    /// # Errors
    /// [`DeviceError`]; [`DeviceError::Protocol`] also where it is no block device or takes too few pieces.
    pub fn new(transport: Box<dyn Transport>, core: usize, options: BlockOptions) -> Result<VirtioBlock, DeviceError> {
        if transport.device_kind() != DEVICE_KIND {
            return Err(DeviceError::Protocol);
        }
        let features = begin(&*transport, WANTED)?;
        let line = transport.attach_interrupt(0, core)?;
        let ring = make_ring(&*transport, features, options.depth)?;
        let doorbell = transport.enable_queue(0, ring.layout(), 0)?;
        let slots = Slots::new(ring.size().min(options.depth.max(1)))?;
        let geometry =
            Geometry { sectors: transport.config_u64(CONFIG_CAPACITY), read_only: features & FEATURE_READ_ONLY != 0 };
        finish(&*transport);
        let state =
            State { ring, slots, doorbell, dead: false, kept: Vec::new(), statistics: BlockStatistics::default() };
        Ok(VirtioBlock {
            transport,
            state: SpinLock::new(state),
            room: WaitQueue::new(),
            busy: WaitQueue::new(),
            geometry,
            has_flush: features & FEATURE_FLUSH != 0,
            options,
            line,
        })
    }

    /// The interrupt line, for the table that calls [`VirtioBlock::on_interrupt`].
    pub fn line(&self) -> u32 {
        self.line
    }

    /// True where the device would take a request now.
    pub fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.dead || state.ring.in_flight() < self.options.depth
    }

    /// What the driver has seen.
    pub fn statistics(&self) -> BlockStatistics {
        let state = self.state.lock();
        BlockStatistics { depth: state.ring.in_flight(), ..state.statistics }
    }

    /// Answers all requests that the device is done with. Short; never waits. Interrupts of others do no harm.
    pub fn on_interrupt(&self) {
        let mut answers = Vec::new();
        let broken = self.state.lock().collect(&mut answers);
        let any = !answers.is_empty();
        for (pending, status, bytes) in answers {
            pending.finish(status, bytes);
        }
        if broken {
            self.recover();
        } else if any {
            self.room.wake_all();
        }
    }

    /// Watches over the device for ever: a task of the infrastructure. Sleeps while nothing is at the device.
    pub async fn watch(&'static self, go_on: impl Fn()) {
        let period = self.timeout_cycles() / 4 + 1;
        loop {
            self.busy.until(|| (self.state.lock().ring.in_flight() > 0).then_some(())).await;
            sleep_until(now().saturating_add(period)).await;
            // A lost interrupt costs time, not the request.
            self.on_interrupt();
            let time = now();
            let late = self.state.lock().ring.tokens().any(|pending| pending.deadline_cycles <= time);
            if late {
                self.recover();
            }
            go_on();
        }
    }

    fn timeout_cycles(&self) -> u64 {
        self.options.timeout_ms.saturating_mul(cycles_per_ms())
    }

    /// Gives a request to the device once there is room, and returns the future of its answer.
    pub(crate) async fn submit(&self, kind: Kind, first_sector: u64, data: Vec<Bytes>) -> Call<Answer> {
        let mut data = Some(data);
        let mut waited = false;
        self.room
            .until(|| {
                let sent = self.try_submit(kind, first_sector, &mut data, waited);
                waited = true;
                sent
            })
            .await
    }

    /// `None` where there is no room now; `data` is then as it was.
    fn try_submit(
        &self,
        kind: Kind,
        first_sector: u64,
        data: &mut Option<Vec<Bytes>>,
        waited: bool,
    ) -> Option<Call<Answer>> {
        let (reply, call) = reply_pair();
        let mut state = self.state.lock();
        let was_idle = state.ring.in_flight() == 0;
        let deadline_cycles = now().saturating_add(self.timeout_cycles());
        let pending = Pending { kind, slot: 0, data: data.take()?, deadline_cycles, reply };
        match state.start(pending, first_sector) {
            Ok(notify) => {
                let doorbell = state.doorbell;
                drop(state);
                if notify {
                    self.transport.notify(doorbell);
                }
                if was_idle {
                    self.busy.wake_all();
                }
                Some(call)
            }
            Err(pending) => {
                state.statistics.waits += u64::from(!waited);
                *data = Some(pending.data);
                None
            }
        }
    }

    /// Resets the device and answers `Io` to everything that it had.
    fn recover(&self) {
        let mut state = self.state.lock();
        if state.dead {
            return;
        }
        state.statistics.resets += 1;
        let alive = startup::reset(&*self.transport).is_ok();
        let pending = state.ring.clear();
        pending.iter().for_each(|pending| state.slots.give_back(pending.slot));
        state.dead = !alive || self.restart(&mut state).is_err();
        let keep = !alive;
        drop(state);
        let data: Vec<_> = pending.into_iter().map(Pending::fail).collect();
        if keep {
            self.state.lock().kept.extend(data);
        }
        self.room.wake_all();
    }

    fn restart(&self, state: &mut State) -> Result<(), DeviceError> {
        begin(&*self.transport, WANTED)?;
        state.doorbell = self.transport.enable_queue(0, state.ring.layout(), 0)?;
        finish(&*self.transport);
        Ok(())
    }
}

fn make_ring(transport: &dyn Transport, features: u64, depth: u16) -> Result<Ring<Pending>, DeviceError> {
    let indirect = features & INDIRECT_DESCRIPTORS != 0;
    let pieces_max = DATA_PIECES_MAX as u16 + 2;
    let segments = if features & FEATURE_SEGMENTS_MAX != 0 { transport.config_u32(CONFIG_SEGMENTS_MAX) } else { 1 };
    if segments < DATA_PIECES_MAX as u32 {
        return Err(DeviceError::Protocol);
    }
    let wanted = if indirect { depth.max(1) } else { depth.max(1).saturating_mul(pieces_max) };
    let size = transport.queue_size_max(0).min(wanted.checked_next_power_of_two().unwrap_or(0x8000));
    if size == 0 || (!indirect && size < pieces_max) {
        return Err(DeviceError::Protocol);
    }
    Ring::new(size, RingOptions { indirect, event_index: features & EVENT_INDEX != 0, pieces_max })
}

impl State {
    /// Puts a request into the ring; true where the device wants to be told. Gives the request back where there is no room.
    fn start(&mut self, mut pending: Pending, first_sector: u64) -> Result<bool, Pending> {
        if self.dead {
            pending.fail();
            return Ok(false);
        }
        let data = data_pieces(&pending.data, pending.kind == Kind::Read);
        if !self.ring.has_room(data.len() + 2) {
            return Err(pending);
        }
        let Some(slot) = self.slots.take(pending.kind, first_sector) else {
            return Err(pending);
        };
        pending.slot = slot;
        let mut pieces = Vec::with_capacity(data.len() + 2);
        pieces.push(self.slots.header(slot));
        pieces.extend(data);
        pieces.push(self.slots.status_piece(slot));
        if let Err(Full(pending)) = self.ring.push(&pieces, pending) {
            self.slots.give_back(slot);
            return Err(pending);
        }
        Ok(self.ring.publish())
    }

    /// Takes everything that the device is done with; true where the device broke the rules.
    fn collect(&mut self, answers: &mut Vec<(Pending, u8, u32)>) -> bool {
        if self.dead {
            return false;
        }
        loop {
            match self.ring.pop() {
                Ok(Some(used)) => {
                    let status = self.slots.status(used.token.slot);
                    self.slots.give_back(used.token.slot);
                    self.statistics.count(&used.token);
                    answers.push((used.token, status, used.bytes));
                }
                Ok(None) if self.ring.listen() => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests;
