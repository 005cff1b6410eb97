//! The device: its two rings, its interrupt, its failures.
//!
//! A [`VirtioNet`] has two halves, each with a lock of its own: `receive` (buffers posted ahead, frames handed up) and `transmit` (frames given to the device,
//! frames that wait). Both rings share one interrupt line; `room` decides when the sending ring uses it.
//!
//! States: it lives; it is away, because its function is another instance's (see `leave`); or it is dead after a reset that failed; then it takes no frames, answers with errors and keeps all memory that the device may
//! still reach. A device that breaks the rules or holds a frame too long is reset: frames that it had are lost, frames that wait are sent then.
//!
//! The receiving half is locked before the sending half. The resource before the device calls in by [`gyre_device::LinkDevice`]; the one reader of frames by
//! [`gyre_interface::link::FrameStream`].

use crate::receive::Receiver;
use crate::transmit::Sender;
use alloc::boxed::Box;
use gyre_device::InterruptLine;
use gyre_interface::link::LinkProperties;
use gyre_machine::{DeviceError, cycles_per_ms, now};
use gyre_message::WaitQueue;
use gyre_object::SpinLock;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio::{Transport, begin, finish, startup};

/// The type of network devices (virtio 1.2 §5.1.1).
pub const DEVICE_KIND: u16 = 1;

const FEATURE_CHECKSUM: u64 = 1 << 0;
const FEATURE_MTU: u64 = 1 << 3;
const FEATURE_MAC: u64 = 1 << 5;
const FEATURE_SEGMENT_TCP4: u64 = 1 << 11;
const WANTED: u64 =
    FEATURE_CHECKSUM | FEATURE_MTU | FEATURE_MAC | FEATURE_SEGMENT_TCP4 | INDIRECT_DESCRIPTORS | EVENT_INDEX;
const CONFIG_MTU: usize = 10;
const RECEIVE_QUEUE: u16 = 0;
const SEND_QUEUE: u16 = 1;
/// Largest payload of an Ethernet frame.
const MTU_BYTES: usize = 1500;
/// Largest segment taken in one frame.
const SEGMENTATION_BYTES: usize = 60 << 10;

/// Longest time that a lost interrupt or doorbell costs while something is being sent, ms.
const LOOK_EVERY_MS: u64 = 1000;

/// How the driver uses its device.
#[derive(Clone, Copy, Debug)]
pub struct NetOptions {
    /// Frames that the device holds to send: what waits beyond, waits in the scheduler's queue. Small keeps shares exact,
    /// large keeps a fast link busy.
    pub send_frames: u16,
    /// Buffers posted for frames to come.
    pub receive_buffers: u16,
    /// Frames handed up in one answer.
    pub batch: usize,
    /// A frame that the device holds longer makes it be reset, ms. Long: a link that does not move is no failure of the device.
    pub timeout_ms: u64,
}

impl Default for NetOptions {
    fn default() -> NetOptions {
        NetOptions { send_frames: 32, receive_buffers: 256, batch: 32, timeout_ms: 600_000 }
    }
}

/// A device after its reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterReset {
    /// It has come back, and has given up all memory.
    Alive,
    /// It did not come back: it may still write to memory that it had.
    Silent,
}

impl AfterReset {
    /// Returns the state of a device whose reset ended so.
    pub(crate) fn of(reset: &Result<(), DeviceError>) -> Self {
        if reset.is_ok() { AfterReset::Alive } else { AfterReset::Silent }
    }
}

/// Counts of the driver.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LinkStatistics {
    /// Frames received.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames given to the device.
    pub sent_frames: u64,
    /// Their bytes, before segmentation.
    pub sent_bytes: u64,
    /// Times that a frame found the ring full.
    pub waits: u64,
    /// Received frames that were shorter than a header or longer than a buffer.
    pub malformed: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Times that the device was reset because it was late or lied.
    pub resets: u64,
    /// Frames to send at the device now.
    pub sending: u16,
}

/// A virtio network device. Lives as long as the instance.
pub struct VirtioNet {
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) receiver: SpinLock<Receiver>,
    pub(crate) sender: SpinLock<Sender>,
    pub(crate) arrived: WaitQueue,
    pub(crate) properties: LinkProperties,
    pub(crate) options: NetOptions,
    /// The device cuts large segments itself.
    pub(crate) cuts: bool,
    general: SpinLock<LinkStatistics>,
    pub(crate) line: InterruptLine,
}

impl VirtioNet {
    /// Starts the device, whose interrupts arrive on `core`.
    ///
    /// # Errors
    /// [`DeviceError`]; [`DeviceError::Protocol`] also if it is no network device.
    pub fn new(transport: Box<dyn Transport>, core: usize, options: NetOptions) -> Result<VirtioNet, DeviceError> {
        if transport.device_kind() != DEVICE_KIND {
            return Err(DeviceError::Protocol);
        }
        let features = begin(&*transport, WANTED)?;
        let line = transport.attach_interrupt(0, core)?;
        let properties = properties(&*transport, features);
        let mut receiver = Receiver::new(transport.queue_size_max(RECEIVE_QUEUE), features, &options)?;
        let mut sender = Sender::new(transport.queue_size_max(SEND_QUEUE), features, &options)?;
        receiver.doorbell = Some(transport.enable_queue(RECEIVE_QUEUE, receiver.ring.layout(), 0)?);
        sender.doorbell = Some(transport.enable_queue(SEND_QUEUE, sender.ring.layout(), 0)?);
        finish(&*transport);
        let device = VirtioNet {
            transport,
            receiver: SpinLock::new(receiver),
            sender: SpinLock::new(sender),
            arrived: WaitQueue::new(),
            properties,
            options,
            cuts: cuts(features),
            general: SpinLock::default(),
            line: InterruptLine { core, line },
        };
        device.post_buffers();
        Ok(device)
    }

    /// Counts of the driver.
    pub fn statistics(&self) -> LinkStatistics {
        let mut statistics = *self.general.lock();
        self.receiver.lock().count_into(&mut statistics);
        self.sender.lock().count_into(&mut statistics);
        statistics
    }

    /// Counts an interrupt.
    pub(crate) fn count_interrupt(&self) {
        count(&mut self.general.lock().interrupts, 1);
    }

    /// Wakes the reader if frames wait for it, so that those need no task between them and their reader. It comes at each interrupt, after whoever
    /// waits for room, so that the ring is full again when the reader looks whether frames may gather.
    pub(crate) fn wake_waiting_reader(&self) {
        if self.receiver.lock().has_arrived() {
            self.arrived.wake_all();
        }
    }

    /// Looks for lost interrupts, lost doorbells and frames that are late. Returns after how many cycles to look again, if something is being sent.
    pub(crate) fn look(&self) -> Option<u64> {
        let timeout = self.options.timeout_ms.saturating_mul(cycles_per_ms());
        // a lost interrupt costs time, not the frame
        self.send_waiting();
        let limit = now().saturating_sub(timeout);
        let late = self.sender.lock().is_older_than(limit);
        if late {
            self.recover();
        }
        self.ring_again();
        // an interrupt for received frames may have been lost too
        self.wake_waiting_reader();
        let period = (timeout / 4).min(cycles_per_ms().saturating_mul(LOOK_EVERY_MS)).saturating_add(1);
        (self.sender.lock().ring.in_flight() > 0).then_some(period)
    }

    /// Tells the device of both rings, whatever it wishes to be told. An emulator that does not keep the order of our index and its wish misses one of them
    /// now and then (QEMU before 8.1 leaves fences out of a machine of one processor): then the device would sleep beside its work for ever.
    fn ring_again(&self) {
        let sender = self.sender.lock();
        let doorbell = sender.doorbell.filter(|_| !sender.is_dead && sender.ring.in_flight() > 0);
        drop(sender);
        let Some(doorbell) = doorbell else { return };
        self.transport.notify(doorbell);
        let receiver = self.receiver.lock();
        let doorbell = receiver.doorbell.filter(|_| !receiver.is_dead && !receiver.is_away);
        drop(receiver);
        if let Some(doorbell) = doorbell {
            self.transport.notify(doorbell);
        }
    }

    /// The device broke the rules: it is reset, frames that it had are lost, frames that wait are sent then.
    pub(crate) fn recover(&self) {
        self.reset();
        self.send_waiting();
    }

    /// Resets the device and gives it buffers to receive into.
    pub(crate) fn reset(&self) {
        count(&mut self.general.lock().resets, 1);
        let mut receiver = self.receiver.lock();
        if receiver.is_away {
            return;
        }
        let mut sender = self.sender.lock();
        let outcome = AfterReset::of(&startup::reset(&*self.transport));
        receiver.on_reset(outcome);
        sender.on_reset(outcome);
        let restarted = outcome == AfterReset::Alive && self.restart(&mut receiver, &mut sender).is_ok();
        (receiver.is_dead, sender.is_dead) = (!restarted, !restarted);
        drop(sender);
        drop(receiver);
        self.post_buffers();
        self.arrived.wake_all();
    }

    pub(crate) fn restart(&self, receiver: &mut Receiver, sender: &mut Sender) -> Result<(), DeviceError> {
        begin(&*self.transport, WANTED)?;
        receiver.doorbell = Some(self.transport.enable_queue(RECEIVE_QUEUE, receiver.ring.layout(), 0)?);
        sender.doorbell = Some(self.transport.enable_queue(SEND_QUEUE, sender.ring.layout(), 0)?);
        finish(&*self.transport);
        Ok(())
    }
}

/// Adds to a figure, which stays at its end.
pub(crate) fn count(figure: &mut u64, more: u64) {
    *figure = figure.saturating_add(more);
}

fn properties(transport: &dyn Transport, features: u64) -> LinkProperties {
    let mut mac = [0; 6];
    if features & FEATURE_MAC != 0 {
        mac.iter_mut().enumerate().for_each(|(at, byte)| *byte = transport.config_u8(at));
    } else {
        gyre_machine::fill_random(&mut mac);
        // a station's address that nobody has assigned (IEEE 802 section 8.2)
        mac[0] = mac[0] & !1 | 2;
    }
    let offered = usize::from(transport.config_u16(CONFIG_MTU));
    let mtu_bytes = match features & FEATURE_MTU != 0 && offered >= 68 {
        true => offered.min(MTU_BYTES),
        false => MTU_BYTES,
    };
    let checksum_offload = features & FEATURE_CHECKSUM != 0;
    LinkProperties { mac, mtu_bytes, checksum_offload, segmentation_bytes_max: SEGMENTATION_BYTES }
}

/// True for a device that cuts large segments itself; for others the driver does.
pub(crate) fn cuts(features: u64) -> bool {
    features & FEATURE_CHECKSUM != 0 && features & FEATURE_SEGMENT_TCP4 != 0
}
