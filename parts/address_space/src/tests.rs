//! Address spaces against a model: a map from page to contents.
//!
//! The model has 24 pages, each with rights and a byte that is shared or the program's own. A `Pair` is a space with its model; random
//! steps change both, and after them each page is read in both. All runs on one thread, with frames of the host.
//!
//! The property holds that a space does what the model does and gives all frames back. The tests beside it hold what a model of few pages
//! cannot say: addresses of the kernel and overflows are refused, stacks and heaps grow as far as they may, limits hold, pinned bytes
//! stay, shared words have one name, changes of many pages let others run, and a change that cannot be made replaces nothing.
//!
//! Huge pages, pages of files, loans and duplicates have files of their own. Flushes of other cores are left out.

use crate::view::Reach;
use crate::{
    AddressSpace, FaultError, Limits, LocalFlush, MapRequest, Move, Options, PageIndex, Place, Provider, Rights,
    SharedMemory, SpaceError,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_machine::{Access, live_frame_bytes};
use gyre_message::direct::block_on;
use gyre_object::Page;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::vec;

const PAGE: u64 = 4096;
/// The place of the model's pages.
const BASE: u64 = 0x10_0000_0000;
const PAGES: u64 = 24;

const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

fn space() -> Arc<AddressSpace> {
    AddressSpace::new(&LocalFlush, NO_LIMITS, ActivityId(1)).unwrap()
}

fn request(place: Place, bytes: u64, rights: Rights) -> MapRequest {
    MapRequest {
        place,
        bytes,
        rights,
        rights_max: Rights::all(),
        options: Options::empty(),
        provider: Provider::Anonymous,
        first_index: PageIndex::FIRST,
    }
}

const BOTH: Rights = Rights::READ.union(Rights::WRITE);

/// The changes that a program may make to its memory.
#[derive(Clone, Copy, Debug)]
enum Step {
    Map(u64, u64, bool),
    MapShared(u64, u64),
    Unmap(u64, u64),
    Protect(u64, u64, u32),
    Write(u64, u8),
    Read(u64),
    Discard(u64, u64),
    Move(u64, u64, u64, u64),
    Fork,
    EndChild,
    WriteInChild(u64, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = 0..PAGES;
    let count = 1..6u64;
    let step = prop_oneof![
        (page.clone(), count.clone(), any::<bool>()).prop_map(|(p, n, w)| Step::Map(p, n, w)),
        (page.clone(), count.clone()).prop_map(|(p, n)| Step::MapShared(p, n)),
        (page.clone(), count.clone()).prop_map(|(p, n)| Step::Unmap(p, n)),
        (page.clone(), count.clone(), 0..4u32).prop_map(|(p, n, r)| Step::Protect(p, n, r)),
        (page.clone(), any::<u8>()).prop_map(|(p, b)| Step::Write(p, b)),
        (page.clone(), any::<u8>()).prop_map(|(p, b)| Step::Write(p, b)),
        page.clone().prop_map(Step::Read),
        (page.clone(), count.clone()).prop_map(|(p, n)| Step::Discard(p, n)),
        (page.clone(), count.clone(), page.clone(), count).prop_map(|(p, n, q, m)| Step::Move(p, n, q, m)),
        Just(Step::Fork),
        Just(Step::EndChild),
        (page, any::<u8>()).prop_map(|(p, b)| Step::WriteInChild(p, b)),
    ];
    proptest::collection::vec(step, 1..80)
}

/// One page of the model: its rights, and its byte, shared or its own.
#[derive(Clone)]
struct Cell {
    rights: u32,
    byte: Byte,
}

#[derive(Clone)]
enum Byte {
    Own(u8),
    Shared(Arc<Mutex<BTreeMap<u64, u8>>>, u64),
}

#[derive(Clone, Default)]
struct Model(BTreeMap<u64, Cell>);

impl Model {
    fn covers(&self, page: u64, count: u64) -> bool {
        (page..page + count).all(|at| self.0.contains_key(&at))
    }

    fn read(&self, page: u64) -> Option<u8> {
        let cell = self.0.get(&page).filter(|cell| cell.rights & 3 != 0)?;
        Some(match &cell.byte {
            Byte::Own(byte) => *byte,
            Byte::Shared(object, index) => object.lock().unwrap().get(index).copied().unwrap_or(0),
        })
    }

    fn write(&mut self, page: u64, value: u8) -> bool {
        let Some(cell) = self.0.get_mut(&page).filter(|cell| cell.rights & 2 != 0) else {
            return false;
        };
        match &mut cell.byte {
            Byte::Own(byte) => *byte = value,
            Byte::Shared(object, index) => {
                object.lock().unwrap().insert(*index, value);
            }
        }
        true
    }
}

fn rights_of(bits: u32) -> Rights {
    let mut rights = Rights::empty();
    rights.set(Rights::READ, bits & 1 != 0);
    rights.set(Rights::WRITE, bits & 2 != 0);
    rights
}

struct Pair {
    space: Arc<AddressSpace>,
    model: Model,
}

impl Pair {
    async fn apply(&mut self, step: Step) {
        let at = |page: u64| BASE + page * PAGE;
        match step {
            Step::Map(page, count, writable) => {
                let rights = if writable { 3 } else { 1 };
                let wish = request(Place::Fixed(at(page)), count * PAGE, rights_of(rights));
                assert_eq!(self.space.map(wish).await, Ok(at(page)));
                for page in page..page + count {
                    self.model.0.insert(page, Cell { rights, byte: Byte::Own(0) });
                }
            }
            Step::MapShared(page, count) => {
                let mut wish = request(Place::Fixed(at(page)), count * PAGE, BOTH);
                wish.provider = Provider::Memory(Arc::new(SharedMemory::default()));
                wish.options = Options::SHARED;
                assert_eq!(self.space.map(wish).await, Ok(at(page)));
                let object: Arc<Mutex<BTreeMap<u64, u8>>> = Arc::default();
                for index in 0..count {
                    let byte = Byte::Shared(object.clone(), index);
                    self.model.0.insert(page + index, Cell { rights: 3, byte });
                }
            }
            Step::Unmap(page, count) => {
                assert_eq!(self.space.unmap(at(page), count * PAGE).await, Ok(()));
                self.model.0.retain(|at, _| !(page..page + count).contains(at));
            }
            Step::Protect(page, count, bits) => self.protect(page, count, bits).await,
            Step::Write(page, byte) => {
                let done = self.space.copy_out(at(page) + 7, &[byte]).await.is_ok();
                assert_eq!(done, self.model.write(page, byte), "{step:?}");
            }
            Step::Read(page) => self.check(page).await,
            Step::Discard(page, count) => {
                let covered = self.model.covers(page, count);
                assert_eq!(self.space.discard(at(page), count * PAGE).await.is_ok(), covered);
                for page in page..page + count {
                    if let Some(Cell { byte: Byte::Own(byte), .. }) = self.model.0.get_mut(&page) {
                        *byte = 0;
                    }
                }
            }
            Step::Move(page, count, to, new_count) => self.relocate(page, count, to, new_count).await,
            Step::Fork | Step::EndChild | Step::WriteInChild(..) => {}
        }
    }

    async fn protect(&mut self, page: u64, count: u64, bits: u32) {
        let result = self.space.protect(BASE + page * PAGE, count * PAGE, rights_of(bits)).await;
        if !self.model.covers(page, count) {
            assert_eq!(result, Err(SpaceError::NotMapped));
            return;
        }
        assert_eq!(result, Ok(()));
        for page in page..page + count {
            if let Some(cell) = self.model.0.get_mut(&page) {
                cell.rights = bits;
            }
        }
    }

    async fn relocate(&mut self, page: u64, count: u64, to: u64, new_count: u64) {
        let target = Move::To(BASE + to * PAGE);
        let result = self.space.remap(BASE + page * PAGE, count * PAGE, new_count * PAGE, target).await;
        let Ok(start) = result else {
            return;
        };
        assert_eq!(start, BASE + to * PAGE);
        let cells: Vec<Option<Cell>> = (page..page + count).map(|at| self.model.0.remove(&at)).collect();
        let rights = cells[0].as_ref().unwrap().rights;
        let first = cells[0].as_ref().unwrap().byte.clone();
        for index in 0..new_count {
            let fresh = match &first {
                Byte::Shared(object, first) => Byte::Shared(object.clone(), first + index),
                Byte::Own(_) => Byte::Own(0),
            };
            let cell = cells.get(index as usize).cloned().flatten();
            let cell = cell.unwrap_or(Cell { rights, byte: fresh });
            self.model.0.insert(to + index, cell);
        }
    }

    async fn check(&self, page: u64) {
        let mut byte = [0];
        let read = self.space.copy_in(BASE + page * PAGE + 7, &mut byte).await;
        assert_eq!(read.ok().map(|()| byte[0]), self.model.read(page), "page {page}");
    }

    async fn check_all(&self) {
        for page in 0..PAGES + 8 {
            self.check(page).await;
        }
    }
}

async fn run(steps: Vec<Step>) {
    let mut parent = Pair { space: space(), model: Model::default() };
    let mut child: Option<Pair> = None;
    for step in steps {
        match (step, &mut child) {
            (Step::Fork, _) => {
                let space = parent.space.duplicate(ActivityId(1)).await.unwrap();
                child = Some(Pair { space, model: parent.model.clone() });
            }
            (Step::EndChild, _) => child = None,
            (Step::WriteInChild(page, byte), Some(child)) => child.apply(Step::Write(page, byte)).await,
            (step, _) => parent.apply(step).await,
        }
    }
    parent.check_all().await;
    if let Some(child) = &child {
        child.check_all().await;
    }
    parent.space.clear().await;
    assert_eq!(parent.space.resident_bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_space_does_what_the_model_does_and_gives_all_frames_back(steps in steps()) {
        let before = live_frame_bytes();
        block_on(run(steps));
        prop_assert_eq!(live_frame_bytes(), before);
    }
}

#[test]
fn a_page_is_copied_only_while_both_hold_it() {
    block_on(async {
        let parent = space();
        parent.map(request(Place::Fixed(BASE), PAGE, BOTH)).await.unwrap();
        parent.copy_out(BASE, b"old").await.unwrap();
        let child = parent.duplicate(ActivityId(1)).await.unwrap();
        child.copy_out(BASE, b"new").await.unwrap();
        let mut seen = [0; 3];
        parent.copy_in(BASE, &mut seen).await.unwrap();
        assert_eq!(&seen, b"old");
        parent.copy_out(BASE, b"own").await.unwrap();
        let copies = |space: &AddressSpace| space.counters.copies.load(core::sync::atomic::Ordering::Relaxed);
        assert_eq!((copies(&parent), copies(&child)), (0, 1), "the second writer is the only holder");
    });
}

#[test]
fn addresses_of_the_kernel_and_lengths_that_overflow_are_refused() {
    block_on(async {
        let space = space();
        for address in [0xffff_8000_0000_0000, u64::MAX, gyre_machine::USER_END, 0, 0x8000_0000_0000] {
            let mut byte = [0];
            assert_eq!(space.copy_in(address, &mut byte).await.unwrap_err().error, FaultError::NotMapped);
            assert_eq!(space.copy_out(address, &byte).await.unwrap_err().error, FaultError::NotMapped);
            assert_eq!(space.fault(address, Access::Read).await, Err(FaultError::NotMapped));
        }
        assert_eq!(space.unmap(BASE, u64::MAX).await, Err(SpaceError::Invalid));
        assert_eq!(space.unmap(u64::MAX & !4095, PAGE).await, Err(SpaceError::Invalid));
        let map = |place, bytes| space.map(request(place, bytes, BOTH));
        assert_eq!(map(Place::Anywhere(0), u64::MAX).await, Err(SpaceError::NoMemory));
        assert_eq!(map(Place::Anywhere(0), 0).await, Err(SpaceError::Invalid));
        assert_eq!(map(Place::Fixed(0), PAGE).await, Err(SpaceError::Permission));
        assert_eq!(map(Place::Fixed(gyre_machine::USER_END), PAGE).await, Err(SpaceError::NoMemory));
        assert_eq!(map(Place::Fixed(BASE + 1), PAGE).await, Err(SpaceError::Invalid));
    });
}

#[test]
fn a_copy_across_a_hole_tells_how_far_it_came() {
    block_on(async {
        let space = space();
        space.map(request(Place::Fixed(BASE), PAGE, BOTH)).await.unwrap();
        let fault = space.copy_out(BASE + PAGE - 10, &[1; 20]).await.unwrap_err();
        assert_eq!((fault.done, fault.error), (10, FaultError::NotMapped));
    });
}

#[test]
fn a_stack_grows_down_to_its_limit_and_keeps_its_distance() {
    block_on(async {
        let space =
            AddressSpace::new(&LocalFlush, Limits { stack_bytes: 64 * PAGE, ..NO_LIMITS }, ActivityId(1)).unwrap();
        let mut stack = request(Place::Fixed(BASE), PAGE, BOTH);
        stack.options = Options::GROWS_DOWN;
        space.map(stack).await.unwrap();
        assert_eq!(space.fault(BASE - 10 * PAGE, Access::Write).await, Ok(()));
        assert_eq!(space.fault(BASE - 64 * PAGE, Access::Write).await, Err(FaultError::NotMapped));
        space.map(request(Place::Fixed(BASE - 280 * PAGE), PAGE, BOTH)).await.unwrap();
        assert_eq!(space.fault(BASE - 30 * PAGE, Access::Write).await, Err(FaultError::NotMapped), "too near");
    });
}

#[test]
fn the_heap_grows_shrinks_and_stops_at_other_mappings() {
    block_on(async {
        let space = space();
        space.set_heap(BASE);
        assert_eq!(space.set_break(0).await, BASE);
        assert_eq!(space.set_break(BASE + 5000).await, BASE + 5000);
        space.copy_out(BASE + 4999, &[1]).await.unwrap();
        space.map(request(Place::Fixed(BASE + 4 * PAGE), PAGE, BOTH)).await.unwrap();
        assert_eq!(space.set_break(BASE + 5 * PAGE).await, BASE + 5000);
        assert_eq!(space.set_break(BASE + 1).await, BASE + 1);
        assert!(space.copy_in(BASE + 4999, &mut [0]).await.is_err());
    });
}

#[test]
fn limits_hold() {
    block_on(async {
        let space =
            AddressSpace::new(&LocalFlush, Limits { mapped_bytes: 10 * PAGE, ..NO_LIMITS }, ActivityId(1)).unwrap();
        assert!(space.map(request(Place::Anywhere(0), 10 * PAGE, BOTH)).await.is_ok());
        assert_eq!(space.map(request(Place::Anywhere(0), PAGE, BOTH)).await, Err(SpaceError::NoMemory));
        let space =
            AddressSpace::new(&LocalFlush, Limits { data_bytes: 2 * PAGE, ..NO_LIMITS }, ActivityId(1)).unwrap();
        assert!(space.map(request(Place::Anywhere(0), 9 * PAGE, Rights::READ)).await.is_ok());
        assert_eq!(space.map(request(Place::Anywhere(0), 3 * PAGE, BOTH)).await, Err(SpaceError::NoMemory));
    });
}

#[test]
fn pinned_bytes_do_not_change_with_the_program() {
    block_on(async {
        let space = space();
        space.map(request(Place::Fixed(BASE), 2 * PAGE, BOTH)).await.unwrap();
        space.copy_out(BASE, &[1; 8192]).await.unwrap();
        let writable = space.pin(BASE + 100, 8000).await.unwrap();
        space.protect(BASE, 2 * PAGE, Rights::READ).await.unwrap();
        let read_only = space.pin(BASE + 100, 8000).await.unwrap();
        space.protect(BASE, 2 * PAGE, BOTH).await.unwrap();
        space.copy_out(BASE, &[2; 8192]).await.unwrap();
        for views in [writable, read_only] {
            assert_eq!(views.iter().map(|view| view.len()).sum::<usize>(), 8000);
            assert!(views.iter().all(|view| view.as_slice().iter().all(|byte| *byte == 1)));
        }
    });
}

#[test]
fn words_have_one_name_among_all_who_share_them() {
    block_on(async {
        let parent = space();
        let mut shared = request(Place::Fixed(BASE), PAGE, BOTH);
        shared.provider = Provider::Memory(Arc::new(SharedMemory::default()));
        shared.options = Options::SHARED;
        parent.map(shared).await.unwrap();
        parent.map(request(Place::Fixed(BASE + PAGE), PAGE, BOTH)).await.unwrap();
        let child = parent.duplicate(ActivityId(1)).await.unwrap();
        assert_eq!(parent.word_name(BASE + 8), child.word_name(BASE + 8));
        assert_ne!(parent.word_name(BASE + PAGE), child.word_name(BASE + PAGE));
    });
}

#[test]
fn no_mapping_shows_pages_that_have_no_offset() {
    block_on(async {
        let space = space();
        let last = |pages: u64, options| MapRequest {
            provider: Provider::Memory(Arc::new(SharedMemory::default())),
            options,
            first_index: PageIndex::LAST.before(1),
            ..request(Place::Fixed(BASE), pages * PAGE, BOTH)
        };
        assert_eq!(space.map(last(2, Options::SHARED)).await, Err(SpaceError::TooFar));
        assert_eq!(space.map(last(1, Options::SHARED)).await, Ok(BASE));
        for target in [Move::Never, Move::IfNeeded, Move::To(BASE + 100 * PAGE)] {
            assert_eq!(space.remap(BASE, PAGE, 4 * PAGE, target).await, Err(SpaceError::Invalid), "{target:?}");
        }
        assert!(space.word_name(BASE + 4092).is_some());
        space.copy_out(BASE, &[1]).await.unwrap();
    });
}

#[test]
fn nothing_grows_down_below_the_first_page_of_what_it_shows() {
    block_on(async {
        let space = space();
        let mut wish = request(Place::Fixed(BASE), PAGE, BOTH);
        wish.provider = Provider::Memory(Arc::new(SharedMemory::default()));
        (wish.options, wish.first_index) = (Options::SHARED | Options::GROWS_DOWN, PageIndex::FIRST.plus(2).unwrap());
        space.map(wish).await.unwrap();
        assert_eq!(space.fault(BASE - 2 * PAGE, Access::Write).await, Ok(()));
        assert_eq!(space.fault(BASE - 3 * PAGE, Access::Write).await, Err(FaultError::NotMapped));
    });
}

/// Lets a change run; returns how often others ran in between.
async fn turns<T>(change: impl Future<Output = T>) -> (T, u32) {
    let (mut turns, mut change) = (0, std::pin::pin!(change));
    let answer = std::future::poll_fn(|context| {
        turns += 1;
        change.as_mut().poll(context)
    });
    let answer = answer.await;
    (answer, turns - 1)
}

#[test]
fn changes_of_many_pages_let_others_run() {
    const MANY: u64 = 8192;
    block_on(async {
        let space = space();
        space.map(request(Place::Fixed(BASE), MANY * PAGE, BOTH)).await.unwrap();
        for page in 0..MANY {
            space.copy_out(BASE + page * PAGE, &[1]).await.unwrap();
        }
        let (protected, between) = turns(space.protect(BASE, MANY * PAGE, Rights::READ)).await;
        assert_eq!((protected, between >= 3), (Ok(()), true), "{between}");
        for page in (0..MANY).step_by(500) {
            assert!(space.copy_out(BASE + page * PAGE, &[2]).await.is_err());
        }
        let (denied, between) = turns(space.protect(BASE, (MANY + 1) * PAGE, BOTH)).await;
        assert_eq!((denied, between), (Err(SpaceError::NotMapped), 0));
        assert!(space.copy_out(BASE, &[2]).await.is_err(), "nothing has changed");
        let (mapped, between) = turns(space.map(request(Place::Fixed(BASE), MANY * PAGE, BOTH))).await;
        assert_eq!((mapped, between >= 7), (Ok(BASE), true), "{between}");
        let mut byte = [9];
        space.copy_in(BASE, &mut byte).await.unwrap();
        assert_eq!(byte, [0]);
    });
}

#[test]
fn a_mapping_of_many_pages_moves_in_pieces_and_each_page_is_in_one_place() {
    const MANY: u64 = 8192;
    const THERE: u64 = BASE + (1 << 30);
    block_on(async {
        let space = space();
        for (at, options) in [(BASE, Options::NO_HUGE), (THERE, Options::empty())] {
            space.map(MapRequest { options, ..request(Place::Fixed(at), MANY * PAGE, BOTH) }).await.unwrap();
            for page in 0..MANY {
                space.copy_out(at + page * PAGE, &(at + page).to_le_bytes()).await.unwrap();
            }
        }
        let mut change = std::pin::pin!(space.remap(BASE, MANY * PAGE, (MANY + 9) * PAGE, Move::To(THERE)));
        let mut between = 0;
        let moved = std::future::poll_fn(|context| {
            between += 1;
            for page in (0..MANY).step_by(701) {
                let has = |at: u64| {
                    let is_it = |held: &Page, offset: usize, _: Reach| {
                        let mut bytes = [0; 8];
                        held.read(offset, &mut bytes);
                        u64::from_le_bytes(bytes) == BASE + page
                    };
                    space.with_present(at + page * PAGE, Access::Read, is_it) == Some(true)
                };
                assert!(has(BASE) != has(THERE), "{page} is in one place");
            }
            change.as_mut().poll(context)
        });
        assert_eq!(moved.await, Ok(THERE));
        assert!(between >= 8, "{between}");
        for page in 0..MANY + 9 {
            let mut bytes = [9; 8];
            space.copy_in(THERE + page * PAGE, &mut bytes).await.unwrap();
            assert_eq!(u64::from_le_bytes(bytes), if page < MANY { BASE + page } else { 0 });
            assert!(space.copy_in(BASE + page * PAGE, &mut bytes).await.is_err());
        }
        assert_eq!((space.regions().len(), space.mapped_bytes()), (1, (MANY + 9) * PAGE));
    });
}

#[test]
fn a_large_mapping_that_cannot_move_stays_and_replaces_nothing() {
    const MANY: u64 = 4096;
    const THERE: u64 = BASE + (1 << 30);
    block_on(async {
        let limits = Limits { mapped_bytes: 2 * MANY * PAGE, ..NO_LIMITS };
        let space = AddressSpace::new(&LocalFlush, limits, ActivityId(1)).unwrap();
        for at in [BASE, THERE] {
            space.map(request(Place::Fixed(at), MANY * PAGE, BOTH)).await.unwrap();
            space.copy_out(at, &[7]).await.unwrap();
        }
        let grown = space.remap(BASE, MANY * PAGE, (MANY + 1) * PAGE, Move::To(THERE)).await;
        assert_eq!(grown, Err(SpaceError::NoMemory));
        for at in [BASE, THERE] {
            let mut byte = [0];
            space.copy_in(at, &mut byte).await.unwrap();
            assert_eq!(byte, [7]);
        }
    });
}

#[test]
fn a_mapping_that_cannot_be_made_replaces_nothing() {
    const MANY: u64 = 4096;
    block_on(async {
        let limits = Limits { mapped_bytes: MANY * PAGE, ..NO_LIMITS };
        let space = AddressSpace::new(&LocalFlush, limits, ActivityId(1)).unwrap();
        space.map(request(Place::Fixed(BASE), MANY * PAGE, BOTH)).await.unwrap();
        space.copy_out(BASE, &[7]).await.unwrap();
        let larger = space.map(request(Place::Fixed(BASE), (MANY + 1) * PAGE, BOTH)).await;
        assert_eq!(larger, Err(SpaceError::NoMemory));
        let mut byte = [0];
        space.copy_in(BASE, &mut byte).await.unwrap();
        assert_eq!(byte, [7]);
    });
}

/// Pages as those of a lot: nobody is charged for them, and they are one run again when nobody shows them any more.
#[test]
fn pages_of_a_lot_come_and_go_and_are_one_run_again() {
    const LOT: u64 = 2 << 20;
    let space = space();
    let lot = Page::zeroed_run(9).unwrap();
    let (at, whole) = (lot.pa(), lot.owner());
    let (owner, parts) = lot.split_uncharged().ok().unwrap();
    let parts: Vec<Page> = parts.collect();
    assert_eq!((parts.len(), parts[1].pa().0 - at.0, parts[1].owner()), (512, PAGE, None));
    let keep = Arc::new(());
    let memory = Arc::new(SharedMemory::of_comings(keep.clone()));
    memory.put(LOT, parts.iter().cloned());
    let options = Options::SHARED | Options::NOT_INHERITED;
    let provider = Provider::Memory(memory.clone());
    let wanted = MapRequest { options, provider, ..request(Place::Fixed(BASE), 2 * LOT, BOTH) };
    block_on(space.map(wanted)).unwrap();
    assert_eq!(block_on(space.fault(BASE, Access::Write)), Err(FaultError::BeyondEnd), "where no lot is");
    block_on(space.fault(BASE + LOT + PAGE, Access::Write)).unwrap();
    let again = block_on(space.remap(BASE + LOT + PAGE, 0, PAGE, Move::IfNeeded)).unwrap();
    block_on(space.fault(again, Access::Write)).unwrap();
    assert_eq!(parts[1].mappings(), 2);
    let clear = space.set_options(BASE, LOT, Options::empty(), Options::NOT_INHERITED);
    assert_eq!(clear, Err(SpaceError::Invalid), "a child would have it");
    let hint = space.hint(BASE, LOT, Options::empty(), Options::NOT_INHERITED);
    assert_eq!(hint, Err(SpaceError::Invalid), "a child would have it");
    let parts = Page::join(parts, owner).err().expect("a mapping shows it");
    block_on(memory.remove(LOT..2 * LOT));
    block_on(space.forget_shared(&memory, LOT..2 * LOT));
    assert_eq!(
        block_on(space.fault(again, Access::Read)),
        Err(FaultError::BeyondEnd),
        "what is gone does not come back"
    );
    let swapped = parts.iter().rev().cloned().collect();
    drop(Page::join(swapped, owner).err().expect("held twice, and in another order"));
    let lot = Page::join(parts, owner).ok().expect("nobody has them");
    assert_eq!((lot.len() as u64, lot.pa(), lot.owner()), (LOT, at, whole));
    assert_eq!(Arc::strong_count(&keep), 2);
    drop((memory, lot));
    block_on(space.unmap(BASE, 2 * LOT)).unwrap();
    block_on(space.unmap(again, PAGE)).unwrap();
    assert_eq!(Arc::strong_count(&keep), 1, "the last mapping is gone");
}
