//! Disks: block devices, and host adapters of SCSI units.

use crate::InterruptLine;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_interface::block::{BlockError, Geometry};
use gyre_interface::scsi::{Answer, Command, HostError};
use gyre_message::{Call, reply_pair};
use gyre_object::Bytes;

/// The requests that a disk understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskKind {
    /// Transfers of sectors: [`DiskDevice::start`].
    Sectors(Geometry),
    /// Commands for a SCSI unit: [`DiskDevice::execute`]. Whoever speaks to the unit asks for its geometry.
    ScsiHost,
}

/// The work of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads consecutive sectors into the memory.
    Read,
    /// Writes the memory to consecutive sectors.
    Write,
    /// Makes all writes durable that were answered before. It has no memory.
    Flush,
}

/// A request of sectors.
pub struct Transfer {
    /// The work.
    pub operation: Operation,
    /// The first sector on the disk.
    pub first_sector: u64,
    /// Memory of whole sectors, in order.
    pub data: Vec<Bytes>,
}

impl Transfer {
    /// A flush.
    pub fn flush() -> Transfer {
        Transfer { operation: Operation::Flush, first_sector: 0, data: Vec::new() }
    }
}

/// An answer, and the time that the request had the device for itself, ns: from its submission, or from the answer before, to its own.
pub struct Timed<T> {
    /// The answer.
    pub answer: T,
    /// The device's time, ns.
    pub device_ns: u64,
}

impl<T> Timed<T> {
    /// An answer of the driver: the device was not asked.
    pub fn unasked(answer: T) -> Timed<T> {
        Timed { answer, device_ns: 0 }
    }
}

impl<T: gyre_message::Answer> gyre_message::Answer for Timed<T> {
    fn gone() -> Timed<T> {
        Timed::unasked(T::gone())
    }
}

/// Called once with an answer, in the turn that takes the answer from the device, or within the call that starts the request. The driver holds
/// no lock meanwhile. It is short and never waits.
pub type Then<T> = Box<dyn FnOnce(Timed<T>) + Send>;

/// Counts of a driver.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DiskStatistics {
    /// Requests that the device answered.
    pub completed: u64,
    /// Bytes of the data of reads; of a SCSI unit of all that it answered.
    pub read_bytes: u64,
    /// Bytes of the data of writes.
    pub written_bytes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Flushes of a block device.
    pub flushes: u64,
    /// Times that a request found the device full and waited in the driver.
    pub waits: u64,
    /// Times that the device was reset because it was late or lied.
    pub resets: u64,
    /// Requests at the device now.
    pub depth: u16,
}

/// A disk's driver. Lives as long as the instance; may be called on any core.
///
/// Requests that are at the device at once may be done in any order. Memory of a request stays until the device has answered or was reset, also if
/// nobody wants the answer any more.
pub trait DiskDevice: Send + Sync + 'static {
    /// Returns what the disk understands.
    fn kind(&self) -> DiskKind;

    /// Returns how many requests the device has at once at most.
    fn depth(&self) -> u16;

    /// Returns what the driver has seen.
    fn statistics(&self) -> DiskStatistics;

    /// Returns the lines of its interrupts; the place in the list is the number for [`DiskDevice::on_interrupt`]. At least one.
    fn interrupts(&self) -> Vec<InterruptLine>;

    /// Returns true if the device would take a request now. A device that failed has room: it answers with an error.
    fn has_room(&self) -> bool;

    /// Starts a transfer and calls `then` with the memory, or why it failed. A request for which there is no room waits in the driver.
    fn start(&'static self, transfer: Transfer, then: Then<Result<Vec<Bytes>, BlockError>>);

    /// Has the SCSI unit do a command and calls `then` with what it said. The answer of a disk of sectors is [`HostError::Refused`].
    fn execute(&'static self, command: Command, then: Then<Result<Answer, HostError>>);

    /// Brings the device to rest for good, if it has no request and none waits; requests that come later fail. False, and nothing changes, if it
    /// has some.
    fn stop(&'static self) -> bool;

    /// Returns whether the device has no request, none waits for it, and it can touch the disk for none that was given up. Of a device that was
    /// given up itself that is not known: false. May take locks of the whole device, so it is not for paths that must be short.
    fn is_at_rest(&'static self) -> bool;

    /// Answers all that the device is done with, after an interrupt of a line. Harmless without one.
    fn on_interrupt(&'static self, line: usize);

    /// Looks for lost interrupts and requests that are late, which fail. Returns after how many cycles to look again; `None` if the device has nothing.
    fn on_tick(&'static self) -> Option<u64>;
}

impl dyn DiskDevice {
    /// Starts a transfer whose answer is waited for.
    pub fn transfer(&'static self, transfer: Transfer) -> Call<Timed<Result<Vec<Bytes>, BlockError>>> {
        let (reply, call) = reply_pair();
        self.start(transfer, Box::new(|timed| reply.send(timed)));
        call
    }

    /// Starts a command whose answer is waited for.
    pub fn command(&'static self, command: Command) -> Call<Timed<Result<Answer, HostError>>> {
        let (reply, call) = reply_pair();
        self.execute(command, Box::new(|timed| reply.send(timed)));
        call
    }
}
