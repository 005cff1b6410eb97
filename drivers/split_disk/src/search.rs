//! Steps at random: an input's bytes are requests of the front end's users, and what a back end that lies writes.
//!
//! The window is plain memory. Its words may be written at any place; the rings of questions and answers may be used as they are meant to be,
//! with slots that nobody has, answers that came before and lines of no meaning; interrupts come unasked or not at all; time passes, and the
//! back end may go.
//!
//! After each input nothing has panicked, each request has ended once, with memory of the size that it came with, and once all are late, nothing
//! is under way and no page is held. The corpus is in `search/corpus`; how to look for longer is said in `gyre-mutate`.

use crate::disk::check;
use crate::fake::{SharedWindow, shared_memory};
use crate::layout::{CONTROL_PAGES, Control, SLOTS};
use crate::slots::Wanted;
use crate::words::{Answer, Ask};
use crate::{FrontEnd, LATE_MS};
use gyre_device::{InterruptLine, Operation, Timed, Transfer};
use gyre_interface::block::{BlockError, Geometry};
use gyre_line::Message;
use gyre_machine::{PAGE_BYTES, SharedMemory, advance, now, set_virtual_time};
use gyre_mutate::Input;
use gyre_object::{Bytes, Page, SpinLock};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec::Vec;

const STEPS_MAX: usize = 200;
const DISKS: [Geometry; 2] = [Geometry { sectors: 1000, read_only: false }, Geometry { sectors: 9, read_only: true }];
const ERRORS: &[BlockError] =
    &[BlockError::Io, BlockError::OutOfRange, BlockError::Unsupported, BlockError::OutOfMemory, BlockError::Gone];
/// Bytes of the memory of requests: of whole sectors, too many, too few, none.
const VIEWS: &[&[usize]] = &[&[512], &[4096, 512], &[4096; 16], &[4096; 17], &[511], &[]];

/// The bytes that a request came with, and how often it ended.
#[derive(Clone, Copy, Default)]
struct Asked {
    bytes: usize,
    ends: usize,
}

struct World {
    memory: Arc<SharedMemory>,
    front: FrontEnd,
    asked: Arc<SpinLock<Vec<Asked>>>,
    pages: Vec<Page>,
    questions: u32,
    answers: u32,
}

impl World {
    fn new() -> World {
        set_virtual_time(1_000_000);
        let memory = shared_memory();
        assert!(Control::of(memory.words(0, CONTROL_PAGES)).unwrap().prepare(&DISKS));
        let lines = [8, 9].map(|line| InterruptLine { core: 0, line });
        let front = FrontEnd::open(Box::new(SharedWindow::new(memory.clone(), Box::new(|| {}))), &lines).unwrap();
        World { memory, front, asked: Arc::default(), pages: Vec::new(), questions: 0, answers: 0 }
    }

    fn control(&self) -> Option<Control<'_>> {
        Control::of(self.memory.words(0, CONTROL_PAGES))
    }

    fn views(&mut self, sizes: &[usize]) -> Vec<Bytes> {
        let pages = sizes.iter().map(|_| Page::zeroed().unwrap()).collect::<Vec<_>>();
        self.pages.extend(pages.iter().cloned());
        pages.into_iter().zip(sizes).map(|(page, bytes)| Bytes::new(page, PAGE_BYTES - bytes, *bytes)).collect()
    }

    /// As a disk of the table does.
    fn start(&mut self, input: &mut Input<'_>) {
        let place = input.below(DISKS.len());
        let operation = input.one_of(&[Operation::Read, Operation::Write, Operation::Flush]);
        let first_sector = input.number();
        let data = self.views(input.one_of(VIEWS));
        let bytes = data.iter().map(Bytes::len).sum();
        let number = self.asked.lock().len();
        self.asked.lock().push(Asked { bytes, ends: 0 });
        let asked = self.asked.clone();
        let then = Box::new(move |timed: Timed<Result<Vec<Bytes>, BlockError>>| {
            let asked = &mut asked.lock()[number];
            asked.ends += 1;
            assert_eq!(asked.ends, 1, "answered twice");
            let same = |data: Vec<Bytes>| data.iter().map(Bytes::len).sum::<usize>() == asked.bytes;
            assert!(timed.answer.map_or(true, same), "memory of another size");
        });
        let transfer = Transfer { operation, first_sector, data };
        match check(DISKS[place], &transfer) {
            Ok(()) => self.front.start(Wanted { disk: place, transfer, then, since: now() }),
            Err(error) => then(Timed::unasked(Err(error))),
        }
    }

    fn tell(&mut self, message: &Message) {
        let sent = self.control().and_then(|control| control.answer_sender(self.answers)).map(|mut sender| {
            let _ = sender.send(message);
            sender.position()
        });
        self.answers = sent.unwrap_or(self.answers);
    }

    fn answer(&mut self, slot: usize, input: &mut Input<'_>) {
        let result = if input.hits(4) { Err(input.one_of(ERRORS)) } else { Ok(()) };
        self.tell(&Answer { slot, result }.message());
    }

    /// Answers the next question, if one is there.
    fn serve(&mut self, input: &mut Input<'_>) {
        let taken = self.control().and_then(|control| control.ask_receiver(self.questions)).and_then(|mut receiver| {
            let line = receiver.receive()?;
            Some((Ask::read(&line), receiver.position()))
        });
        if let Some((ask, position)) = taken {
            self.questions = position;
            self.answer(ask.map_or(0, |ask| ask.slot), input);
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..5 => self.start(input),
            5 | 6 => self.serve(input),
            7 => {
                let slot = input.below(SLOTS + 2);
                self.answer(slot, input);
            }
            8 => {
                let (kind, token) = (input.number() as u16, input.number() as u32);
                let words = [0; 6].map(|_: u64| input.number());
                self.tell(&Message { kind, token, words, ..Message::default() });
            }
            9 => {
                let words = self.memory.words(0, CONTROL_PAGES);
                words[input.number() as usize % words.len()].store(input.number(), Ordering::Relaxed);
            }
            10 | 11 => self.front.take_answers(),
            12 => _ = self.front.on_tick(),
            13 => advance(input.number() % (2 * LATE_MS) * 1_000_000),
            14 => _ = self.front.has_room() && self.front.stop(input.below(DISKS.len() + 1)),
            _ if input.hits(8) => self.control().into_iter().for_each(|control| control.close()),
            _ => drop(self.front.statistics(input.below(DISKS.len() + 1))),
        }
    }

    fn end(self) {
        advance(LATE_MS * 1_000_000 + 1);
        assert_eq!(self.front.on_tick(), None, "something is under way");
        assert!(self.asked.lock().iter().all(|asked| asked.ends == 1), "a request without an end");
        assert!(self.pages.iter().all(|page| !page.is_shared()), "memory is held");
        assert!((0..DISKS.len()).all(|place| self.front.stop(place)));
    }
}

fn one(bytes: &[u8]) {
    let (mut input, mut world) = (Input::new(bytes), World::new());
    for _ in 0..STEPS_MAX {
        if input.is_over() {
            break;
        }
        world.step(&mut input);
    }
    world.end();
}

#[test]
fn whatever_a_back_end_writes_each_request_ends_once_and_nothing_is_held() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/search/corpus");
    // a read and a write that are answered
    let first = [0, 0, 0, 7, 1, 5, 0, 10, 0, 0, 1, 0, 0, 5, 0, 10];
    gyre_mutate::run("split-disk", &corpus, &first, 4000, one);
}
