//! Lent memory: the program gets a device's data after any change meanwhile, and nothing that is lent goes away.

use crate::{
    AddressSpace, FaultError, Lent, Limits, LocalFlush, MapRequest, Options, PageIndex, Place, Provider, Rights,
    UserFault,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_machine::Access;
use gyre_message::direct::block_on;
use std::vec;

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000_0000;
const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };
const BOTH: Rights = Rights::READ.union(Rights::WRITE);

async fn space(bytes: u64) -> Arc<AddressSpace> {
    let space = AddressSpace::new(&LocalFlush, NO_LIMITS, ActivityId(1)).unwrap();
    let request = MapRequest {
        place: Place::Fixed(BASE),
        bytes,
        rights: BOTH,
        rights_max: Rights::all(),
        options: Options::empty(),
        provider: Provider::Anonymous,
        first_index: PageIndex::FIRST,
    };
    space.map(request).await.unwrap();
    space
}

async fn lend(space: &AddressSpace, address: u64, bytes: usize, access: Access) -> Vec<Lent> {
    let mut lent = Vec::new();
    space.lend(address, bytes, access, &mut lent).await.unwrap();
    assert_eq!(lent.iter().map(|piece| piece.view.len()).sum::<usize>(), bytes);
    lent
}

/// The work of a device.
fn bring(lent: &[Lent], byte: u8) {
    for piece in lent {
        let (page, start) = piece.view.location();
        page.write(start, &vec![byte; piece.view.len()]);
    }
}

async fn seen(space: &AddressSpace, address: u64, bytes: usize) -> Vec<u8> {
    let mut seen = vec![0; bytes];
    space.copy_in(address, &mut seen).await.unwrap();
    seen
}

#[test]
fn what_is_brought_to_lent_memory_is_there_without_a_copy() {
    block_on(async {
        let space = space(4 * PAGE).await;
        let lent = lend(&space, BASE + 512, 3 * 4096, Access::Write).await;
        assert_eq!(lent.len(), 4, "the parts of four pages");
        bring(&lent, 7);
        assert_eq!(seen(&space, BASE + 512, 3 * 4096).await, vec![7; 3 * 4096]);
        assert_eq!(seen(&space, BASE, 512).await, vec![0; 512]);
        assert_eq!(space.land(&lent, 3 * 4096).await, Ok(3 * 4096));
        space.copy_out(BASE, &[1; 4096]).await.unwrap();
        assert_eq!(lend(&space, BASE, 4096, Access::Read).await[0].view.as_slice(), [1; 4096]);
    });
}

#[test]
fn a_page_that_took_its_place_after_a_fork_gets_what_was_brought() {
    block_on(async {
        let parent = space(2 * PAGE).await;
        parent.copy_out(BASE, &[1; 8192]).await.unwrap();
        let lent = lend(&parent, BASE, 8192, Access::Write).await;
        let child = parent.duplicate(ActivityId(1)).await.unwrap();
        // The buffer begins with a word of another program.
        parent.copy_out(BASE + 4000, &[2; 8]).await.unwrap();
        bring(&lent, 9);
        assert_eq!(seen(&parent, BASE, 1).await, [1], "the device writes to the other page");
        assert_eq!(parent.land(&lent, 8192).await, Ok(8192));
        assert_eq!(seen(&parent, BASE, 8192).await, vec![9; 8192]);
        drop(lent);
        child.copy_out(BASE, &[3; 8192]).await.unwrap();
        assert_eq!(seen(&parent, BASE, 8192).await, vec![9; 8192]);
        let lent = lend(&child, BASE, 4096, Access::Write).await;
        bring(&lent, 5);
        assert_eq!(seen(&parent, BASE, 1).await, [9], "copy-on-write is broken before");
    });
}

#[test]
fn what_is_lent_at_once_is_there_and_in_pages_of_its_own() {
    block_on(async {
        let parent = space(4 * PAGE).await;
        assert!(parent.lend_at_once(BASE, 4096, Access::Write).is_none(), "nothing is there yet");
        parent.copy_out(BASE, &[1; 8192]).await.unwrap();
        assert!(parent.lend_at_once(BASE + PAGE, 8192, Access::Write).is_none(), "a part of it is not there");
        let lent = parent.lend_at_once(BASE + 512, 4096, Access::Write).unwrap();
        assert_eq!(lent.views().iter().map(gyre_object::Bytes::len).collect::<Vec<_>>(), [3584, 512]);
        assert!(parent.has_landed(&lent));
        parent.unmap(BASE + 3 * PAGE, PAGE).await.unwrap();
        parent.copy_out(BASE + 2 * PAGE, &[1]).await.unwrap();
        parent.unmap(BASE + 2 * PAGE, PAGE).await.unwrap();
        assert!(parent.has_landed(&lent), "others went away");
        let child = parent.duplicate(ActivityId(1)).await.unwrap();
        assert!(parent.lend_at_once(BASE, 4096, Access::Write).is_none(), "shared since");
        parent.copy_out(BASE, &[2]).await.unwrap();
        assert!(!parent.has_landed(&lent), "another page is there");
        bring(&lent.pieces(), 6);
        assert_eq!(parent.land(&lent.pieces(), 4096).await, Ok(4096));
        assert_eq!(seen(&parent, BASE + 512, 4096).await, [6; 4096]);
        assert!(parent.lend_at_once(u64::MAX - 100, 4096, Access::Write).is_none());
        let large = space(4 << 20).await;
        large.copy_out(BASE, &vec![1; 4 << 20]).await.unwrap();
        assert!(large.huge_pages().0 > 0);
        assert!(large.lend_at_once(BASE + (2 << 20), 4096, Access::Write).is_none(), "a huge page is not held");
        drop((lent, child));
    });
}

#[test]
fn lent_memory_outlives_its_mapping_and_its_program() {
    block_on(async {
        let before = gyre_machine::live_frame_bytes();
        let space = space(2 * PAGE).await;
        let lent = lend(&space, BASE, 8192, Access::Write).await;
        space.unmap(BASE, PAGE).await.unwrap();
        bring(&lent, 4);
        assert_eq!(space.land(&lent, 8192).await, Ok(8192), "what was unmapped is nobody's loss");
        space.clear().await;
        drop(space);
        bring(&lent, 5);
        assert_eq!(lent[0].view.as_slice()[0], 5);
        drop(lent);
        assert_eq!(gyre_machine::live_frame_bytes(), before);
    });
}

#[test]
fn huge_pages_are_not_held() {
    block_on(async {
        let space = space(8 << 20).await;
        space.copy_out(BASE, &vec![1; 8 << 20]).await.unwrap();
        assert!(space.huge_pages().0 > 0);
        let (read, write) = (BASE + (3 << 20), BASE + (5 << 20));
        let source = lend(&space, read, 65_536, Access::Read).await;
        let lent = lend(&space, write, 65_536, Access::Write).await;
        space.unmap(write - PAGE, PAGE).await.unwrap();
        space.unmap(read - PAGE, PAGE).await.unwrap();
        assert!(source.iter().all(|piece| piece.view.as_slice().iter().all(|byte| *byte == 1)));
        bring(&lent, 8);
        assert_eq!(space.land(&lent, 1024).await, Ok(1024));
        let found = seen(&space, write, 2048).await;
        assert!(found[..1024].iter().all(|byte| *byte == 8) && found[1024..].iter().all(|byte| *byte == 1));
    });
}

#[test]
fn what_is_not_there_or_not_writable_is_not_lent() {
    block_on(async {
        let space = space(2 * PAGE).await;
        let mut lent = Vec::new();
        let fault = space.lend(BASE + PAGE, 8192, Access::Read, &mut lent).await;
        assert_eq!(fault, Err(UserFault { done: 4096, error: FaultError::NotMapped }));
        assert_eq!(lent.len(), 1);
        space.protect(BASE, PAGE, Rights::READ).await.unwrap();
        let fault = space.lend(BASE, 4096, Access::Write, &mut lent).await;
        assert_eq!(fault, Err(UserFault { done: 0, error: FaultError::Denied }));
        let fault = space.lend(u64::MAX - 100, 4096, Access::Read, &mut lent).await;
        assert!(fault.is_err());
    });
}
