//! One request queue of the device: its ring, and what its requests need. Used by the core whose interrupts it has; others touch it only
//! if there are fewer queues than cores, and to reset the device.

use crate::bus::Bus;
use crate::request::{DATA_PIECES_MAX, Done, Kind, Pending, Pieces, add_data, total_bytes};
use crate::slots::Slots;
use alloc::vec::Vec;
use gyre_interface::scsi::Direction;
use gyre_machine::DeviceError;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio::{Doorbell, Full, Ring, RingOptions, Transport};
use smallvec::SmallVec;

/// Most pieces of a chain: the data's, request and answer.
pub(crate) const CHAIN_PIECES_MAX: u16 = DATA_PIECES_MAX as u16 + 2;

/// Counts of a queue.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) completed: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
}

/// Adds to a figure, which stays at its end.
pub(crate) fn add(figure: &mut u64, more: u64) {
    *figure = figure.saturating_add(more);
}

impl Counts {
    fn count(&mut self, pending: &Pending) {
        add(&mut self.completed, 1);
        let bytes = total_bytes(&pending.data) as u64;
        match pending.kind {
            Kind::Read | Kind::Command(_, Direction::FromUnit) => {
                add(&mut self.read_bytes, bytes);
                add(&mut self.reads, 1);
            }
            Kind::Write | Kind::Command(_, Direction::ToUnit) => {
                add(&mut self.written_bytes, bytes);
                add(&mut self.writes, 1);
            }
            Kind::Flush => add(&mut self.flushes, 1),
            Kind::Command(_, Direction::Nowhere) => {}
        }
    }
}

/// A queue's state; its owner locks it.
pub(crate) struct Queue {
    bus: Bus,
    ring: Ring<Pending>,
    slots: Slots,
    doorbell: Doorbell,
    pub(crate) counts: Counts,
}

impl Queue {
    /// Makes queue `number` of the device for up to `depth` requests and shows it to the device.
    pub(crate) fn new(
        transport: &dyn Transport,
        bus: Bus,
        number: u16,
        (features, depth): (u64, u16),
        table_entry: u16,
    ) -> Result<Queue, DeviceError> {
        let ring = make_ring(transport, bus, number, (features, depth))?;
        let slots = Slots::new(ring.size().min(depth.max(1)), bus.header_bytes(), bus.answer_bytes())?;
        let doorbell = transport.enable_queue(number, ring.layout(), table_entry)?;
        Ok(Queue { bus, ring, slots, doorbell, counts: Counts::default() })
    }

    /// Shows the queue to a device that was reset.
    pub(crate) fn enable_again(
        &mut self,
        transport: &dyn Transport,
        number: u16,
        table_entry: u16,
    ) -> Result<(), DeviceError> {
        self.doorbell = transport.enable_queue(number, self.ring.layout(), table_entry)?;
        Ok(())
    }

    /// Returns true if a request is so late, by the device's own time, that the device must be reset.
    pub(crate) fn is_late(&self, own_cycles: u64) -> bool {
        self.ring.tokens().any(|pending| pending.deadline_own <= own_cycles)
    }

    /// Puts a request into the ring; the device sees it after [`Queue::publish`]. Gives the request back if there is no room.
    pub(crate) fn start(&mut self, mut pending: Pending) -> Result<(), Pending> {
        let Some(header) = self.bus.header(pending.kind, pending.first_sector) else {
            pending.fail();
            return Ok(());
        };
        let Some(slot) = self.slots.take(&header, self.bus.unwritten()) else {
            return Err(pending);
        };
        pending.slot = slot;
        let mut pieces = Pieces::new();
        pieces.push(self.slots.header(slot));
        let answer = self.slots.answer_piece(slot);
        // Everything that the device reads comes first (virtio 1.2 §2.7.4.2).
        let is_answer_first = pending.kind.device_writes() && self.bus.answers_first();
        pieces.extend(is_answer_first.then_some(answer));
        add_data(&mut pieces, &pending.data, pending.kind);
        pieces.extend((!is_answer_first).then_some(answer));
        if let Err(Full(pending)) = self.ring.push(&pieces, pending) {
            self.slots.give_back(slot);
            return Err(pending);
        }
        Ok(())
    }

    /// Shows all that was put into the ring to the device. Returns the doorbell to ring if the device wants to be told.
    pub(crate) fn publish(&mut self) -> Option<Doorbell> {
        self.ring.publish().then_some(self.doorbell)
    }

    /// Returns the doorbell if requests are at the device, whether or not it wants to be told of them.
    pub(crate) fn doorbell_again(&self) -> Option<Doorbell> {
        (self.ring.in_flight() > 0).then_some(self.doorbell)
    }

    /// Takes everything that the device is done with; returns true if the device broke the rules.
    pub(crate) fn collect(&mut self, done: &mut SmallVec<[Done; 2]>) -> bool {
        loop {
            match self.ring.pop() {
                Ok(Some(used)) => {
                    let answer = self.slots.answer(used.token.slot);
                    self.slots.give_back(used.token.slot);
                    self.counts.count(&used.token);
                    done.push(Done { pending: used.token, answer, bytes: used.bytes });
                }
                Ok(None) if self.ring.listen() => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Takes back everything that the device had; it was reset before.
    pub(crate) fn clear(&mut self) -> Vec<Pending> {
        let pending = self.ring.clear();
        pending.iter().for_each(|pending| self.slots.give_back(pending.slot));
        pending
    }
}

fn make_ring(
    transport: &dyn Transport,
    bus: Bus,
    number: u16,
    (features, depth): (u64, u16),
) -> Result<Ring<Pending>, DeviceError> {
    let indirect = features & INDIRECT_DESCRIPTORS != 0;
    let pieces_max = CHAIN_PIECES_MAX;
    let wanted = if indirect { depth.max(1) } else { depth.max(1).saturating_mul(pieces_max) };
    let size = transport.queue_size_max(number).min(wanted.checked_next_power_of_two().unwrap_or(0x8000));
    if size == 0 || (!indirect && size < pieces_max) {
        return Err(DeviceError::Protocol);
    }
    Ring::new(
        size,
        RingOptions { indirect, event_index: features & EVENT_INDEX != 0, pieces_max, counts_all: bus == Bus::Scsi },
    )
}
