//! Steps at random: an input's bytes are frames that the honest end sends and takes, and what a peer that lies writes.
//!
//! The link is that of the `Rig` of `tests.rs`, whose second end the input plays: it writes words at any place, jumps with the indexes of
//! rings, changes pages that are read, describes frames that are not there, gives pages back that it never had, and interrupts unasked or
//! not at all. The honest end's readers keep frames as long as they want; its memory goes and comes back, also while they read.
//!
//! After each input nothing has panicked, views lie inside frames, ticks end, senders are not held for ever, each receipt came back once,
//! and a new peer finds a link that works, with all of its pages. The corpus is in `search/corpus`; how to look for longer is said in
//! `gyre-mutate`.

use crate::descriptor::{Descriptor, return_message};
use crate::fake::{SharedArena, shared_memory};
use crate::layout::{CONTROL_PAGES, Direction, SLOT_PAGES};
use crate::tests::{Rig, flat, frame, is_pattern, large};
use crate::{PAGES_MIN, Side, prepare};
use gyre_device::{LinkDevice, Senders, Sent};
use gyre_interface::link::{InFrame, OutFrame};
use gyre_line::Message;
use gyre_machine::{advance, cycles_per_ms};
use gyre_mutate::Input;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::vec::Vec;

const STEPS_MAX: usize = 200;
/// Bytes of frames that the honest end sends, beside their heads.
const SIZES: &[usize] = &[0, 1, 46, 498, 499, 4096, 4097, 20_000, 65_000, 65_536, 70_000];
/// Frames that the honest end's readers hold at once.
const HELD_MAX: usize = 40;

/// Counts the receipts that are out.
struct Receipt(Arc<AtomicUsize>);

impl Drop for Receipt {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An honest end, and a peer that is not.
struct World {
    rig: Rig,
    frames: u32,
    returns: u32,
    held: Vec<InFrame>,
    receipts: Arc<AtomicUsize>,
}

impl World {
    fn new() -> World {
        let rig = Rig::new(PAGES_MIN);
        rig.ends[1].detach();
        World { rig, frames: 0, returns: 0, held: Vec::new(), receipts: Arc::default() }
    }

    fn words(&self) -> &[AtomicU64] {
        self.rig.memory.words(0, CONTROL_PAGES)
    }

    fn direction(&self, side: Side) -> Direction<'_> {
        Direction::of(self.words(), side).unwrap()
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let end = self.rig.ends[0];
        match input.byte() % 16 {
            0 => {
                let words = self.words();
                words[input.number() as usize % words.len()].store(input.number(), Ordering::Relaxed);
            }
            1 => {
                // the number of a line, or an index
                let word = &self.words()[8 * usize::from(input.byte())];
                word.store(
                    word.load(Ordering::Relaxed) & !0xffff_ffff | input.number() & 0xffff_ffff,
                    Ordering::Relaxed,
                );
            }
            2 => {
                let words = self.rig.memory.words(CONTROL_PAGES + input.below(2 * PAGES_MIN), 1);
                let word = u64::from_ne_bytes([input.byte(); 8]);
                words.iter().for_each(|place| place.store(word, Ordering::Relaxed));
            }
            3 | 4 => self.describe(input),
            5 => self.give_back(input),
            6 => self.say(input),
            7 | 8 => self.send(input),
            9 | 10 => {
                let taken = end.take_frames().into_iter().flatten();
                self.held.extend(taken);
                self.held.truncate(HELD_MAX);
            }
            11 => drop(self.held.pop()),
            12 => {
                advance(input.number() % 100 * 1_000_000);
                end.on_tick();
            }
            13 => {
                end.acknowledge(input.one_of(&[Senders::Held, Senders::Flow]));
                end.wake_reader();
                end.go_on_sending();
            }
            14 => drop(self.held.drain(..)),
            _ => self.come_back(input),
        }
    }

    /// The peer describes a frame.
    fn describe(&mut self, input: &mut Input<'_>) {
        let (head, rest) = (input.number() as usize, input.number() as usize);
        let first = SLOT_PAGES as u16;
        let pages: Vec<u16> = (0..input.below(17)).map(|_| first.wrapping_add(input.number() as u16)).collect();
        let mut message = Descriptor::new(head, rest, &pages).message();
        message.words[0] = rest as u64;
        self.put_frame(&message);
    }

    fn put_frame(&mut self, message: &Message) {
        let sent = self
            .direction(Side::Second)
            .frame_sender(self.frames)
            .is_some_and(|mut sender| sender.send(message).is_ok());
        self.frames = self.frames.wrapping_add(u32::from(sent));
    }

    /// The peer gives pages back.
    fn give_back(&mut self, input: &mut Input<'_>) {
        let pages: Vec<u16> = (0..input.below(25)).map(|_| input.number() as u16).collect();
        let message = return_message(&pages);
        let sent = self
            .direction(Side::First)
            .return_sender(self.returns)
            .is_some_and(|mut sender| sender.send(&message).is_ok());
        self.returns = self.returns.wrapping_add(u32::from(sent));
    }

    /// The peer writes a line of any meaning.
    fn say(&mut self, input: &mut Input<'_>) {
        let (kind, token) = (input.number() as u16, input.number() as u32);
        let words = [0; 6].map(|_: u64| input.number());
        self.put_frame(&Message { kind, token, words, ..Message::default() });
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let end = self.rig.ends[0];
        let (head, rest) = (14 + input.below(600), input.one_of(SIZES));
        if end.has_room() {
            self.receipts.fetch_add(1, Ordering::Relaxed);
            let receipt = Some(Box::new(Receipt(self.receipts.clone())) as _);
            let sizes = if rest == 0 { &[head][..] } else { &[head, rest] };
            let sent = end.send(OutFrame { receipt, ..frame(sizes) });
            assert!(!matches!(sent, Sent::Waits(_)), "a link has no frames that wait");
        }
    }

    /// The honest end leaves its memory, and finds the same again or another one.
    fn come_back(&mut self, input: &mut Input<'_>) {
        let end = self.rig.ends[0];
        end.detach();
        if input.hits(2) {
            self.rig.memory = shared_memory(PAGES_MIN);
        } else {
            assert!(prepare(self.words()));
        }
        end.attach(SharedArena::new(self.rig.memory.clone(), Side::First, Box::new(|| {}))).unwrap();
        (self.frames, self.returns) = (0, 0);
    }

    fn check(&self) {
        for frame in &self.held {
            assert!(frame.head.len() <= 512 && frame.more.len() <= 16);
            assert!(frame.more.iter().all(|piece| piece.len() <= 4096));
        }
    }

    fn end(self) {
        let end = self.rig.ends[0];
        // as the gate does: a sender that is held back makes the ticks go on
        let is_held = !end.has_room();
        let mut looks = 0;
        while let Some(cycles) = end.on_tick() {
            advance(cycles * 1_000_000 / cycles_per_ms());
            looks += 1;
            assert!(looks < 40, "it looks for ever");
        }
        assert!(!is_held || end.is_half_free(), "senders are not held for ever");
        end.detach();
        assert_eq!(self.receipts.load(Ordering::Relaxed), 0, "frames that never came back");
        drop(self.held);
        let rig = Rig { memory: shared_memory(PAGES_MIN), ..self.rig };
        rig.attach();
        let mut sent = 0;
        while rig.ends[0].has_room() {
            assert!(rig.sends(large()));
            sent += 1;
        }
        assert_eq!(sent, (PAGES_MIN - SLOT_PAGES) / 16, "all pages are in use again");
        let data = rig.take(1).into_iter().next().map(flat).unwrap_or_default();
        assert!(data.len() == 65_066 && is_pattern(&data));
        rig.ends.iter().for_each(|end| end.detach());
    }
}

fn one(bytes: &[u8]) {
    let (mut input, mut world) = (Input::new(bytes), World::new());
    for _ in 0..STEPS_MAX {
        if input.is_over() {
            break;
        }
        world.step(&mut input);
        world.check();
    }
    world.end();
}

#[test]
fn whatever_a_peer_writes_it_costs_only_itself() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/search/corpus");
    // a frame that is sent, pages that come back, a frame with a page that is taken and held
    let first = [7, 46, 5, 5, 2, 16, 17, 3, 60, 100, 1, 3, 9, 13, 0, 12, 5, 11];
    gyre_mutate::run("zone-link", &corpus, &first, 200, one);
}
