//! A disk in the grid: its interrupts, its watchman, and the gate before it.

use crate::pace::Pace;
use crate::scsi;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId};
use gyre_block_merge::{AtOnce, Batch, Merging, Ticket, Waiting, Work};
use gyre_engine::{Engine, ResourceHandle};
use gyre_interface::BytesReport;
use gyre_interface::block::{BlockError, block};
use gyre_interface::scsi::{Answer, Command, HostError, scsi_host};
use gyre_message::{Labels, Link, Port, WaitQueue, spawn};
use gyre_object::Bytes;
use gyre_schedulers::Metric;
use gyre_virtio_block::{Answered, Timed, VirtioDisk};

/// Gives a device its port, its interrupts and its watchman; a SCSI host the resource that speaks to its unit, which tells `scsi_report` of its bytes.
pub fn connect(
    engine: &'static Engine,
    device: &'static VirtioDisk,
    scsi_report: Option<BytesReport>,
) -> block::Client {
    let resource = engine.resource("block").unwrap_or(ResourceId(0));
    let interrupts = engine.resource("device_interrupt").unwrap_or(ResourceId(0));
    let handle = engine.handle(resource);
    let infrastructure = ActivityId::INFRASTRUCTURE;
    for (queue, (core, line)) in device.interrupts().enumerate() {
        let completed: &'static WaitQueue = Box::leak(Box::default());
        engine.on_interrupt(core, line, Box::new(|| completed.wake_all()));
        engine.spawn_for_on(core, interrupts, infrastructure, move || complete(device, queue, completed, handle));
    }
    let core = device.interrupts().next().map_or(0, |(core, _)| core);
    engine.spawn_for_on(core, interrupts, infrastructure, move || device.watch(move || handle.resume()));
    let gate: &'static Gate = Box::leak(Box::new(Gate { engine, handle, device, pace: Pace::default() }));
    if device.is_scsi() {
        let port = engine.port(resource, move |request| carry(gate, request));
        return scsi::connect(engine, scsi_host::Client::new(Link::new(port)), device.depth(), scsi_report);
    }
    let waiting: &'static Waiting = Box::leak(Box::default());
    let queue = engine.port(resource, move |work| serve(gate, work));
    let front: &'static Front = Box::leak(Box::new(Front { gate, queue }));
    block::Client::new(Link::new(Box::leak(Box::new(Merging::new(waiting, queue).with(front)))))
}

async fn carry(gate: &'static Gate, request: scsi_host::Request) {
    let scsi_host::Request::execute { command, reply } = request;
    reply.send(gate.command(command).await);
}

async fn serve(gate: &'static Gate, work: Work) {
    match work {
        Work::Turn(ticket) => gate.turn(ticket).await,
        Work::Geometry(reply) => reply.send(gate.device.find_geometry()),
        Work::Flush(reply) => reply.send(gate.flush().await),
    }
}

/// Answers what a queue of the device is done with, after each of its interrupts.
async fn complete(device: &'static VirtioDisk, queue: usize, completed: &'static WaitQueue, handle: ResourceHandle) {
    loop {
        let next = completed.wait();
        device.on_interrupt(queue);
        handle.resume();
        next.await;
    }
}

/// The way past a gate's queue, for a request before which nobody stands.
struct Front {
    gate: &'static Gate,
    queue: &'static dyn Port<Work>,
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

/// A disk's place in the grid: hands a request to the device once that has room; until then the scheduler keeps the others in order. Tells
/// that scheduler what each request took, in bytes and in time of the device.
struct Gate {
    engine: &'static Engine,
    handle: ResourceHandle,
    device: &'static VirtioDisk,
    pace: Pace,
}

impl Gate {
    async fn admit(&self) {
        self.handle.until_accepted(|| self.device.has_room().then_some(())).await;
    }

    /// The turn of requests of one activity that joined while they waited.
    async fn turn(&'static self, ticket: Ticket) {
        self.admit().await;
        if let Some(batch) = ticket.take() {
            self.start(batch);
        }
    }

    /// Has the device begin; the rest is done when it answers, in the name of who asked.
    fn start(&'static self, mut batch: Batch) {
        batch.part_bytes().for_each(|bytes| self.engine.report(Metric::Bytes, bytes));
        let (first, is_write, origin) = (batch.first_sector(), batch.is_write(), self.engine.origin());
        let (bytes, views) = (batch.part_bytes().sum(), batch.lend());
        let then =
            move |answered: Answered| self.engine.go_on(origin, || self.end(batch, bytes, answered.transferred()));
        self.device.start(is_write, first, views, then);
    }

    /// The device has answered; after an error of several requests each is done again alone.
    fn end(&'static self, mut batch: Batch, bytes: u64, (done, ns): Timed<Vec<Bytes>>) {
        self.count(bytes, ns);
        let done = done.map(|data| batch.give_back(data));
        match done {
            Err(_) if batch.parts() > 1 => spawn(self.each_alone(batch)),
            done => batch.answer(done),
        }
    }

    async fn each_alone(&'static self, batch: Batch) {
        for mut one in batch.split() {
            let done = self.transfer(&mut one).await;
            one.answer(done);
        }
    }

    async fn transfer(&self, batch: &mut Batch) -> Result<(), BlockError> {
        let (first, bytes) = (batch.first_sector(), batch.part_bytes().sum());
        let views = batch.lend();
        let (done, ns) = if batch.is_write() {
            self.device.write_timed(first, views).await
        } else {
            let (data, ns) = self.device.read_timed(first, views).await;
            (data.map(|data| batch.give_back(data)), ns)
        };
        self.count(bytes, ns);
        done
    }

    /// Counts a request that moved data; its bytes are known and counted before, so that the next choice knows of them.
    fn count(&self, bytes: u64, device_ns: u64) {
        self.engine.report(Metric::DeviceTimeNs, device_ns);
        self.pace.note(bytes, device_ns);
    }

    /// Does a SCSI command. One that moves nothing of its own counts as a flush does; one that is sent again counts again.
    async fn command(&self, command: Command) -> Result<Answer, HostError> {
        self.admit().await;
        let bytes = command.data_bytes() as u64;
        if bytes > 0 {
            self.engine.report(Metric::Bytes, bytes);
        }
        let (answer, ns) = self.device.execute_timed(command).await;
        match bytes {
            0 => self.count_without_bytes(ns),
            _ => self.count(bytes, ns),
        }
        answer
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.admit().await;
        let (answer, ns) = self.device.flush_timed().await;
        self.count_without_bytes(ns);
        answer
    }

    /// A flush moves nothing of its own: where bytes are counted, it counts for those that the device could have moved meanwhile.
    fn count_without_bytes(&self, device_ns: u64) {
        self.engine.report(Metric::DeviceTimeNs, device_ns);
        self.engine.weigh(Metric::Bytes, self.pace.bytes_in(device_ns));
    }
}
