//! Copies in pieces: large spaces, many mappings, changes beside a copy, copies that are given up.

use crate::duplicate::Copying;
use crate::{AddressSpace, Limits, LocalFlush, MapRequest, Options, PageIndex, Place, Provider, Rights};
use alloc::sync::Arc;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use gyre_account::ActivityId;
use gyre_machine::{Access, live_frame_bytes};
use gyre_message::direct::block_on;
use std::vec::Vec;

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000_0000;
const BOTH: Rights = Rights::READ.union(Rights::WRITE);

fn space() -> Arc<AddressSpace> {
    let limits = Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };
    AddressSpace::new(&LocalFlush, limits, ActivityId(1)).unwrap()
}

async fn map(space: &AddressSpace, start: u64, pages: u64, rights: Rights) {
    let request = MapRequest {
        place: Place::Fixed(start),
        bytes: pages * PAGE,
        rights,
        rights_max: Rights::all(),
        options: Options::empty(),
        provider: Provider::Anonymous,
        first_index: PageIndex::FIRST,
    };
    space.map(request).await.unwrap();
}

fn borders(space: &AddressSpace) -> Vec<(u64, u64, Rights)> {
    space.regions().into_iter().map(|(start, region)| (start, region.end, region.rights)).collect()
}

#[test]
fn a_copy_in_pieces_has_everything_and_gives_it_back() {
    let before = live_frame_bytes();
    block_on(async {
        let parent = space();
        map(&parent, BASE, 5000, BOTH).await;
        for page in (0..5000).step_by(3) {
            parent.copy_out(BASE + page * PAGE, &page.to_le_bytes()).await.unwrap();
        }
        // No two of these are one mapping.
        for number in 0..1000 {
            let rights = if number % 2 == 0 { BOTH } else { Rights::READ };
            map(&parent, BASE + (6000 + number) * PAGE, 1, rights).await;
        }
        let child = parent.duplicate(ActivityId(1)).await.unwrap();
        assert_eq!(borders(&child), borders(&parent));
        parent.copy_out(BASE + 4998 * PAGE, &[9; 8]).await.unwrap();
        for page in 0..5000_u64 {
            let mut seen = [0; 8];
            child.copy_in(BASE + page * PAGE, &mut seen).await.unwrap();
            assert_eq!(u64::from_le_bytes(seen), if page % 3 == 0 { page } else { 0 }, "page {page}");
        }
        child.clear().await;
        parent.clear().await;
    });
    assert_eq!(live_frame_bytes(), before);
}

#[test]
fn mappings_change_when_the_copy_is_over() {
    block_on(async {
        let space = space();
        map(&space, BASE, 4, BOTH).await;
        let copying = Copying::begin(&space).await;
        let mut change = pin!(space.unmap(BASE, PAGE));
        let mut context = Context::from_waker(Waker::noop());
        assert!(change.as_mut().poll(&mut context).is_pending());
        // Pages come meanwhile.
        space.fault(BASE, Access::Write).await.unwrap();
        assert!(space.is_mapped(BASE, PAGE));
        drop(copying);
        assert_eq!(change.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        assert!(!space.is_mapped(BASE, PAGE));
    });
}
