//! The asking end of a lot: all disks of the table share its slots and rings.
//!
//! ```text
//!   start --> waits for a slot --> taken: copied --> asked --answer--> taken: copied --> then(..), and the next one that waits
//!                                                      | LATE_MS
//!                                                      +--> then(error); late --answer--> free
//! ```
//! The lock is held for a line or a look, never while data is copied or an answer is handed on.

use crate::disk::SplitDisk;
use crate::layout::{Control, SLOTS, Window, slot_pages};
use crate::slots::{Slot, Slots, Wanted};
use crate::words::{Answer, Ask};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_device::{DiskStatistics, InterruptLine, Operation, Timed};
use gyre_interface::block::{BlockError, Geometry};
use gyre_line::LINES;
use gyre_machine::{cycles_per_ms, now};
use gyre_object::{Bytes, Page, SpinLock};

/// A request without an answer for so long ends with an error, ms. The back end's own disk has given up before.
pub const LATE_MS: u64 = 15_000;
/// Looks at the clock in that time.
const LOOKS: u64 = 16;
/// Answers that are taken in one turn.
const ANSWERS_MAX: usize = 2 * LINES;

/// Places in the rings, and what is under way.
#[derive(Default)]
struct State {
    slots: Slots,
    asked: u32,
    answered: u32,
    /// The cycle of the last answer.
    last: u64,
    statistics: Vec<DiskStatistics>,
    /// Disks that were brought to rest, a bit each.
    stopped: u64,
}

/// The asking end. Lives as long as the instance.
pub struct FrontEnd {
    window: Box<dyn Window>,
    /// Pages of the slots, in order.
    pages: Vec<Page>,
    geometries: Vec<Geometry>,
    /// The line of each disk.
    lines: Vec<InterruptLine>,
    state: SpinLock<State>,
}

/// An answer that has come.
struct Answered {
    slot: usize,
    wanted: Wanted,
    result: Result<(), BlockError>,
    device_ns: u64,
}

impl FrontEnd {
    /// Takes the asking end of a window that a back end serves. `lines` are for the disks of the table, in order; a disk without one is left
    /// out. `None` if the window has not all that it promises.
    #[must_use]
    pub fn open(window: Box<dyn Window>, lines: &[InterruptLine]) -> Option<FrontEnd> {
        let pages: Vec<Page> = (0..SLOTS).flat_map(slot_pages).map_while(|page| window.page(page)).collect();
        let geometries: Vec<Geometry> = {
            let whole = slot_pages(0).len().saturating_mul(SLOTS);
            let control = Control::of(window.control()).filter(|_| pages.len() == whole)?;
            let all = (0..control.disk_count()).map_while(|disk| control.geometry(disk));
            let all: Vec<Geometry> = all.take(lines.len()).collect();
            control.front_bell.leave();
            all
        };
        let statistics = geometries.iter().map(|_| DiskStatistics::default()).collect();
        let state = SpinLock::new(State { statistics, ..State::default() });
        Some(FrontEnd { window, pages, geometries, lines: lines.to_vec(), state })
    }

    /// Returns the disks, in the order of the table.
    pub fn disks(&'static self) -> impl Iterator<Item = SplitDisk> {
        let disks = self.geometries.iter().zip(&self.lines).enumerate();
        disks.map(move |(place, (geometry, line))| SplitDisk::new(self, place, *geometry, *line))
    }

    fn control(&self) -> Option<Control<'_>> {
        Control::of(self.window.control())
    }

    fn is_closed(&self) -> bool {
        self.control().is_none_or(|control| control.is_closed())
    }

    /// Begins a request, or lets it wait for a slot.
    pub(crate) fn start(&self, wanted: Wanted) {
        let is_stopped = 1_u64.checked_shl(wanted.disk as u32).unwrap_or(0) & self.state.lock().stopped != 0;
        if is_stopped || self.is_closed() {
            return (wanted.then)(Timed::unasked(Err(BlockError::Gone)));
        }
        let next = {
            let state = &mut *self.state.lock();
            if !state.slots.has_free() {
                count(&mut state.statistics, wanted.disk, |one| one.waits = one.waits.saturating_add(1));
            }
            state.slots.waiting.push_back(wanted);
            state.slots.next()
        };
        if let Some((slot, wanted)) = next {
            self.ask(slot, wanted);
        }
    }

    /// Copies a request into its slot and asks for it.
    fn ask(&self, slot: usize, wanted: Wanted) {
        if wanted.transfer.operation == Operation::Write {
            self.each_piece(slot, &wanted.transfer.data, |page, at, view, from, bytes| {
                page.copy_page(at, view, from, bytes);
            });
        }
        let bytes = wanted.transfer.data.iter().fold(0, |sum: usize, view| sum.saturating_add(view.len()));
        let (operation, first_sector) = (wanted.transfer.operation, wanted.transfer.first_sector);
        let line = Ask { slot, disk: wanted.disk, operation, first_sector, bytes }.message();
        let refused = {
            let state = &mut *self.state.lock();
            let sender = self.control().and_then(|control| control.ask_sender(state.asked));
            let sent = sender.and_then(|mut sender| sender.send(&line).ok().map(|()| sender.position()));
            match sent {
                Some(position) => {
                    state.asked = position;
                    state.slots.set(slot, Slot::Asked(wanted));
                    None
                }
                None => {
                    state.slots.set(slot, Slot::Free);
                    Some(wanted)
                }
            }
        };
        match refused {
            // There are more lines than slots: a back end that lies.
            Some(wanted) => (wanted.then)(Timed::unasked(Err(BlockError::Io))),
            None if self.control().is_some_and(|control| control.back_bell.must_ring()) => self.window.interrupt_peer(),
            None => {}
        }
    }

    /// Tells each piece of memory beside its place in the slot: page and offset there, page and offset here, bytes.
    fn each_piece(&self, slot: usize, views: &[Bytes], mut tell: impl FnMut(&Page, usize, &Page, usize, usize)) {
        let page_bytes = gyre_machine::PAGE_BYTES;
        let pages = slot_pages(0).len();
        let mut at = 0_usize;
        for view in views {
            let (page, start) = view.location();
            let mut done = 0_usize;
            while done < view.len() {
                let place = slot.saturating_mul(pages).saturating_add(at / page_bytes);
                let Some(into) = self.pages.get(place).filter(|_| at / page_bytes < pages) else { return };
                let offset = at % page_bytes;
                let bytes = page_bytes.saturating_sub(offset).min(view.len().saturating_sub(done));
                tell(into, offset, page, start.saturating_add(done), bytes);
                done = done.saturating_add(bytes);
                at = at.saturating_add(bytes);
            }
        }
    }

    /// Takes all answers that have come and hands them on. Harmless if there is none.
    pub(crate) fn take_answers(&self) {
        for _ in 0..ANSWERS_MAX {
            match self.next_answer() {
                Some(answered) => self.end(answered),
                None if self.may_sleep() => break,
                None => {}
            }
        }
        if self.is_closed() {
            self.fail(u64::MAX, BlockError::Gone);
        }
    }

    /// Takes answers until one is for a request.
    fn next_answer(&self) -> Option<Answered> {
        let state = &mut *self.state.lock();
        let mut receiver = self.control()?.answer_receiver(state.answered)?;
        for _ in 0..LINES {
            let line = receiver.receive()?;
            state.answered = receiver.position();
            let Some(answer) = Answer::read(&line) else { continue };
            if let Some(wanted) = state.slots.answered(answer.slot) {
                let cycles = now().saturating_sub(wanted.since.max(state.last));
                state.last = now();
                return Some(Answered { slot: answer.slot, wanted, result: answer.result, device_ns: ns(cycles) });
            }
        }
        None
    }

    fn may_sleep(&self) -> bool {
        let Some(control) = self.control() else { return true };
        control.front_bell.leave();
        let answered = self.state.lock().answered;
        !control.answer_receiver(answered).is_some_and(|receiver| receiver.has_some())
    }

    /// Gives a request its data, its slot to the next one, and the answer to who waits.
    fn end(&self, answered: Answered) {
        let Answered { slot, wanted: Wanted { disk, transfer, then, .. }, result, device_ns } = answered;
        if result.is_ok() && transfer.operation == Operation::Read {
            self.each_piece(slot, &transfer.data, |page, at, view, from, bytes| {
                view.copy_page(from, page, at, bytes);
            });
        }
        let next = {
            let state = &mut *self.state.lock();
            count(&mut state.statistics, disk, |one| note(one, &transfer.data, transfer.operation));
            state.slots.set(slot, Slot::Free);
            state.slots.next()
        };
        if let Some((slot, wanted)) = next {
            self.ask(slot, wanted);
        }
        then(Timed { answer: result.map(|()| transfer.data), device_ns });
    }

    /// Ends all requests that came before a cycle.
    fn fail(&self, before: u64, error: BlockError) {
        let old = self.state.lock().slots.take_older(before);
        old.into_iter().for_each(|wanted| (wanted.then)(Timed::unasked(Err(error))));
    }

    /// Looks for lost interrupts and late requests. Returns after how many cycles to look again; `None` if nothing is under way.
    pub(crate) fn on_tick(&self) -> Option<u64> {
        self.take_answers();
        let late = LATE_MS.saturating_mul(cycles_per_ms());
        self.fail(now().saturating_sub(late), BlockError::Io);
        self.state.lock().slots.has_some().then(|| (late / LOOKS).saturating_add(1))
    }

    pub(crate) fn has_room(&self) -> bool {
        self.is_closed() || self.state.lock().slots.has_free()
    }

    /// Brings a disk to rest; false if it has requests.
    pub(crate) fn stop(&self, disk: usize) -> bool {
        let state = &mut *self.state.lock();
        let is_still = !state.slots.has_some_of(disk);
        if is_still {
            state.stopped |= 1_u64.checked_shl(disk as u32).unwrap_or(0);
        }
        is_still
    }

    /// Returns whether the back end can touch a disk for no request any more.
    pub(crate) fn is_at_rest(&self, disk: usize) -> bool {
        !self.is_closed() && self.state.lock().slots.is_at_rest(disk)
    }

    pub(crate) fn statistics(&self, disk: usize) -> DiskStatistics {
        let state = self.state.lock();
        let depth = u16::try_from(state.slots.used()).unwrap_or(u16::MAX);
        state.statistics.get(disk).map_or(DiskStatistics::default(), |one| DiskStatistics { depth, ..*one })
    }
}

fn count(all: &mut [DiskStatistics], disk: usize, change: impl FnOnce(&mut DiskStatistics)) {
    if let Some(one) = all.get_mut(disk) {
        change(one);
    }
}

fn note(one: &mut DiskStatistics, data: &[Bytes], operation: Operation) {
    let bytes = data.iter().fold(0, |sum: u64, view| sum.saturating_add(view.len() as u64));
    one.completed = one.completed.saturating_add(1);
    match operation {
        Operation::Read => {
            one.read_bytes = one.read_bytes.saturating_add(bytes);
            one.reads = one.reads.saturating_add(1);
        }
        Operation::Write => {
            one.written_bytes = one.written_bytes.saturating_add(bytes);
            one.writes = one.writes.saturating_add(1);
        }
        Operation::Flush => one.flushes = one.flushes.saturating_add(1),
    }
}

fn ns(cycles: u64) -> u64 {
    let ns = u128::from(cycles).saturating_mul(1_000_000).checked_div(u128::from(cycles_per_ms()));
    u64::try_from(ns.unwrap_or(0)).unwrap_or(u64::MAX)
}
