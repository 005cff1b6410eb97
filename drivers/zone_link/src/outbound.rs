//! The direction in which this end sends. Its lock is the link's.
//!
//! A page is here (free) or there (at the peer, in a frame or held by its readers); at first all are there. It comes back by a line of the ring of returned pages,
//! which is believed only for pages that are there.
//!
//! To send: take back what was returned, copy the frame, write its line, ring if the peer is away. Without room senders are held back by
//! the gate, as long as the patience with the peer lasts; then their frames are dropped.
//!
//! A look at a tick rings again if the peer has not taken what it had at the last look, at longer and longer intervals, and at last no more.

use crate::arena::Arena;
use crate::descriptor::{Descriptor, pages_of, returned_pages};
use crate::layout::{Direction, FRAME_PAGES_MAX, SLOT_BYTES, SLOT_PAGES, slot_of};
use crate::patience::Patience;
use crate::statistics::ZoneLinkStatistics;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::link::OutFrame;
use gyre_line::LINES;
use gyre_machine::{PAGE_BYTES, cycles_per_ms, now};
use gyre_object::{Bytes, Page};

/// Time between two looks while the peer has something to do, ms.
const LOOK_MS: u64 = 4;
/// Looks in a row without news from the peer before it is left alone until the next frame. Each time between two is twice the former one.
const LOOKS_MAX: u32 = 10;

/// The end at which a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Here,
    There,
}

/// The sending half of a link that is attached.
pub(crate) struct Outbound {
    arena: Arc<dyn Arena>,
    sent: u32,
    returned: u32,
    pages: Vec<Page>,
    places: Vec<Place>,
    free: Vec<u16>,
    patience: Patience,
    /// The position at the last look.
    seen: u32,
    /// Looks in a row at which the peer had not taken that.
    looks: u32,
}

/// Whether a frame went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Went {
    /// The peer has it.
    Sent,
    /// There is no room.
    Dropped,
}

impl Outbound {
    /// Takes the sending half of an arena; `None` if it has not all that it promises.
    pub(crate) fn new(arena: Arc<dyn Arena>) -> Option<Outbound> {
        let count = u16::try_from(arena.pages()).ok()?;
        let pages: Vec<Page> = (0..usize::from(count)).map_while(|page| arena.outbound(page)).collect();
        (pages.len() == usize::from(count)).then_some(())?;
        Direction::of(arena.control(), arena.side())?;
        // the peer gives them, those apart that its readers still hold
        let places = pages.iter().map(|_| Place::There).collect();
        let free = Vec::with_capacity(usize::from(count));
        Some(Outbound {
            arena,
            sent: 0,
            returned: 0,
            pages,
            places,
            free,
            patience: Patience::new(),
            seen: 0,
            looks: 0,
        })
    }

    /// Copies a frame into the arena and tells the peer.
    pub(crate) fn send(&mut self, frame: &OutFrame, statistics: &mut ZoneLinkStatistics) -> Went {
        self.take_returns(statistics);
        if self.patience.is_late() && self.is_half_free() {
            self.patience.end();
        }
        match self.put(frame) {
            Some(bytes) => {
                add(&mut statistics.sent_frames, 1);
                add(&mut statistics.sent_bytes, bytes as u64);
                self.ring_if_away(statistics);
                Went::Sent
            }
            None => {
                add(&mut statistics.dropped_sending, 1);
                Went::Dropped
            }
        }
    }

    fn put(&mut self, frame: &OutFrame) -> Option<usize> {
        let Outbound { arena, sent, pages, places, free, .. } = self;
        let mut sender = Direction::of(arena.control(), arena.side())?.frame_sender(*sent)?;
        let bytes = frame.bytes();
        // a frame that does not fit into the slot has its headers alone there
        let head_bytes = match bytes <= SLOT_BYTES {
            true => bytes,
            false => frame.pieces.first()?.len().min(SLOT_BYTES),
        };
        let rest_bytes = bytes.checked_sub(head_bytes)?;
        let kept = free.len().checked_sub(pages_of(rest_bytes))?;
        let numbers = free.get(kept..)?;
        if !sender.has_room_for(1) || numbers.len() > FRAME_PAGES_MAX {
            return None;
        }
        let (slot_page, slot_start) = slot_of(sender.position());
        copy(&frame.pieces, 0, head_bytes, pages.get(slot_page)?, slot_start);
        copy_rest(&frame.pieces, head_bytes, numbers.iter().filter_map(|number| pages.get(usize::from(*number))));
        sender.send(&Descriptor::new(head_bytes, rest_bytes, numbers).message()).ok()?;
        *sent = sender.position();
        free.drain(kept..).for_each(|number| note(places, number, Place::There));
        Some(bytes)
    }

    /// Takes pages back that the peer returns: as many lines as the ring has, at most.
    fn take_returns(&mut self, statistics: &mut ZoneLinkStatistics) {
        let Outbound { arena, returned, places, free, .. } = self;
        let direction = Direction::of(arena.control(), arena.side());
        let Some(mut receiver) = direction.and_then(|direction| direction.return_receiver(*returned)) else { return };
        for _ in 0..LINES {
            let Some(message) = receiver.receive() else { break };
            for number in returned_pages(&message) {
                match places.get_mut(usize::from(number)) {
                    Some(place) if *place == Place::There && usize::from(number) >= SLOT_PAGES => {
                        *place = Place::Here;
                        free.push(number);
                    }
                    _ => add(&mut statistics.false_returns, 1),
                }
            }
        }
        *returned = receiver.position();
    }

    /// Returns true if a frame may come now: there is room for the longest one, or the peer is too late to wait for.
    pub(crate) fn has_room(&mut self, statistics: &mut ZoneLinkStatistics) -> bool {
        if self.has_room_for(1, FRAME_PAGES_MAX)
            || self.finds_room(statistics, |sending| sending.has_room_for(1, FRAME_PAGES_MAX))
        {
            return true;
        }
        add(&mut statistics.waits, 1);
        !self.patience.holds(now())
    }

    /// Returns true if it is worth going on with senders that were held back. If it is not, an interrupt follows when it is.
    pub(crate) fn may_go_on(&mut self, statistics: &mut ZoneLinkStatistics) -> bool {
        let may = self.is_half_free() || self.finds_room(statistics, |sending| sending.is_half_free());
        if may {
            self.patience.end();
        }
        may || self.patience.is_late()
    }

    /// Takes pages back and looks; asks for an interrupt before a last look.
    fn finds_room(&mut self, statistics: &mut ZoneLinkStatistics, is_enough: impl Fn(&Outbound) -> bool) -> bool {
        self.take_returns(statistics);
        if is_enough(self) {
            return true;
        }
        let bell = |sending: &Outbound, is_away: bool| {
            if let Some(direction) = sending.direction() {
                if is_away { direction.room_bell.leave() } else { direction.room_bell.come_back() }
            }
        };
        bell(self, true);
        self.take_returns(statistics);
        let is_found = is_enough(self);
        if is_found {
            bell(self, false);
        }
        is_found
    }

    fn has_room_for(&self, lines: u32, pages: usize) -> bool {
        let sender = self.direction().and_then(|direction| direction.frame_sender(self.sent));
        self.free.len() >= pages && sender.is_some_and(|sender| sender.has_room_for(lines))
    }

    /// Half of the lines; and of the pages half of the half that readers cannot hold.
    fn is_half_free(&self) -> bool {
        let pages = self.pages.len().saturating_sub(SLOT_PAGES) / 4;
        self.has_room_for(LINES as u32 / 2, pages.max(FRAME_PAGES_MAX))
    }

    fn direction(&self) -> Option<Direction<'_>> {
        Direction::of(self.arena.control(), self.arena.side())
    }

    fn ring_if_away(&mut self, statistics: &mut ZoneLinkStatistics) {
        self.looks = 0;
        if self.direction().is_some_and(|direction| direction.frames_bell.must_ring()) {
            self.ring(statistics);
        }
    }

    fn ring(&self, statistics: &mut ZoneLinkStatistics) {
        add(&mut statistics.rings, 1);
        self.arena.interrupt_peer();
    }

    /// Looks whether the peer takes what it gets: an interrupt to it may have been lost. Returns after how many cycles to look again, if there
    /// is something to wait for.
    pub(crate) fn look(&mut self, statistics: &mut ZoneLinkStatistics) -> Option<u64> {
        self.take_returns(statistics);
        if self.patience.has_lapsed(now()) {
            add(&mut statistics.lapses, 1);
        }
        let has_taken = |position| {
            let sender = self.direction().and_then(|direction| direction.frame_sender(position));
            sender.is_none_or(|sender| sender.is_drained())
        };
        let (has_taken_seen, has_taken_all) = (has_taken(self.seen), has_taken(self.sent));
        if !has_taken_seen {
            self.looks = self.looks.saturating_add(1);
            add(&mut statistics.repeated_rings, 1);
            self.ring(statistics);
        } else {
            self.looks = 0;
        }
        self.seen = self.sent;
        let waits = !has_taken_all || self.patience.is_holding();
        let period = cycles_per_ms().saturating_mul(LOOK_MS).checked_shl(self.looks);
        period.filter(|_| waits && self.looks < LOOKS_MAX)
    }

    /// Ends it; returns how many sent frames the peer has not taken.
    pub(crate) fn end(self) -> u64 {
        let lines = 0..LINES as u32;
        let sender = |back: u32| self.direction()?.frame_sender(self.sent.wrapping_sub(back));
        lines.filter(|back| sender(*back).is_some_and(|sender| !sender.is_drained())).count() as u64
    }
}

fn note(places: &mut [Place], number: u16, place: Place) {
    if let Some(known) = places.get_mut(usize::from(number)) {
        *known = place;
    }
}

/// Copies bytes of pieces, from `from` on, to a place in a page.
fn copy(pieces: &[Bytes], from: usize, bytes: usize, page: &Page, start: usize) {
    let (mut skip, mut done) = (from, 0);
    for piece in pieces {
        let left = bytes.saturating_sub(done);
        if left == 0 {
            break;
        }
        let count = piece.len().saturating_sub(skip).min(left);
        if count > 0 {
            let (source, first) = piece.location();
            page.copy_from(start.saturating_add(done), source, first.saturating_add(skip), count);
        }
        done = done.saturating_add(count);
        skip = skip.saturating_sub(piece.len());
    }
}

/// Copies all bytes of pieces from `from` on into pages, which have room for them.
fn copy_rest<'a>(pieces: &[Bytes], from: usize, mut pages: impl Iterator<Item = &'a Page>) {
    let (mut skip, mut used, mut page) = (from, PAGE_BYTES, None);
    for piece in pieces {
        let mut at = skip.min(piece.len());
        skip = skip.saturating_sub(piece.len());
        let (source, first) = piece.location();
        while at < piece.len() {
            if used >= PAGE_BYTES {
                (used, page) = (0, pages.next());
            }
            let Some(target) = page else { return };
            let count = piece.len().saturating_sub(at).min(PAGE_BYTES.saturating_sub(used));
            target.copy_from(used, source, first.saturating_add(at), count);
            (at, used) = (at.saturating_add(count), used.saturating_add(count));
        }
    }
}

/// Adds to a figure, which stays at its end.
pub(crate) fn add(figure: &mut u64, more: u64) {
    *figure = figure.saturating_add(more);
}
