//! The front end against a back end that is played by hand, and one that writes what it wants.

use crate::fake::{SharedWindow, shared_memory};
use crate::layout::{CONTROL_PAGES, Control, SLOTS, slot_pages};
use crate::{Answer, Ask, FrontEnd, LATE_MS, SplitDisk};
use gyre_device::{DiskDevice, InterruptLine, Operation, Transfer};
use gyre_interface::block::{BlockError, Geometry};
use gyre_machine::{PAGE_BYTES, SharedMemory, advance, set_virtual_time};
use gyre_object::{Bytes, Page, SpinLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec::Vec;

const SECTORS: u64 = 1000;

type Result1 = Result<Vec<Bytes>, BlockError>;

struct Rig {
    memory: Arc<SharedMemory>,
    disks: Vec<&'static SplitDisk>,
    rings: Arc<AtomicU64>,
    ended: Arc<SpinLock<Vec<Result1>>>,
    asked: u32,
    answered: u32,
}

impl Rig {
    fn new() -> Rig {
        set_virtual_time(1_000_000);
        let memory = shared_memory();
        let disks = [false, true].map(|read_only| Geometry { sectors: SECTORS, read_only });
        assert!(Control::of(memory.words(0, CONTROL_PAGES)).unwrap().prepare(&disks));
        let rings = Arc::new(AtomicU64::new(0));
        let bell = rings.clone();
        let bell = Box::new(move || _ = bell.fetch_add(1, Ordering::Relaxed));
        let lines = [8, 9].map(|line| InterruptLine { core: 0, line });
        let front = FrontEnd::open(Box::new(SharedWindow::new(memory.clone(), bell)), &lines).unwrap();
        let front: &'static FrontEnd = Box::leak(Box::new(front));
        let disks = front.disks().map(|disk| &*Box::leak(Box::new(disk))).collect();
        Rig { memory, disks, rings, ended: Arc::default(), asked: 0, answered: 0 }
    }

    fn control(&self) -> Control<'_> {
        Control::of(self.memory.words(0, CONTROL_PAGES)).unwrap()
    }

    fn start(&self, disk: usize, operation: Operation, first_sector: u64, data: Vec<Bytes>) {
        let ended = self.ended.clone();
        let then = Box::new(move |timed: gyre_device::Timed<Result1>| ended.lock().push(timed.answer));
        self.disks[disk].start(Transfer { operation, first_sector, data }, then);
    }

    fn next_ask(&mut self) -> Option<Ask> {
        let (ask, position) = {
            let mut receiver = self.control().ask_receiver(self.asked).unwrap();
            let line = receiver.receive()?;
            (Ask::read(&line), receiver.position())
        };
        self.asked = position;
        ask
    }

    fn answer(&mut self, slot: usize, result: Result<(), BlockError>) {
        let position = {
            let mut sender = self.control().answer_sender(self.answered).unwrap();
            sender.send(&Answer { slot, result }.message()).unwrap();
            sender.position()
        };
        self.answered = position;
        self.disks[0].on_interrupt(0);
    }

    fn ended(&self) -> Vec<Result1> {
        std::mem::take(&mut *self.ended.lock())
    }

    fn fill(&self, slot: usize, byte: u8) {
        let pages = slot_pages(slot);
        let words = self.memory.words(pages.start, pages.len());
        words.iter().for_each(|word| word.store(u64::from_ne_bytes([byte; 8]), Ordering::Relaxed));
    }
}

fn views(sizes: &[usize]) -> Vec<Bytes> {
    sizes.iter().map(|bytes| Bytes::new(Page::zeroed().unwrap(), PAGE_BYTES - bytes, *bytes)).collect()
}

#[test]
fn a_read_gets_what_the_back_end_put_into_its_slot() {
    let mut rig = Rig::new();
    rig.start(0, Operation::Read, 7, views(&[512, 4096, 1024]));
    let ask = rig.next_ask().unwrap();
    assert_eq!((ask.disk, ask.operation, ask.first_sector, ask.bytes), (0, Operation::Read, 7, 5632));
    rig.fill(ask.slot, 0x5a);
    rig.answer(ask.slot, Ok(()));
    let data = rig.ended().remove(0).unwrap();
    assert!(data.iter().all(|view| view.as_slice().iter().all(|byte| *byte == 0x5a)));
    assert_eq!(rig.disks[0].statistics().read_bytes, 5632);
}

#[test]
fn a_write_lies_in_its_slot_in_order() {
    let mut rig = Rig::new();
    let data = views(&[512, 4096]);
    data.iter()
        .zip([1u8, 2])
        .for_each(|(view, byte)| _ = view.location().0.write(view.location().1, &vec![byte; view.len()]));
    rig.start(0, Operation::Write, 0, data);
    let ask = rig.next_ask().unwrap();
    let words = rig.memory.words(slot_pages(ask.slot).start, 2);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).take(4608).collect();
    assert!(bytes[..512].iter().all(|byte| *byte == 1) && bytes[512..].iter().all(|byte| *byte == 2));
}

#[test]
fn a_disk_refuses_what_it_cannot_do_without_asking() {
    let mut rig = Rig::new();
    rig.start(0, Operation::Read, SECTORS, views(&[512]));
    rig.start(1, Operation::Write, 0, views(&[512]));
    rig.start(0, Operation::Read, 0, Vec::new());
    let errors: Vec<_> = rig.ended().into_iter().map(|one| one.err().unwrap()).collect();
    assert_eq!(errors, [BlockError::OutOfRange, BlockError::Unsupported, BlockError::OutOfRange]);
    assert_eq!(rig.next_ask(), None);
}

#[test]
fn requests_without_a_slot_wait_in_order_and_the_back_end_is_rung_once() {
    let mut rig = Rig::new();
    rig.control().back_bell.leave();
    for sector in 0..SLOTS as u64 + 2 {
        rig.start(0, Operation::Read, sector, views(&[512]));
    }
    assert_eq!(rig.rings.load(Ordering::Relaxed), 1);
    assert!(!rig.disks[1].has_room());
    let asks: Vec<Ask> = core::iter::from_fn(|| rig.next_ask()).collect();
    assert_eq!(asks.len(), SLOTS);
    rig.answer(asks[3].slot, Ok(()));
    rig.answer(asks[9].slot, Err(BlockError::Io));
    let more: Vec<Ask> = core::iter::from_fn(|| rig.next_ask()).collect();
    assert_eq!(more.iter().map(|ask| ask.first_sector).collect::<Vec<_>>(), [31, 32]);
    assert_eq!(rig.ended().len(), 2);
    assert!(!rig.disks[0].stop() && rig.disks[1].stop());
    assert!(!rig.disks[0].is_at_rest() && rig.disks[1].is_at_rest());
}

#[test]
fn a_request_without_an_answer_fails_and_its_slot_is_used_only_after_the_answer() {
    let mut rig = Rig::new();
    for sector in 0..SLOTS as u64 {
        rig.start(0, Operation::Read, sector, views(&[512]));
    }
    assert!(rig.disks[0].on_tick().is_some());
    advance(LATE_MS * 1_000_000 + 1);
    assert_eq!(rig.disks[0].on_tick(), None);
    assert!(rig.ended().iter().all(|one| matches!(one, Err(BlockError::Io))));
    assert!(!rig.disks[0].has_room(), "the back end may still write there");
    rig.answer(5, Ok(()));
    assert!(rig.disks[0].has_room() && rig.ended().is_empty());
    assert!(!rig.disks[0].is_at_rest(), "the back end may still do the others");
    for slot in (0..SLOTS).filter(|slot| *slot != 5) {
        rig.answer(slot, Ok(()));
    }
    assert!(rig.disks[0].is_at_rest());
}

#[test]
fn a_closed_ring_ends_all_requests_at_once() {
    let rig = Rig::new();
    rig.start(0, Operation::Read, 0, views(&[512]));
    rig.control().close();
    rig.disks[0].on_interrupt(0);
    rig.start(0, Operation::Flush, 0, Vec::new());
    assert!(rig.ended().iter().all(|one| matches!(one, Err(BlockError::Gone))));
    assert!(rig.disks[0].has_room());
}
