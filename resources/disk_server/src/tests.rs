//! Both ends in one process, and a zone that writes what it wants.

use crate::{Nonsense, Served, Session};
use gyre_device::{DiskDevice, InterruptLine, Operation, Timed, Transfer};
use gyre_interface::block::{BlockError, Geometry, SECTOR_BYTES, block};
use gyre_machine::{SharedMemory, set_virtual_time};
use gyre_message::direct::{block_on, direct_link};
use gyre_message::{sleep_ns, spawn};
use gyre_object::{Bytes, Page, SpinLock};
use gyre_split_disk::fake::{SharedWindow, shared_memory};
use gyre_split_disk::{Ask, CONTROL_PAGES, Control, FrontEnd, SLOTS, SplitDisk};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec::Vec;

const SECTORS: u64 = 256;
const MS: u64 = 1_000_000;

/// A disk in memory that takes a while.
struct Disk {
    data: SpinLock<Vec<u8>>,
    under_way: AtomicU64,
    flushes: AtomicU64,
    delay_ns: u64,
}

impl Disk {
    fn each(&self, first_sector: u64, views: &[Bytes], work: impl Fn(&mut [u8], &Bytes)) {
        let mut data = self.data.lock();
        let mut at = first_sector as usize * SECTOR_BYTES;
        for view in views {
            work(&mut data[at..at + view.len()], view);
            at += view.len();
        }
    }

    async fn wait(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        sleep_ns(self.delay_ns).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl block::Server for Disk {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        Ok(GEOMETRY)
    }

    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        self.wait().await;
        self.each(first_sector, &into, |data, view| _ = view.location().0.write(view.location().1, data));
        Ok(into)
    }

    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        self.wait().await;
        self.each(first_sector, &from, |data, view| _ = view.location().0.read(view.location().1, data));
        Ok(())
    }

    async fn flush(&'static self) -> Result<(), BlockError> {
        self.wait().await;
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

const GEOMETRY: Geometry = Geometry { sectors: SECTORS, read_only: false };

struct Rig {
    disk: &'static Disk,
    session: Arc<Session>,
    memory: Arc<SharedMemory>,
    front: &'static SplitDisk,
    rung: Arc<AtomicU64>,
}

type Ended = Arc<SpinLock<Vec<Result<Vec<Bytes>, BlockError>>>>;

impl Rig {
    fn new(delay_ns: u64) -> Rig {
        set_virtual_time(1_000_000);
        let disk: &'static Disk = Box::leak(Box::new(Disk {
            data: SpinLock::new(vec![0; SECTORS as usize * SECTOR_BYTES]),
            under_way: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            delay_ns,
        }));
        let client = block::Client::new(direct_link(move |request| Box::pin(block::serve(disk, request))));
        let (memory, rung) = (shared_memory(), Arc::new(AtomicU64::new(0)));
        let bell = rung.clone();
        let window = SharedWindow::new(memory.clone(), Box::new(move || _ = bell.fetch_add(1, Ordering::Relaxed)));
        let served = vec![Served { client, geometry: GEOMETRY }];
        let session = Session::new("shop".into(), Box::new(window), served).unwrap();
        let other = session.clone();
        let window = SharedWindow::new(memory.clone(), Box::new(move || other.ring()));
        let line = InterruptLine { core: 0, line: 8 };
        let front = FrontEnd::open(Box::new(window), &[line]).unwrap();
        let front: &'static FrontEnd = Box::leak(Box::new(front));
        let front: &'static SplitDisk = Box::leak(Box::new(front.disks().next().unwrap()));
        Rig { disk, session, memory, front, rung }
    }

    fn start(&self, ended: &Ended, operation: Operation, first_sector: u64, data: Vec<Bytes>) {
        let ended = ended.clone();
        let then = Box::new(move |timed: Timed<_>| ended.lock().push(timed.answer));
        self.front.start(Transfer { operation, first_sector, data }, then);
    }

    async fn do_one(
        &self,
        operation: Operation,
        first_sector: u64,
        data: Vec<Bytes>,
    ) -> Result<Vec<Bytes>, BlockError> {
        let ended = Ended::default();
        self.start(&ended, operation, first_sector, data);
        loop {
            if let Some(answer) = ended.lock().pop() {
                return answer;
            }
            sleep_ns(MS).await;
            if self.rung.swap(0, Ordering::Relaxed) > 0 {
                self.front.on_interrupt(0);
            }
        }
    }
}

fn view(byte: u8, bytes: usize) -> Bytes {
    let page = Page::zeroed().unwrap();
    page.write(0, &vec![byte; bytes]);
    Bytes::new(page, 0, bytes)
}

#[test]
fn what_a_zone_writes_is_on_the_disk_and_is_read_again() {
    let rig = Rig::new(MS);
    block_on(async {
        spawn(rig.session.clone().serve());
        let data = (1..=16).map(|byte| view(byte, 4096)).collect();
        assert!(rig.do_one(Operation::Write, 8, data).await.is_ok());
        assert!(rig.do_one(Operation::Flush, 0, Vec::new()).await.is_ok());
        assert_eq!(rig.disk.flushes.load(Ordering::Relaxed), 1);
        assert_eq!(rig.disk.data.lock()[8 * SECTOR_BYTES + 4096], 2);
        let read = rig.do_one(Operation::Read, 8, vec![view(0, 4096), view(0, 512)]).await.unwrap();
        assert!(read[0].as_slice().iter().all(|byte| *byte == 1) && read[1].as_slice().iter().all(|byte| *byte == 2));
        rig.session.end().await;
    });
}

#[test]
fn the_end_waits_for_what_is_under_way_and_begins_nothing() {
    let rig = Rig::new(50 * MS);
    let ended = Ended::default();
    block_on(async {
        spawn(rig.session.clone().serve());
        (0..20).for_each(|sector| rig.start(&ended, Operation::Read, sector, vec![view(0, 512)]));
        sleep_ns(MS).await;
        assert_eq!(rig.disk.under_way.load(Ordering::Relaxed), 20);
        let begun = gyre_machine::now();
        rig.session.end().await;
        assert_eq!(rig.disk.under_way.load(Ordering::Relaxed), 0);
        assert!(gyre_machine::now() > begun);
        rig.start(&ended, Operation::Read, 0, vec![view(0, 512)]);
        sleep_ns(100 * MS).await;
        assert_eq!(rig.disk.under_way.load(Ordering::Relaxed), 0);
    });
}

/// Puts a line into the ring of asks, as a zone that does not keep to its slots does.
fn put(rig: &Rig, at: u32, ask: Ask) {
    let control = Control::of(rig.memory.words(0, CONTROL_PAGES)).unwrap();
    control.ask_sender(at).unwrap().send(&ask.message()).unwrap();
    rig.session.ring();
}

#[test]
fn a_line_that_makes_no_sense_closes_the_ring_and_the_zone_is_told() {
    let read = Ask { slot: 3, disk: 0, operation: Operation::Read, first_sector: 0, bytes: 512 };
    let cases = [
        (vec![read, read], Nonsense::Busy(3)),
        (vec![Ask { disk: 1, ..read }], Nonsense::Disk(1)),
        (vec![Ask { slot: SLOTS, ..read }], Nonsense::Line(Ask { slot: SLOTS, ..read }.message())),
        (vec![Ask { bytes: 513, ..read }], Nonsense::Line(Ask { bytes: 513, ..read }.message())),
    ];
    for (lines, expected) in cases {
        let rig = Rig::new(MS);
        block_on(async {
            spawn(rig.session.clone().serve());
            (0..).zip(&lines).for_each(|(at, line)| put(&rig, at, *line));
            sleep_ns(10 * MS).await;
            assert_eq!(rig.session.nonsense(), Some(expected));
            let answer = rig.do_one(Operation::Read, 0, vec![view(0, 512)]).await;
            assert!(matches!(answer, Err(BlockError::Gone)));
            rig.session.end().await;
        });
    }
}

#[test]
fn sectors_beyond_the_end_are_an_error_and_nothing_worse() {
    let rig = Rig::new(MS);
    block_on(async {
        spawn(rig.session.clone().serve());
        put(&rig, 0, Ask { slot: 3, disk: 0, operation: Operation::Write, first_sector: u64::MAX, bytes: 512 });
        sleep_ns(10 * MS).await;
        assert_eq!(rig.session.nonsense(), None);
        let control = Control::of(rig.memory.words(0, CONTROL_PAGES)).unwrap();
        let answer = gyre_split_disk::Answer::read(&control.answer_receiver(0).unwrap().receive().unwrap());
        assert_eq!(answer.unwrap().result, Err(BlockError::OutOfRange));
        rig.session.end().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A zone may write anything into the rings: nothing panics, no more is under way than there are slots, and the end comes.
    #[test]
    fn a_zone_that_writes_what_it_wants_is_served_or_closed(
        steps in proptest::collection::vec((0u8..5, any::<u32>(), any::<u64>()), 1..150)
    ) {
        let rig = Rig::new(MS);
        block_on(async {
            spawn(rig.session.clone().serve());
            let words = || rig.memory.words(0, CONTROL_PAGES);
            let mut at = 0;
            for (step, place, word) in steps {
                match step {
                    0 => words()[place as usize % words().len()].store(word, Ordering::Relaxed),
                    1 | 2 => {
                        let operation = [Operation::Read, Operation::Write, Operation::Flush][place as usize % 3];
                        let bytes = if operation == Operation::Flush { 0 } else { SECTOR_BYTES * (word as usize % 130) };
                        let ask = Ask { slot: place as usize % SLOTS, disk: 0, operation, first_sector: word % SECTORS, bytes };
                        let control = Control::of(words()).unwrap();
                        at += u32::from(control.ask_sender(at).unwrap().send(&ask.message()).is_ok());
                    }
                    3 => rig.session.ring(),
                    _ => sleep_ns(word % (3 * MS)).await,
                }
                assert!(rig.disk.under_way.load(Ordering::Relaxed) <= SLOTS as u64);
            }
            rig.session.end().await;
            assert_eq!(rig.disk.under_way.load(Ordering::Relaxed), 0);
        });
    }
}
