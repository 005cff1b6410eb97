//! The page that a cell and its kernel share, and the lines of calls behind it, from the kernel's side.
//!
//! * [`Lines::begin`] fills the page; [`Lines::want`], [`Lines::tell_signals`] and [`Lines::ask_for_end`] ask the cell for something.
//! * [`Lines::held`] is the cell's word for the kernel: signals that it holds back.
//! * [`Lines::take_from`] takes the calls that wait, [`Lines::answer`] answers one, [`Lines::is_given_up`] says that the cell does not want to wait.
//!
//! The lines of all cores lie in a row; [`Shape::core_of`] says whose a line is.
//!
//! The cell may write any word at any time. So words are copied once, and a word that both sides change is replaced by compare and exchange.

use alloc::vec::Vec;
use core::mem::offset_of;
use core::sync::atomic::{Ordering, fence};
use gyre_cell_abi::{CallLine, CellPage, LOTS_MAX, PAGE_VERSION, asks, state};
use gyre_machine::PAGE_BYTES;
use gyre_object::Page;

/// Bytes of a line.
const LINE: usize = size_of::<CallLine>();

/// A call of a cell: a copy, which the cell cannot change any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The number of its line.
    pub line: usize,
    /// The number of the call.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// The facts of the shared page that stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageFacts {
    /// The virtual address of physical address 0.
    pub window: u64,
    /// The physical address of the first root.
    pub root: u64,
    /// The physical address behind the tables.
    pub free: u64,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
}

/// Whether the kernel wants to be told of new lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bell {
    /// It does.
    Wanted,
    /// It looks by itself.
    NotWanted,
}

/// Parts that a cell gives back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wanted {
    /// Lots.
    pub lots: u32,
    /// Cores.
    pub cores: u32,
    /// The time stamp up to which it has time.
    pub until: u64,
}

/// How many lines there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Cores.
    pub cores: u32,
    /// Lines of each.
    pub lines: u32,
}

impl Shape {
    /// Returns the number of all lines.
    pub fn count(self) -> usize {
        (self.cores as usize).saturating_mul(self.lines as usize)
    }

    /// Returns how many pages they need, the shared page included.
    pub fn pages(self) -> usize {
        self.count().saturating_mul(LINE).div_ceil(PAGE_BYTES).saturating_add(1)
    }

    /// Returns the core of a line.
    pub fn core_of(self, line: usize) -> usize {
        line.checked_div(self.lines as usize).unwrap_or(0)
    }
}

/// The shared page and its lines.
pub struct Lines {
    pages: Vec<Page>,
    /// How many there are.
    pub shape: Shape,
}

/// Tries to change a word that the cell changes too; after them its change is lost, which hurts the cell alone.
const TRIES: usize = 100;

impl Lines {
    /// Makes lines in these pages, which are zeros: [`Shape::pages`] of them.
    pub fn new(pages: Vec<Page>, shape: Shape) -> Lines {
        Lines { pages, shape }
    }

    /// Returns the number of lines.
    pub fn count(&self) -> usize {
        self.shape.count()
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        if let Some(page) = self.pages.first() {
            page.write(offset, bytes);
        }
    }

    fn word(&self, offset: usize) -> u64 {
        let mut word = [0; 8];
        self.pages.first().map(|page| page.read(offset, &mut word));
        u64::from_le_bytes(word)
    }

    /// Writes the facts of the page.
    pub(crate) fn begin(&self, facts: &PageFacts) {
        let halves = [
            (offset_of!(CellPage, version), PAGE_VERSION),
            (offset_of!(CellPage, cores), self.shape.cores),
            (offset_of!(CellPage, lines), self.shape.lines),
            (offset_of!(CellPage, wants_bell), 1),
        ];
        halves.into_iter().for_each(|(offset, value)| self.write(offset, &value.to_le_bytes()));
        let words = [
            (offset_of!(CellPage, window), facts.window),
            (offset_of!(CellPage, root), facts.root),
            (offset_of!(CellPage, tsc_hz), facts.tsc_hz),
            (offset_of!(CellPage, free), facts.free),
        ];
        words.into_iter().for_each(|(offset, value)| self.write(offset, &value.to_le_bytes()));
    }

    /// Writes the list of lots, then their number.
    pub(crate) fn write_lots(&self, lots: impl ExactSizeIterator<Item = u64>) {
        let start = offset_of!(CellPage, lot_list);
        let count = u32::try_from(lots.len().min(LOTS_MAX)).unwrap_or(0);
        for (place, lot) in lots.take(LOTS_MAX).enumerate() {
            self.write(start.saturating_add(place.saturating_mul(8)), &lot.to_le_bytes());
        }
        self.write(offset_of!(CellPage, lots), &count.to_le_bytes());
    }

    /// The root of the cell's table, as it says at this moment.
    pub fn root(&self) -> u64 {
        self.word(offset_of!(CellPage, root))
    }

    /// Says whether the kernel wants to be told of new lines. A caller who says that it does looks at the lines once more after this.
    pub fn set_bell(&self, bell: Bell) {
        self.write(offset_of!(CellPage, wants_bell), &u32::from(bell == Bell::Wanted).to_le_bytes());
        fence(Ordering::SeqCst);
    }

    /// Tells the cell which signals wait, and asks it to take those that are open. A caller looks at [`Lines::held`] once more after this: the
    /// cell rings only if it finds a signal here that it has let in.
    pub fn tell_signals(&self, open: u64, held: u64) {
        self.write(offset_of!(CellPage, signals), &(open | held).to_le_bytes());
        self.change_asks(asks::SIGNAL, if open == 0 { 0 } else { asks::SIGNAL });
        fence(Ordering::SeqCst);
    }

    /// The signals that the cell holds back, as it says at this moment: any word.
    pub fn held(&self) -> u64 {
        self.word(offset_of!(CellPage, held))
    }

    /// Begins with the signals that the process holds back.
    pub fn begin_holding(&self, held: u64) {
        self.write(offset_of!(CellPage, held), &held.to_le_bytes());
    }

    /// Asks the cell for parts; for none if nothing is wanted any more.
    pub fn want(&self, wanted: Wanted) {
        self.write(offset_of!(CellPage, wanted_lots), &wanted.lots.to_le_bytes());
        self.write(offset_of!(CellPage, wanted_cores), &wanted.cores.to_le_bytes());
        self.write(offset_of!(CellPage, wanted_until), &wanted.until.to_le_bytes());
        self.change_asks(asks::GIVE_BACK, if wanted == Wanted::default() { 0 } else { asks::GIVE_BACK });
    }

    /// Offers cores to the cell; 0 is no offer any more.
    pub fn offer(&self, cores: u32) {
        self.write(offset_of!(CellPage, offered_cores), &cores.to_le_bytes());
        self.change_asks(asks::OFFER, if cores == 0 { 0 } else { asks::OFFER });
    }

    /// Asks the cell to end.
    pub fn ask_for_end(&self) {
        self.change_asks(asks::END, asks::END);
    }

    /// Replaces the bits of `mask`; the others stay as they are.
    fn change_asks(&self, mask: u32, bits: u32) {
        let Some(page) = self.pages.first() else { return };
        let place = offset_of!(CellPage, asks);
        for _ in 0..TRIES {
            let before = self.asks();
            if page.compare_exchange_u32(place, before, before & !mask | bits).is_none_or(|change| change.is_ok()) {
                return;
            }
        }
        self.write(place, &(self.asks() & !mask | bits).to_le_bytes());
    }

    /// Returns the asks that stand.
    pub fn asks(&self) -> u32 {
        self.word(offset_of!(CellPage, asks)) as u32
    }

    /// Writes how often the cell has left.
    pub fn set_exits(&self, exits: u64) {
        self.write(offset_of!(CellPage, exits), &exits.to_le_bytes());
    }

    fn place(&self, line: usize) -> Option<(&Page, usize)> {
        let at = (line < self.count()).then(|| line.checked_mul(LINE))??;
        Some((self.pages.get((at / PAGE_BYTES).checked_add(1)?)?, at % PAGE_BYTES))
    }

    fn change(&self, line: usize, from: u32, to: u32) -> bool {
        let Some((page, at)) = self.place(line) else { return false };
        let at = at.saturating_add(offset_of!(CallLine, state));
        matches!(page.compare_exchange_u32(at, from, to), Some(Ok(_)))
    }

    /// Returns the first line from `from` on that asks, by a look alone: a word is read for each line.
    fn first_asking(&self, from: usize) -> Option<usize> {
        let mut line = from;
        while let Some((page, at)) = self.place(line) {
            let state = at.saturating_add(offset_of!(CallLine, state));
            if let Some(found) = page.find_u32(state, LINE, state::ASKED) {
                let line = line.saturating_add(found.saturating_sub(state) / LINE);
                return Some(line).filter(|line| *line < self.count());
            }
            line = line.saturating_add(PAGE_BYTES.saturating_sub(at) / LINE);
        }
        None
    }

    /// Takes the first line that asks, from line `from` on.
    pub fn take_from(&self, from: usize) -> Option<Call> {
        let mut line = self.first_asking(from)?;
        // The cell may take it back meanwhile.
        while !self.change(line, state::ASKED, state::TAKEN) {
            line = self.first_asking(line.saturating_add(1))?;
        }
        self.copy(line)
    }

    /// Returns true if a line asks.
    pub fn has_asked(&self) -> bool {
        self.first_asking(0).is_some()
    }

    fn copy(&self, line: usize) -> Option<Call> {
        let (page, at) = self.place(line)?;
        let mut bytes = [0; LINE];
        page.read(at, &mut bytes);
        let word = |offset: usize| {
            let bytes = bytes.get(offset..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let first = offset_of!(CallLine, arguments);
        let number = word(offset_of!(CallLine, number)) & u64::from(u32::MAX);
        let argument = |place: usize| word(first.saturating_add(place.saturating_mul(8)));
        Some(Call { line, number, arguments: core::array::from_fn(argument) })
    }

    /// Returns true if the cell does not want to wait for a line any longer.
    pub fn is_given_up(&self, line: usize) -> bool {
        let Some((page, at)) = self.place(line) else { return false };
        page.find_u32(at.saturating_add(offset_of!(CallLine, state)), PAGE_BYTES, state::GIVEN_UP).is_some()
    }

    /// Writes the result of a line. A cell that has changed the line's state meanwhile, but for giving it up, gets no answer.
    pub fn answer(&self, line: usize, result: i64) {
        let Some((page, at)) = self.place(line) else { return };
        page.write(at.saturating_add(offset_of!(CallLine, result)), &result.to_le_bytes());
        if !self.change(line, state::TAKEN, state::ANSWERED) {
            self.change(line, state::GIVEN_UP, state::ANSWERED);
        }
    }
}
