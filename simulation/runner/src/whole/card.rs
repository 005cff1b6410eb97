//! A virtio network device at one end of a wire: it sends a frame at a time, as fast as its rate lets it, and sometimes not for a while.

use crate::whole::plan::{MAC, MS, WirePlan};
use gyre_engine::simulate::Outside;
use gyre_machine::random::Random;
use gyre_machine::wire::{CLEAN, Faults, Way};
use gyre_virtio::FakeDevice;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio_net::DEVICE_KIND;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const RECEIVE: usize = 0;
const SEND: usize = 1;
const FEATURE_CHECKSUM: u64 = 1;
const FEATURE_MAC: u64 = 1 << 5;
const HEADER_BYTES: usize = 12;
const NEEDS_CHECKSUM: u8 = 1;
/// The line of its interrupts.
pub const LINE: u32 = gyre_machine::Events::FIRST_LINE + 1;

/// Both directions of the wire.
pub struct Wire {
    /// Its faults.
    pub faults: Cell<Faults>,
    /// Frames to the peer.
    pub to_peer: RefCell<Way>,
    /// Frames to the card.
    pub to_card: RefCell<Way>,
}

impl Wire {
    /// Makes a wire with these faults.
    pub fn new(faults: Faults) -> Rc<Wire> {
        Rc::new(Wire { faults: Cell::new(faults), to_peer: RefCell::default(), to_card: RefCell::default() })
    }

    /// Sends a frame.
    pub fn put(&self, way: &RefCell<Way>, now_ns: u64, frame: Vec<u8>) {
        let mut faults = self.faults.get();
        way.borrow_mut().put_at(now_ns, &mut faults, frame);
        self.faults.set(faults);
    }

    /// From now on every frame arrives.
    pub fn calm(&self) {
        self.faults.set(Faults { seed: self.faults.get().seed, ..CLEAN });
    }
}

/// The device.
pub struct Card {
    /// The side that the driver speaks to.
    pub device: Arc<FakeDevice>,
    wire: Rc<Wire>,
    plan: WirePlan,
    rung_ns: Arc<AtomicU64>,
    /// The frame that is being sent: when it will have left, its chain, its bytes.
    sending: RefCell<Option<(u64, u16, Vec<u8>)>>,
    free_ns: Cell<u64>,
    random: RefCell<Random>,
    /// Frames for which there was no buffer.
    pub missed: Cell<u64>,
    is_calm: Cell<bool>,
}

impl Card {
    /// Makes a device at a wire.
    pub fn new(wire: Rc<Wire>, plan: WirePlan, seed: u64) -> Card {
        let features = FEATURE_MAC | INDIRECT_DESCRIPTORS | EVENT_INDEX;
        let features = features | if plan.has_checksums { FEATURE_CHECKSUM } else { 0 };
        let mut config = vec![0; 12];
        config[..6].copy_from_slice(&MAC);
        let device = FakeDevice::new(DEVICE_KIND, features, &[256, 256], config);
        let rung_ns = Arc::new(AtomicU64::new(u64::MAX));
        let bell = rung_ns.clone();
        device.connect(LINE, move |queue| {
            if usize::from(queue) == SEND {
                let now = gyre_machine::virtual_clock(gyre_machine::core_index());
                bell.fetch_min(now + 300, Ordering::Relaxed);
            }
        });
        Card {
            device,
            wire,
            plan,
            rung_ns,
            sending: RefCell::default(),
            free_ns: Cell::new(0),
            random: RefCell::new(Random::new(seed, 12)),
            missed: Cell::new(0),
            is_calm: Cell::new(false),
        }
    }

    /// From now on it never stops.
    pub fn calm(&self) {
        self.is_calm.set(true);
    }

    /// Begins with the next frame, if there is one.
    fn begin(&self, now_ns: u64) {
        let Some(chain) = self.device.take(SEND) else { return };
        let frame = with_checksum(chain.read());
        let time_ns = frame.len() as u64 * self.plan.byte_ns;
        *self.sending.borrow_mut() = Some((now_ns + time_ns, chain.head, frame));
    }

    fn finish(&self, now_ns: u64, head: u16, frame: Vec<u8>) {
        self.wire.put(&self.wire.to_peer, now_ns, frame);
        if self.device.complete(SEND, head, 0) {
            self.device.interrupt(SEND);
        }
        let mut random = self.random.borrow_mut();
        let halts = !self.is_calm.get() && random.per_mille(self.plan.halts);
        self.free_ns.set(now_ns + if halts { random.below(8 * MS) } else { 0 });
        self.rung_ns.fetch_min(self.free_ns.get(), Ordering::Relaxed);
    }

    fn receive(&self, frame: &[u8]) {
        let Some(chain) = self.device.take(RECEIVE) else {
            return self.missed.set(self.missed.get() + 1);
        };
        let written = chain.write(&[&[0; HEADER_BYTES], frame].concat());
        if self.device.complete(RECEIVE, chain.head, written) {
            self.device.interrupt(RECEIVE);
        }
    }
}

/// Returns a frame without its header, with the checksum that the header asks for.
fn with_checksum(mut data: Vec<u8>) -> Vec<u8> {
    let frame = data.split_off(HEADER_BYTES);
    if data[0] & NEEDS_CHECKSUM == 0 {
        return frame;
    }
    let word = |at: usize| usize::from(u16::from_le_bytes([data[at], data[at + 1]]));
    let (start, offset) = (word(6), word(8));
    let mut frame = frame;
    let pairs =
        frame[start..].chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[start + offset..start + offset + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
    frame
}

impl Outside for Card {
    fn next_at(&self) -> Option<u64> {
        let rung = Some(self.rung_ns.load(Ordering::Relaxed)).filter(|at| *at < u64::MAX);
        let sent = self.sending.borrow().as_ref().map(|(at, ..)| *at);
        let send = if sent.is_some() { sent } else { rung.map(|at| at.max(self.free_ns.get())) };
        send.into_iter().chain(self.wire.to_card.borrow().next_at()).min()
    }

    fn act(&self, at_ns: u64) {
        let sent = self.sending.borrow_mut().take_if(|(due, ..)| *due <= at_ns);
        if let Some((_, head, frame)) = sent {
            self.finish(at_ns, head, frame);
        }
        let is_free = self.sending.borrow().is_none() && self.free_ns.get() <= at_ns;
        if is_free && self.rung_ns.load(Ordering::Relaxed) <= at_ns {
            self.rung_ns.store(u64::MAX, Ordering::Relaxed);
            self.begin(at_ns);
        }
        while let Some(frame) = { self.wire.to_card.borrow_mut().take_at(at_ns) } {
            self.receive(&frame);
        }
    }
}
