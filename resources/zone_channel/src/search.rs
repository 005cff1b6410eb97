//! Steps at random: an input's bytes are what programs of the honest instance do with their channels, and what a kernel that lies writes.
//!
//! The trunk is that of the `Rig` of `tests.rs`, whose second side the input plays: it asks for channels under any name, answers for those
//! that it was asked for and for others, sends messages in pages that are none, gives pages back that it never had, and writes over words
//! and indexes. Programs of the honest side connect, accept, send, read and go, and its trunk loses its memory and gets it again.
//!
//! After each step there are no more channels than allowed. After each input nothing has panicked, no channel is left once its programs
//! have gone, and a peer that is honest is served, with all pages that programs may map.
//!
//! One rig serves all inputs, so that a long search needs no more memory than a short one. The corpus is in `search/corpus`; how to look
//! for longer is said in `gyre-mutate`.

use crate::layout::{DATA_PAGES, SHARED_PAGES, Words};
use crate::line::{Data, Line, MINE};
use crate::tests::{Rig, flat, message, name, receive, send};
use crate::trunk::CHANNELS_MAX;
use crate::{CONTROL_PAGES, prepare};
use gyre_channel::{Abroad, End, Listener, MESSAGE_BYTES_MAX, Name};
use gyre_line::Message;
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use gyre_mutate::Input;
use gyre_zone_link::{Arena, Side};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec::Vec;

const STEPS_MAX: usize = 150;
const MS: u64 = 1_000_000;
/// Longer than anything that waits for a peer.
const LONG_MS: u64 = 30_000;
/// Ends that programs of the honest side hold at once.
const ENDS_MAX: usize = 24;
/// Bytes of messages.
const SIZES: &[usize] = &[1, 4095, 4096, 4097, 20_000, MESSAGE_BYTES_MAX];
/// Names that the liar writes: of who listens and who asks.
const NAMES: &[&str] = &[
    "shop/desk mill",
    "shop/desk shop",
    "shop/none mill",
    "mill/desk mill",
    "shop mill",
    "shop/desk",
    "shop/ mill",
    "",
    "shop/desk mill mill",
    " ",
    "shop/\0 mill",
];

/// Programs of an instance, and a peer that is not honest.
struct World<'a> {
    rig: &'a Rig,
    listener: Arc<Listener>,
    ends: Rc<RefCell<Vec<End>>>,
    /// The liar's side.
    arena: Arc<dyn Arena>,
    position: u32,
}

impl<'a> World<'a> {
    fn new(rig: &'a Rig) -> World<'a> {
        rig.trunks[1].detach();
        let listener = rig.channels[0].listen(name("shop/desk"), SHARED_PAGES).expect("nobody has the name");
        World { rig, listener, ends: Rc::default(), arena: rig.arena(1), position: 0 }
    }

    async fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0 => {
                let words = self.arena.control();
                words[input.number() as usize % words.len()].store(input.number(), Ordering::Relaxed);
            }
            1 => {
                // the number of a line, or an index
                let words = self.arena.control();
                let word = &words[8 * usize::from(input.byte()) % words.len()];
                let index = input.number() & 0xffff_ffff;
                word.store(word.load(Ordering::Relaxed) & !0xffff_ffff | index, Ordering::Relaxed);
            }
            2 | 3 => self.open(input),
            4 | 5 => {
                let data = Data { bytes: input.number() as usize, pages: pages(input) };
                self.say(key(input), &Line::Data(data));
            }
            6 => self.say(key(input), &Line::Done(pages(input))),
            7 => {
                let line = input.one_of(&[&Line::Answer(Ok(())), &Line::Room, &Line::Close]);
                self.say(key(input), line);
            }
            8 => {
                let (kind, token) = (input.number() as u16, input.number() as u32);
                let words = [0; 6].map(|_: u64| input.number());
                self.put(&Message { kind, token, words, ..Message::default() });
            }
            9 => self.connect(input),
            10 => self.ends.borrow_mut().extend(self.listener.accept()),
            11 => self.with_end(input, |end, input| {
                let _ = end.send(message(input.one_of(SIZES), 3));
            }),
            12 => self.with_end(input, |end, input| {
                let _ = end.receive(input.one_of(SIZES));
            }),
            13 => {
                let count = self.ends.borrow().len();
                (count > 0).then(|| self.ends.borrow_mut().swap_remove(input.below(count)));
            }
            14 => sleep_ns(input.number() % 200 * MS).await,
            _ => self.come_back(),
        }
        self.ends.borrow_mut().truncate(ENDS_MAX);
        self.rig.trunks[0].ring();
        sleep_ns(MS / 10).await;
        assert!(self.rig.trunks[0].state.lock().channels.len() <= CHANNELS_MAX);
    }

    /// The liar asks for a channel, under a name that it writes into a page.
    fn open(&mut self, input: &mut Input<'_>) {
        let (page, text) = (input.number() as u16, input.one_of(NAMES));
        if let Some(page) = self.arena.outbound(usize::from(page)) {
            page.write(0, text.as_bytes());
        }
        let bytes = if input.hits(8) { input.number() as u16 } else { text.len() as u16 };
        let shared = if input.hits(4) { input.number() as u32 } else { 0 };
        self.say(key(input), &Line::Open { page, bytes, shared });
    }

    fn say(&mut self, key: u32, line: &Line) {
        self.put(&line.encode(key));
    }

    fn put(&mut self, message: &Message) {
        let Some(words) = Words::of(self.arena.control(), Side::Second) else { return };
        let Some(mut sender) = words.sender(self.position) else { return };
        let _ = sender.send(message);
        self.position = sender.position();
    }

    /// A program of the honest side asks for a channel.
    fn connect(&self, input: &mut Input<'_>) {
        let name = Name::read(b"mill/grain", "shop").expect("a name");
        let pages = input.below(SHARED_PAGES + 2);
        let Some(connecting) = self.rig.names[0].connect(&name, "shop".into(), pages) else { return };
        let ends = self.ends.clone();
        spawn(async move {
            let made = connecting.await;
            ends.borrow_mut().extend(made);
        });
    }

    fn with_end(&self, input: &mut Input<'_>, work: impl FnOnce(&End, &mut Input<'_>)) {
        let ends = self.ends.borrow();
        if !ends.is_empty() {
            work(&ends[input.below(ends.len())], input);
        }
    }

    /// The honest side loses its memory, and finds it empty.
    fn come_back(&mut self) {
        self.rig.trunks[0].detach();
        assert!(prepare(self.rig.memory.words(0, CONTROL_PAGES)));
        assert!(self.rig.trunks[0].attach(self.rig.arena(0)));
        self.position = 0;
    }

    /// All programs go, and an honest peer comes.
    async fn end(self) {
        let World { rig, listener, ends, arena, .. } = self;
        rig.trunks[0].detach();
        drop((listener, arena));
        sleep_ns(LONG_MS * MS).await;
        drop(ends);
        sleep_ns(LONG_MS * MS).await;
        assert!(rig.trunks.iter().all(|trunk| trunk.state.lock().channels.is_empty()), "a channel is left");
        rig.attach();
        let [mill, shop] = rig.pair(SHARED_PAGES).await;
        for [from, to] in [[&mill, &shop], [&shop, &mill]] {
            send(from, message(40_000, 1)).await.expect("the peer is there");
            assert_eq!(receive(to).await, Ok(Some(flat(message(40_000, 1)))));
        }
        drop((mill, shop));
        sleep_ns(LONG_MS * MS).await;
        assert!(rig.trunks.iter().all(|trunk| trunk.state.lock().channels.is_empty()), "a channel is left");
        rig.trunks[0].detach();
        assert!(prepare(rig.memory.words(0, CONTROL_PAGES)));
        assert!(rig.trunks[0].attach(rig.arena(0)));
    }
}

/// A key of a channel: of one that was asked for lately, or any.
fn key(input: &mut Input<'_>) -> u32 {
    match input.byte() % 4 {
        0 | 1 => input.below(6) as u32 | MINE,
        2 => input.below(6) as u32,
        _ => input.number() as u32,
    }
}

/// Pages of a line, most of them such that there are.
fn pages(input: &mut Input<'_>) -> Vec<u16> {
    let page = |input: &mut Input<'_>| match input.hits(8) {
        true => input.number() as u16,
        false => input.below(DATA_PAGES) as u16,
    };
    (0..input.below(17)).map(|_| page(input)).collect()
}

async fn one(rig: &Rig, bytes: &[u8]) {
    let (mut input, mut world) = (Input::new(bytes), World::new(rig));
    for _ in 0..STEPS_MAX {
        if input.is_over() {
            break;
        }
        world.step(&mut input).await;
    }
    world.end().await;
}

#[test]
fn whatever_another_kernel_writes_costs_only_its_own_channels() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/search/corpus");
    // a channel of the liar's that is accepted, with a message each way, and one that it answers
    let first = [2, 1, 0, 0, 0, 0, 1, 10, 4, 9, 1, 0, 1, 1, 0, 11, 0, 0, 12, 0, 0, 9, 2, 7, 0, 2, 1, 13, 0, 7, 2, 0, 1];
    let rig = block_on(async { Rig::new() });
    gyre_mutate::run("zone-channel", &corpus, &first, 200, |bytes| block_on(one(&rig, bytes)));
}
