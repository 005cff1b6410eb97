//! Two links over one memory, and links whose peer writes what it wants.
//!
//! A rig is a shared memory in the test's own process, with a link at each end. Interrupts to the other end are counted and not
//! delivered: a test takes frames itself, and lets virtual time and ticks go on. For an attack the test writes the words of the memory as
//! a peer that lies would.
//!
//! The tests hold that large frames are read by reference after one copy, that polling receivers are not interrupted and lost interrupts
//! are repeated, that senders are held back but never for ever, and that readers keep what they hold, whether the peer goes, comes back
//! or runs out of pages. Frames in pages that are not the peer's are dropped. Two properties with random steps say that frames of all
//! sizes arrive whole, and that a hostile peer costs only itself.
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

struct Rig {
    memory: Arc<SharedMemory>,
    ends: [&'static ZoneLink; 2],
    rings: [Arc<AtomicU64>; 2],
}

impl Rig {
    fn new(pages: usize) -> Rig {
        set_virtual_time(1_000_000);
        let ends = [0, 1].map(|_| &*Box::leak(Box::new(ZoneLink::new(LINE))));
        let rig = Rig { memory: shared_memory(pages), ends, rings: Default::default() };
        rig.attach();
        rig
    }

    fn attach(&self) {
        for (index, side) in [Side::First, Side::Second].into_iter().enumerate() {
            let rings = self.rings[1 - index].clone();
            let ring = Box::new(move || _ = rings.fetch_add(1, Ordering::Relaxed));
            self.ends[index].attach(SharedArena::new(self.memory.clone(), side, ring)).unwrap();
        }
    }

    fn take(&self, end: usize) -> Vec<InFrame> {
        self.ends[end].take_frames().unwrap_or_default()
    }

    fn rings(&self, end: usize) -> u64 {
        self.rings[end].swap(0, Ordering::Relaxed)
    }

    fn sends(&self, frame: OutFrame) -> bool {
        matches!(self.ends[0].send(frame), Sent::Taken)
    }
}

fn pattern(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]
}

fn frame(pieces: &[usize]) -> OutFrame {
    let mut at = 0;
    let piece = |bytes: &usize| {
        let data: Vec<u8> = (at..at + bytes).map(pattern).collect();
        at += bytes;
        Bytes::copy_from(&data).unwrap()
    };
    OutFrame { pieces: pieces.iter().map(piece).collect(), checksum: None, segment: None, receipt: None }
}

fn flat(frame: InFrame) -> Vec<u8> {
    let (head, more) = frame.into_pieces();
    std::iter::once(&head).chain(&more).flat_map(|piece| piece.as_slice().to_vec()).collect()
}

fn is_pattern(data: &[u8]) -> bool {
    data.iter().enumerate().all(|(at, byte)| *byte == pattern(at))
}

fn large() -> OutFrame {
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

/// Steps of a peer that writes what it wants, and of the honest end.
#[derive(Clone, Debug)]
enum Step {
    Word(usize, u64),
    Number(usize, u32),
    Page(usize, u8),
    Frame(usize, usize, Vec<u16>),
    Return(Vec<u16>),
    Send(usize),
    Take,
    Drop,
    Tick,
    Interrupt,
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    let page = 0u16..(PAGES_MIN as u16 + 4);
    prop_oneof![
        (0usize..CONTROL_PAGES * 512, any::<u64>()).prop_map(|(at, word)| Step::Word(at, word)),
        (0usize..256, 0u32..200).prop_map(|(line, number)| Step::Number(line, number)),
        (0usize..2 * PAGES_MIN, any::<u8>()).prop_map(|(page, byte)| Step::Page(page, byte)),
        (0usize..600, 0usize..70_000, proptest::collection::vec(page.clone(), 0..17))
            .prop_map(|(head, rest, pages)| Step::Frame(head, rest, pages)),
        proptest::collection::vec(page, 0..25).prop_map(Step::Return),
        (14usize..66_000).prop_map(Step::Send),
        Just(Step::Take),
        Just(Step::Drop),
        Just(Step::Tick),
        Just(Step::Interrupt),
        Just(Step::Again),
    ]
}

/// An honest end, and a peer that is not.
struct Hostile {
    rig: Rig,
    frames: u32,
    returns: u32,
    held: Vec<InFrame>,
}

impl Hostile {
    fn new() -> Hostile {
        let rig = Rig::new(PAGES_MIN);
        rig.ends[1].detach();
        Hostile { rig, frames: 0, returns: 0, held: Vec::new() }
    }

    fn words(&self) -> &[AtomicU64] {
        self.rig.memory.words(0, CONTROL_PAGES)
    }

    fn act(&mut self, step: Step) {
        let end = self.rig.ends[0];
        match step {
            Step::Word(at, word) => self.words()[at % self.words().len()].store(word, Ordering::Relaxed),
            Step::Number(line, number) => {
                let word = &self.words()[line * 8];
                word.store(word.load(Ordering::Relaxed) & !0xffff_ffff | u64::from(number), Ordering::Relaxed);
            }
            Step::Page(page, byte) => {
                let words = self.rig.memory.words(CONTROL_PAGES + page, 1);
                words.iter().for_each(|word| word.store(u64::from_ne_bytes([byte; 8]), Ordering::Relaxed));
            }
            Step::Frame(head, rest, pages) => {
                let direction = Direction::of(self.words(), Side::Second).unwrap();
                let mut sender = direction.frame_sender(self.frames).unwrap();
                let mut message = Descriptor::new(head, rest, &pages).message();
                message.words[0] = rest as u64;
                let sent = sender.send(&message).is_ok();
                self.frames += u32::from(sent);
            }
            Step::Return(pages) => {
                let direction = Direction::of(self.words(), Side::First).unwrap();
                let mut sender = direction.return_sender(self.returns).unwrap();
                let sent = sender.send(&return_message(&pages)).is_ok();
                self.returns += u32::from(sent);
            }
            Step::Send(bytes) => {
                if end.has_room() {
                    drop(end.send(frame(&[14, bytes - 14])));
                }
            }
            Step::Take => self.held.extend(end.take_frames().into_iter().flatten()),
            Step::Drop => drop(self.held.pop()),
            Step::Tick => {
                advance(3_000_000);
                end.on_tick();
            }
            Step::Interrupt => {
                end.acknowledge(Senders::Held);
                end.wake_reader();
                end.go_on_sending();
            }
            Step::Again => {
                end.detach();
                let memory = shared_memory(PAGES_MIN);
                end.attach(SharedArena::new(memory.clone(), Side::First, Box::new(|| {}))).unwrap();
                (self.rig.memory, self.frames, self.returns) = (memory, 0, 0);
            }
        }
    }
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

    /// Whatever the peer writes: nothing panics or goes on for ever, views stay inside frames, memory of the honest end is bounded, and a new
    /// peer finds a link that works.
    #[test]
    fn a_peer_that_writes_what_it_wants_costs_only_itself(steps in proptest::collection::vec(step(), 1..200)) {
        let mut hostile = Hostile::new();
        for step in steps {
            hostile.act(step);
            for frame in &hostile.held {
                prop_assert!(frame.head.len() <= 512 && frame.more.len() <= 16);
                prop_assert!(frame.more.iter().all(|piece| piece.len() <= 4096));
            }
        }
        let end = hostile.rig.ends[0];
        // as the gate does: a sender that is held back makes the ticks go on
        let is_held = !end.has_room();
        let mut looks = 0;
        while let Some(cycles) = end.on_tick() {
            advance(cycles * 1_000_000 / cycles_per_ms());
            looks += 1;
            prop_assert!(looks < 40, "it looks for ever");
        }
        prop_assert!(!is_held || end.is_half_free(), "senders are not held for ever");
        end.detach();
        drop(hostile.held);
        let rig = Rig { memory: shared_memory(PAGES_MIN), ..hostile.rig };
        rig.attach();
        prop_assert!(rig.sends(large()));
        let data = rig.take(1).into_iter().next().map(flat).unwrap_or_default();
        prop_assert!(data.len() == 65_066 && is_pattern(&data));
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
