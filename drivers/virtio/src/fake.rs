//! A device for host tests of drivers and for the simulator. It panics if a driver breaks the rules, and lies if a test tells it to.
//!
//! Protocol of use: [`FakeDevice::new`] offers features and queues, [`FakeDevice::connect`] says where interrupts and notifications go. A driver starts
//! it through [`Transport`]. Then the test is the device: it takes chains, reads and writes their memory, completes them and interrupts.
//!
//! The device checks the order of the start (virtio 1.2 §3.1.1), the form of chains, and, until it lies itself, that a chain is in flight once. A
//! reset forgets what it had.
//! [`FakeDevice::complete_unchecked`] and [`FakeDevice::advance_used`] write what no honest device would.
//!
//! Left out: the meaning of requests, which is the test's.

use crate::features::*;
use crate::layout::*;
use crate::{Doorbell, Transport};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::{DeviceError, Events, Pa, device_read, device_write, post_event};
use gyre_object::SpinLock;

struct Queue {
    size_max: u16,
    layout: Option<QueueLayout>,
    taken: u16,
    used: u16,
    /// Index of the used ring when the last interrupt was sent.
    interrupted_at: u16,
    kicks: usize,
    /// Of the interrupt table.
    entry: u16,
    in_flight: Vec<u16>,
    /// It said what is not so since its last reset: what the driver makes of that is no fault of the driver.
    has_lied: bool,
}

struct State {
    status: u8,
    offered: u64,
    driver_features: u64,
    queues: Vec<Queue>,
    config: Vec<u8>,
    generation: u8,
    resets: usize,
    refuses_reset: bool,
    line: u32,
    /// The core that each entry of the interrupt table goes to.
    cores: Vec<(u16, usize)>,
    bell: Option<Bell>,
}

/// Told which queue the driver has notified.
type Bell = Arc<dyn Fn(u16) + Send + Sync>;

/// A virtio device played by a test.
pub struct FakeDevice {
    kind: u16,
    state: SpinLock<State>,
}

/// A chain as the device sees it.
#[derive(Clone, Debug)]
pub struct FakeChain {
    /// The first descriptor: what goes into the used ring.
    pub head: u16,
    /// Memory that the device may read, in order.
    pub readable: Vec<(Pa, u32)>,
    /// Memory that the device may write, in order.
    pub writable: Vec<(Pa, u32)>,
}

impl FakeChain {
    /// Everything the device may read.
    pub fn read(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for (pa, bytes) in &self.readable {
            let start = data.len();
            data.resize(start + *bytes as usize, 0);
            device_read(*pa, &mut data[start..]);
        }
        data
    }

    /// How many bytes the device may write.
    pub fn writable_bytes(&self) -> u32 {
        self.writable.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Writes from the start of the writable pieces; returns the bytes written.
    pub fn write(&self, data: &[u8]) -> u32 {
        self.write_at(0, data)
    }

    /// Writes from `offset` bytes of the writable pieces on; returns the bytes written.
    pub fn write_at(&self, mut offset: usize, mut data: &[u8]) -> u32 {
        let mut written = 0;
        for (pa, bytes) in &self.writable {
            let bytes = *bytes as usize;
            if offset >= bytes {
                offset -= bytes;
                continue;
            }
            let count = data.len().min(bytes - offset);
            device_write(Pa(pa.0 + offset as u64), &data[..count]);
            data = &data[count..];
            offset = 0;
            written += count as u32;
        }
        written
    }
}

fn read_u16(pa: Pa, offset: u64) -> u16 {
    let mut bytes = [0; 2];
    device_read(Pa(pa.0 + offset), &mut bytes);
    u16::from_le_bytes(bytes)
}

fn write_u16(pa: Pa, offset: u64, value: u16) {
    device_write(Pa(pa.0 + offset), &value.to_le_bytes());
}

struct Descriptor {
    pa: Pa,
    bytes: u32,
    flags: u16,
    next: u16,
}

fn descriptor(table: Pa, index: u16) -> Descriptor {
    let mut raw = [0; DESCRIPTOR_BYTES];
    device_read(Pa(table.0 + u64::from(index) * DESCRIPTOR_BYTES as u64), &mut raw);
    Descriptor {
        pa: Pa(u64::from_le_bytes(raw[..8].try_into().unwrap())),
        bytes: u32::from_le_bytes(raw[8..12].try_into().unwrap()),
        flags: u16::from_le_bytes(raw[12..14].try_into().unwrap()),
        next: u16::from_le_bytes(raw[14..].try_into().unwrap()),
    }
}

impl FakeDevice {
    /// A device of a kind, with features (besides version 1), one queue per size and a configuration space.
    pub fn new(kind: u16, features: u64, queue_sizes: &[u16], config: Vec<u8>) -> Arc<FakeDevice> {
        let queue = |size_max: &u16| Queue {
            size_max: *size_max,
            layout: None,
            taken: 0,
            used: 0,
            interrupted_at: 0,
            kicks: 0,
            entry: 0,
            in_flight: Vec::new(),
            has_lied: false,
        };
        let state = State {
            status: 0,
            offered: features | VERSION_1,
            driver_features: 0,
            queues: queue_sizes.iter().map(queue).collect(),
            config,
            generation: 0,
            resets: 0,
            refuses_reset: false,
            line: Events::FIRST_LINE,
            cores: Vec::new(),
            bell: None,
        };
        Arc::new(FakeDevice { kind, state: SpinLock::new(state) })
    }

    /// Its interrupts arrive on `line` of whichever core, and `bell` hears of each notification. Before the driver starts.
    pub fn connect(&self, line: u32, bell: impl Fn(u16) + Send + Sync + 'static) {
        let mut state = self.state.lock();
        state.line = line;
        state.bell = Some(Arc::new(bell));
    }

    /// Interrupts the core that has the queue's interrupts.
    pub fn interrupt(&self, queue: usize) {
        let state = self.state.lock();
        let entry = state.queues[queue].entry;
        let core = state.cores.iter().rev().find(|(other, _)| *other == entry).map_or(0, |(_, core)| *core);
        post_event(core, 1 << state.line);
    }

    /// How often the driver notified the queue.
    pub fn kicks(&self, queue: usize) -> usize {
        self.state.lock().queues[queue].kicks
    }

    /// How often the driver reset the device.
    pub fn resets(&self) -> usize {
        self.state.lock().resets
    }

    /// From now on the device does not come back from a reset.
    pub fn refuse_reset(&self) {
        self.state.lock().refuses_reset = true;
    }

    /// The features that the driver took.
    pub fn agreed(&self) -> u64 {
        self.state.lock().driver_features
    }

    /// Chains that were made available and not taken yet.
    pub fn waiting(&self, queue: usize) -> u16 {
        let state = self.state.lock();
        let queue = &state.queues[queue];
        queue.layout.map_or(0, |layout| read_u16(layout.available, 2).wrapping_sub(queue.taken))
    }

    /// Takes the next available chain.
    ///
    /// # Panics
    /// If the driver broke a rule: device not live, chain that is a loop or empty, readable piece after a writable one.
    pub fn take(&self, queue: usize) -> Option<FakeChain> {
        let mut state = self.state.lock();
        let live = state.status & STATUS_DRIVER_OK != 0;
        let (indirect, events) =
            (state.driver_features & INDIRECT_DESCRIPTORS != 0, state.driver_features & EVENT_INDEX != 0);
        let queue = &mut state.queues[queue];
        let layout = queue.layout?;
        let waiting = read_u16(layout.available, 2).wrapping_sub(queue.taken);
        assert!(waiting <= layout.size || queue.has_lied, "the driver made more chains available than the ring holds");
        if waiting == 0 || waiting > layout.size {
            return None;
        }
        assert!(live, "chains on a device that is not live");
        let head = read_u16(layout.available, 4 + 2 * u64::from(queue.taken % layout.size));
        assert!(!queue.in_flight.contains(&head) || queue.has_lied, "chain {head} is in flight already");
        queue.in_flight.push(head);
        queue.taken = queue.taken.wrapping_add(1);
        if events {
            write_u16(layout.used, 4 + 8 * u64::from(layout.size), queue.taken);
        }
        Some(walk(layout, head, indirect))
    }

    /// Completes a chain; returns true if the driver wants an interrupt.
    pub fn complete(&self, queue: usize, head: u16, bytes: u32) -> bool {
        {
            let mut state = self.state.lock();
            let queue = &mut state.queues[queue];
            assert!(queue.in_flight.contains(&head) || queue.has_lied, "the test completes a chain it does not have");
            queue.in_flight.retain(|other| *other != head);
        }
        self.use_entry(queue, u32::from(head), bytes)
    }

    /// Writes any entry into the used ring, also a false one.
    pub fn complete_unchecked(&self, queue: usize, id: u32, bytes: u32) -> bool {
        self.state.lock().queues[queue].has_lied = true;
        self.use_entry(queue, id, bytes)
    }

    fn use_entry(&self, queue: usize, id: u32, bytes: u32) -> bool {
        let (layout, used) = {
            let state = self.state.lock();
            (state.queues[queue].layout, state.queues[queue].used)
        };
        let Some(layout) = layout else { return false };
        let slot = layout.used.0 + 4 + 8 * u64::from(used % layout.size);
        device_write(Pa(slot), &id.to_le_bytes());
        device_write(Pa(slot + 4), &bytes.to_le_bytes());
        self.move_used(queue, 1)
    }

    /// Moves the used index without entries; returns true if the driver wants an interrupt.
    pub fn advance_used(&self, queue: usize, by: u16) -> bool {
        self.state.lock().queues[queue].has_lied = true;
        self.move_used(queue, by)
    }

    fn move_used(&self, queue: usize, by: u16) -> bool {
        let mut state = self.state.lock();
        let events = state.driver_features & EVENT_INDEX != 0;
        let queue = &mut state.queues[queue];
        let Some(layout) = queue.layout else {
            return false;
        };
        queue.used = queue.used.wrapping_add(by);
        write_u16(layout.used, 2, queue.used);
        let before = core::mem::replace(&mut queue.interrupted_at, queue.used);
        if !events {
            return read_u16(layout.available, 0) & FLAG_QUIET == 0;
        }
        let event = read_u16(layout.available, 4 + 2 * u64::from(layout.size));
        queue.used.wrapping_sub(event).wrapping_sub(1) < queue.used.wrapping_sub(before)
    }

    /// Changes the configuration space.
    pub fn set_config(&self, config: Vec<u8>) {
        let mut state = self.state.lock();
        state.config = config;
        state.generation = state.generation.wrapping_add(1);
    }
}

fn walk(layout: QueueLayout, head: u16, may_be_indirect: bool) -> FakeChain {
    let mut chain = FakeChain { head, readable: Vec::new(), writable: Vec::new() };
    let first = descriptor(layout.descriptors, head);
    let (table, entries, mut current) = if first.flags & FLAG_INDIRECT != 0 {
        assert!(may_be_indirect, "indirect descriptors were not agreed on");
        assert!(first.flags & (FLAG_NEXT | FLAG_WRITE) == 0, "an indirect descriptor has no other flags");
        assert!(first.bytes > 0 && first.bytes % 16 == 0, "a table of {} bytes", first.bytes);
        (first.pa, (first.bytes / 16) as u16, descriptor(first.pa, 0))
    } else {
        (layout.descriptors, layout.size, first)
    };
    for _ in 0..entries {
        assert!(current.bytes > 0, "an empty piece");
        if current.flags & FLAG_WRITE != 0 {
            chain.writable.push((current.pa, current.bytes));
        } else {
            assert!(chain.writable.is_empty(), "a readable piece after a writable one");
            chain.readable.push((current.pa, current.bytes));
        }
        if current.flags & FLAG_NEXT == 0 {
            return chain;
        }
        assert!(current.next < entries, "the chain leaves its table");
        current = descriptor(table, current.next);
    }
    panic!("the chain is a loop");
}

impl Transport for FakeDevice {
    fn device_kind(&self) -> u16 {
        self.kind
    }

    fn status(&self) -> u8 {
        let (status, refuses) = {
            let state = self.state.lock();
            (state.status, state.refuses_reset)
        };
        // Whoever waits for it to come back does so until its time is over, not by counting a million looks.
        if refuses {
            gyre_machine::advance(1_000_000);
        }
        status
    }

    fn set_status(&self, status: u8) {
        let mut state = self.state.lock();
        if status != 0 {
            assert_eq!(state.status & !status, 0, "the driver took status bits back without a reset");
            state.status = status;
            return;
        }
        state.resets += 1;
        if state.refuses_reset {
            return;
        }
        (state.status, state.driver_features) = (0, 0);
        for queue in &mut state.queues {
            (queue.layout, queue.taken, queue.used, queue.interrupted_at) = (None, 0, 0, 0);
            queue.in_flight.clear();
            queue.has_lied = false;
        }
    }

    fn device_features(&self) -> u64 {
        self.state.lock().offered
    }

    fn set_driver_features(&self, features: u64) {
        let mut state = self.state.lock();
        assert_eq!(
            state.status,
            STATUS_ACKNOWLEDGE | STATUS_DRIVER,
            "features are agreed on after DRIVER and before FEATURES_OK"
        );
        assert_eq!(features & !state.offered, 0, "the driver takes what was not offered");
        state.driver_features = features;
    }

    fn queue_size_max(&self, queue: u16) -> u16 {
        self.state.lock().queues.get(usize::from(queue)).map_or(0, |queue| queue.size_max)
    }

    fn enable_queue(&self, queue: u16, layout: QueueLayout, table_entry: u16) -> Result<Doorbell, DeviceError> {
        let mut state = self.state.lock();
        assert!(
            state.status & STATUS_FEATURES_OK != 0 && state.status & STATUS_DRIVER_OK == 0,
            "queues are set up between FEATURES_OK and DRIVER_OK"
        );
        let slot = state.queues.get_mut(usize::from(queue)).ok_or(DeviceError::Protocol)?;
        assert!(layout.size.is_power_of_two() && layout.size <= slot.size_max, "a ring of {}", layout.size);
        assert!(
            layout.descriptors.0.is_multiple_of(16)
                && layout.available.0.is_multiple_of(2)
                && layout.used.0.is_multiple_of(4),
            "alignment"
        );
        assert_eq!(read_u16(layout.available, 2), 0, "a ring starts empty");
        (slot.layout, slot.entry) = (Some(layout), table_entry);
        Ok(Doorbell { queue, offset: usize::from(queue) })
    }

    fn notify(&self, doorbell: Doorbell) {
        let mut state = self.state.lock();
        assert!(state.status & STATUS_DRIVER_OK != 0, "notified before DRIVER_OK");
        state.queues[usize::from(doorbell.queue)].kicks += 1;
        let bell = state.bell.clone();
        drop(state);
        if let Some(bell) = bell {
            bell(doorbell.queue);
        }
    }

    fn config_u8(&self, offset: usize) -> u8 {
        self.state.lock().config.get(offset).copied().unwrap_or(0)
    }

    fn config_u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.config_u8(offset), self.config_u8(offset + 1)])
    }

    fn config_u32(&self, offset: usize) -> u32 {
        u32::from(self.config_u16(offset)) | u32::from(self.config_u16(offset + 2)) << 16
    }

    fn config_generation(&self) -> u8 {
        self.state.lock().generation
    }

    fn attach_interrupt(&self, table_entry: u16, core: usize) -> Result<u32, DeviceError> {
        let mut state = self.state.lock();
        state.cores.push((table_entry, core));
        Ok(state.line)
    }
}
