//! A disk behind virtio, a block device or a SCSI host, with a queue for some cores: requests take times of their own, so that they end in another order than they came.
//!
//! * The driver's requests are taken when the bell rang, get a time each, and end at that time, in whatever order.
//! * Plans say how many requests fail, are late beyond [`PATIENCE_MS`], or find a SCSI unit busy. After `calm` none
//!   does.
//! * A reset leaves what was under way done or not, as hardware does.
//! * The medium has what was written and what is durable apart: `crash` gives an image that a power cut could leave,
//!   with torn writes.
//!
//! All choices come from the seed. The driver under test is that of the kernel; only the ring's other side is here.

use crate::whole::plan::{DiskPlan, MS};
use crate::whole::scsi::{self, End};
use gyre_engine::simulate::Outside;
use gyre_machine::disk::{Medium, SECTOR_BYTES};
use gyre_machine::random::Random;
use gyre_virtio::FakeDevice;
use gyre_virtio::fake::FakeChain;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio_block::{BLOCK_KIND, SCSI_KIND};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const FEATURES: u64 = 1 << 2 | 1 << 9 | 1 << 12 | INDIRECT_DESCRIPTORS | EVENT_INDEX;
const QUEUE_SIZE: u16 = 128;
const HEADER_BYTES: usize = 16;
/// The line of its interrupts.
pub const LINE: u32 = gyre_machine::Events::FIRST_LINE;
/// The driver's patience for an answer, ms.
pub const PATIENCE_MS: u64 = 40;

/// Of 1000 commands to a SCSI unit, how many find it busy.
const BUSY_PER_MILLE: u64 = 5;

/// The wish of a request.
pub enum Wish {
    /// Bytes of the disk.
    Read {
        /// The byte at which they begin.
        at: usize,
        /// How many.
        bytes: usize,
    },
    /// Bytes onto the disk.
    Write {
        /// The byte at which they begin.
        at: usize,
        /// The bytes.
        data: Vec<u8>,
    },
    /// So many writes are to be durable.
    Flush {
        /// So many since the start.
        writes: u64,
    },
    /// Bytes that a SCSI unit says of itself.
    Tell(Vec<u8>),
    /// A wish that the disk does not know.
    Unknown,
}

struct UnderWay {
    due_ns: u64,
    queue: usize,
    chain: FakeChain,
    wish: Wish,
    fails: bool,
    is_busy: bool,
}

fn block_device(image: &[u8], plan: DiskPlan) -> Arc<FakeDevice> {
    let mut config = vec![0; 64];
    config[..8].copy_from_slice(&((image.len() / SECTOR_BYTES) as u64).to_le_bytes());
    config[12..16].copy_from_slice(&126_u32.to_le_bytes());
    config[34..36].copy_from_slice(&plan.queues.to_le_bytes());
    FakeDevice::new(BLOCK_KIND, FEATURES, &vec![QUEUE_SIZE; usize::from(plan.queues)], config)
}

fn scsi_host(plan: DiskPlan) -> Arc<FakeDevice> {
    let sizes = vec![QUEUE_SIZE; usize::from(plan.queues) + scsi::OTHER_QUEUES];
    FakeDevice::new(SCSI_KIND, INDIRECT_DESCRIPTORS | EVENT_INDEX, &sizes, scsi::config(plan.queues))
}

/// The device.
pub struct Disk {
    /// The side that the driver speaks to.
    pub device: Arc<FakeDevice>,
    plan: Cell<DiskPlan>,
    rung_ns: Arc<AtomicU64>,
    medium: RefCell<Medium>,
    under_way: RefCell<Vec<UnderWay>>,
    resets: Cell<usize>,
    /// A SCSI unit was reset and has not said so yet.
    has_attention: Cell<bool>,
    random: RefCell<Random>,
    /// Requests that failed or were late.
    pub faults: Cell<u64>,
}

impl Disk {
    /// Makes a device with these contents.
    pub fn new(image: Vec<u8>, plan: DiskPlan, seed: u64) -> Disk {
        let device = if plan.is_scsi { scsi_host(plan) } else { block_device(&image, plan) };
        let rung_ns = Arc::new(AtomicU64::new(u64::MAX));
        let bell = rung_ns.clone();
        device.connect(LINE, move |_| {
            let now = gyre_machine::virtual_clock(gyre_machine::core_index());
            bell.fetch_min(now + 300, Ordering::Relaxed);
        });
        Disk {
            device,
            plan: Cell::new(plan),
            rung_ns,
            medium: RefCell::new(Medium::new(image)),
            under_way: RefCell::default(),
            resets: Cell::new(0),
            has_attention: Cell::new(plan.is_scsi),
            random: RefCell::new(Random::new(seed, 11)),
            faults: Cell::new(0),
        }
    }

    /// From now on nothing fails and nothing is late.
    pub fn calm(&self) {
        self.plan.set(DiskPlan { stalls: 0, errors: 0, late: 0, ..self.plan.get() });
    }

    /// Returns the contents as a reader sees them.
    pub fn image(&self) -> Vec<u8> {
        self.medium.borrow().data().to_vec()
    }

    /// Returns the contents that a crash now leaves.
    pub fn crash(&self) -> Vec<u8> {
        let under_way = self.under_way.borrow();
        let writes = under_way.iter().filter_map(|request| match &request.wish {
            Wish::Write { at, data } => Some((*at, data.clone())),
            _ => None,
        });
        let writes: Vec<(usize, Vec<u8>)> = writes.collect();
        self.medium.borrow().crash(&writes, &mut self.random.borrow_mut())
    }

    fn take_new(&self, now_ns: u64) {
        let plan = self.plan.get();
        let first = if plan.is_scsi { scsi::OTHER_QUEUES } else { 0 };
        for queue in first..first + usize::from(plan.queues) {
            while let Some(chain) = self.device.take(queue) {
                let wish = self.wish(&chain);
                let mut random = self.random.borrow_mut();
                let (fails, is_late) = (random.per_mille(plan.errors), random.per_mille(plan.late));
                let is_busy = plan.is_scsi && random.per_mille(BUSY_PER_MILLE);
                let stall = if random.per_mille(plan.stalls) { 20 } else { 1 };
                let usual = plan.latency_ns / 2 + random.below(plan.latency_ns);
                let patience = if is_late { (PATIENCE_MS + random.below(PATIENCE_MS)) * MS } else { 0 };
                self.faults.set(self.faults.get() + u64::from(fails) + u64::from(is_late));
                let due_ns = now_ns + usual * stall + patience;
                self.under_way.borrow_mut().push(UnderWay { due_ns, queue, chain, wish, fails, is_busy });
            }
        }
    }

    fn wish(&self, chain: &FakeChain) -> Wish {
        if self.plan.get().is_scsi {
            let medium = self.medium.borrow();
            return scsi::wish(chain, (medium.data().len() / SECTOR_BYTES) as u64, medium.writes());
        }
        let request = chain.read();
        let Some(sector) = request.get(8..HEADER_BYTES).and_then(|word| word.try_into().ok()) else {
            return Wish::Unknown;
        };
        let at = u64::from_le_bytes(sector) as usize * SECTOR_BYTES;
        match request[0] {
            0 => Wish::Read { at, bytes: chain.writable_bytes() as usize - 1 },
            1 => Wish::Write { at, data: request[HEADER_BYTES..].to_vec() },
            4 => Wish::Flush { writes: self.medium.borrow().writes() },
            _ => Wish::Unknown,
        }
    }

    /// The driver has reset the device: what it had was done or not.
    fn forget_after_reset(&self) {
        let resets = self.device.resets();
        if self.resets.replace(resets) == resets {
            return;
        }
        self.has_attention.set(self.plan.get().is_scsi);
        for request in self.under_way.take() {
            if let (Wish::Write { at, data }, true) = (request.wish, self.random.borrow_mut().once_in(2)) {
                self.medium.borrow_mut().write(at, &data);
            }
        }
    }

    /// Does what a request wants; the bytes that it gave, or `None` if it failed.
    fn perform(&self, request: &UnderWay) -> Option<usize> {
        let mut medium = self.medium.borrow_mut();
        let is_scsi = self.plan.get().is_scsi;
        let give = |data: &[u8]| match is_scsi {
            true => scsi::write_data(&request.chain, data),
            false => request.chain.write(data) as usize,
        };
        match &request.wish {
            _ if request.fails => None,
            Wish::Read { at, bytes } => medium.read(*at, *bytes).map(give).filter(|given| given == bytes),
            Wish::Write { at, data } => medium.write(*at, data).then_some(0),
            Wish::Flush { writes } => {
                medium.flush_to(*writes);
                Some(0)
            }
            Wish::Tell(data) => Some(give(data)),
            Wish::Unknown => None,
        }
    }

    fn finish(&self, request: UnderWay) {
        let bytes = match self.plan.get().is_scsi {
            true => scsi::answer(&request.chain, self.end(&request)),
            false => {
                let done = self.perform(&request);
                let status = request.chain.writable_bytes() as usize - 1;
                request.chain.write_at(status, &[u8::from(done.is_none())]);
                done.unwrap_or(0) as u32 + 1
            }
        };
        if self.device.complete(request.queue, request.chain.head, bytes) {
            self.device.interrupt(request.queue);
        }
    }

    /// How a SCSI command ends.
    fn end(&self, request: &UnderWay) -> End {
        // A unit tells of itself at any time, but for its readiness (SPC-4 §6.6.1).
        let is_told = matches!(&request.wish, Wish::Tell(data) if !data.is_empty());
        match () {
            () if request.is_busy => End::Busy,
            () if !is_told && self.has_attention.take() => End::Attention,
            () => self.perform(request).map_or(End::Failed, End::Good),
        }
    }
}

impl Outside for Disk {
    fn next_at(&self) -> Option<u64> {
        let rung = Some(self.rung_ns.load(Ordering::Relaxed)).filter(|at| *at < u64::MAX);
        let due = self.under_way.borrow().iter().map(|request| request.due_ns).min();
        rung.into_iter().chain(due).min()
    }

    fn act(&self, at_ns: u64) {
        self.forget_after_reset();
        if self.rung_ns.load(Ordering::Relaxed) <= at_ns {
            self.rung_ns.store(u64::MAX, Ordering::Relaxed);
            self.take_new(at_ns);
        }
        loop {
            let due = {
                let mut under_way = self.under_way.borrow_mut();
                let index = under_way.iter().position(|request| request.due_ns <= at_ns);
                index.map(|index| under_way.swap_remove(index))
            };
            let Some(request) = due else { return };
            self.finish(request);
        }
    }
}
