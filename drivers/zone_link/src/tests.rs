//! Two links over one memory, and links whose peer writes what it wants.
//!
//! A rig is a shared memory in the test's own process, with a link at each end. Interrupts to the other end are counted and not
//! delivered: a test takes frames itself, and lets virtual time and ticks go on. For an attack the test writes the words of the memory as
//! a peer that lies would; any steps of one are in `search.rs`.
//!
//! The tests hold that large frames are read by reference after one copy, that polling receivers are not interrupted and lost interrupts
//! are repeated, that senders are held back but never for ever, and that readers keep what they hold, whether the peer goes, comes back
//! or runs out of pages. Frames in pages that are not the peer's are dropped. A property says that frames of all sizes arrive whole.
//!
//! Two kernels with real interrupts between them are left out.

use crate::descriptor::{Descriptor, return_message};
use crate::fake::{SharedArena, shared_memory};
use crate::layout::{CONTROL_PAGES, Direction, SLOT_PAGES};
use crate::link::MALFORMED_MAX;
use crate::{FRAME_BYTES_MAX, PAGES_MIN, Side, ZoneLink, prepare};
use gyre_device::{InterruptLine, LinkDevice, Senders, Sent};
use gyre_interface::link::{FrameStream, InFrame, LinkError, OutFrame, ReceivedFrame};
use gyre_machine::{SharedMemory, advance, cycles_per_ms, set_virtual_time};
use gyre_message::direct::block_on;
use gyre_object::Bytes;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec::Vec;

const LINE: InterruptLine = InterruptLine { core: 0, line: 8 };

pub(crate) struct Rig {
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) ends: [&'static ZoneLink; 2],
    pub(crate) rings: [Arc<AtomicU64>; 2],
}

impl Rig {
    pub(crate) fn new(pages: usize) -> Rig {
        set_virtual_time(1_000_000);
        let ends = [0, 1].map(|_| &*Box::leak(Box::new(ZoneLink::new(LINE))));
        let rig = Rig { memory: shared_memory(pages), ends, rings: Default::default() };
        rig.attach();
        rig
    }

    pub(crate) fn attach(&self) {
        for (index, side) in [Side::First, Side::Second].into_iter().enumerate() {
            let rings = self.rings[1 - index].clone();
            let ring = Box::new(move || _ = rings.fetch_add(1, Ordering::Relaxed));
            self.ends[index].attach(SharedArena::new(self.memory.clone(), side, ring)).unwrap();
        }
    }

    pub(crate) fn take(&self, end: usize) -> Vec<InFrame> {
        self.ends[end].take_frames().unwrap_or_default()
    }

    fn rings(&self, end: usize) -> u64 {
        self.rings[end].swap(0, Ordering::Relaxed)
    }

    pub(crate) fn sends(&self, frame: OutFrame) -> bool {
        matches!(self.ends[0].send(frame), Sent::Taken)
    }
}

fn pattern(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]
}

pub(crate) fn frame(pieces: &[usize]) -> OutFrame {
    let mut at = 0;
    let piece = |bytes: &usize| {
        let data: Vec<u8> = (at..at + bytes).map(pattern).collect();
        at += bytes;
        Bytes::copy_from(&data).unwrap()
    };
    OutFrame { pieces: pieces.iter().map(piece).collect(), checksum: None, segment: None, receipt: None }
}

pub(crate) fn flat(frame: InFrame) -> Vec<u8> {
    let (head, more) = frame.into_pieces();
    std::iter::once(&head).chain(&more).flat_map(|piece| piece.as_slice().to_vec()).collect()
}

pub(crate) fn is_pattern(data: &[u8]) -> bool {
    data.iter().enumerate().all(|(at, byte)| *byte == pattern(at))
}

pub(crate) fn large() -> OutFrame {
    frame(&[66, 65_000])
}

#[test]
fn the_largest_frame_is_read_by_reference_after_one_copy() {
    let rig = Rig::new(128);
    assert!(rig.sends(frame(&[66, FRAME_BYTES_MAX - 66])));
    let got = block_on(rig.ends[1].next()).unwrap().remove(0);
    assert_eq!((got.head.len(), got.more.len()), (66, 16));
    assert!(is_pattern(&flat(got)));
    assert_eq!(rig.ends[1].statistics().copied_bytes, 0);
    let refused = |bytes: &[usize]| matches!(rig.ends[0].send(frame(bytes)), Sent::Refused(LinkError::TooLong));
    assert!(refused(&[66, FRAME_BYTES_MAX - 65]) && refused(&[13]));
}

#[test]
fn a_small_frame_takes_no_page() {
    let rig = Rig::new(PAGES_MIN);
    assert!(rig.sends(frame(&[66, 200])));
    let got = rig.take(1).remove(0);
    assert!(got.more.is_empty() && is_pattern(got.head.as_slice()));
}

#[test]
fn a_receiver_that_polls_is_not_interrupted() {
    let rig = Rig::new(128);
    assert!(rig.take(1).is_empty(), "it goes to sleep");
    assert!(rig.sends(frame(&[60])) && rig.sends(frame(&[60])));
    assert_eq!(rig.rings(1), 1);
    assert_eq!(rig.take(1).len(), 2);
    assert!(rig.sends(frame(&[60])));
    assert_eq!(rig.rings(1), 0, "it polls");
    assert_eq!(rig.take(1).len(), 1);
    assert!(rig.take(1).is_empty() && rig.sends(frame(&[60])));
    assert_eq!(rig.rings(1), 1);
}

#[test]
fn senders_are_told_of_room_once_half_is_free() {
    let rig = Rig::new(128);
    let mut held = Vec::new();
    while rig.ends[0].has_room() {
        assert!(rig.sends(large()));
    }
    rig.rings(0);
    assert!(!rig.ends[0].acknowledge(Senders::Held));
    held.extend(rig.take(1));
    assert!(held.len() >= 2 && rig.take(1).is_empty());
    held.clear();
    rig.take(1);
    assert!(rig.rings(0) > 0, "who waits for room is interrupted");
    assert!(rig.ends[0].acknowledge(Senders::Held) && !rig.ends[0].acknowledge(Senders::Flow));
    assert!(rig.ends[0].is_half_free() && rig.sends(large()));
}

#[test]
fn readers_that_keep_everything_cost_the_link_half_of_its_pages() {
    let rig = Rig::new(PAGES_MIN + 32);
    let mut held = Vec::new();
    for _ in 0..50 {
        assert!(rig.ends[0].has_room() && rig.sends(large()));
        held.extend(rig.take(1));
    }
    assert_eq!(held.len(), 50);
    assert!(held.into_iter().all(|frame| is_pattern(&flat(frame))), "nothing is written over");
    let statistics = rig.ends[1].statistics();
    assert!(statistics.copied_bytes > 40 * 65_000, "{statistics:?}");
}

#[test]
fn a_lost_interrupt_is_repeated_and_a_silent_peer_is_left_alone() {
    let rig = Rig::new(128);
    assert!(rig.take(1).is_empty() && rig.sends(frame(&[60])));
    rig.rings(1);
    let mut looks = 0;
    while let Some(cycles) = rig.ends[0].on_tick() {
        advance(cycles * 1_000_000 / cycles_per_ms());
        looks += 1;
        assert!(looks < 20, "it looks for ever");
    }
    assert!(rig.rings(1) > 3, "the interrupt is repeated");
    assert_eq!(rig.take(1).len(), 1);
    assert_eq!((rig.ends[0].on_tick(), rig.rings(1)), (None, 0));
}

#[test]
fn a_peer_that_takes_nothing_holds_senders_back_for_a_while_only() {
    let rig = Rig::new(128);
    while rig.ends[0].has_room() {
        assert!(rig.sends(large()));
    }
    assert!(!rig.ends[0].is_half_free());
    advance(20_000_000);
    rig.ends[0].on_tick();
    assert!(rig.ends[0].has_room() && rig.ends[0].is_half_free(), "they go on");
    assert!(!rig.sends(large()), "and their frames are dropped");
    let statistics = rig.ends[0].statistics();
    assert_eq!((statistics.lapses, statistics.dropped_sending), (1, 1));
    while !rig.take(1).is_empty() {}
    rig.take(1);
    assert!(rig.sends(large()), "until the peer takes again");
}

#[test]
fn a_peer_that_goes_loses_what_is_on_its_way_and_readers_keep_what_they_hold() {
    let rig = Rig::new(128);
    (0..4).for_each(|_| assert!(rig.sends(large())));
    let held = rig.take(1);
    assert!(rig.sends(frame(&[60])) && rig.sends(frame(&[60])));
    rig.ends[0].detach();
    assert_eq!(rig.ends[0].statistics().lost_sending, 2);
    assert!(!rig.sends(frame(&[60])) && rig.ends[0].has_room());
    rig.ends[1].detach();
    assert_eq!(rig.ends[1].statistics().dropped_receiving, 2);
    let rig = Rig { memory: shared_memory(128), ..rig };
    rig.attach();
    assert!(rig.ends[0].attach(SharedArena::new(rig.memory.clone(), Side::First, Box::new(|| {}))).is_err());
    assert!(rig.sends(large()) && is_pattern(&flat(rig.take(1).remove(0))));
    assert!(held.into_iter().all(|frame| is_pattern(&flat(frame))));
}

#[test]
fn a_link_that_finds_its_old_memory_again_writes_over_nothing_that_a_reader_holds() {
    let rig = Rig::new(128);
    (0..2).for_each(|_| assert!(rig.sends(large())));
    let held = rig.take(1);
    assert_eq!(held.len(), 2);
    for _ in 0..2 {
        rig.ends.iter().for_each(|end| end.detach());
        assert!(prepare(rig.memory.words(0, CONTROL_PAGES)));
        rig.attach();
        for _ in 0..40 {
            assert!(rig.sends(large()) && is_pattern(&flat(rig.take(1).remove(0))));
        }
    }
    assert!(held.into_iter().all(|frame| is_pattern(&flat(frame))));
    rig.take(1);
    let mut sent = 0;
    while rig.ends[0].has_room() {
        assert!(rig.sends(large()));
        sent += 1;
    }
    assert_eq!(sent, (128 - SLOT_PAGES) / 16, "all pages are in use again");
    assert_eq!(rig.ends[0].statistics().false_returns, 0);
}

#[test]
fn a_peer_that_writes_nonsense_is_cut_off_until_it_is_made_again() {
    let rig = Rig::new(PAGES_MIN);
    for position in 0..MALFORMED_MAX as u32 {
        lie(&rig, position, 0, 0, &[]);
        rig.take(0);
    }
    assert!(!rig.ends[0].is_attached() && rig.ends[0].has_room());
    assert!(!rig.sends(frame(&[60])), "frames to it are dropped");
    rig.ends[1].detach();
    assert!(prepare(rig.memory.words(0, CONTROL_PAGES)));
    rig.attach();
    assert!(rig.sends(large()) && is_pattern(&flat(rig.take(1).remove(0))));
    lie(&rig, 0, 0, 0, &[]);
    rig.take(0);
    assert!(rig.ends[0].is_attached(), "the new one begins anew");
}

#[test]
fn an_arena_that_lacks_pages_is_refused() {
    let link = ZoneLink::new(LINE);
    assert!(link.attach(SharedArena::new(shared_memory(PAGES_MIN - 1), Side::First, Box::new(|| {}))).is_err());
    assert!(!link.is_attached());
}

/// The lines of an honest frame, as a peer that lies writes them.
fn lie(rig: &Rig, position: u32, head: usize, rest: usize, pages: &[u16]) {
    let direction = Direction::of(rig.memory.words(0, CONTROL_PAGES), Side::Second).unwrap();
    let mut sender = direction.frame_sender(position).unwrap();
    sender.send(&Descriptor::new(head, rest, pages).message()).unwrap();
}

#[test]
fn frames_in_pages_that_are_not_the_peers_are_dropped() {
    let rig = Rig::new(PAGES_MIN);
    let first = SLOT_PAGES as u16;
    lie(&rig, 0, 60, 4096, &[first]);
    let held = rig.take(0);
    assert_eq!(held.len(), 1);
    let lies: [(usize, usize, &[u16]); 6] = [
        (60, 4096, &[first]),                // held by a reader
        (60, 8192, &[first + 1, first + 1]), // twice
        (60, 4096, &[0]),                    // a slot
        (60, 4096, &[PAGES_MIN as u16]),     // beyond the last
        (513, 0, &[]),                       // more than a slot
        (0, 0, &[]),                         // nothing
    ];
    for (position, (head, rest, pages)) in (1u32..).zip(lies) {
        lie(&rig, position, head, rest, pages);
    }
    assert!(rig.take(0).is_empty());
    assert_eq!(rig.ends[0].statistics().malformed, 6);
    lie(&rig, 7, 60, 4096, &[first + 1]);
    assert_eq!(rig.take(0).len(), 1, "honest frames arrive");
}

#[test]
fn pages_that_are_given_back_twice_are_free_once() {
    let rig = Rig::new(PAGES_MIN);
    let direction = Direction::of(rig.memory.words(0, CONTROL_PAGES), Side::First).unwrap();
    // behind the lines in which the peer gave all pages at first
    let mut returns = direction.return_sender((PAGES_MIN - SLOT_PAGES).div_ceil(24) as u32).unwrap();
    let all: Vec<u16> = (0..24).collect();
    (0..8).for_each(|_| returns.send(&return_message(&all)).unwrap());
    assert!(rig.sends(frame(&[66, 4096])));
    assert_eq!(rig.ends[0].statistics().false_returns, 8 * 24);
    // the pages of a frame that is on its way
    let sent: Vec<u16> = (SLOT_PAGES as u16..PAGES_MIN as u16).collect();
    (0..2).for_each(|_| sent.chunks(24).for_each(|part| returns.send(&return_message(part)).unwrap()));
    assert!(rig.sends(frame(&[66, 4096])));
    assert_eq!(rig.ends[0].statistics().false_returns, 8 * 24 + 2 * 64 - 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn frames_of_all_sizes_and_pieces_arrive_whole(
        pieces in proptest::collection::vec(proptest::collection::vec(1usize..9000, 1..6), 1..40)
    ) {
        let rig = Rig::new(PAGES_MIN);
        for (index, rest) in pieces.into_iter().enumerate() {
            let pieces: Vec<usize> = std::iter::once(40 + index).chain(rest).collect();
            prop_assert!(rig.sends(frame(&pieces)));
            let got = rig.take(1);
            prop_assert_eq!(got.len(), 1);
            for frame in got {
                let data = flat(frame);
                prop_assert_eq!(data.len(), pieces.iter().sum::<usize>());
                prop_assert!(is_pattern(&data));
            }
        }
    }
}

#[test]
fn a_head_is_the_receivers_own_from_the_first_look_on() {
    let rig = Rig::new(PAGES_MIN);
    assert!(rig.sends(frame(&[60])));
    let got = rig.take(1).remove(0);
    let words = rig.memory.words(CONTROL_PAGES, 2 * PAGES_MIN);
    words.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
    assert!(is_pattern(got.head.as_slice()));
}
