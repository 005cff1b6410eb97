//! A unit's words about itself.

use super::{Rig, SECTORS, fixed, page, rig};
use crate::start::parse_capacity;
use alloc::vec;
use alloc::vec::Vec;
use gyre_interface::block::BlockError;
use gyre_message::direct::block_on;
use proptest::prelude::*;

const INQUIRY: u8 = 0x12;
const READY: u8 = 0x00;
const MODE: u8 = 0x1a;
const CAPACITY: u8 = 0x9e;

/// A rig whose unit says this of its capacity.
fn with_capacity(raw: Vec<u8>) -> Rig {
    rig(move |command, _, reply| {
        if command.block[0] == CAPACITY {
            reply.residual_bytes = command.data_bytes() - raw.len();
            reply.said = raw.clone();
        }
    })
}

fn capacity(last: u64, block_bytes: u32) -> Vec<u8> {
    [&last.to_be_bytes()[..], &block_bytes.to_be_bytes(), &[0; 20]].concat()
}

#[test]
fn sizes_that_make_no_sense_are_errors() {
    let refused = [
        (capacity(u64::MAX, 512), BlockError::Io),
        (capacity(u64::MAX - 1, 512), BlockError::Io),
        (capacity(99, 4096), BlockError::Unsupported),
        (capacity(99, 0), BlockError::Unsupported),
        (capacity(99, 512)[..11].to_vec(), BlockError::Io),
        (vec![], BlockError::Io),
    ];
    for (raw, error) in refused {
        let rig = with_capacity(raw.clone());
        block_on(async {
            assert_eq!(rig.client.geometry().await.err(), Some(error), "{raw:x?}");
            assert_eq!(rig.client.read(0, page(0)).await.err(), Some(error));
        });
    }
    let rig = with_capacity(capacity(0, 512));
    block_on(async {
        assert_eq!(rig.client.geometry().await.unwrap().sectors, 1, "the smallest there is");
        assert_eq!(rig.client.read(0, page(0)).await.err(), Some(BlockError::OutOfRange));
    });
}

#[test]
fn what_is_no_disk_or_never_ready_is_refused() {
    let no_disk = rig(|command, _, reply| {
        if command.block[0] == INQUIRY {
            reply.said[0] = 5;
        }
    });
    block_on(async { assert_eq!(no_disk.client.geometry().await.err(), Some(BlockError::Unsupported)) });
    let never = rig(|command, _, reply| {
        if command.block[0] == READY {
            (reply.status, reply.sense) = (2, fixed(2, 4, 1));
        }
    });
    block_on(async { assert_eq!(never.client.geometry().await.err(), Some(BlockError::Io)) });
    assert_eq!(never.asked.lock().len(), 51, "so often it is asked, and no more");
}

#[test]
fn a_disk_that_becomes_ready_or_has_no_mode_pages_is_used() {
    let rig = rig(|command, count, reply| match command.block[0] {
        READY if count < 20 => (reply.status, reply.sense) = (2, fixed(2, 4, 1)),
        MODE => (reply.status, reply.sense) = (2, fixed(5, 0x20, 0)),
        _ => {}
    });
    block_on(async {
        assert_eq!(rig.client.geometry().await.map(|found| (found.sectors, found.read_only)), Ok((SECTORS, false)));
    });
}

#[test]
fn a_write_protected_disk_refuses_writes() {
    let rig = rig(|command, _, reply| {
        if command.block[0] == MODE {
            reply.said[2] = 0x80;
        }
    });
    block_on(async {
        assert!(rig.client.geometry().await.unwrap().read_only);
        assert_eq!(rig.client.write(0, page(1)).await, Err(BlockError::Unsupported));
        assert_eq!(rig.client.flush().await, Ok(()));
        assert!(!rig.asked.lock().iter().any(|code| matches!(code, 0x2a | 0x35)), "it is not even asked");
    });
}

proptest! {
    /// Whatever a unit says of its capacity, all of its bytes have places.
    #[test]
    fn any_capacity_is_judged(raw in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Some((blocks, block_bytes)) = parse_capacity(&raw) {
            prop_assert!(raw.len() >= 12 && blocks > 0);
            prop_assert!(blocks.checked_mul(u64::from(block_bytes)).is_some());
        }
    }
}
