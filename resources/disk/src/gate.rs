//! The gate before a disk. A request passes it in these steps:
//!
//! ```text
//!   waits      in its activity's queue, where neighbours join it; the scheduler chooses
//!   admitted   the device has room; else the gate is suspended and the request is the first again
//!   started    bytes are reported; the request's task ends here, if it moves sectors
//!   answered   within the turn of the interrupt, in the name of who asked: device time is reported, each joined request gets its part
//! ```
//!
//! After an error of joined requests each is done again alone, so that one bad sector is only its reader's. A flush or a command has a task that
//! waits for the device, since it has no other memory of what it is.

use crate::pace::Pace;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ResourceId, Storage};
use gyre_block_merge::{AtOnce, Batch, Ticket, Work};
use gyre_device::{DiskDevice, DiskKind, Operation, Timed, Transfer};
use gyre_engine::{Engine, ResourceHandle, Ticks};
use gyre_interface::block::{BlockError, Geometry};
use gyre_interface::scsi::{Answer, Command, Direction, HostError, scsi_host};
use gyre_message::{Labels, Port, spawn};
use gyre_object::Bytes;
use gyre_schedulers::Metric;

/// Handles a command for a SCSI unit.
pub(crate) async fn carry(gate: &'static Gate, request: scsi_host::Request) {
    let scsi_host::Request::execute { command, reply } = request;
    reply.send(gate.command(command).await);
}

/// Handles what comes to a disk of sectors.
pub(crate) async fn serve(gate: &'static Gate, work: Work) {
    match work {
        Work::Turn(ticket) => gate.turn(ticket).await,
        Work::Geometry(reply) => reply.send(gate.geometry()),
        Work::Flush(reply) => reply.send(gate.flush().await),
    }
}

/// The way past a gate's queue, for a request that would be the first there.
pub(crate) struct Front {
    pub(crate) gate: &'static Gate,
    pub(crate) queue: &'static dyn Port<Work>,
}

impl AtOnce for Front {
    fn begin(&self, batch: Batch, labels: Labels) -> Option<Batch> {
        let mut batch = Some(batch);
        if self.gate.device.has_room() {
            self.queue.visit(labels, &mut || batch.take().into_iter().for_each(|batch| self.gate.start(batch)));
        }
        batch
    }
}

/// A disk's gate: it hands a request to the device once that has room. Until then the scheduler keeps the others in order. It tells that scheduler what
/// each request took, in bytes and in time of the device.
pub(crate) struct Gate {
    engine: &'static Engine,
    handle: ResourceHandle,
    device: &'static dyn DiskDevice,
    pace: Pace,
    pub(crate) ticks: Ticks,
}

impl Gate {
    /// The gate of a resource before a device.
    pub(crate) fn new(engine: &'static Engine, resource: ResourceId, device: &'static dyn DiskDevice) -> Gate {
        let handle = engine.handle(resource);
        Gate { engine, handle, device, pace: Pace::default(), ticks: Ticks::default() }
    }

    /// Handles the notice of an interrupt.
    pub(crate) fn on_interrupt(&self, line: usize) {
        self.device.on_interrupt(line);
        self.handle.resume();
    }

    /// Handles the notice of a tick. Whoever is held back goes on, since an interrupt may have been lost.
    pub(crate) fn on_tick(&self) {
        self.ticks.on_tick(|| self.device.on_tick());
        self.handle.resume();
    }

    fn geometry(&self) -> Result<Geometry, BlockError> {
        match self.device.kind() {
            DiskKind::Sectors(geometry) => Ok(geometry),
            DiskKind::ScsiHost => Err(BlockError::Unsupported),
        }
    }

    async fn admit(&self) {
        self.handle.until_accepted(|| self.device.has_room().then_some(())).await;
    }

    /// Handles the turn of requests of one activity that joined while they waited.
    async fn turn(&'static self, ticket: Ticket) {
        self.admit().await;
        if let Some(batch) = ticket.take() {
            self.start(batch);
        }
    }

    /// Has the device begin. The rest is done when it answers, in the name of who asked.
    fn start(&'static self, mut batch: Batch) {
        batch.part_bytes().for_each(|bytes| self.engine.report(Metric::Bytes, bytes));
        let (origin, bytes) = (self.engine.origin(), batch.part_bytes().sum());
        self.engine.note_storage(if batch.is_write() { Storage::Written } else { Storage::Read }, bytes);
        let transfer = transfer_of(&mut batch);
        let then = move |done| self.engine.go_on(origin, || self.end(batch, bytes, done));
        self.device.start(transfer, Box::new(then));
        self.ticks.note_request();
    }

    /// The device has answered. After an error of several requests each is done again alone.
    fn end(&'static self, mut batch: Batch, bytes: u64, done: Timed<Result<Vec<Bytes>, BlockError>>) {
        self.count(bytes, done.device_ns);
        let answer = done.answer.map(|data| batch.give_back(data));
        match answer {
            Err(_) if batch.parts() > 1 => spawn(self.each_alone(batch)),
            answer => batch.answer(answer),
        }
    }

    async fn each_alone(&'static self, batch: Batch) {
        for mut one in batch.split() {
            let done = self.transfer(&mut one).await;
            one.answer(done);
        }
    }

    async fn transfer(&self, batch: &mut Batch) -> Result<(), BlockError> {
        let bytes = batch.part_bytes().sum();
        let done = self.ask(transfer_of(batch)).await;
        self.count(bytes, done.device_ns);
        done.answer.map(|data| batch.give_back(data))
    }

    async fn ask(&self, transfer: Transfer) -> Timed<Result<Vec<Bytes>, BlockError>> {
        let call = self.device.transfer(transfer);
        self.ticks.note_request();
        call.await
    }

    /// Counts the device's time of a request that moved data. Its bytes were counted before it was started, so that the next choice knows of them.
    fn count(&self, bytes: u64, device_ns: u64) {
        self.engine.report(Metric::DeviceTimeNs, device_ns);
        self.pace.note(bytes, device_ns);
    }

    /// Does a SCSI command. One without data counts as a flush does; one that is sent again counts again.
    async fn command(&self, command: Command) -> Result<Answer, HostError> {
        self.admit().await;
        let bytes = command.data_bytes() as u64;
        if bytes > 0 {
            self.engine.report(Metric::Bytes, bytes);
            let is_write = command.direction == Direction::ToUnit;
            self.engine.note_storage(if is_write { Storage::Written } else { Storage::Read }, bytes);
        }
        let call = self.device.command(command);
        self.ticks.note_request();
        let done = call.await;
        match bytes {
            0 => self.count_without_bytes(done.device_ns),
            _ => self.count(bytes, done.device_ns),
        }
        done.answer
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.admit().await;
        let done = self.ask(Transfer::flush()).await;
        self.count_without_bytes(done.device_ns);
        done.answer.map(drop)
    }

    /// Counts a request that moved no data. If bytes are counted, it counts for those that the device could have moved meanwhile.
    fn count_without_bytes(&self, device_ns: u64) {
        self.engine.report(Metric::DeviceTimeNs, device_ns);
        self.engine.weigh(Metric::Bytes, self.pace.bytes_in(device_ns));
    }
}

/// The transfer that does what a batch asks for; it borrows the batch's memory.
fn transfer_of(batch: &mut Batch) -> Transfer {
    let operation = if batch.is_write() { Operation::Write } else { Operation::Read };
    Transfer { operation, first_sector: batch.first_sector(), data: batch.lend() }
}
