//! The direction in which this end receives. Its lock is the link's.
//!
//! A page is the peer's (free or in a frame that was not read yet) or lent: views of it are held by readers above. It goes back once no view
//! is left. Readers hold at most half of the pages; what comes beyond is copied to memory of this instance, so that the peer has room whatever
//! the readers do.
//!
//! A link that is attached again finds the same memory, and readers may still hold pages of the last arena: these stay lent. All others are
//! given to the peer at once: it begins with none.
//!
//! A line is copied, then checked against itself and against the places of its pages. Only then its head is copied, from the slot that
//! belongs to the line, and the line is freed.

use crate::arena::Arena;
use crate::descriptor::{Descriptor, RETURNS_MAX, return_message};
use crate::heads::Heads;
use crate::layout::{Direction, SLOT_PAGES, slot_of};
use crate::outbound::add;
use crate::statistics::ZoneLinkStatistics;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::link::InFrame;
use gyre_line::LINES;
use gyre_machine::{OutOfMemory, PAGE_BYTES};
use gyre_object::{Bytes, Page};

/// Lent pages that are looked at in one turn.
const LOOKS: usize = 32;

/// Returns true if a reader holds a page beside the link's list and its entry among `kept`, if it is one of them.
fn is_read(page: &Page, kept: &[Page]) -> bool {
    kept.iter().any(|one| one.pa() == page.pa()) && page.holders() > 2
}

/// Whose a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Theirs,
    Lent,
}

/// The receiving half of a link that is attached.
pub(crate) struct Inbound {
    arena: Arc<dyn Arena>,
    received: u32,
    returned: u32,
    pages: Vec<Page>,
    places: Vec<Place>,
    lent: VecDeque<u16>,
    /// Pages that nobody holds, to be told to the peer.
    returning: Vec<u16>,
}

impl Inbound {
    /// Takes the receiving half of an arena; `None` if it has not all that it promises. `kept` are pages of former arenas that readers hold.
    pub(crate) fn new(arena: Arc<dyn Arena>, kept: &[Page]) -> Option<Inbound> {
        let count = arena.pages();
        let own = |page: Page| kept.iter().find(|one| one.pa() == page.pa()).cloned().unwrap_or(page);
        let pages: Vec<Page> = (0..count).map_while(|page| arena.inbound(page)).map(own).collect();
        (pages.len() == count).then_some(())?;
        Direction::of(arena.control(), arena.side().other())?;
        let is_held = |number: &u16| pages.get(usize::from(*number)).is_some_and(|page| is_read(page, kept));
        let (lent, returning): (VecDeque<u16>, Vec<u16>) = {
            let data = SLOT_PAGES as u16..u16::try_from(count).ok()?;
            (data.clone().filter(is_held).collect(), data.filter(|number| !is_held(number)).rev().collect())
        };
        let mut places: Vec<Place> = pages.iter().map(|_| Place::Theirs).collect();
        for number in &lent {
            places.get_mut(usize::from(*number)).into_iter().for_each(|place| *place = Place::Lent);
        }
        Some(Inbound { arena, received: 0, returned: 0, pages, places, lent, returning })
    }

    /// Returns the pages that readers hold.
    pub(crate) fn held(&self) -> Vec<Page> {
        let lent = self.lent.iter().filter_map(|number| self.pages.get(usize::from(*number)));
        lent.filter(|page| page.is_shared()).cloned().collect()
    }

    fn direction(&self) -> Option<Direction<'_>> {
        Direction::of(self.arena.control(), self.arena.side().other())
    }

    /// Returns true if a frame waits.
    pub(crate) fn has_some(&self) -> bool {
        let receiver = self.direction().and_then(|direction| direction.frame_receiver(self.received));
        receiver.is_some_and(|receiver| receiver.has_some())
    }

    /// Takes frames, at most as many lines as `batch`. With none it asks for an interrupt.
    pub(crate) fn take(
        &mut self,
        batch: usize,
        heads: &mut Heads,
        statistics: &mut ZoneLinkStatistics,
    ) -> Vec<InFrame> {
        let frames = self.take_lines(batch, heads, statistics);
        if !frames.is_empty() || self.may_sleep() {
            return frames;
        }
        self.take_lines(batch, heads, statistics)
    }

    /// Returns true if an interrupt follows when a frame comes; false if one has come meanwhile.
    fn may_sleep(&self) -> bool {
        let Some(direction) = self.direction() else { return true };
        direction.frames_bell.leave();
        let is_empty = !self.has_some();
        if !is_empty {
            direction.frames_bell.come_back();
        }
        is_empty
    }

    fn take_lines(&mut self, batch: usize, heads: &mut Heads, statistics: &mut ZoneLinkStatistics) -> Vec<InFrame> {
        let mut frames = Vec::new();
        for _ in 0..batch {
            let receiver = self.direction().and_then(|direction| direction.frame_receiver(self.received));
            let Some(message) = receiver.and_then(|receiver| receiver.peek()) else { break };
            let descriptor = Descriptor::read(&message).filter(|frame| self.are_theirs(frame.pages()));
            let frame = descriptor.map(|descriptor| self.frame(&descriptor, heads, statistics));
            self.free_line();
            match frame {
                Some(Ok(frame)) => frames.push(frame),
                Some(Err(OutOfMemory)) => add(&mut statistics.dropped_receiving, 1),
                None => add(&mut statistics.malformed, 1),
            }
        }
        frames
    }

    fn free_line(&mut self) {
        let Some(mut receiver) = self.direction().and_then(|direction| direction.frame_receiver(self.received)) else {
            return;
        };
        receiver.free();
        self.received = receiver.position();
    }

    /// Returns true if the peer may send these pages: they are no slots, its own, and each is named once.
    fn are_theirs(&self, pages: &[u16]) -> bool {
        let is_theirs = |number: &u16| {
            let place = self.places.get(usize::from(*number)).copied();
            usize::from(*number) >= SLOT_PAGES && place == Some(Place::Theirs)
        };
        let is_first = |(index, number): (usize, &u16)| !pages.iter().take(index).any(|other| other == number);
        pages.iter().all(is_theirs) && pages.iter().enumerate().all(is_first)
    }

    /// Returns the frame of a checked descriptor. Its head is copied here, once.
    fn frame(
        &mut self,
        descriptor: &Descriptor,
        heads: &mut Heads,
        statistics: &mut ZoneLinkStatistics,
    ) -> Result<InFrame, OutOfMemory> {
        let (slot_page, slot_start) = slot_of(self.received);
        let slot = self.pages.get(slot_page).ok_or(OutOfMemory)?;
        let head = heads.copy(slot, slot_start, descriptor.head_bytes);
        let lends =
            self.lent.len().saturating_add(descriptor.pages().len()) <= self.pages.len().saturating_sub(SLOT_PAGES) / 2;
        let mut more = Vec::with_capacity(descriptor.pages().len());
        let mut result = head;
        for (index, number) in descriptor.pages().iter().enumerate() {
            let bytes = descriptor.rest_bytes.saturating_sub(index.saturating_mul(PAGE_BYTES)).min(PAGE_BYTES);
            match self.piece(*number, bytes, lends) {
                Ok(piece) => more.push(piece),
                Err(error) => result = Err(error),
            }
            if !lends {
                add(&mut statistics.copied_bytes, bytes as u64);
            }
        }
        let head = result?;
        add(&mut statistics.received_frames, 1);
        add(&mut statistics.received_bytes, descriptor.head_bytes.saturating_add(descriptor.rest_bytes) as u64);
        Ok(InFrame { head, more })
    }

    /// Returns the bytes of a page of the peer's: lent, or a copy, so that the page goes back at once.
    fn piece(&mut self, number: u16, bytes: usize, lends: bool) -> Result<Bytes, OutOfMemory> {
        let page = self.pages.get(usize::from(number)).ok_or(OutOfMemory)?;
        if lends {
            let piece = Bytes::new(page.clone(), 0, bytes);
            self.note(number, Place::Lent);
            self.lent.push_back(number);
            return Ok(piece);
        }
        let copy = Page::uncleared().map(|own| {
            own.copy_page(0, page, 0, bytes);
            Bytes::new(own, 0, bytes)
        });
        self.returning.push(number);
        copy
    }

    fn note(&mut self, number: u16, place: Place) {
        if let Some(known) = self.places.get_mut(usize::from(number)) {
            *known = place;
        }
    }

    /// Gives pages back that nobody holds any more. Looks at some of those that are lent, the next ones next time.
    pub(crate) fn give_back(&mut self, statistics: &mut ZoneLinkStatistics) {
        for _ in 0..LOOKS.min(self.lent.len()) {
            let Some(number) = self.lent.pop_front() else { break };
            match self.pages.get(usize::from(number)).is_some_and(Page::is_shared) {
                true => self.lent.push_back(number),
                false => {
                    self.note(number, Place::Theirs);
                    self.returning.push(number);
                }
            }
        }
        if !self.returning.is_empty() {
            self.tell_returned(statistics);
        }
    }

    fn tell_returned(&mut self, statistics: &mut ZoneLinkStatistics) {
        let Inbound { arena, returned, returning, .. } = self;
        let Some(direction) = Direction::of(arena.control(), arena.side().other()) else { return };
        let Some(mut sender) = direction.return_sender(*returned) else { return };
        while !returning.is_empty() {
            let first = returning.len().saturating_sub(RETURNS_MAX);
            let message = return_message(returning.get(first..).unwrap_or(&[]));
            if sender.send(&message).is_err() {
                break;
            }
            returning.truncate(first);
        }
        *returned = sender.position();
        if direction.room_bell.must_ring() {
            add(&mut statistics.rings, 1);
            arena.interrupt_peer();
        }
    }

    /// Ends it; returns how many frames were not read. Readers keep what they hold.
    pub(crate) fn end(mut self) -> u64 {
        let mut waiting = 0;
        for _ in 0..LINES {
            if !self.has_some() {
                break;
            }
            self.free_line();
            add(&mut waiting, 1);
        }
        waiting
    }
}
