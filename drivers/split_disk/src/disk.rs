//! A disk of the table as a driver.

use crate::front_end::FrontEnd;
use crate::layout::SLOTS;
use crate::slots::Wanted;
use alloc::vec::Vec;
use gyre_device::{DiskDevice, DiskKind, DiskStatistics, InterruptLine, Operation, Then, Timed, Transfer};
use gyre_interface::block::{BlockError, Geometry};
use gyre_interface::scsi::{Answer, Command, HostError};
use gyre_machine::now;
use gyre_object::Bytes;

/// A disk that another instance serves.
pub struct SplitDisk {
    front: &'static FrontEnd,
    /// Its place in the table.
    place: usize,
    geometry: Geometry,
    line: InterruptLine,
}

impl SplitDisk {
    pub(crate) fn new(front: &'static FrontEnd, place: usize, geometry: Geometry, line: InterruptLine) -> SplitDisk {
        SplitDisk { front, place, geometry, line }
    }
}

/// Refuses a transfer that a disk of this size cannot do.
pub(crate) fn check(geometry: Geometry, transfer: &Transfer) -> Result<(), BlockError> {
    match transfer.operation {
        Operation::Flush if transfer.data.is_empty() => Ok(()),
        Operation::Flush => Err(BlockError::OutOfRange),
        Operation::Write if geometry.read_only => Err(BlockError::Unsupported),
        _ => geometry.check(transfer.first_sector, &transfer.data),
    }
}

impl DiskDevice for SplitDisk {
    fn kind(&self) -> DiskKind {
        DiskKind::Sectors(self.geometry)
    }

    fn depth(&self) -> u16 {
        SLOTS as u16
    }

    fn statistics(&self) -> DiskStatistics {
        self.front.statistics(self.place)
    }

    fn interrupts(&self) -> Vec<InterruptLine> {
        alloc::vec![self.line]
    }

    fn has_room(&self) -> bool {
        self.front.has_room()
    }

    fn start(&'static self, transfer: Transfer, then: Then<Result<Vec<Bytes>, BlockError>>) {
        match check(self.geometry, &transfer) {
            Ok(()) => self.front.start(Wanted { disk: self.place, transfer, then, since: now() }),
            Err(error) => then(Timed::unasked(Err(error))),
        }
    }

    fn execute(&'static self, _command: Command, then: Then<Result<Answer, HostError>>) {
        then(Timed::unasked(Err(HostError::Refused)));
    }

    fn stop(&'static self) -> bool {
        self.front.stop(self.place)
    }

    fn is_at_rest(&'static self) -> bool {
        self.front.is_at_rest(self.place)
    }

    fn on_interrupt(&'static self, _line: usize) {
        self.front.take_answers();
    }

    fn on_tick(&'static self) -> Option<u64> {
        self.front.on_tick()
    }
}
