//! The device: start-up, its interrupt, its end.

use crate::receive::Receiver;
use crate::transmit::Transmitter;
use alloc::boxed::Box;
use gyre_interface::link::LinkProperties;
use gyre_machine::DeviceError;
use gyre_message::WaitQueue;
use gyre_object::SpinLock;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio::{Doorbell, Ring, RingOptions, Transport, begin, finish};

/// The type of network devices (virtio 1.2 §5.1.1).
pub const DEVICE_KIND: u16 = 1;
/// Bytes of the header before each frame (virtio 1.2 §5.1.6).
pub(crate) const HEADER_BYTES: usize = 12;
/// Largest payload of a frame.
pub(crate) const MTU_BYTES: usize = 1500;

const FEATURE_MAC: u64 = 1 << 5;
const WANTED: u64 = FEATURE_MAC | INDIRECT_DESCRIPTORS | EVENT_INDEX;
const RECEIVE_QUEUE: u16 = 0;
const TRANSMIT_QUEUE: u16 = 1;

/// How the driver uses its device.
#[derive(Clone, Copy, Debug)]
pub struct NetOptions {
    /// Buffers posted for frames to come.
    pub receive_depth: u16,
    /// Most frames at the device; the rest waits in order of its scheduler, so this bounds what the device's own queue can undo.
    pub transmit_depth: u16,
}

impl Default for NetOptions {
    fn default() -> NetOptions {
        NetOptions { receive_depth: 256, transmit_depth: 16 }
    }
}

/// What the driver has seen.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct NetDeviceStatistics {
    /// Frames received.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames dropped for want of memory.
    pub dropped_frames: u64,
    /// Frames given to the device.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Times that the device broke its rules; it is dead after the first.
    pub faults: u64,
}

/// A virtio network device. Lives as long as the instance.
pub struct VirtioNet {
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) receiver: SpinLock<Receiver>,
    pub(crate) transmitter: SpinLock<Transmitter>,
    pub(crate) receive_bell: Doorbell,
    pub(crate) transmit_bell: Doorbell,
    /// Woken when frames may have arrived.
    pub(crate) arrived: WaitQueue,
    /// Woken when the transmit ring may have room.
    pub(crate) room: WaitQueue,
    properties: LinkProperties,
    line: u32,
}

impl VirtioNet {
    /// Starts the device, whose interrupts arrive on `core`.
    ///
    /// # Errors
    /// [`DeviceError`]; [`DeviceError::Protocol`] also where it is no network device or takes too few pieces.
    pub fn new(transport: Box<dyn Transport>, core: usize, options: NetOptions) -> Result<VirtioNet, DeviceError> {
        if transport.device_kind() != DEVICE_KIND {
            return Err(DeviceError::Protocol);
        }
        let features = begin(&*transport, WANTED)?;
        let line = transport.attach_interrupt(0, core)?;
        let receive_ring = make_ring(&*transport, RECEIVE_QUEUE, features, options.receive_depth, 1)?;
        let receive_bell = transport.enable_queue(RECEIVE_QUEUE, receive_ring.layout(), 0)?;
        let pieces_max = crate::transmit::PIECES_MAX;
        let transmit_ring = make_ring(&*transport, TRANSMIT_QUEUE, features, options.transmit_depth, pieces_max)?;
        let transmit_bell = transport.enable_queue(TRANSMIT_QUEUE, transmit_ring.layout(), 0)?;
        let properties = LinkProperties {
            mac: core::array::from_fn(|index| transport.config_u8(index)),
            mtu_bytes: MTU_BYTES,
            checksum_offload: false,
            segmentation_bytes_max: 0,
        };
        let mut receiver = Receiver::new(receive_ring);
        let transmitter = Transmitter::new(transmit_ring, options.transmit_depth)?;
        finish(&*transport);
        receiver.fill()?;
        if receiver.publish() {
            transport.notify(receive_bell);
        }
        Ok(VirtioNet {
            transport,
            receiver: SpinLock::new(receiver),
            transmitter: SpinLock::new(transmitter),
            receive_bell,
            transmit_bell,
            arrived: WaitQueue::new(),
            room: WaitQueue::new(),
            properties,
            line,
        })
    }

    /// The interrupt line, for the table that calls [`VirtioNet::on_interrupt`].
    pub fn line(&self) -> u32 {
        self.line
    }

    /// What the device is.
    pub fn properties(&self) -> LinkProperties {
        self.properties
    }

    /// True where the device would take a frame now.
    pub fn has_room(&self) -> bool {
        let mut transmitter = self.transmitter.lock();
        transmitter.take_back();
        if transmitter.has_room() {
            return true;
        }
        transmitter.listen();
        transmitter.has_room()
    }

    /// Takes back what was sent and wakes who waits for frames or room. Short; never waits.
    pub fn on_interrupt(&self) {
        let taken = self.transmitter.lock().take_back();
        if taken {
            self.room.wake_all();
        }
        self.arrived.wake_all();
    }

    /// What the driver has seen.
    pub fn statistics(&self) -> NetDeviceStatistics {
        let mut statistics = self.receiver.lock().statistics;
        let transmitter = self.transmitter.lock();
        statistics.sent_frames = transmitter.sent_frames;
        statistics.sent_bytes = transmitter.sent_bytes;
        statistics.faults += u64::from(transmitter.dead);
        statistics
    }
}

fn make_ring<T>(
    transport: &dyn Transport,
    queue: u16,
    features: u64,
    depth: u16,
    pieces_max: u16,
) -> Result<Ring<T>, DeviceError> {
    let indirect = features & INDIRECT_DESCRIPTORS != 0 && pieces_max > 1;
    let per_chain = if indirect { 1 } else { pieces_max };
    let wanted = depth.max(1).saturating_mul(per_chain).checked_next_power_of_two().unwrap_or(0x8000);
    let size = transport.queue_size_max(queue).min(wanted);
    if size < per_chain {
        return Err(DeviceError::Protocol);
    }
    Ring::new(size, RingOptions { indirect, event_index: features & EVENT_INDEX != 0, pieces_max })
}
