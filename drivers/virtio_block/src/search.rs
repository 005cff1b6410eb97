//! Steps at random: an input's bytes are requests of the driver's users, and what a disk that lies writes.
//!
//! The disk is a `FakeDevice`, a block device or a SCSI host, which panics if the driver breaks the rules. It takes chains and completes them as
//! it should or not: with any bytes, status and length, twice, never, or others that nobody gave it; its indexes jump, its interrupts are
//! lost or come unasked, its configuration changes, and it does not come back from a reset.
//!
//! After each input nothing has panicked, each request has ended once, with memory of the size that it came with, and no memory is held but
//! that of a disk which did not come back from a reset. A driver lives as long as its process, so inputs with one form of disk have it one
//! after the other, each with a disk that was reset; one that was retired or is dead is left. The corpus is in `search/corpus`; how to look
//! for longer is said in `gyre-mutate`.

use crate::{BLOCK_KIND, BlockOptions, SCSI_KIND, VirtioDisk};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use gyre_device::{DiskDevice, Operation, Timed, Transfer};
use gyre_interface::scsi::{COMMAND_BYTES, Command, Direction};
use gyre_machine::{PAGE_BYTES, advance};
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use gyre_mutate::Input;
use gyre_object::{Bytes, Page, SpinLock};
use gyre_virtio::FakeDevice;
use gyre_virtio::fake::FakeChain;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};

const STEPS_MAX: usize = 100;
const SECTORS: u64 = 1000;
const OPTIONS: BlockOptions = BlockOptions { depth: 4, timeout_ms: 30_000 };
/// The most pieces of data in a chain, a disk that flushes, and the features of rings.
const BLOCK_FEATURES: u64 = 1 << 2 | 1 << 9;
const RINGS: [u64; 3] = [INDIRECT_DESCRIPTORS | EVENT_INDEX, INDIRECT_DESCRIPTORS, EVENT_INDEX];
const FORMS: usize = 2 * RINGS.len();
/// Bytes of the memory of requests: of whole sectors, too many, too few, none.
const VIEWS: &[&[usize]] = &[&[512], &[4096, 512], &[4096; 8], &[4096; 17], &[511], &[]];
/// The words of a disk: done, failed, not supported, nothing.
const STATUS: &[u8] = &[0, 0, 0, 1, 2, 4, 5, 0xff];

/// A disk and its driver.
#[derive(Clone)]
struct Disk {
    device: Arc<FakeDevice>,
    driver: &'static VirtioDisk,
    /// The ring of requests.
    queue: usize,
}

impl Disk {
    fn new(form: usize) -> Disk {
        let (features, mut config) = (RINGS[form % RINGS.len()], vec![0; 64]);
        let is_block = form < RINGS.len();
        if is_block {
            config[..8].copy_from_slice(&SECTORS.to_le_bytes());
            config[12..16].copy_from_slice(&126_u32.to_le_bytes());
        } else {
            config[..4].copy_from_slice(&1_u32.to_le_bytes());
            config[4..8].copy_from_slice(&126_u32.to_le_bytes());
        }
        let (kind, queue) = if is_block { (BLOCK_KIND, 0) } else { (SCSI_KIND, 2) };
        let sizes = vec![256; queue + 1];
        let device = FakeDevice::new(kind, features | if is_block { BLOCK_FEATURES } else { 0 }, &sizes, config);
        let driver = VirtioDisk::new(Box::new(device.clone()), &[0], OPTIONS).unwrap();
        Disk { device, driver: Box::leak(Box::new(driver)), queue }
    }
}

/// The bytes that a request came with, and how often it ended.
#[derive(Clone, Copy)]
struct Asked {
    bytes: usize,
    ends: usize,
}

struct World {
    disk: Disk,
    chains: Vec<FakeChain>,
    resets: usize,
    is_left: bool,
    refuses: bool,
    /// It did not come back from a reset: what it makes of the ring from then on is no fault of the driver.
    is_gone: bool,
    asked: Arc<SpinLock<Vec<Asked>>>,
    pages: Vec<Page>,
}

impl World {
    fn new(disk: Disk) -> World {
        let resets = disk.device.resets();
        let (chains, pages) = (Vec::new(), Vec::new());
        World { disk, chains, resets, is_left: false, refuses: false, is_gone: false, asked: Arc::default(), pages }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let Disk { device, driver, queue } = self.disk.clone();
        match input.byte() % 16 {
            0..3 => self.start(input),
            3 => self.execute(input),
            4 | 5 if self.is_gone => {}
            4 | 5 => self.chains.extend(device.take(queue)),
            6..9 => self.complete(input),
            9 => {
                // after a lie the driver may take any of its memory back, so the disk leaves it alone
                self.chains.clear();
                match input.hits(2) {
                    true => device.complete_unchecked(queue, input.number() as u32, input.number() as u32),
                    false => device.advance_used(queue, input.number() as u16),
                };
            }
            10 | 11 => driver.on_interrupt(input.below(2)),
            12 | 13 => {
                advance(input.number() % (2 * OPTIONS.timeout_ms) * 1_000_000);
                let _ = driver.on_tick();
            }
            14 => device.set_config(vec![input.byte(); 64]),
            _ => self.leave(input),
        }
        // a disk touches nothing after its reset
        if device.resets() != self.resets {
            self.resets = device.resets();
            self.is_gone = self.refuses;
            self.chains.clear();
        }
    }

    fn views(&mut self, sizes: &[usize]) -> Vec<Bytes> {
        let pages = sizes.iter().map(|_| Page::zeroed().unwrap()).collect::<Vec<_>>();
        self.pages.extend(pages.iter().cloned());
        pages.into_iter().zip(sizes).map(|(page, bytes)| Bytes::new(page, PAGE_BYTES - bytes, *bytes)).collect()
    }

    /// Notes a request; returns what is called with the memory that it gets back.
    fn ask(&self, data: &[Bytes]) -> impl FnOnce(Option<Vec<Bytes>>) + Send + use<> {
        let bytes = bytes_of(data);
        let number = self.asked.lock().len();
        self.asked.lock().push(Asked { bytes, ends: 0 });
        let asked = self.asked.clone();
        move |data| {
            let asked = &mut asked.lock()[number];
            asked.ends += 1;
            assert_eq!(asked.ends, 1, "answered twice");
            assert!(data.is_none_or(|data| bytes_of(&data) == asked.bytes), "memory of another size");
        }
    }

    fn start(&mut self, input: &mut Input<'_>) {
        let operation = input.one_of(&[Operation::Read, Operation::Write, Operation::Flush]);
        let first_sector = input.number();
        let data = self.views(input.one_of(VIEWS));
        let then = self.ask(&data);
        let transfer = Transfer { operation, first_sector, data };
        self.disk.driver.start(transfer, Box::new(move |timed: Timed<_>| then(timed.answer.ok())));
    }

    fn execute(&mut self, input: &mut Input<'_>) {
        let direction = input.one_of(&[Direction::FromUnit, Direction::ToUnit, Direction::Nowhere]);
        let data = self.views(input.one_of(VIEWS));
        let then = self.ask(&data);
        let command = Command { block: [input.byte(); COMMAND_BYTES], direction, data };
        let end = move |timed: Timed<Result<gyre_interface::scsi::Answer, _>>| {
            let answer = timed.answer.ok();
            assert!(answer.as_ref().is_none_or(|answer| answer.residual_bytes <= bytes_of(&answer.data)));
            then(answer.map(|answer| answer.data));
        };
        self.disk.driver.execute(command, Box::new(end));
    }

    /// The disk is done with a chain, and says a length that is right or not.
    fn complete(&mut self, input: &mut Input<'_>) {
        let turn = input.below(self.chains.len());
        if turn >= self.chains.len() {
            return;
        }
        let chain = self.chains.swap_remove(turn);
        let room = chain.writable_bytes();
        let status = input.one_of(STATUS);
        chain.write(&vec![input.byte(); input.number() as usize % (room as usize + 1)]);
        match self.disk.queue {
            // the last byte of a block device's answer; of a SCSI host residual, status and response before the data
            0 => _ = chain.write_at((room as usize).saturating_sub(1), &[status]),
            _ => {
                chain.write_at(4, &(input.number() as u32).to_le_bytes());
                chain.write_at(8, &[0, 0, input.one_of(&[0, 2, 8, 0x18]), status]);
            }
        }
        let said = if input.hits(4) { input.number() as u32 } else { room };
        self.disk.device.complete(self.disk.queue, chain.head, said);
    }

    fn leave(&mut self, input: &mut Input<'_>) {
        match input.byte() % 64 {
            0 => self.is_left |= self.disk.driver.stop(),
            1 => {
                self.disk.device.refuse_reset();
                (self.is_left, self.refuses) = (true, true);
            }
            _ => _ = self.disk.driver.statistics(),
        }
    }

    /// Fails what is under way, and what waits, by resets of the disk. Returns it for the next input.
    fn end(self) -> Option<Disk> {
        let Disk { device, driver, queue } = &self.disk;
        let resets_max = self.asked.lock().len() + 2;
        for _ in 0..resets_max {
            device.advance_used(*queue, 999);
            driver.on_interrupt(0);
        }
        assert_eq!(driver.on_tick(), None, "something is under way");
        assert!(self.asked.lock().iter().all(|asked| asked.ends == 1), "a request without an end");
        let is_held = |page: &Page| page.is_shared();
        assert!(self.refuses || !self.pages.iter().any(is_held), "memory is held");
        assert!(self.is_left || driver.has_room() && driver.statistics().depth == 0);
        (!self.is_left).then_some(self.disk)
    }
}

fn bytes_of(data: &[Bytes]) -> usize {
    data.iter().map(Bytes::len).sum()
}

fn one(disks: &RefCell<[Option<Disk>; FORMS]>, bytes: &[u8]) {
    gyre_machine::set_virtual_time(0);
    let mut input = Input::new(bytes);
    let form = input.below(FORMS);
    let disk = disks.borrow_mut()[form].take();
    let mut world = World::new(disk.unwrap_or_else(|| Disk::new(form)));
    let left = block_on(async {
        for _ in 0..STEPS_MAX {
            if input.is_over() {
                break;
            }
            world.step(&mut input);
            // the end of a turn
            sleep_ns(1).await;
        }
        world.end()
    });
    disks.borrow_mut()[form] = left;
}

#[test]
fn whatever_a_disk_says_each_request_ends_once_and_its_memory_comes_back() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/search/corpus");
    let disks = RefCell::new([const { None }; FORMS]);
    // a read that is answered, and a write that is late
    let first = [0, 0, 0, 7, 1, 4, 6, 0, 0, 5, 9, 0, 10, 0, 0, 1, 0, 0, 12, 180];
    gyre_mutate::run("virtio-block", &corpus, &first, 2000, |bytes| one(&disks, bytes));
}
