//! Memory that leaves: programs find all bytes elsewhere, and what a device has stays until it is let go.

use crate::{AddressSpace, Lent, Limits, LocalFlush, MapRequest, Options, PageIndex, Place, Provider, Rights};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_machine::{Access, Pa};
use gyre_message::direct::block_on;
use std::vec;

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000_0000;
const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

async fn space(bytes: u64) -> Arc<AddressSpace> {
    let space = AddressSpace::new(&LocalFlush, NO_LIMITS, ActivityId(1)).unwrap();
    let request = MapRequest {
        place: Place::Fixed(BASE),
        bytes,
        rights: Rights::READ.union(Rights::WRITE),
        rights_max: Rights::all(),
        options: Options::empty(),
        provider: Provider::Anonymous,
        first_index: PageIndex::FIRST,
    };
    space.map(request).await.unwrap();
    space
}

/// The places of all single pages.
fn places(space: &AddressSpace) -> BTreeSet<u64> {
    let state = space.state.lock();
    state.pages.singles(0, u64::MAX / 2).map(|(_, page)| page.pa().0).collect()
}

async fn seen(space: &AddressSpace, bytes: usize) -> Vec<u8> {
    let mut seen = vec![0; bytes];
    space.copy_in(BASE, &mut seen).await.unwrap();
    seen
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 4096 + at % 251) as u8).collect()
}

#[test]
fn pages_of_a_program_and_of_its_child_are_elsewhere_afterwards_with_all_bytes() {
    block_on(async {
        let parent = space(200 * PAGE).await;
        parent.copy_out(BASE, &pattern(200 * 4096)).await.unwrap();
        let child = parent.duplicate(ActivityId(1)).await.unwrap();
        child.copy_out(BASE, &[9; 4096]).await.unwrap();
        // The host's allocator gives freed pages again, which the kernel's does not while they leave: each space is held to its own places.
        for space in [&parent, &child] {
            let before = places(space);
            assert_eq!(space.vacate(&|pa: Pa| before.contains(&pa.0)).await, 0);
            assert!(places(space).is_disjoint(&before));
        }
        assert_eq!(seen(&parent, 200 * 4096).await, pattern(200 * 4096));
        parent.copy_out(BASE + PAGE, &[7; 10]).await.unwrap();
        let of_child = seen(&child, 200 * 4096).await;
        assert_eq!((&of_child[..4096], &of_child[4096..]), (&[9; 4096][..], &pattern(200 * 4096)[4096..]));
    });
}

#[test]
fn a_huge_page_that_leaves_is_single_pages_first() {
    block_on(async {
        let space = space(4 << 20).await;
        space.copy_out(BASE, &pattern(4 << 20)).await.unwrap();
        assert!(space.huge_pages().0 > 0);
        assert_eq!(space.vacate(&|_| true).await, 0);
        assert_eq!(space.huge_pages().0, 0);
        assert_eq!(seen(&space, 4 << 20).await, pattern(4 << 20));
    });
}

#[test]
fn a_page_that_a_device_has_stays_until_it_is_let_go() {
    block_on(async {
        let space = space(2 * PAGE).await;
        space.copy_out(BASE, &pattern(8192)).await.unwrap();
        let mut lent: Vec<Lent> = Vec::new();
        space.lend(BASE, 4096, Access::Write, &mut lent).await.unwrap();
        let before = places(&space);
        let is_leaving = |pa: Pa| before.contains(&pa.0);
        assert_eq!(space.vacate(&is_leaving).await, 1);
        assert_eq!(places(&space).intersection(&before).count(), 1);
        lent.clear();
        assert_eq!(space.vacate(&is_leaving).await, 0);
        assert_eq!(seen(&space, 8192).await, pattern(8192));
    });
}
