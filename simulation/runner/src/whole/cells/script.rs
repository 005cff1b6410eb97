//! A cell as a script: steps one after the other, each begun and then waited for.
//!
//! The script plays the cell's core: it writes lines, tables and the ring of its disk in the cell's memory, and sees only what the cell would.
//!
//! * A step is begun once, then looked at until it has ended; a step that ends otherwise than it must fails the run.
//! * A kill comes some time after its step has begun.
//! * In a third of the seeds a cell lies to its disk in place of giving it back, which ends it.
//! * Memory that the pool does not have is asked for some times; then the script goes on without.

use crate::whole::cells::home::{AT, BUSY, CLOSE, FAULT, Home, LATER, OPEN, SUM, SUM_OF_BYTES};
use crate::whole::cells::seat::{Ask, Phase, Seat};
use gyre_account::{ActivityId, ResourceId};
use gyre_cell_abi::device::{NEXT, WRITE, kind, status};
use gyre_cell_abi::state;
use gyre_cell_device::{Cell as _, Lie};
use gyre_cell_memory::{CellMemory, View};
use gyre_engine::RESIDENT;
use gyre_engine::simulate::Outside;
use gyre_interface::block::SECTOR_BYTES;
use gyre_machine::random::Random;
use gyre_machine::{advance_core_to, core_index, select_core, wake_core};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Steps of a script.
pub const STEPS: usize = STEPS_IN_ORDER.len();
const STEPS_IN_ORDER: [Step; 12] = [
    Step::Enter,
    Step::Call,
    Step::Fault,
    Step::CallOnOldMemory,
    Step::CallOnNewMemory,
    Step::Grow,
    Step::OpenDisk,
    Step::Write,
    Step::ReadBack,
    Step::GiveWhileReading,
    Step::CloseOrLie,
    Step::Exit,
];
/// Looks at an answer before it is said to be lost.
const LOOKS_MAX: u32 = 400_000;
/// Times that a cell asks for memory that the pool does not have.
const WISHES_MAX: u32 = 20;
/// Bytes of a request, and the sectors of each cell on the disk.
const DATA_BYTES: u64 = 8192;
const SECTORS_OF_CELL: u64 = DATA_BYTES / SECTOR_BYTES as u64;
/// Places in the first lot: the parts of the ring, a header with its status, data.
const RING: u64 = 1 << 20;
const AVAILABLE: u64 = RING + 0x1000;
const USED: u64 = RING + 0x2000;
const HEADER: u64 = RING + 0x3000;
const DATA: u64 = RING + 0x10000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Enter,
    Call,
    Fault,
    CallOnOldMemory,
    CallOnNewMemory,
    Grow,
    OpenDisk,
    Write,
    ReadBack,
    GiveWhileReading,
    CloseOrLie,
    Exit,
}

/// A cell.
pub struct Script {
    home: Rc<Home>,
    seat: Rc<Seat>,
    /// The step at which it is killed; none if there are not so many.
    kill_at: usize,
    /// It lies to its disk.
    lies: bool,
    /// Looks at a read after which it gives back the lot that is read into.
    gives_after: u32,
    step: Cell<usize>,
    has_begun: Cell<bool>,
    looks: Cell<u32>,
    wishes: Cell<u32>,
    kill_ns: Cell<Option<u64>>,
    next_ns: Cell<Option<u64>>,
    /// Requests at the ring so far.
    asked: Cell<u16>,
    /// The lot that it has got beside its first two.
    grown: Cell<Option<u64>>,
    lots_before: RefCell<Vec<u64>>,
    random: RefCell<Random>,
}

impl Script {
    /// Starts a cell, which is killed at a step.
    pub fn start(home: &Rc<Home>, seed: u64, kill_at: usize) -> Rc<Script> {
        let mut random = Random::new(seed, 70 + kill_at as u64);
        Rc::new(Script {
            seat: home.start(kill_at as u16),
            home: home.clone(),
            kill_at,
            lies: random.once_in(3),
            gives_after: random.below(6) as u32,
            step: Cell::new(0),
            has_begun: Cell::new(false),
            looks: Cell::new(0),
            wishes: Cell::new(0),
            kill_ns: Cell::new(None),
            next_ns: Cell::new(Some(4_000_000 + random.below(1_000_000))),
            asked: Cell::new(0),
            grown: Cell::new(None),
            lots_before: RefCell::default(),
            random: RefCell::new(random),
        })
    }

    /// Returns whether it came to its end.
    pub fn is_whole(&self) -> bool {
        self.step.get() == STEPS
    }

    /// Returns whether it came as far as it must: to its end, to the step at which it was killed, or to its lie.
    pub fn came_far_enough(&self) -> bool {
        // The lot was gone before the request that names it was taken.
        let step = STEPS_IN_ORDER.get(self.step.get());
        if step == Some(&Step::GiveWhileReading) && self.seat.lie.get() == Some(Lie::Memory) {
            return true;
        }
        let lie = STEPS_IN_ORDER.iter().position(|step| *step == Step::CloseOrLie).unwrap_or(STEPS);
        let most = if self.lies { self.kill_at.min(lie) } else { self.kill_at };
        self.step.get() >= most.min(STEPS)
    }

    /// Says how far it is.
    pub fn describe(&self) -> String {
        let step = STEPS_IN_ORDER.get(self.step.get());
        format!("cell {}: {step:?} of {:?}, kill at {}", self.seat.number, self.seat.phase.get(), self.kill_at)
    }

    fn memory(&self) -> Option<Arc<CellMemory>> {
        self.seat.memory.borrow().clone()
    }

    /// The first byte of the first lot.
    fn base(&self) -> u64 {
        self.lots().first().copied().unwrap_or(0)
    }

    fn lots(&self) -> Vec<u64> {
        let grants = self.memory().map_or(vec![], |memory| memory.grants());
        let lots = grants.into_iter().filter(|grant| grant.range.bytes == gyre_cell_abi::LOT_BYTES);
        let mut all: Vec<u64> = lots.map(|grant| grant.range.start.0).collect();
        // The first lot has the tables.
        let root = self.memory().map_or(0, |memory| memory.lines.root());
        all.sort_by_key(|lot| (!(*lot..lot + gyre_cell_abi::LOT_BYTES).contains(&root), *lot));
        all
    }

    fn write(&self, physical: u64, bytes: &[u8]) {
        if let Some((page, at)) = self.memory().and_then(|memory| memory.find_in_lot(physical, bytes.len() as u64)) {
            page.write(at, bytes);
        }
    }

    fn read<const BYTES: usize>(&self, physical: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        if let Some((page, at)) = self.memory().and_then(|memory| memory.find_in_lot(physical, BYTES as u64)) {
            page.read(at, &mut bytes);
        }
        bytes
    }

    fn word(&self, physical: u64) -> u64 {
        u64::from_le_bytes(self.read(physical))
    }

    /// Writes a line and rings.
    fn call(&self, number: u64, arguments: [u64; 3]) {
        let shared = self.seat.shared.borrow();
        let Some(lines) = shared.get(1) else { return };
        lines.write(4, &(number as u32).to_le_bytes());
        arguments.iter().enumerate().for_each(|(place, word)| _ = lines.write(8 + place * 8, &word.to_le_bytes()));
        lines.write(0, &state::ASKED.to_le_bytes());
        self.seat.changed.wake_all();
    }

    /// Takes the answer of the line, once it is there.
    fn answer(&self) -> Option<i64> {
        let shared = self.seat.shared.borrow();
        let lines = shared.get(1)?;
        let (mut word, mut result) = ([0; 4], [0; 8]);
        lines.read(0, &mut word);
        lines.read(56, &mut result);
        if u32::from_le_bytes(word) != state::ANSWERED {
            return None;
        }
        lines.write(0, &state::FREE.to_le_bytes());
        Some(i64::from_le_bytes(result))
    }

    fn ask(&self, ask: Ask) {
        self.seat.ask.set(Some(ask));
        self.seat.changed.wake_all();
    }

    fn describe_part(&self, number: u64, (physical, bytes): (u64, u64), flags: u16, next: u64) {
        let at = self.base() + RING + number * 16;
        self.write(at, &physical.to_le_bytes());
        self.write(at + 8, &(bytes | u64::from(flags) << 32 | next << 48).to_le_bytes());
    }

    /// Sends a request for the cell's own sectors.
    fn request(&self, kind: u32, data: u64) {
        let base = self.base();
        self.write(base + HEADER, &kind.to_le_bytes());
        self.write(base + HEADER + 8, &(u64::from(self.seat.number) * SECTORS_OF_CELL).to_le_bytes());
        self.write(base + HEADER + 16, &[0xff]);
        self.describe_part(0, (base + HEADER, 16), NEXT, 1);
        self.describe_part(1, (data, DATA_BYTES), NEXT | if kind == kind::READ { WRITE } else { 0 }, 2);
        self.describe_part(2, (base + HEADER + 16, 1), WRITE, 0);
        let place = u64::from(self.asked.get() % 8);
        self.write(base + AVAILABLE + 4 + place * 2, &0u16.to_le_bytes());
        self.announce(self.asked.get().wrapping_add(1));
    }

    fn announce(&self, index: u16) {
        self.asked.set(index);
        self.write(self.base() + AVAILABLE + 2, &index.to_le_bytes());
        self.seat.changed.wake_all();
    }

    /// Returns the status of the request, once it is answered.
    fn ended(&self) -> Option<u8> {
        let [byte] = self.read(self.base() + HEADER + 16);
        (u16::from_le_bytes(self.read(self.base() + USED + 2)) == self.asked.get()).then_some(byte)
    }

    /// The byte that the cell writes at a place of its data.
    fn pattern(&self, at: u64) -> u8 {
        (at as u8) ^ (at >> 8) as u8 ^ self.seat.number as u8
    }

    /// Writes the entry of an address into the cell's table.
    fn map(&self, address: u64, entry: u64) {
        let Some(memory) = self.memory() else { return };
        let place = |table: u64, level: u32| (table & 0x000f_ffff_ffff_f000) + (address >> (level * 9 + 3) & 511) * 8;
        let table = [4, 3, 2].into_iter().fold(memory.lines.root(), |table, level| self.word(place(table, level)));
        self.write(place(table, 1), &entry.to_le_bytes());
    }

    fn begin(&self, step: Step) {
        let base = self.base();
        match step {
            Step::Enter => {}
            Step::Call => self.call(SUM, [u64::from(self.seat.number) * 7919, 5, 0]),
            Step::Fault => self.ask(Ask::Fault(LATER)),
            Step::CallOnOldMemory => self.call(SUM_OF_BYTES, [AT, 4096, 0]),
            Step::CallOnNewMemory => {
                if let Some(seen) = self.memory().and_then(|memory| memory.find(LATER)) {
                    seen.page.write(seen.offset, &[1, 2, 3]);
                }
                self.call(SUM_OF_BYTES, [LATER, 4096, 0]);
            }
            Step::Grow => {
                *self.lots_before.borrow_mut() = self.lots();
                self.ask(Ask::More(1));
            }
            Step::OpenDisk => self.call(OPEN, [base + RING, base + AVAILABLE, base + USED]),
            Step::Write => {
                let data: Vec<u8> = (0..DATA_BYTES).map(|at| self.pattern(at)).collect();
                self.write(base + DATA, &data);
                self.request(kind::WRITE, base + DATA);
            }
            Step::ReadBack => {
                self.write(base + DATA, &[0; DATA_BYTES as usize]);
                self.request(kind::READ, base + DATA);
            }
            Step::GiveWhileReading => {
                self.request(kind::READ, self.grown.get().unwrap_or(base + DATA));
            }
            Step::CloseOrLie if self.lies => self.announce(self.asked.get().wrapping_add(9)),
            Step::CloseOrLie => self.call(CLOSE, [0; 3]),
            Step::Exit => {
                self.step.set(STEPS);
                self.seat.set_phase(Phase::Out);
            }
        }
    }

    /// Returns true once a step has ended.
    ///
    /// # Panics
    /// If it ended otherwise than it must.
    fn ends(&self, step: Step) -> bool {
        match step {
            Step::Enter => self.seat.phase.get() == Phase::Ready,
            Step::Call => self.answer().is_some_and(|sum| is_same(sum, i64::from(self.seat.number) * 7919 + 5)),
            Step::Fault => self.seat.answer.take().is_some_and(|entry| {
                assert_ne!(entry, FAULT, "a page of the process does not come");
                self.map(LATER, entry as u64);
                true
            }),
            Step::CallOnOldMemory => self.answer().is_some_and(|sum| is_same(sum, 7 * 4096)),
            Step::CallOnNewMemory => self.answer().is_some_and(|sum| is_same(sum, 6)),
            Step::Grow => self.seat.answer.take().is_some_and(|answer| self.has_grown(answer)),
            Step::OpenDisk => self.answer().is_some_and(|answer| {
                if answer == BUSY {
                    self.has_begun.set(false);
                }
                answer != BUSY && is_same(answer, 0)
            }),
            Step::Write => self.ended().is_some_and(|status| is_same(status.into(), status::DONE.into())),
            Step::ReadBack => self.ended().is_some_and(|status| {
                let data: [u8; DATA_BYTES as usize] = self.read(self.base() + DATA);
                let is_right = (0..).zip(data).all(|(at, byte)| byte == self.pattern(at));
                assert!(is_right, "cell {} reads something else than it wrote", self.seat.number);
                is_same(status.into(), status::DONE.into())
            }),
            Step::GiveWhileReading => {
                if let Some(lot) = self.grown.get().filter(|_| self.looks.get() == self.gives_after) {
                    self.ask(Ask::Give(lot));
                }
                let is_given = self.grown.get().is_none() || self.seat.answer.get().is_some();
                is_given && self.ended().is_some_and(|status| is_same(status.into(), status::DONE.into()))
            }
            // A lie ends the cell instead.
            Step::CloseOrLie => self.answer().is_some_and(|answer| is_same(answer, 0)),
            Step::Exit => true,
        }
    }

    fn has_grown(&self, answer: i64) -> bool {
        self.wishes.set(self.wishes.get() + 1);
        if answer != 0 && self.wishes.get() < WISHES_MAX {
            self.has_begun.set(false);
            return false;
        }
        let before = self.lots_before.borrow();
        self.grown.set(self.lots().into_iter().find(|lot| !before.contains(lot)));
        assert_eq!(self.grown.get().is_some(), answer == 0, "a lot that was granted");
        true
    }

    fn turn(&self, at_ns: u64) {
        let Some(step) = STEPS_IN_ORDER.get(self.step.get()).copied() else { return };
        let step_now = self.step.get();
        if !self.has_begun.replace(true) {
            self.begin(step);
            if step_now == self.kill_at && self.kill_ns.get().is_none() {
                self.kill_ns.set(Some(at_ns + self.random.borrow_mut().below(150_000)));
            }
        } else if self.ends(step) {
            self.step.set(self.step.get() + 1);
            self.has_begun.set(false);
            self.looks.set(0);
        } else {
            self.looks.set(self.looks.get() + 1);
            assert!(self.looks.get() < LOOKS_MAX, "{} waits for ever", self.describe());
        }
    }

    fn kill(&self) {
        let (engine, activity) = (self.home.engine, self.seat.activity);
        let task = async move {
            let _ = engine.kill(activity).await;
        };
        engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, task);
    }
}

fn is_same(got: i64, wanted: i64) -> bool {
    assert_eq!(got, wanted, "the answer of a step");
    true
}

impl Outside for Script {
    fn next_at(&self) -> Option<u64> {
        self.next_ns.get()
    }

    fn act(&self, at_ns: u64) {
        let before = core_index();
        select_core(RESIDENT);
        advance_core_to(RESIDENT, at_ns);
        let is_killed = self.kill_ns.get().is_some_and(|kill_ns| kill_ns <= at_ns);
        match () {
            () if is_killed => self.kill(),
            () if self.seat.is_over() => {}
            () => self.turn(at_ns),
        }
        select_core(before);
        wake_core(RESIDENT);
        let goes_on = !is_killed && (!self.seat.is_over() || self.kill_ns.get().is_some());
        let pause = 2_000 + self.random.borrow_mut().below(20_000);
        self.next_ns.set(goes_on.then_some(at_ns + pause));
    }
}
