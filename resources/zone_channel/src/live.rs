//! The memory of a trunk as one side uses it, from one attachment to the next. Its lock is the trunk's.
//!
//! A page of messages is here (free) or there (in a message that the peer has not read). It comes back by a line, which is believed only for pages
//! that are there.
//!
//! The side that has read a message gives its pages back at once, for it has copied it; so a channel holds none while its program does not read.
//!
//! Lines that find no room in the ring wait in the outbox. Each channel has a bounded number of lines there; a peer that asks for more answers than
//! [`OUTBOX_MAX`] has broken the trunk.

use crate::layout::{DATA_PAGES, SHARED_PAGES, Words};
use crate::line::{Data, Line};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_line::Message;

use gyre_machine::{OutOfMemory, PAGE_BYTES};
use gyre_message::WaitQueue;
use gyre_object::{Bytes, Page};
use gyre_zone_link::Arena;

/// Lines that wait for room in the ring.
const OUTBOX_MAX: usize = 1_024;
/// Lines without sense after which a peer is cut off.
pub(crate) const MALFORMED_MAX: u32 = 256;

/// The end at which a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Here,
    There,
}

/// A trunk's memory while it is attached.
pub(crate) struct Live {
    arena: Arc<dyn Arena>,
    outbound: Vec<Page>,
    inbound: Vec<Page>,
    places: Vec<Place>,
    free: Vec<u16>,
    sent: u32,
    received: u32,
    outbox: VecDeque<Message>,
    malformed: u32,
    is_broken: bool,
    /// The task that rings again.
    watch: Arc<WaitQueue>,
}

impl Live {
    /// Takes the pages of messages; `None` if the arena has not all that it promises.
    pub(crate) fn new(arena: Arc<dyn Arena>, watch: Arc<WaitQueue>) -> Option<Live> {
        let outbound: Vec<Page> = (0..DATA_PAGES).map_while(|page| arena.outbound(page)).collect();
        let inbound: Vec<Page> = (0..DATA_PAGES).map_while(|page| arena.inbound(page)).collect();
        (outbound.len() == DATA_PAGES && inbound.len() == DATA_PAGES).then_some(())?;
        Words::of(arena.control(), arena.side())?;
        Words::of(arena.control(), arena.side().other())?;
        Some(Live {
            arena,
            outbound,
            inbound,
            places: alloc::vec![Place::Here; DATA_PAGES],
            free: (0..DATA_PAGES as u16).collect(),
            sent: 0,
            received: 0,
            outbox: VecDeque::new(),
            malformed: 0,
            is_broken: false,
            watch,
        })
    }

    fn own(&self) -> Option<Words<'_>> {
        Words::of(self.arena.control(), self.arena.side())
    }

    fn theirs(&self) -> Option<Words<'_>> {
        Words::of(self.arena.control(), self.arena.side().other())
    }

    /// Sends a line about a channel, now or when there is room.
    pub(crate) fn send(&mut self, key: u32, line: &Line) {
        if self.outbox.len() >= OUTBOX_MAX {
            self.is_broken = true;
            return;
        }
        self.outbox.push_back(line.encode(key));
        self.flush();
    }

    /// Puts lines into the ring as far as there is room, and rings if the peer sleeps.
    pub(crate) fn flush(&mut self) {
        let Some(words) = Words::of(self.arena.control(), self.arena.side()) else { return };
        let Some(mut sender) = words.sender(self.sent) else { return };
        while let Some(message) = self.outbox.front() {
            if sender.send(message).is_err() {
                break;
            }
            self.outbox.pop_front();
        }
        let is_news = sender.position() != self.sent;
        self.sent = sender.position();
        if is_news && words.bell.must_ring() {
            self.arena.interrupt_peer();
            // it may be lost: somebody looks whether the peer came
            self.watch.wake_all();
        }
    }

    /// Returns whether the peer has not taken all lines yet.
    pub(crate) fn is_awaited(&self) -> bool {
        let drained = self.own().and_then(|words| words.sender(self.sent)).is_none_or(|sender| sender.is_drained());
        !drained || !self.outbox.is_empty()
    }

    /// Interrupts the peer once more: an interrupt may have been lost.
    pub(crate) fn ring_again(&self) {
        self.arena.interrupt_peer();
    }

    /// Takes the next line. Without one, an interrupt follows when one comes.
    pub(crate) fn take(&mut self) -> Option<Message> {
        if let Some(message) = self.take_now() {
            return Some(message);
        }
        self.theirs()?.bell.leave();
        let message = self.take_now()?;
        self.theirs()?.bell.come_back();
        Some(message)
    }

    fn take_now(&mut self) -> Option<Message> {
        let mut receiver = self.theirs()?.receiver(self.received)?;
        let message = receiver.receive();
        self.received = receiver.position();
        message
    }

    /// Counts a line without sense.
    pub(crate) fn note_malformed(&mut self) {
        self.malformed = self.malformed.saturating_add(1);
    }

    /// Returns whether the peer is not to be heard any more.
    pub(crate) fn is_hostile(&self) -> bool {
        self.is_broken || self.malformed >= MALFORMED_MAX
    }

    /// Sends pieces as one message of a channel; false if there are too few free pages.
    pub(crate) fn send_data(&mut self, key: u32, pieces: &[Bytes], bytes: usize) -> bool {
        let Some(pages) = self.take_pages(bytes.div_ceil(PAGE_BYTES)) else { return false };
        let mut at: usize = 0;
        for piece in pieces {
            let (source, start) = piece.location();
            let mut done: usize = 0;
            while done < piece.len() {
                let page = pages.get(at / PAGE_BYTES).and_then(|number| self.outbound.get(usize::from(*number)));
                let count = piece.len().saturating_sub(done).min(PAGE_BYTES.saturating_sub(at % PAGE_BYTES));
                let Some(page) = page else { break };
                page.copy_page(at % PAGE_BYTES, source, start.saturating_add(done), count);
                (at, done) = (at.saturating_add(count), done.saturating_add(count));
            }
        }
        self.send(key, &Line::Data(Data { bytes, pages }));
        true
    }

    /// Writes names into a page of messages; `None` if none is free.
    pub(crate) fn write_names(&mut self, text: &[u8]) -> Option<u16> {
        let page = *self.take_pages(1)?.first()?;
        self.outbound.get(usize::from(page))?.write(0, text);
        Some(page)
    }

    /// Reads names that the peer wrote.
    pub(crate) fn read_names(&self, page: u16, bytes: u16) -> Option<Vec<u8>> {
        let mut text = alloc::vec![0; usize::from(bytes)];
        let read = self.inbound.get(usize::from(page))?.read(0, &mut text);
        (read == text.len()).then_some(text)
    }

    fn take_pages(&mut self, count: usize) -> Option<Vec<u16>> {
        let kept = self.free.len().checked_sub(count)?;
        let pages = self.free.split_off(kept);
        for number in &pages {
            self.places.get_mut(usize::from(*number)).into_iter().for_each(|place| *place = Place::There);
        }
        Some(pages)
    }

    /// Takes pages back that the peer has read.
    pub(crate) fn returned(&mut self, pages: &[u16]) {
        for number in pages {
            match self.places.get_mut(usize::from(*number)) {
                Some(place) if *place == Place::There => {
                    *place = Place::Here;
                    self.free.push(*number);
                }
                _ => self.note_malformed(),
            }
        }
    }

    /// Copies a message into pages of this instance, charged to the current activity, and gives its pages back.
    pub(crate) fn copy_in(&mut self, key: u32, data: Data) -> Result<Vec<Bytes>, OutOfMemory> {
        let copied = self.copied(&data);
        self.send(key, &Line::Done(data.pages));
        copied
    }

    fn copied(&self, data: &Data) -> Result<Vec<Bytes>, OutOfMemory> {
        let piece = |(index, number): (usize, &u16)| {
            let bytes = data.bytes.saturating_sub(index.saturating_mul(PAGE_BYTES)).min(PAGE_BYTES);
            let source = self.inbound.get(usize::from(*number)).ok_or(OutOfMemory)?;
            let own = Page::uncleared()?;
            own.copy_page(0, source, 0, bytes);
            Ok(Bytes::new(own, 0, bytes))
        };
        data.pages.iter().enumerate().map(piece).collect()
    }

    /// Tells the peer which shared pages this side holds: the bits of its own half, then those of the peer's.
    pub(crate) fn say_held(&self, own: u32, theirs: u32) {
        let word = u64::from(own) | u64::from(theirs) << SHARED_PAGES;
        self.own().into_iter().for_each(|words| words.say_held(word));
    }

    /// Returns the bits of this side's half that the peer holds; `None` before it has come.
    pub(crate) fn held_by_peer(&self) -> Option<u32> {
        let word = self.theirs()?.held()?;
        Some((word >> SHARED_PAGES) as u32)
    }
}
