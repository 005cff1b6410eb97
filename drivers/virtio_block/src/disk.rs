//! The disk as the resource before it sees it: requests are checked before anything waits for them.

use crate::device::VirtioDisk;
use crate::request::{Asker, DATA_PIECES_MAX, Kind};
use alloc::vec::Vec;
use gyre_device::{DiskDevice, DiskKind, DiskStatistics, InterruptLine, Operation, Then, Timed, Transfer};
use gyre_interface::block::{BlockError, Geometry, REQUEST_BYTES_MAX};
use gyre_interface::scsi::{Answer, Command, Direction, HostError};
use gyre_object::Bytes;

/// The way a transfer goes on once it is checked.
enum Checked {
    /// The device is asked.
    Ask(Kind),
    /// There is nothing to do.
    Done,
}

impl VirtioDisk {
    fn check(&self, transfer: &Transfer) -> Result<Checked, BlockError> {
        let geometry = self.geometry.ok_or(BlockError::Unsupported)?;
        match transfer.operation {
            // Without the feature the device has no volatile cache (virtio 1.2 §5.2.5.2).
            Operation::Flush if !self.has_flush || geometry.read_only => Ok(Checked::Done),
            Operation::Flush => Ok(Checked::Ask(Kind::Flush)),
            Operation::Read => check_range(geometry, transfer).map(|()| Checked::Ask(Kind::Read)),
            Operation::Write => {
                check_range(geometry, transfer)?;
                if geometry.read_only { Err(BlockError::Unsupported) } else { Ok(Checked::Ask(Kind::Write)) }
            }
        }
    }
}

fn check_range(geometry: Geometry, transfer: &Transfer) -> Result<(), BlockError> {
    geometry.check(transfer.first_sector, &transfer.data)
}

/// Returns true if a command goes into a chain.
fn fits(command: &Command) -> bool {
    command.data_bytes() <= REQUEST_BYTES_MAX
        && command.data.len() <= DATA_PIECES_MAX
        && !command.data.iter().any(Bytes::is_empty)
        && command.data.is_empty() == (command.direction == Direction::Nowhere)
}

impl DiskDevice for VirtioDisk {
    fn kind(&self) -> DiskKind {
        self.geometry.map_or(DiskKind::ScsiHost, DiskKind::Sectors)
    }

    fn depth(&self) -> u16 {
        self.depth_max()
    }

    fn statistics(&self) -> DiskStatistics {
        self.seen()
    }

    fn interrupts(&self) -> Vec<InterruptLine> {
        self.lines()
    }

    fn has_room(&self) -> bool {
        self.has_place()
    }

    fn start(&'static self, transfer: Transfer, then: Then<Result<Vec<Bytes>, BlockError>>) {
        match self.check(&transfer) {
            Ok(Checked::Ask(kind)) => {
                self.begin(kind, transfer.first_sector, transfer.data, Asker::Transfer(then));
            }
            Ok(Checked::Done) => then(Timed::unasked(Ok(transfer.data))),
            Err(error) => then(Timed::unasked(Err(error))),
        }
    }

    fn execute(&'static self, command: Command, then: Then<Result<Answer, HostError>>) {
        if !self.is_scsi() || !fits(&command) {
            return then(Timed::unasked(Err(HostError::Refused)));
        }
        self.begin(Kind::Command(command.block, command.direction), 0, command.data, Asker::Command(then));
    }

    fn stop(&'static self) -> bool {
        self.retire()
    }

    fn is_at_rest(&'static self) -> bool {
        self.is_still()
    }

    fn on_interrupt(&'static self, line: usize) {
        self.collect(line);
    }

    fn on_tick(&'static self) -> Option<u64> {
        self.look()
    }
}
