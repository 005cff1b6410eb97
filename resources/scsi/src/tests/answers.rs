//! Answers of all kinds, wrong ones too.

use super::{fixed, page, rig};
use crate::sense;
use crate::verdict::{Verdict, judge};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_interface::block::BlockError;
use gyre_interface::scsi::{Answer, HostError, Status};
use gyre_message::direct::block_on;
use proptest::prelude::*;

const READ: u8 = 0x28;
const WRITE: u8 = 0x2a;
const SYNCHRONIZE: u8 = 0x35;

/// The end of a read of which the host says this.
fn read_with(change: impl Fn(&mut super::Reply) + Send + Sync + 'static) -> (Option<BlockError>, usize) {
    let rig = rig(move |command, _, reply| {
        if command.block[0] == READ {
            change(reply);
        }
    });
    let error = block_on(async { rig.client.read(0, page(0)).await.err() });
    let sent = rig.asked.lock().iter().filter(|code| **code == READ).count();
    (error, sent)
}

#[test]
fn wrong_answers_are_errors_at_once() {
    let io = (Some(BlockError::Io), 1);
    assert_eq!(read_with(|reply| reply.residual_bytes = usize::MAX), io, "more residual than data");
    assert_eq!(read_with(|reply| reply.residual_bytes = 1), io, "a short transfer");
    assert_eq!(read_with(|reply| (reply.status, reply.sense) = (2, vec![0xff; 96])), io, "nonsense");
    assert_eq!(read_with(|reply| reply.status = 2), io, "no sense data");
    assert_eq!(read_with(|reply| reply.status = 0x77), io, "a status of which nobody knows");
    assert_eq!(read_with(|reply| (reply.status, reply.sense) = (2, fixed(3, 0x11, 0))), io, "medium error");
    assert_eq!(read_with(|reply| reply.error = Some(HostError::Failed)), io);
    let descriptors = |reply: &mut super::Reply| (reply.status, reply.sense) = (2, vec![0x72, 5, 0x21, 0]);
    assert_eq!(read_with(descriptors), (Some(BlockError::OutOfRange), 1));
    let protected = |reply: &mut super::Reply| (reply.status, reply.sense) = (2, fixed(7, 0x27, 0));
    assert_eq!(read_with(protected), (Some(BlockError::Unsupported), 1));
    assert_eq!(read_with(|reply| reply.error = Some(HostError::Gone)), (Some(BlockError::Gone), 1));
}

#[test]
fn recovered_data_count_where_all_of_them_came() {
    assert_eq!(read_with(|reply| (reply.status, reply.sense) = (2, fixed(1, 0x17, 0))), (None, 1));
    let short = |reply: &mut super::Reply| (reply.status, reply.sense, reply.residual_bytes) = (2, fixed(1, 0, 0), 512);
    assert_eq!(read_with(short), (Some(BlockError::Io), 1));
}

#[test]
fn what_cannot_be_done_now_is_tried_again_and_not_for_ever() {
    assert_eq!(read_with(|reply| reply.status = 8), (Some(BlockError::Io), 8), "a busy unit");
    assert_eq!(read_with(|reply| reply.status = 0x28), (Some(BlockError::Io), 8), "a full one");
    assert_eq!(read_with(|reply| (reply.status, reply.sense) = (2, fixed(6, 0x29, 0))), (Some(BlockError::Io), 8));
    assert_eq!(read_with(|reply| (reply.status, reply.sense) = (2, fixed(2, 4, 1))), (Some(BlockError::Io), 8));
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let at_last = |reply: &mut super::Reply| {
        if SEEN.fetch_add(1, Ordering::Relaxed) < 7 {
            reply.status = 8;
        }
    };
    assert_eq!(read_with(at_last), (None, 8));
}

#[test]
fn writes_and_flushes_are_tried_again_with_their_data() {
    let rig = rig(|command, count, reply| match command.block[0] {
        WRITE if count.is_multiple_of(2) => reply.status = 8,
        SYNCHRONIZE if count.is_multiple_of(2) => (reply.status, reply.sense) = (2, fixed(6, 0x29, 0)),
        _ => {}
    });
    block_on(async {
        for fill in 1..4 {
            rig.client.write(16, page(fill)).await.unwrap();
            rig.client.flush().await.unwrap();
            assert_eq!(rig.client.read(16, page(0)).await.unwrap()[0].as_slice(), [fill; 4096]);
        }
    });
}

#[test]
fn deferred_and_missing_sense_are_failures() {
    assert_eq!(sense::judge(&[], 0), Verdict::Failed);
    assert_eq!(sense::judge(&[0x71, 0, 6], 0), Verdict::Failed, "an earlier write is lost");
}

fn answer(status: u8, sense: Vec<u8>, residual_bytes: usize) -> Answer {
    Answer { status: Status(status), sense, residual_bytes, data: vec![] }
}

proptest! {
    /// Whatever a unit answers, it is judged; and nothing is done that left something over or that it did not say was done.
    #[test]
    fn no_answer_makes_a_short_transfer_whole(
        status in prop_oneof![Just(0_u8), Just(2), Just(8), any::<u8>()],
        first in prop_oneof![Just(0x70_u8), Just(0x72), any::<u8>()],
        mut sense in proptest::collection::vec(any::<u8>(), 0..256),
        data_bytes in 0_usize..40_000,
        residual_bytes in prop_oneof![0_usize..40_000, any::<usize>()],
    ) {
        sense.iter_mut().take(1).for_each(|byte| *byte = first);
        let verdict = judge(&answer(status, sense, residual_bytes), data_bytes);
        if let Verdict::Done { moved_bytes } = verdict {
            prop_assert_eq!(moved_bytes.checked_add(residual_bytes), Some(data_bytes));
            prop_assert!(matches!(status, 0 | 2));
        }
    }

    /// Through the protocol, too, a read is answered with data only if the host left nothing over.
    #[test]
    fn no_answer_to_a_read_is_believed_that_leaves_something_over(
        status in prop_oneof![Just(0_u8), Just(2), any::<u8>()],
        sense in proptest::collection::vec(any::<u8>(), 0..32),
        residual_bytes in 1..usize::MAX,
    ) {
        let (error, _) = read_with(move |reply| {
            (reply.status, reply.sense, reply.residual_bytes) = (status, sense.clone(), residual_bytes);
        });
        prop_assert!(error.is_some());
    }
}
