//! A disk for a cell: requests that are right are done, and lies end the cell and touch nothing else.
//!
//! The cell is a `Fake` of one lot of memory: a test writes descriptors, headers and data there as a cell would, announces them, and
//! waits for the answers. The disk is `Sectors`, in memory, whose sector n is full of n. The service runs beside the test's script until
//! the cell gives the disk back, is over, or has lied.
//!
//! The tests hold that data move between disk and lots and are counted, that requests which cannot be done are answered as failed or
//! unsupported, that each lie about an index or a descriptor is found, and that rings lie in lots of the cell. A property says that
//! whatever stands in a ring, no request leads out of the lots.
//!
//! The card is in `card_tests.rs`; a cell that runs code is left out.

use super::*;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use gyre_cell_abi::device::{DeviceRequest, NEXT, WRITE, kind, status};
use gyre_cell_memory::{CellMemory, Lines, Shape};
use gyre_interface::block::{BlockError, Geometry, SECTOR_BYTES, block};
use gyre_message::direct::{block_on, direct_link};
use gyre_message::{WaitQueue, select, yield_now};
use gyre_object::{Bytes, Page, SpinLock};
use proptest::prelude::*;

const SECTORS: u64 = 64;
pub(crate) const ENTRIES: u16 = 8;
/// Places in the first lot, behind the tables of the cell.
const DESCRIPTORS: usize = 1 << 20;
const AVAILABLE: usize = DESCRIPTORS + 0x1000;
const USED: usize = DESCRIPTORS + 0x2000;
const HEADERS: usize = DESCRIPTORS + 0x3000;
const DATA: usize = DESCRIPTORS + 0x10000;

/// A disk in memory, whose sector `n` is full of `n`.
struct Sectors(SpinLock<Vec<u8>>);

impl block::Server for Sectors {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        Ok(GEOMETRY)
    }
    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        let mut at = first_sector as usize * SECTOR_BYTES;
        for view in &into {
            let (page, start) = view.location();
            page.write(start, &self.0.lock()[at..at + view.len()]);
            at += view.len();
        }
        Ok(into)
    }
    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        let mut at = first_sector as usize * SECTOR_BYTES;
        for view in &from {
            self.0.lock()[at..at + view.len()].copy_from_slice(view.as_slice());
            at += view.len();
        }
        Ok(())
    }
    async fn flush(&'static self) -> Result<(), BlockError> {
        Ok(())
    }
}

const GEOMETRY: Geometry = Geometry { sectors: SECTORS, read_only: false };

fn disk() -> Disk {
    let bytes = (0..SECTORS as usize * SECTOR_BYTES).map(|at| (at / SECTOR_BYTES) as u8).collect();
    let disk: &'static Sectors = Box::leak(Box::new(Sectors(SpinLock::new(bytes))));
    Disk {
        client: block::Client::new(direct_link(move |request| Box::pin(block::serve(disk, request)))),
        geometry: GEOMETRY,
    }
}

/// A cell of one lot, which writes what it likes.
pub(crate) struct Fake {
    pub(crate) lot: Page,
    pub(crate) memory: Arc<CellMemory>,
    pub(crate) changed: WaitQueue,
    pub(crate) is_over: AtomicBool,
    pub(crate) gives_back: AtomicBool,
    pub(crate) told: AtomicUsize,
    pub(crate) moved: [AtomicUsize; 2],
    pub(crate) lost: AtomicUsize,
}

impl Cell for Fake {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
    fn gives_back(&self) -> bool {
        self.gives_back.load(Ordering::SeqCst)
    }
    fn news(&self) -> &WaitQueue {
        &self.changed
    }
    fn answered(&self, done: Done) {
        let moved = [done.read_bytes, done.written_bytes].map(|bytes| bytes as usize);
        self.moved.iter().zip(moved).for_each(|(sum, bytes)| _ = sum.fetch_add(bytes, Ordering::SeqCst));
    }
    fn lost(&self) {
        self.lost.fetch_add(1, Ordering::SeqCst);
    }
    fn tell(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

/// A descriptor: place in the lot, bytes, flags, next.
type Words = (u64, u32, u16, u16);

impl Fake {
    pub(crate) fn new() -> Fake {
        let lot = Page::zeroed_run(9).unwrap();
        let shape = Shape { cores: 1, lines: 8 };
        let shared = (0..shape.pages()).map(|_| Page::zeroed().unwrap()).collect();
        let memory = CellMemory::new(vec![lot.clone()], Lines::new(shared, shape), [lot.pa()].into_iter()).unwrap();
        let [is_over, gives_back] = [const { AtomicBool::new(false) }; 2];
        let (memory, changed) = (Arc::new(memory), WaitQueue::new());
        Fake {
            lot,
            memory,
            changed,
            is_over,
            gives_back,
            told: AtomicUsize::new(0),
            moved: [const { AtomicUsize::new(0) }; 2],
            lost: AtomicUsize::new(0),
        }
    }

    fn plan(&self) -> DeviceRequest {
        let at = |place: usize| self.lot.pa().0 + place as u64;
        DeviceRequest {
            size: 40,
            entries: ENTRIES.into(),
            descriptors: at(DESCRIPTORS),
            available: at(AVAILABLE),
            used: at(USED),
            ..DeviceRequest::default()
        }
    }

    fn queue(&self) -> Queue {
        Queue::new(&self.memory, &self.plan()).unwrap()
    }

    fn describe(&self, number: u16, (place, bytes, flags, next): Words) {
        let pa = self.lot.pa().0.wrapping_add(place);
        let high = u64::from(bytes) | u64::from(flags) << 32 | u64::from(next) << 48;
        self.lot.write(DESCRIPTORS + usize::from(number) * 16, &pa.to_le_bytes());
        self.lot.write(DESCRIPTORS + usize::from(number) * 16 + 8, &high.to_le_bytes());
    }

    fn announce(&self, count: u16, head: u16) {
        self.lot.write(AVAILABLE + 4 + usize::from(count.wrapping_sub(1) % ENTRIES) * 2, &head.to_le_bytes());
        self.lot.write(AVAILABLE + 2, &count.to_le_bytes());
        self.changed.wake_all();
    }

    /// Writes request number `count` of 3 descriptors; it begins at descriptor 0.
    fn ask(&self, count: u16, kind: u32, sector: u64, bytes: u32) {
        self.lot.write(HEADERS, &kind.to_le_bytes());
        self.lot.write(HEADERS + 8, &sector.to_le_bytes());
        self.lot.write(HEADERS + 16, &[0xff]);
        let flags = if kind == kind::READ { WRITE } else { 0 };
        self.describe(0, (HEADERS as u64, 16, NEXT, 1));
        self.describe(1, (DATA as u64, bytes, NEXT | flags, 2));
        self.describe(2, (HEADERS as u64 + 16, 1, WRITE, 0));
        self.announce(count, 0);
    }

    fn word(&self, at: usize) -> u16 {
        let mut word = [0; 2];
        self.lot.read(at, &mut word);
        u16::from_le_bytes(word)
    }

    fn byte(&self, at: usize) -> u8 {
        let mut byte = [0];
        self.lot.read(at, &mut byte);
        byte[0]
    }

    /// Waits for the answer with this number; returns the status.
    async fn answer(&self, count: u16) -> u8 {
        while self.word(USED + 2) != count {
            yield_now().await;
        }
        self.byte(HEADERS + 16)
    }

    fn run(self, script: impl AsyncFn(&Fake) + 'static) -> End {
        block_on(async move {
            let queue = self.queue();
            let cell = async {
                script(&self).await;
                core::future::pending::<()>().await;
            };
            match select(attend(disk(), &self.memory, queue, &self), cell).await {
                gyre_message::wait::Either::First(end) => end,
                gyre_message::wait::Either::Second(()) => unreachable!("the script waits for ever"),
            }
        })
    }
}

#[test]
fn requests_move_data_between_the_disk_and_the_lots() {
    let end = Fake::new().run(async |cell| {
        cell.ask(1, kind::READ, 7, 1024);
        assert_eq!(cell.answer(1).await, status::DONE);
        assert_eq!([cell.byte(DATA), cell.byte(DATA + 1023), cell.byte(DATA + 1024)], [7, 8, 0]);
        cell.lot.write(DATA, &[0x55; 512]);
        cell.ask(2, kind::WRITE, 7, 512);
        assert_eq!(cell.answer(2).await, status::DONE);
        cell.ask(3, kind::READ, 7, 1024);
        assert_eq!(cell.answer(3).await, status::DONE);
        assert_eq!([cell.byte(DATA), cell.byte(DATA + 511), cell.byte(DATA + 512)], [0x55, 0x55, 8]);
        assert_eq!(cell.moved.each_ref().map(|sum| sum.load(Ordering::SeqCst)), [2048, 512]);
        cell.is_over.store(true, Ordering::SeqCst);
        cell.changed.wake_all();
    });
    assert_eq!(end, End::Over);
}

#[test]
fn requests_that_cannot_be_done_are_answered() {
    let end = Fake::new().run(async |cell| {
        let wrong = [
            (kind::READ, SECTORS, 512),
            (kind::WRITE, SECTORS - 1, 1024),
            (kind::READ, u64::MAX, 512),
            (kind::READ, 0, 511),
        ];
        for (count, (kind, sector, bytes)) in (1..).zip(wrong) {
            cell.ask(count, kind, sector, bytes);
            assert_eq!(cell.answer(count).await, status::FAILED, "{kind} of {bytes} bytes at {sector}");
        }
        cell.ask(5, 8, 0, 20);
        assert_eq!(cell.answer(5).await, status::UNSUPPORTED);
        cell.gives_back.store(true, Ordering::SeqCst);
        cell.changed.wake_all();
    });
    assert_eq!(end, End::GivenBack);
}

#[test]
fn lies_end_the_service() {
    let lied = |script: fn(&Fake)| Fake::new().run(async move |cell: &Fake| script(cell));
    assert_eq!(lied(|cell| cell.announce(ENTRIES + 1, 0)), End::Lied(Lie::Index));
    assert_eq!(lied(|cell| cell.announce(1, ENTRIES)), End::Lied(Lie::Descriptor));
    let changed = |number, words: Words| {
        Fake::new().run(async move |cell: &Fake| {
            cell.ask(1, kind::READ, 0, 512);
            cell.describe(number, words);
        })
    };
    let lot = 2u64 << 20;
    for (number, words, lie) in [
        (1, (DATA as u64, 512, NEXT | WRITE, 9), Lie::Descriptor),
        (1, (DATA as u64, 512, NEXT | WRITE, 1), Lie::Shape),
        (1, (DATA as u64, 0, NEXT | WRITE, 2), Lie::Shape),
        (1, (DATA as u64, 512, NEXT, 2), Lie::Shape),
        (1, (DATA as u64, 512, NEXT | WRITE | 4, 2), Lie::Shape),
        (0, (HEADERS as u64, 15, NEXT, 1), Lie::Shape),
        (2, (HEADERS as u64, 1, 0, 0), Lie::Shape),
        (0, (HEADERS as u64, 16, 0, 1), Lie::Shape),
        (1, (lot, 512, NEXT | WRITE, 2), Lie::Memory),
        (1, (lot - 511, 512, NEXT | WRITE, 2), Lie::Memory),
        (1, (0u64.wrapping_sub(4096), 512, NEXT | WRITE, 2), Lie::Memory),
        (2, (lot, 1, WRITE, 0), Lie::Memory),
    ] {
        assert_eq!(changed(number, words), End::Lied(lie), "{words:?}");
    }
}

#[test]
fn a_ring_lies_in_lots_of_the_cell() {
    let cell = Fake::new();
    let changes: [fn(&mut DeviceRequest); 7] = [
        |plan| plan.entries = 0,
        |plan| plan.entries = 3,
        |plan| plan.entries = 128,
        |plan| plan.descriptors += 8,
        |plan| plan.used += 2 << 20,
        |plan| plan.available = u64::MAX - 1,
        |plan| plan.used = plan.used / (2 << 20) * (2 << 20) + (2 << 20) - 64,
    ];
    for change in changes {
        let mut plan = cell.plan();
        change(&mut plan);
        assert!(Queue::new(&cell.memory, &plan).is_err(), "{plan:?}");
    }
}

proptest! {
    /// The ring may hold anything: the service ends by a lie, or its requests lie in the cell's lot.
    #[test]
    fn nothing_in_a_ring_leads_out_of_the_lots(
        table in proptest::collection::vec((0u64..(2 << 20) + 8192, 0u32..8192, 0u16..8, 0u16..10), 8),
        heads in proptest::collection::vec(0u16..9, 8),
        count in 1u16..10,
    ) {
        let cell = Fake::new();
        for (number, words) in (0..).zip(table) {
            cell.describe(number, words);
        }
        for (place, head) in (1..).zip(heads) {
            cell.announce(place, head);
        }
        cell.announce(count, 0);
        let mut queue = cell.queue();
        let lot = cell.lot.pa().0..cell.lot.pa().0 + (2 << 20);
        while let Ok(Some(request)) = queue.take(&cell.memory) {
            for view in &request.data {
                prop_assert!(lot.contains(&view.pa().0) && view.pa().0 + view.len() as u64 <= lot.end);
            }
        }
        prop_assert!(queue.under_way() <= ENTRIES);
    }
}
