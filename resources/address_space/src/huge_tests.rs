//! Huge pages do what single pages do.

use crate::huge::HUGE;
use crate::tests::alone;
use crate::{AddressSpace, FaultError, LocalFlush, MapRequest, Move, Options, Place, Provider, Rights};
use alloc::sync::Arc;
use gyre_message::direct::block_on;
use proptest::prelude::*;
use std::vec::Vec;

const PAGE: u64 = 4096;
const BASE: u64 = 0x20_0000_0000;
const BYTES: u64 = 4 * HUGE;
const BOTH: Rights = Rights::READ.union(Rights::WRITE);
const NO_LIMITS: crate::Limits = crate::Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20 };

fn space(options: Options) -> Arc<AddressSpace> {
    let space = AddressSpace::new(&LocalFlush, NO_LIMITS).unwrap();
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
        first_index: 0,
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
    let _alone = alone();
    let space = space(Options::empty());
    write(&space, BASE + HUGE + 5, 1).unwrap();
    assert_eq!((space.huge_pages(), space.resident_bytes()), ((1, 1, 0), HUGE));
    write(&space, BASE + HUGE + 9 * PAGE, 2).unwrap();
    assert_eq!(space.resident_bytes(), HUGE);
    assert_eq!(space.residency(BASE, 2 * HUGE).unwrap().iter().map(|bit| u64::from(*bit)).sum::<u64>(), HUGE / PAGE);
}

#[test]
fn a_small_region_and_one_that_refuses_have_single_pages() {
    let _alone = alone();
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
    let _alone = alone();
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
    let _alone = alone();
    let space = space(Options::empty());
    write(&space, BASE, 3).unwrap();
    block_on(space.discard(BASE, HUGE)).unwrap();
    assert_eq!((space.huge_pages(), space.resident_bytes()), ((0, 1, 0), 0));
    assert_eq!(read(&space, BASE), Ok(0));
}

#[test]
fn views_of_a_huge_page_keep_what_they_saw() {
    let _alone = alone();
    let space = space(Options::empty());
    write(&space, BASE + PAGE, 1).unwrap();
    let views = block_on(space.pin(BASE + PAGE - 1, 3 * PAGE as usize)).unwrap();
    write(&space, BASE + PAGE, 2).unwrap();
    block_on(space.unmap(BASE + PAGE, PAGE)).unwrap();
    let bytes: Vec<u8> = views.iter().flat_map(|view| view.as_slice().to_vec()).collect();
    assert_eq!((bytes.len() as u64, bytes[1]), (3 * PAGE, 1));
    assert_eq!(space.huge_pages().2, 1, "views do not keep it from being split");
}

/// What a program may do; places and lengths in units of 256 pages.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64, u8),
    Unmap(u64, u64),
    Map(u64, u64),
    Protect(u64, u64, bool),
    Discard(u64, u64),
    Move(u64, u64, u64),
    Fork,
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
        (place.clone(), count, place).prop_map(|(at, count, to)| Step::Move(at, count, to)),
        Just(Step::Fork),
    ];
    proptest::collection::vec(step, 1..24)
}

/// A step in one space: what the program sees of it.
fn act(space: &mut Arc<AddressSpace>, step: Step, options: Options) -> bool {
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
        Step::Fork => {
            // The child goes on; the parent ends.
            *space = block_on(space.duplicate()).unwrap();
            true
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_program_sees_no_difference_between_huge_and_single_pages(steps in steps()) {
        let _alone = alone();
        let (mut huge, mut single) = (space(Options::empty()), space(Options::NO_HUGE));
        for step in steps {
            prop_assert_eq!(act(&mut huge, step, Options::empty()), act(&mut single, step, Options::NO_HUGE), "{:?}", step);
            for place in 0..12 {
                let at = BASE + place * UNIT + 7;
                prop_assert_eq!(read(&huge, at), read(&single, at), "{:?} {}", step, place);
            }
        }
    }
}
