//! Faults of mapped files: what comes with the page that is needed, and what must not.
//!
//! The file is a `Store`: some of its pages are in memory, each says which one it is, and it notes which pages were asked for by a
//! message and which in a visit. A test may let something happen between a visit and the placing of what it found. The pages that a space
//! shows are read from its page table.
//!
//! The tests hold that pages around the needed one come in one fault, without a message and looking unused; that nothing comes from
//! behind the file's end, from beside the mapping or over pages that the program wrote; and that a file that shrinks or a mapping that
//! changes meanwhile shows nothing of before. A property with random mappings says that each placed page is the file's page of its index.
//!
//! Real file systems and caches are left out: `resources/ext2/tests` has them.

use crate::space::Withdrawn;
use crate::{
    AddressSpace, FaultError, Limits, LocalFlush, MapRequest, MappedFile, MappedSize, Options, PageIndex, Place,
    Provider, Rights, SpaceError,
};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Waker};
use gyre_account::ActivityId;
use gyre_interface::around::{Around, Claim};
use gyre_interface::files::files::{Client, Request};
use gyre_interface::files::{Attributes, FileError, NodeId, NodeKind, Pattern};
use gyre_interface::memory::Effort;
use gyre_interface::near::Near;
use gyre_machine::{Access, MapFlags, Va};
use gyre_message::direct::{block_on, direct_link};
use gyre_object::Page;
use proptest::prelude::*;
use std::sync::Mutex;
use std::vec;

const PAGE: u64 = 4096;
/// Inside of a block of 64 pages, so that windows and blocks do not begin together.
const BASE: u64 = 0x10_0000_0000 + 32 * PAGE;
const NODE: NodeId = NodeId(7);
const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

type Event = Box<dyn FnOnce() + Send>;

/// A file of which some pages are in memory.
#[derive(Default)]
struct Store {
    cached: Mutex<BTreeMap<u64, Page>>,
    bytes: AtomicU64,
    /// Pages asked for by a message.
    asked: Mutex<Vec<u64>>,
    /// The ways in which the program said to go through its mapping when they were asked for.
    patterns: Mutex<Vec<Pattern>>,
    /// Pages asked for in visits, and why.
    looked: Mutex<Vec<(u64, Claim)>>,
    /// The size is told without a message, too.
    tells_size: AtomicBool,
    /// Sizes asked for by messages.
    sizes: AtomicU64,
    /// Something that happens between a visit and the placing of what it found.
    then: Mutex<Option<Event>>,
    /// Pages that a program is about to write, in the order of the messages that say so.
    told: Mutex<Vec<u64>>,
    /// Something that happens before the answer to the first such message.
    when_told: Mutex<Option<Event>>,
}

fn attributes(size_bytes: u64) -> Attributes {
    Attributes {
        node: NODE,
        number: NODE.0,
        kind: NodeKind::File,
        mode: 0o644,
        links: 1,
        user: 0,
        group: 0,
        size_bytes,
        blocks_512: 0,
        device: 0,
        accessed_ns: 0,
        modified_ns: 0,
        changed_ns: 0,
        losses: 0,
    }
}

/// Returns the page with an index: its bytes say which one it is.
fn page_of(index: u64) -> Page {
    let page = Page::zeroed().unwrap();
    page.write(0, &(index + 1).to_le_bytes());
    page
}

impl Store {
    fn leak(bytes: u64, cached: impl IntoIterator<Item = u64>) -> &'static Store {
        let store: &'static Store = Box::leak(Box::default());
        store.bytes.store(bytes, Ordering::Relaxed);
        store.cached.lock().unwrap().extend(cached.into_iter().map(|index| (index, page_of(index))));
        store
    }

    fn serve(&'static self, request: Request) {
        match request {
            Request::page { index, pattern, reply, .. } => {
                self.asked.lock().unwrap().push(index);
                self.patterns.lock().unwrap().push(pattern);
                reply.send(Ok(self.cached.lock().unwrap().entry(index).or_insert_with(|| page_of(index)).clone()));
            }
            Request::attributes { reply, .. } => {
                self.sizes.fetch_add(1, Ordering::Relaxed);
                reply.send(Ok(attributes(self.bytes.load(Ordering::Relaxed))));
            }
            Request::page_dirtied { index, reply, .. } => {
                self.told.lock().unwrap().push(index);
                let event = self.when_told.lock().unwrap().take();
                event.into_iter().for_each(|event| event());
                reply.send(Ok(()));
            }
            Request::evict_pages { pages, reply, .. } => reply.send(Ok(self.evict(&pages) * PAGE)),
            _ => panic!("a mapping asks for pages and sizes, and tells which it does not show any more"),
        }
    }

    /// Drops those of these pages that nobody shows; returns how many.
    fn evict(&self, pages: &[u64]) -> u64 {
        let mut cached = self.cached.lock().unwrap();
        let before = cached.len();
        cached.retain(|index, page| page.is_shared() || !pages.contains(index));
        (before - cached.len()) as u64
    }

    fn file(&'static self) -> (Arc<MappedFile>, Arc<MappedSize>) {
        let link = direct_link(|request| Box::pin(async { self.serve(request) }));
        let size = MappedSize::new(self.bytes.load(Ordering::Relaxed));
        let client = Client::new(link).with_near(self);
        (MappedFile::new(client, NODE, size.clone(), b"/f".to_vec(), None, None), size)
    }

    fn messages(&self) -> Vec<u64> {
        core::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Near for Store {
    fn attributes(&'static self, _node: NodeId) -> Option<Result<Attributes, FileError>> {
        self.tells_size.load(Ordering::Relaxed).then(|| Ok(attributes(self.bytes.load(Ordering::Relaxed))))
    }
    fn lookup(&'static self, _directory: NodeId, _name: &[u8]) -> Option<Result<Attributes, FileError>> {
        None
    }
    fn open(&'static self, _node: NodeId) -> Option<Result<Attributes, FileError>> {
        None
    }
    fn close(&'static self, _node: NodeId) -> bool {
        false
    }
    fn read(
        &'static self,
        _node: NodeId,
        _offset: u64,
        _bytes: usize,
        _into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>> {
        None
    }
    fn to_map(&'static self, node: NodeId, around: &mut Around) {
        assert_eq!(node, NODE);
        let end = self.bytes.load(Ordering::Relaxed).div_ceil(PAGE);
        around.take(end, |index, claim| {
            self.looked.lock().unwrap().push((index, claim));
            self.cached.lock().unwrap().get(&index).cloned()
        });
        if let Some(event) = self.then.lock().unwrap().take() {
            event();
        }
    }
}

fn space() -> Arc<AddressSpace> {
    AddressSpace::new(&LocalFlush, NO_LIMITS, ActivityId(1)).unwrap()
}

/// Maps pages of a file from one with an index on, at a page of the range.
async fn map(space: &AddressSpace, file: &Arc<MappedFile>, (page, count, index): (u64, u64, u64), options: Options) {
    let rights = Rights::READ.union(Rights::WRITE);
    let request = MapRequest {
        place: Place::Fixed(BASE + page * PAGE),
        bytes: count * PAGE,
        rights,
        rights_max: Rights::all(),
        options,
        provider: Provider::File(file.clone()),
        first_index: PageIndex::FIRST.plus(index).unwrap(),
    };
    space.map(request).await.unwrap();
}

async fn touch(space: &AddressSpace, page: u64) -> Result<(), FaultError> {
    space.fault(BASE + page * PAGE, Access::Read).await
}

/// Returns the pages of the range that are present, with the number that each holds and its entry's flags.
fn present(space: &AddressSpace) -> BTreeMap<u64, (u64, MapFlags)> {
    let state = space.state.lock();
    let seen = state.pages.singles(0, u64::MAX / 2).map(|(at, page)| {
        let mut number = [0; 8];
        page.read(0, &mut number);
        let entry = state.table.query(Va(at)).expect("a present page with rights is mapped");
        assert_eq!(entry.pa, page.pa());
        ((at - BASE) / PAGE, (u64::from_le_bytes(number), entry.flags))
    });
    seen.collect()
}

fn places(space: &AddressSpace) -> Vec<u64> {
    present(space).into_keys().collect()
}

/// Faults, those that waited, pages mapped ahead.
fn counts(space: &AddressSpace) -> (u64, u64, u64) {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    (of(&space.counters.faults), of(&space.counters.faults_waited), of(&space.counters.neighbours))
}

/// Runs a change that does not wait.
fn at_once<T>(change: impl Future<Output = T>) {
    let mut change = std::pin::pin!(change);
    assert!(change.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn pages_around_come_in_one_fault_without_a_message_and_look_unused() {
    block_on(async {
        for options in [Options::empty(), Options::SHARED] {
            let store = Store::leak(100 * PAGE, 0..100);
            let (space, (file, _)) = (space(), store.file());
            map(&space, &file, (0, 100, 0), options).await;
            assert_eq!(touch(&space, 21).await, Ok(()));
            assert_eq!((places(&space), counts(&space)), ((16..32).collect(), (1, 0, 15)));
            let is_plain = |(page, (number, flags)): (&u64, &(u64, MapFlags))| {
                *number == page + 1 && !flags.intersects(MapFlags::ACCESSED | MapFlags::WRITE | MapFlags::DIRTY)
            };
            assert!(present(&space).iter().all(is_plain), "{:?}", present(&space));
            assert_eq!(store.messages(), []);
            let looked = core::mem::take(&mut *store.looked.lock().unwrap());
            assert_eq!(looked[0], (21, Claim::Needed));
            assert!(looked.len() == 16 && looked[1..].iter().all(|(_, claim)| *claim == Claim::Beside));
        }
    });
}

#[test]
fn a_page_is_asked_for_as_its_program_goes_through_the_mapping() {
    block_on(async {
        let store = Store::leak(100 * PAGE, []);
        let (space, (file, _)) = (space(), store.file());
        map(&space, &file, (0, 100, 0), Options::empty()).await;
        let hint = |page: u64, set, clear| space.set_options(BASE + page * PAGE, 20 * PAGE, set, clear).unwrap();
        hint(20, Options::RANDOM, Options::SEQUENTIAL);
        hint(40, Options::SEQUENTIAL, Options::RANDOM);
        for page in [5, 25, 45, 65] {
            assert_eq!(touch(&space, page).await, Ok(()));
        }
        hint(20, Options::empty(), Options::RANDOM | Options::SEQUENTIAL);
        assert_eq!(touch(&space, 26).await, Ok(()));
        let asked = core::mem::take(&mut *store.patterns.lock().unwrap());
        let around = |first, pages| Pattern::Around { first, pages };
        assert_eq!(asked[..2], [around(0, 20), Pattern::Random]);
        assert_eq!(asked[2..], [Pattern::Sequential, around(64, 32), around(0, 32)]);
    });
}

#[test]
fn a_hint_for_a_range_with_a_hole_counts_on_both_sides() {
    block_on(async {
        let (space, (file, _)) = (space(), Store::leak(100 * PAGE, []).file());
        map(&space, &file, (0, 10, 0), Options::empty()).await;
        map(&space, &file, (11, 89, 11), Options::empty()).await;
        assert_eq!(space.hint(BASE, 60 * PAGE, Options::RANDOM, Options::empty()), Err(SpaceError::NotMapped));
        assert_eq!(space.state.lock().regions.bytes(|region| region.options.contains(Options::RANDOM)), 59 * PAGE);
    });
}

#[test]
fn what_lies_around_is_asked_for_until_misses_outweigh_hits() {
    block_on(async {
        let store = Store::leak(4000 * PAGE, []);
        let (space, (file, _)) = (space(), store.file());
        map(&space, &file, (0, 4000, 0), Options::empty()).await;
        for page in (0..3000).step_by(16) {
            assert_eq!(touch(&space, page).await, Ok(()));
        }
        let asked = core::mem::take(&mut *store.patterns.lock().unwrap());
        assert!(asked[..100].iter().all(|asked| matches!(asked, Pattern::Around { pages: 32, .. })));
        assert_eq!(asked[100..], [Pattern::Usual; 88]);
        for page in (0..3000).step_by(16) {
            store.cached.lock().unwrap().insert(page + 1, page_of(page + 1));
            assert_eq!(touch(&space, page + 1).await, Ok(()));
        }
        assert_eq!(touch(&space, 3990).await, Ok(()));
        assert_eq!(*store.patterns.lock().unwrap(), [Pattern::Around { first: 3968, pages: 32 }]);
    });
}

#[test]
fn pages_that_are_not_in_memory_are_left_out_and_only_the_needed_one_is_asked_for() {
    block_on(async {
        let store = Store::leak(100 * PAGE, [16, 18, 19, 31]);
        let (space, (file, _)) = (space(), store.file());
        map(&space, &file, (0, 100, 0), Options::empty()).await;
        assert_eq!(touch(&space, 18).await, Ok(()));
        assert_eq!((places(&space), store.messages()), (vec![16, 18, 19, 31], vec![]));
        assert_eq!(touch(&space, 20).await, Ok(()));
        assert_eq!((places(&space), store.messages()), (vec![16, 18, 19, 20, 31], vec![20]));
        assert_eq!(counts(&space), (2, 1, 3));
        store.cached.lock().unwrap().insert(47, page_of(47));
        assert_eq!(touch(&space, 40).await, Ok(()));
        assert_eq!((places(&space), store.messages()), (vec![16, 18, 19, 20, 31, 40, 47], vec![40]));
        assert_eq!(counts(&space), (3, 2, 4));
    });
}

#[test]
fn nothing_comes_behind_the_end_of_the_file_or_beside_the_mapping() {
    block_on(async {
        let store = Store::leak(37 * PAGE + 1, 0..64);
        let (space, (file, _)) = (space(), store.file());
        map(&space, &file, (0, 64, 0), Options::empty()).await;
        assert_eq!(touch(&space, 33).await, Ok(()));
        assert_eq!(places(&space), [32, 33, 34, 35, 36, 37]);
        assert_eq!(touch(&space, 38).await, Err(FaultError::BeyondEnd));
        let (file, size) = store.file();
        map(&space, &file, (0, 3, 30), Options::empty()).await;
        map(&space, &file, (5, 6, 0), Options::SHARED).await;
        map(&space, &file, (11, 53, 20), Options::empty()).await;
        assert_eq!(touch(&space, 7).await, Ok(()));
        let numbers = |space: &AddressSpace| -> Vec<(u64, u64)> {
            present(space).into_iter().map(|(page, (number, _))| (page, number - 1)).collect()
        };
        assert_eq!(numbers(&space), [(5, 0), (6, 1), (7, 2), (8, 3), (9, 4), (10, 5)]);
        assert_eq!(touch(&space, 12).await, Ok(()));
        // As on Linux 64 KiB from the mapping's start on, if that lies inside of them.
        assert_eq!(numbers(&space)[6..], (11..27).map(|page| (page, page + 9)).collect::<Vec<_>>());
        map(&space, &file, (25, 30, 0), Options::SHARED).await;
        assert_eq!(touch(&space, 27).await, Ok(()));
        assert_eq!(numbers(&space)[20..], (25..32).map(|page| (page, page - 25)).collect::<Vec<_>>(), "a block's end");
        // It has grown: the size is asked for when it is reached.
        size.note(PAGE);
        assert_eq!(touch(&space, 0).await, Ok(()));
        assert_eq!(numbers(&space)[..3], [(0, 30), (1, 31), (2, 32)]);
        assert_eq!(store.messages(), [30]);
    });
}

#[test]
fn pages_that_the_program_wrote_stay_beside_those_that_come() {
    block_on(async {
        let store = Store::leak(16 * PAGE, [3]);
        let (space, (file, _)) = (space(), store.file());
        map(&space, &file, (0, 16, 0), Options::empty()).await;
        space.copy_out(BASE + 3 * PAGE, &99u64.to_le_bytes()).await.unwrap();
        store.cached.lock().unwrap().extend((0..16).map(|index| (index, page_of(index))));
        assert_eq!(touch(&space, 5).await, Ok(()));
        let seen = present(&space);
        assert_eq!((seen.len(), seen[&3].0), (16, 99));
        assert!(seen[&3].1.contains(MapFlags::WRITE));
        assert!(seen.iter().all(|(page, (number, _))| *page == 3 || *number == page + 1));
        space.copy_out(BASE + 4 * PAGE, &98u64.to_le_bytes()).await.unwrap();
        assert_eq!(present(&space)[&4].0, 98);
        let mut number = [0; 8];
        store.cached.lock().unwrap()[&4].read(0, &mut number);
        assert_eq!(u64::from_le_bytes(number), 5, "the file has its own");
    });
}

#[test]
fn a_file_that_becomes_shorter_meanwhile_shows_nothing_behind_its_end() {
    block_on(async {
        for needed in [1, 9] {
            let store = Store::leak(16 * PAGE, 0..16);
            let (space, (file, size)) = (space(), store.file());
            map(&space, &file, (0, 16, 0), Options::SHARED).await;
            let noted = size.clone();
            *store.then.lock().unwrap() = Some(Box::new(move || {
                store.bytes.store(5 * PAGE, Ordering::Relaxed);
                noted.note(5 * PAGE);
            }));
            let answer = touch(&space, needed).await;
            assert_eq!(answer, if needed == 1 { Ok(()) } else { Err(FaultError::BeyondEnd) });
            assert_eq!(places(&space), if needed == 1 { vec![0, 1, 2, 3, 4] } else { vec![] });
            space.shorten(&size, 2 * PAGE).await;
            assert!(places(&space).iter().all(|page| *page < 2));
        }
    });
}

#[test]
fn pages_that_a_file_has_lost_are_free_before_their_mappings_hear_of_it() {
    block_on(async {
        let store = Store::leak(16 * PAGE, 0..16);
        let (space, (file, size)) = (space(), store.file());
        map(&space, &file, (0, 16, 0), Options::SHARED).await;
        map(&space, &file, (16, 16, 0), Options::empty()).await;
        space.copy_out(BASE + 25 * PAGE, &99u64.to_le_bytes()).await.unwrap();
        for page in 0..32 {
            assert_eq!(touch(&space, page).await, Ok(()));
        }
        // The file is cut off at page 8; its pages behind that were in use just now.
        store.cached.lock().unwrap().retain(|index, _| *index < 8);
        let given = space.give_back(3 * PAGE, Effort::Usual).await;
        assert!(given.free_bytes >= 3 * PAGE, "{given:?}");
        for _ in 0..4 {
            space.give_back(64 * PAGE, Effort::Thorough).await;
        }
        let left = places(&space);
        assert!(left.iter().all(|page| page % 16 < 8 || *page == 25), "{left:?}");
        assert_eq!(present(&space)[&25].0, 99, "what the program wrote for itself");
        space.shorten(&size, 8 * PAGE).await;
        assert!(places(&space).iter().all(|page| page % 16 < 8));
    });
}

#[test]
fn mappings_show_nothing_of_before_in_a_hole() {
    block_on(async {
        let store = Store::leak(16 * PAGE, 0..16);
        let (space, (file, size)) = (space(), store.file());
        map(&space, &file, (0, 16, 0), Options::SHARED).await;
        map(&space, &file, (16, 12, 4), Options::empty()).await;
        space.copy_out(BASE + 18 * PAGE, &99u64.to_le_bytes()).await.unwrap();
        assert_eq!((touch(&space, 0).await, touch(&space, 16).await), (Ok(()), Ok(())));
        // Pages 5 to 7 wholly, a part of page 4 and one of page 8.
        space.punch(&size, 4 * PAGE + 1..8 * PAGE + 4095).await;
        let shared = (0..16).filter(|page| !(5..8).contains(page));
        // The private ones show the file's page 4 first; 18 shows what was written there.
        let private = (16..28).filter(|page| ![17, 19].contains(page));
        assert_eq!(places(&space), shared.chain(private).collect::<Vec<_>>());
        space.punch(&size, 3 * PAGE..3 * PAGE + 4095).await;
        space.punch(&size, u64::MAX - 1..u64::MAX).await;
        assert!(places(&space).contains(&3));
    });
}

/// An event that befalls a page while its file is told of a write to it.
type Meanwhile = fn(&AddressSpace, u64);

/// Returns how often the file was told of a write to page 3.
fn times_told(meanwhile: Meanwhile) -> usize {
    block_on(async {
        let store = Store::leak(16 * PAGE, 0..16);
        let (space, (file, _)) = (space(), store.file());
        map(&space, &file, (0, 16, 0), Options::SHARED).await;
        assert_eq!(touch(&space, 3).await, Ok(()));
        let of = space.clone();
        *store.when_told.lock().unwrap() = Some(Box::new(move || meanwhile(&of, BASE + 3 * PAGE)));
        assert_eq!(space.fault(BASE + 3 * PAGE, Access::Write).await, Ok(()));
        assert!(present(&space)[&3].1.contains(MapFlags::WRITE));
        let told = store.told.lock().unwrap();
        assert!(told.iter().all(|index| *index == 3));
        told.len()
    })
}

fn leave_and_come_back(space: &AddressSpace, address: u64) {
    let mut withdrawn = Withdrawn::default();
    space.state.lock().evict(address, &mut withdrawn);
    at_once(space.flush_and_free(withdrawn));
    at_once(space.fault(address, Access::Read));
}

#[test]
fn a_write_is_told_again_if_its_page_leaves_or_is_written_back_meanwhile() {
    assert_eq!(times_told(|_, _| {}), 1);
    assert_eq!(times_told(leave_and_come_back), 2);
    assert_eq!(times_told(|space, _| at_once(space.write_protect(0, NODE, &[3]))), 2);
    // Its neighbour may go.
    assert_eq!(times_told(|space, address| leave_and_come_back(space, address + PAGE)), 1);
}

#[test]
fn a_mapping_that_changes_meanwhile_gets_no_pages_of_the_former_one() {
    block_on(async {
        let store = Store::leak(64 * PAGE, 0..64);
        let (space, (file, _)) = (space(), store.file());
        for case in 0..3 {
            map(&space, &file, (0, 16, 0), Options::empty()).await;
            let (there, shown) = (space.clone(), file.clone());
            *store.then.lock().unwrap() = Some(Box::new(move || match case {
                // The part around the needed page shows others now.
                0 => at_once(map(&there, &shown, (3, 5, 40), Options::empty())),
                // The parts beside it do.
                1 => {
                    at_once(map(&there, &shown, (0, 4, 40), Options::empty()));
                    at_once(map(&there, &shown, (7, 5, 50), Options::empty()));
                }
                _ => at_once(there.unmap(BASE, 16 * PAGE)),
            }));
            let answer = touch(&space, 5).await;
            let seen: Vec<_> = present(&space).into_iter().map(|(page, (number, _))| (page, number - 1)).collect();
            match case {
                0 => assert_eq!((answer, seen), (Ok(()), (3..8).map(|page| (page, page + 37)).collect())),
                1 => assert_eq!((answer, seen), (Ok(()), (4..7).map(|page| (page, page)).collect())),
                _ => assert_eq!((answer, seen), (Err(FaultError::NotMapped), vec![])),
            }
        }
    });
}

#[test]
fn a_size_that_is_not_known_is_looked_at_with_the_pages() {
    block_on(async {
        for tells_size in [true, false] {
            let store = Store::leak(16 * PAGE, 0..64);
            store.tells_size.store(tells_size, Ordering::Relaxed);
            let (space, (file, size)) = (space(), store.file());
            size.note(0);
            map(&space, &file, (0, 64, 0), Options::SHARED).await;
            assert_eq!(touch(&space, 2).await, Ok(()));
            assert_eq!(places(&space), (0..16).collect::<Vec<_>>());
            assert_eq!(touch(&space, 16).await, Err(FaultError::BeyondEnd));
            store.bytes.store(17 * PAGE, Ordering::Relaxed);
            assert_eq!((touch(&space, 16).await, places(&space).len()), (Ok(()), 17));
            let asked = (store.sizes.load(Ordering::Relaxed), store.messages());
            // Whoever is refused an access has asked by a message.
            assert_eq!(asked, if tells_size { (1, vec![]) } else { (3, vec![2, 16]) });
        }
    });
}

#[test]
fn a_thread_that_was_faster_keeps_its_page() {
    block_on(async {
        let store = Store::leak(16 * PAGE, 0..16);
        let (space, (file, _)) = (space(), store.file());
        map(&space, &file, (0, 16, 0), Options::empty()).await;
        let there = space.clone();
        *store.then.lock().unwrap() = Some(Box::new(move || {
            let state = &mut *there.state.lock();
            let region = state.regions.find(BASE).unwrap().1.clone();
            for page in [4, 5] {
                state.install(BASE + page * PAGE, page_of(70 + page), &region).unwrap();
            }
        }));
        assert_eq!(touch(&space, 5).await, Ok(()));
        let seen = present(&space);
        assert_eq!((seen.len(), seen[&4].0, seen[&5].0), (16, 75, 76));
        assert_eq!(counts(&space), (1, 0, 14));
        assert_eq!(space.resident_bytes(), 16 * PAGE);
        space.clear().await;
        assert_eq!(space.resident_bytes(), 0);
    });
}

/// A mapping of the property's range: its first page, its pages, the file's page that it shows first.
type Part = ((u64, u64, u64), bool);

fn part() -> impl Strategy<Value = Part> {
    ((0..90u64, 1..40u64, 0..60u64), any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn each_page_that_is_placed_is_the_files_page_of_its_index(
        parts in proptest::collection::vec(part(), 1..6),
        cached in proptest::collection::btree_set(0..100u64, 0..100),
        bytes in 1..100 * PAGE,
        touched in proptest::collection::vec((0..130u64, any::<bool>()), 1..40),
    ) {
        let store = Store::leak(bytes, cached);
        let mut model: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        let mut written: BTreeMap<u64, u64> = BTreeMap::new();
        block_on(async {
            let (space, (file, _)) = (space(), store.file());
            for ((page, count, index), is_shared) in parts {
                let options = if is_shared { Options::SHARED } else { Options::empty() };
                map(&space, &file, (page, count, index), options).await;
                model.extend((0..count).map(|at| (page + at, (index + at, is_shared))));
            }
            for (page, is_write) in touched {
                let shown = model.get(&page);
                let has = shown.is_some_and(|(index, _)| *index < bytes.div_ceil(PAGE));
                let answer = touch(&space, page).await;
                assert_eq!(answer.is_ok(), has, "page {page}: {answer:?}");
                if let (true, Some((_, false)), true) = (has, shown, is_write) {
                    space.copy_out(BASE + page * PAGE, &(1000 + page).to_le_bytes()).await.unwrap();
                    written.insert(page, 1000 + page);
                }
                assert!(!has || present(&space).contains_key(&page));
            }
            for (page, (number, _)) in present(&space) {
                let (index, _) = model[&page];
                assert!(index < bytes.div_ceil(PAGE), "page {page} shows {index}, behind the end");
                assert_eq!(number, written.get(&page).copied().unwrap_or(index + 1), "page {page}");
            }
            space.clear().await;
        });
    }
}
