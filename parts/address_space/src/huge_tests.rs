//! Huge pages do what single pages do.
//!
//! Each test maps a range of four huge pages in a space of the host's, reads and writes bytes of it, and looks at the counts of huge
//! pages that it has, made and split. No disk and no other core takes part.
//!
//! The tests hold that large regions come in pieces of 2 MiB and small or unwilling ones do not, that parts may be unmapped, that views
//! keep what they saw, that a fork shares huge pages whole and a write copies one page, and that single pages become a huge one only if
//! nobody else holds them. Two properties with random steps of a family of processes say that a program sees no difference, and that the
//! parts of all members are all that the family holds.
//!
//! Time that huge pages save is left out, and so are flushes of other cores.

use crate::huge::HUGE;
use crate::{
    AddressSpace, FRACTION_BITS, FaultError, LocalFlush, MapRequest, Move, Options, PageIndex, Place, Provider,
    Refusal, Rights, Usage, Wish,
};
use alloc::sync::Arc;
use gyre_account::ActivityId;
use gyre_message::direct::block_on;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

const PAGE: u64 = 4096;
const BASE: u64 = 0x20_0000_0000;
const BYTES: u64 = 4 * HUGE;
const BOTH: Rights = Rights::READ.union(Rights::WRITE);
const NO_LIMITS: crate::Limits =
    crate::Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

fn space(options: Options) -> Arc<AddressSpace> {
    let space = AddressSpace::new(&LocalFlush, NO_LIMITS, ActivityId(1)).unwrap();
    map(&space, BASE, BYTES, options);
    space
}

fn map(space: &AddressSpace, at: u64, bytes: u64, options: Options) {
    let request = MapRequest {
        place: Place::Fixed(at),
        bytes,
        rights: BOTH,
        rights_max: Rights::all(),
        options,
        provider: Provider::Anonymous,
        first_index: PageIndex::FIRST,
    };
    assert_eq!(block_on(space.map(request)), Ok(at));
}

fn read(space: &AddressSpace, at: u64) -> Result<u8, FaultError> {
    let mut byte = [0];
    block_on(space.copy_in(at, &mut byte)).map(|()| byte[0]).map_err(|fault| fault.error)
}

fn write(space: &AddressSpace, at: u64, byte: u8) -> Result<(), FaultError> {
    block_on(space.copy_out(at, &[byte])).map_err(|fault| fault.error)
}

#[test]
fn a_large_region_is_had_in_pieces_of_2_mib() {
    let space = space(Options::empty());
    write(&space, BASE + HUGE + 5, 1).unwrap();
    assert_eq!((space.huge_pages(), space.resident_bytes()), ((1, 1, 0), HUGE));
    write(&space, BASE + HUGE + 9 * PAGE, 2).unwrap();
    assert_eq!(space.resident_bytes(), HUGE);
    assert_eq!(
        space.residency(BASE, 2 * HUGE).unwrap().pages.iter().map(|bit| u64::from(*bit)).sum::<u64>(),
        HUGE / PAGE
    );
}

#[test]
fn a_small_region_and_one_that_refuses_have_single_pages() {
    let space = space(Options::NO_HUGE);
    map(&space, BASE + 8 * HUGE, HUGE, Options::empty());
    write(&space, BASE + 5, 1).unwrap();
    write(&space, BASE + 8 * HUGE, 1).unwrap();
    assert_eq!((space.huge_pages(), space.resident_bytes()), ((0, 0, 0), 2 * PAGE));
    map(&space, BASE + 16 * HUGE, HUGE, Options::HUGE);
    write(&space, BASE + 16 * HUGE, 1).unwrap();
    assert_eq!(space.huge_pages().0, 1);
}

#[test]
fn a_part_that_is_unmapped_is_gone_and_the_rest_stays() {
    let space = space(Options::empty());
    write(&space, BASE + 3 * PAGE, 3).unwrap();
    write(&space, BASE + 4 * PAGE, 4).unwrap();
    block_on(space.unmap(BASE + 3 * PAGE, PAGE)).unwrap();
    assert_eq!(read(&space, BASE + 3 * PAGE), Err(FaultError::NotMapped));
    assert_eq!(read(&space, BASE + 4 * PAGE), Ok(4));
    assert_eq!((space.huge_pages(), space.resident_bytes()), ((0, 1, 1), HUGE - PAGE));
}

#[test]
fn a_whole_one_goes_at_once() {
    let space = space(Options::empty());
    write(&space, BASE, 3).unwrap();
    block_on(space.discard(BASE, HUGE)).unwrap();
    assert_eq!((space.huge_pages(), space.resident_bytes()), ((0, 1, 0), 0));
    assert_eq!(read(&space, BASE), Ok(0));
}

#[test]
fn views_of_a_huge_page_keep_what_they_saw() {
    let space = space(Options::empty());
    write(&space, BASE + PAGE, 1).unwrap();
    let views = block_on(space.pin(BASE + PAGE - 1, 3 * PAGE as usize)).unwrap();
    write(&space, BASE + PAGE, 2).unwrap();
    block_on(space.unmap(BASE + PAGE, PAGE)).unwrap();
    let bytes: Vec<u8> = views.iter().flat_map(|view| view.as_slice().to_vec()).collect();
    assert_eq!((bytes.len() as u64, bytes[1]), (3 * PAGE, 1));
    assert_eq!(space.huge_pages().2, 1, "views do not keep it from being split");
}

fn fill(space: &AddressSpace, at: u64, byte: u8) {
    (at..at + HUGE).step_by(PAGE as usize).for_each(|place| write(space, place, byte).unwrap());
}

fn is_filled(space: &AddressSpace, at: u64, byte: u8) -> bool {
    (at..at + HUGE).step_by(PAGE as usize).all(|place| read(space, place) == Ok(byte))
}

#[test]
fn a_fork_shares_them_whole_and_a_write_copies_one_page() {
    let parent = space(Options::empty());
    fill(&parent, BASE, 1);
    fill(&parent, BASE + HUGE, 2);
    let child = block_on(parent.duplicate(ActivityId(1))).unwrap();
    assert_eq!((parent.huge_pages(), child.huge_pages().0), ((2, 2, 0), 2));
    write(&child, BASE + 5 * PAGE, 7).unwrap();
    assert_eq!((read(&parent, BASE + 5 * PAGE), read(&child, BASE + 5 * PAGE)), (Ok(1), Ok(7)));
    assert_eq!((child.huge_pages().0, parent.huge_pages().0), (1, 2));
    assert_eq!(child.counters.copies.load(core::sync::atomic::Ordering::Relaxed), 1);
    write(&parent, BASE + 6 * PAGE, 8).unwrap();
    assert_eq!((read(&parent, BASE + 6 * PAGE), read(&child, BASE + 6 * PAGE)), (Ok(8), Ok(1)));
    block_on(child.clear());
    drop(child);
    write(&parent, BASE + HUGE, 3).unwrap();
    assert_eq!(parent.huge_pages(), (1, 2, 1), "what nobody shares any more is written where it is");
    assert_eq!((read(&parent, BASE + HUGE), read(&parent, BASE + HUGE + PAGE)), (Ok(3), Ok(2)));
}

#[test]
fn the_last_page_of_2_mib_makes_them_one() {
    let space = space(Options::empty());
    write(&space, BASE, 1).unwrap();
    block_on(space.unmap(BASE + HUGE - PAGE, PAGE)).unwrap();
    map(&space, BASE + HUGE - PAGE, PAGE, Options::empty());
    assert_eq!(space.huge_pages(), (0, 1, 1));
    write(&space, BASE + HUGE - PAGE, 9).unwrap();
    assert_eq!((space.huge_pages(), space.resident_bytes()), ((1, 2, 1), HUGE));
    assert_eq!(
        (read(&space, BASE), read(&space, BASE + HUGE - PAGE), read(&space, BASE + PAGE)),
        (Ok(1), Ok(9), Ok(0))
    );
    write(&space, BASE + PAGE, 4).unwrap();
    assert_eq!(read(&space, BASE + PAGE), Ok(4));
}

#[test]
fn copies_of_all_pages_become_one_with_the_last() {
    let parent = space(Options::empty());
    fill(&parent, BASE, 1);
    let child = block_on(parent.duplicate(ActivityId(1))).unwrap();
    fill(&child, BASE, 2);
    assert_eq!(child.huge_pages(), (1, 1, 1));
    assert!(is_filled(&child, BASE, 2) && is_filled(&parent, BASE, 1));
}

#[test]
fn what_others_hold_stays_in_single_pages() {
    let parent = space(Options::NO_HUGE);
    fill(&parent, BASE, 1);
    parent.set_options(BASE, BYTES, Options::empty(), Options::NO_HUGE).unwrap();
    let child = block_on(parent.duplicate(ActivityId(1))).unwrap();
    block_on(parent.gather_range(BASE, BYTES, Wish::None)).unwrap();
    assert_eq!(parent.huge_pages().0, 0);
    block_on(child.clear());
    drop(child);
    block_on(parent.gather_range(BASE, BYTES, Wish::None)).unwrap();
    assert_eq!((parent.huge_pages().0, parent.resident_bytes()), (1, HUGE));
    assert!(is_filled(&parent, BASE, 1));
}

#[test]
fn a_program_that_asks_gets_them_where_something_is() {
    let space = space(Options::NO_HUGE);
    write(&space, BASE + HUGE + PAGE, 1).unwrap();
    let now = |space: &AddressSpace, at, bytes| block_on(space.gather_range(at, bytes, Wish::Now));
    assert_eq!(now(&space, BASE, BYTES), Err(Refusal::Unfit));
    space.set_options(BASE, BYTES, Options::empty(), Options::NO_HUGE).unwrap();
    assert_eq!(now(&space, BASE, BYTES), Err(Refusal::Unfit), "nothing is in three of them");
    assert_eq!((space.huge_pages().0, space.resident_bytes()), (1, HUGE));
    assert_eq!((now(&space, BASE + HUGE, HUGE), now(&space, BASE, 100 * BYTES)), (Ok(()), Err(Refusal::NotMapped)));
    assert_eq!((read(&space, BASE + HUGE), read(&space, BASE + HUGE + PAGE)), (Ok(0), Ok(1)));
}

#[test]
fn pages_that_were_shown_in_between_stay_single_pages() {
    let space = space(Options::NO_HUGE);
    fill(&space, BASE, 1);
    space.set_options(BASE, BYTES, Options::empty(), Options::NO_HUGE).unwrap();
    {
        let (_guard, hidden) = space.hide(BASE).unwrap();
        block_on(space.flush_and_free(hidden));
        assert_eq!(block_on(space.gather(BASE, Wish::None)), Err(Refusal::Busy), "one at a time");
        write(&space, BASE + PAGE, 2).unwrap();
        space.state.lock().table.unmap(gyre_machine::Va(BASE + PAGE));
        let refused = space.state.lock().replace(BASE, crate::huge::new_huge().unwrap(), Wish::None).err();
        assert_eq!(refused, Some(Refusal::Busy), "somebody may still write the old page");
    }
    assert_eq!(block_on(space.gather(BASE, Wish::None)), Ok(()));
    assert_eq!((read(&space, BASE), read(&space, BASE + PAGE), space.huge_pages().0), (Ok(1), Ok(2), 1));
}

/// Returns the frames that a program sees, each by a page of it.
fn held(space: &AddressSpace) -> Vec<u64> {
    let state = space.state.lock();
    let present = (BASE..BASE + 16 * HUGE).step_by(PAGE as usize).filter(|at| state.pages.contains(*at));
    present.filter_map(|at| state.pages.with(at, |page, offset| page.pa().0 + offset as u64 & !(PAGE - 1))).collect()
}

/// The acts of a program; places and lengths in units of 256 pages.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64, u8),
    Unmap(u64, u64),
    Map(u64, u64),
    Protect(u64, u64, bool),
    Discard(u64, u64),
    Move(u64, u64, u64),
    Gather(u64, u64, bool),
    /// The child goes on.
    Fork,
    /// A process that waits goes on; the other waits.
    Switch(usize),
    /// A process that waits ends.
    End(usize),
}

const UNIT: u64 = HUGE / 2;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (place, count) = (0..8u64, 1..4u64);
    let step = prop_oneof![
        (place.clone(), any::<u8>()).prop_map(|(at, byte)| Step::Write(at, byte)),
        (place.clone(), any::<u8>()).prop_map(|(at, byte)| Step::Write(at, byte)),
        (place.clone(), count.clone()).prop_map(|(at, count)| Step::Unmap(at, count)),
        (place.clone(), count.clone()).prop_map(|(at, count)| Step::Map(at, count)),
        (place.clone(), count.clone(), any::<bool>())
            .prop_map(|(at, count, writable)| Step::Protect(at, count, writable)),
        (place.clone(), count.clone()).prop_map(|(at, count)| Step::Discard(at, count)),
        (place.clone(), count.clone(), place.clone()).prop_map(|(at, count, to)| Step::Move(at, count, to)),
        (place, count, any::<bool>()).prop_map(|(at, count, now)| Step::Gather(at, count, now)),
        Just(Step::Fork),
        any::<usize>().prop_map(Step::Switch),
        any::<usize>().prop_map(Step::End),
    ];
    proptest::collection::vec(step, 1..24)
}

/// Processes of one program; the first one runs.
type Family = Vec<Arc<AddressSpace>>;

/// Returns a step of one family: what the program sees of it.
fn act(family: &mut Family, step: Step, options: Options) -> bool {
    let waiting = family.len() - 1;
    let space = &family[0];
    let at = |place: u64| BASE + place * UNIT;
    match step {
        Step::Write(place, byte) => write(space, at(place) + 7, byte).is_ok(),
        Step::Unmap(place, count) => block_on(space.unmap(at(place), count * UNIT)).is_ok(),
        Step::Map(place, count) => {
            map(space, at(place), count * UNIT, options);
            true
        }
        Step::Protect(place, count, writable) => {
            block_on(space.protect(at(place), count * UNIT, if writable { BOTH } else { Rights::READ })).is_ok()
        }
        Step::Discard(place, count) => block_on(space.discard(at(place), count * UNIT)).is_ok(),
        Step::Move(place, count, to) => {
            block_on(space.remap(at(place), count * UNIT, count * UNIT, Move::To(at(to)))).is_ok()
        }
        Step::Gather(place, count, now) => {
            // It may be refused, without an effect.
            let _ = block_on(space.gather_range(at(place), count * UNIT, if now { Wish::Now } else { Wish::None }));
            true
        }
        Step::Fork => {
            let child = block_on(space.duplicate(ActivityId(1))).unwrap();
            family.insert(0, child);
            true
        }
        Step::Switch(number) if waiting > 0 => {
            family.swap(0, 1 + number % waiting);
            true
        }
        Step::End(number) if waiting > 0 => {
            block_on(family.remove(1 + number % waiting).clear());
            true
        }
        Step::Switch(_) | Step::End(_) => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_program_sees_no_difference_between_huge_and_single_pages(steps in steps()) {
        let (mut huge, mut single) = (vec![space(Options::empty())], vec![space(Options::NO_HUGE)]);
        for step in steps {
            prop_assert_eq!(act(&mut huge, step, Options::empty()), act(&mut single, step, Options::NO_HUGE), "{:?}", step);
            for (huge, single) in huge.iter().zip(&single) {
                for place in 0..12 {
                    let at = BASE + place * UNIT + 7;
                    prop_assert_eq!(read(huge, at), read(single, at), "{:?} {}", step, place);
                }
            }
        }
    }

    #[test]
    fn the_parts_of_a_family_are_all_that_it_holds(steps in steps()) {
        let (mut huge, mut single) = (vec![space(Options::empty())], vec![space(Options::NO_HUGE)]);
        for step in steps {
            act(&mut huge, step, Options::empty());
            act(&mut single, step, Options::NO_HUGE);
            for family in [&huge, &single] {
                let pages: BTreeSet<u64> = family.iter().flat_map(|space| held(space)).collect();
                let whole = pages.len() as u64 * PAGE;
                let usages: Vec<Usage> = family.iter().map(|space| block_on(space.usage())).collect();
                let parts: u64 = usages.iter().map(Usage::part).sum();
                let whole_fraction = whole << FRACTION_BITS;
                // Each page loses less than one unit for each of its holders.
                let lost = pages.len() as u64 * family.len() as u64;
                prop_assert!(parts <= whole_fraction && whole_fraction - parts <= lost, "{:?}: {} of {}", step, parts, whole_fraction);
                for (usage, space) in usages.iter().zip(family) {
                    prop_assert_eq!(usage.anonymous.resident, space.resident_bytes());
                    prop_assert_eq!(usage.huge, space.huge_pages().0 * HUGE);
                }
            }
        }
    }
}
