//! The gate before a network device.

use alloc::boxed::Box;
use gyre_account::ResourceId;
use gyre_device::{LinkDevice, Senders, Sent};
use gyre_engine::{Engine, Notice, NoticeRoute, ResourceHandle, Ticks};
use gyre_interface::link::{LinkError, OutFrame, link};
use gyre_message::Link;
use gyre_schedulers::Metric;

/// A network device's gate: it hands a frame to the device once that has room. Until then the scheduler decides whose is next.
struct Gate<D: 'static> {
    engine: &'static Engine,
    handle: ResourceHandle,
    device: &'static D,
    ticks: Ticks,
}

/// The numbers in the engine of the resources that a device needs.
#[derive(Clone, Copy)]
pub struct Places {
    /// The resource before the device.
    pub resource: ResourceId,
    /// The resource that takes its interrupts.
    pub interrupts: ResourceId,
}

/// Puts the resource before a device: gives it a port, and handles the device's interrupts and ticks on the core of its line.
pub fn attach<D: LinkDevice>(engine: &'static Engine, places: Places, device: &'static D) -> link::Client {
    let Places { resource, interrupts } = places;
    let handle = engine.handle(resource);
    let gate: &'static Gate<D> = Box::leak(Box::new(Gate { engine, handle, device, ticks: Ticks::default() }));
    let line = device.interrupt();
    let route = NoticeRoute { from: interrupts, to: resource, core: line.core };
    let has_room = engine.notice(route, move || gate.on_room());
    engine.on_interrupt(line.core, line.line, Box::new(move || gate.on_interrupt(has_room)));
    gate.ticks.set_notice(engine.notice(route, move || gate.on_tick()));
    link::Client::new(Link::new(engine.port(resource, move |request| serve(gate, request))))
}

async fn serve<D: LinkDevice>(gate: &'static Gate<D>, request: link::Request) {
    match request {
        link::Request::properties { reply } => reply.send(Ok(gate.device.properties())),
        link::Request::transmit { frame, reply } => reply.send(gate.transmit(frame).await),
    }
}

impl<D: LinkDevice> Gate<D> {
    /// Sends a frame once the device has room.
    async fn transmit(&self, frame: OutFrame) -> Result<(), LinkError> {
        let (device, bytes) = (self.device, frame.link_bytes() as u64);
        self.handle.until_accepted(|| self.has_room()).await;
        self.engine.report(Metric::Bytes, bytes);
        let sent = device.send(frame);
        self.ticks.note_request();
        match sent {
            Sent::Taken => Ok(()),
            Sent::Refused(error) => Err(error),
            Sent::Waits(call) => call.await,
        }
    }

    /// Looks whether the device takes a frame. If it does not, the ticks go on: who is held back does not depend on an interrupt alone.
    fn has_room(&self) -> Option<()> {
        let has_room = self.device.has_room();
        if !has_room {
            self.ticks.note_request();
        }
        has_room.then_some(())
    }

    /// Runs in the interrupt's handler.
    fn on_interrupt(&self, has_room: Notice) {
        let senders = if self.handle.is_waited_for() { Senders::Held } else { Senders::Flow };
        if self.device.acknowledge(senders) {
            has_room.send();
        }
        self.device.wake_reader();
    }

    /// Handles the notice that senders may go on.
    fn on_room(&self) {
        self.device.go_on_sending();
        self.let_senders_go_on();
    }

    /// Handles the notice of a tick. Whoever is held back goes on, since an interrupt may have been lost.
    fn on_tick(&self) {
        self.ticks.on_tick(|| self.device.on_tick());
        self.let_senders_go_on();
    }

    /// Lets suspended senders go on once it is worth it: with half of the device's room.
    fn let_senders_go_on(&self) {
        if self.handle.is_waited_for() && self.device.is_half_free() {
            self.handle.resume();
        }
    }
}
