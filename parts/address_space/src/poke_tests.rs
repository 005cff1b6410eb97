//! Writes of a debugger: into pages that a program may not write, its own copies alone, and never into what others share.

use crate::{
    AddressSpace, FaultError, Limits, LocalFlush, MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory,
};
use alloc::sync::Arc;
use gyre_account::ActivityId;
use gyre_machine::{Access, live_frame_bytes};
use gyre_message::direct::block_on;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
const BASE: u64 = 0x10_0000_0000;
const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

fn space_with(bytes: u64, rights: Rights, options: Options, provider: Provider) -> Arc<AddressSpace> {
    let space = AddressSpace::new(&LocalFlush, NO_LIMITS, ActivityId(1)).unwrap();
    let request = MapRequest {
        place: Place::FixedNew(BASE),
        bytes,
        rights,
        rights_max: Rights::all(),
        options,
        provider,
        first_index: PageIndex::FIRST,
    };
    block_on(space.map(request)).unwrap();
    space
}

fn byte_at(space: &AddressSpace, address: u64) -> u8 {
    let mut byte = [0];
    block_on(space.copy_in(address, &mut byte)).unwrap();
    byte[0]
}

#[test]
fn a_page_that_may_only_be_read_is_written_and_stays_so() {
    let before = live_frame_bytes();
    {
        let space = space_with(2 * PAGE, Rights::READ | Rights::EXECUTE, Options::empty(), Provider::Anonymous);
        block_on(space.poke(BASE + PAGE - 2, &[1, 2, 3, 4])).unwrap();
        let bytes = [0, 1, 2, 3].map(|at| byte_at(&space, BASE + PAGE - 2 + at));
        assert_eq!(bytes, [1, 2, 3, 4], "over the end of a page");
        assert_eq!(block_on(space.fault(BASE, Access::Write)), Err(FaultError::Denied), "the program may not");
    }
    assert_eq!(live_frame_bytes(), before);
}

#[test]
fn another_program_with_the_same_page_sees_nothing_of_it() {
    let space = space_with(PAGE, Rights::READ | Rights::WRITE, Options::empty(), Provider::Anonymous);
    block_on(space.copy_out(BASE, &[7])).unwrap();
    block_on(space.protect(BASE, PAGE, Rights::READ)).unwrap();
    let child = block_on(space.duplicate(ActivityId(2))).unwrap();
    block_on(child.poke(BASE, &[9])).unwrap();
    assert_eq!((byte_at(&space, BASE), byte_at(&child, BASE)), (7, 9));
    block_on(space.poke(BASE, &[8])).unwrap();
    assert_eq!((byte_at(&space, BASE), byte_at(&child, BASE)), (8, 9));
}

#[test]
fn a_part_of_a_huge_page_is_written() {
    let space = space_with(2 * HUGE, Rights::READ | Rights::WRITE, Options::HUGE, Provider::Anonymous);
    let huge = BASE.next_multiple_of(HUGE);
    block_on(space.copy_out(huge, &[5; 2 * PAGE as usize])).unwrap();
    block_on(space.protect(BASE, 2 * HUGE, Rights::READ)).unwrap();
    block_on(space.poke(huge + PAGE, &[6])).unwrap();
    assert_eq!([0, PAGE, PAGE + 1].map(|at| byte_at(&space, huge + at)), [5, 6, 5]);
}

#[test]
fn shared_memory_and_holes_are_not_written() {
    let memory = Provider::Memory(Arc::new(SharedMemory::default()));
    let space = space_with(PAGE, Rights::READ, Options::SHARED, memory);
    let refused = |address| block_on(space.poke(address, &[1])).unwrap_err().error;
    assert_eq!((refused(BASE), byte_at(&space, BASE)), (FaultError::Denied, 0));
    assert_eq!([refused(BASE + PAGE), refused(8), refused(u64::MAX)], [FaultError::NotMapped; 3]);
    let closed = space_with(PAGE, Rights::empty(), Options::empty(), Provider::Anonymous);
    assert_eq!(block_on(closed.poke(BASE, &[1])).unwrap_err().error, FaultError::Denied);
}
