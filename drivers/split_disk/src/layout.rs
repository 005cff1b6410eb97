//! The places of rings, bells, the table and slots in the memory that both ends map: a lot of 2 MiB.
//!
//! | page | contents |
//! |---|---|
//! | 0 | ring of asks |
//! | 1 | ring of answers |
//! | 2 | words: bell of the back end, bell of the front end, state, number of disks, two words for each disk |
//! | from [`FIRST_SLOT_PAGE`] on | slots, [`SLOT_PAGES`] pages each |

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::block::{Geometry, REQUEST_BYTES_MAX};
use gyre_line::{BellAt, LINES, Receiver, Ring, Sender, words_of};
use gyre_machine::PAGE_BYTES;
use gyre_object::Page;

/// Pages of the whole.
pub const PAGES: usize = 512;
/// Pages of words.
pub const CONTROL_PAGES: usize = 3;
/// Requests that are under way at once.
pub const SLOTS: usize = 31;
/// Bytes of a slot: the largest request.
pub const SLOT_BYTES: usize = REQUEST_BYTES_MAX;
/// Disks of one front end.
pub const DISKS_MAX: usize = 32;

const SLOT_PAGES: usize = SLOT_BYTES / PAGE_BYTES;
const FIRST_SLOT_PAGE: usize = PAGES - SLOTS * SLOT_PAGES;
const _: () = assert!(FIRST_SLOT_PAGE >= CONTROL_PAGES && SLOTS < LINES);

/// Words of a ring: a page.
const RING_WORDS: usize = words_of(LINES);
/// Words of a bell: a cache line of its own.
const BELL_WORDS: usize = 8;
const STATE: usize = 2 * BELL_WORDS;
const COUNT: usize = 3 * BELL_WORDS;
const TABLE: usize = 4 * BELL_WORDS;
const DISK_WORDS: usize = 2;

const OPEN: u64 = 0;
const CLOSED: u64 = 1;

/// Memory that two instances map, as one of them sees it.
///
/// The implementation promises that the memory stays mapped as long as somebody holds the window or one of its pages.
pub trait Window: Send + Sync {
    /// Returns the words of the first [`CONTROL_PAGES`] pages. Both ends write them at any time.
    fn control(&self) -> &[AtomicU64];

    /// Returns a page, which both ends write at any time; `None` beyond [`PAGES`]. Each is asked for once.
    fn page(&self, page: usize) -> Option<Page>;

    /// Interrupts the other end.
    fn interrupt_peer(&self);
}

/// Returns the pages of a slot.
#[must_use]
pub fn slot_pages(slot: usize) -> Range<usize> {
    let first = FIRST_SLOT_PAGE.saturating_add(slot.min(SLOTS).saturating_mul(SLOT_PAGES));
    first..first.saturating_add(SLOT_PAGES)
}

/// The control words, by their meaning.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    asks: &'a [AtomicU64],
    answers: &'a [AtomicU64],
    words: &'a [AtomicU64],
    /// Of the end that serves.
    pub back_bell: BellAt<'a>,
    /// Of the end that asks.
    pub front_bell: BellAt<'a>,
}

impl<'a> Control<'a> {
    /// Finds them; `None` if there are too few.
    #[must_use]
    pub fn of(control: &'a [AtomicU64]) -> Option<Control<'a>> {
        let (asks, rest) = control.split_at_checked(RING_WORDS)?;
        let (answers, words) = rest.split_at_checked(RING_WORDS)?;
        words.get(TABLE.saturating_add(DISKS_MAX.saturating_mul(DISK_WORDS)))?;
        let (back_bell, front_bell) = (BellAt(words.first()?), BellAt(words.get(BELL_WORDS)?));
        Some(Control { asks, answers, words, back_bell, front_bell })
    }

    /// Makes the rings empty and writes the table, for new owners at both ends. Neither end may be in use. False if there are too many disks.
    #[must_use]
    pub fn prepare(&self, disks: &[Geometry]) -> bool {
        self.back_bell.come_back();
        self.front_bell.come_back();
        self.set(STATE, OPEN);
        self.set(COUNT, disks.len() as u64);
        for (place, disk) in disks.iter().enumerate() {
            let at = TABLE.saturating_add(place.saturating_mul(DISK_WORDS));
            self.set(at, disk.sectors);
            self.set(at.saturating_add(1), u64::from(disk.read_only));
        }
        let is_fresh = Ring::<LINES>::place(self.asks) && Ring::<LINES>::place(self.answers);
        is_fresh && disks.len() <= DISKS_MAX
    }

    /// Returns how many disks the table names, at most [`DISKS_MAX`].
    #[must_use]
    pub fn disk_count(&self) -> usize {
        usize::try_from(self.get(COUNT)).unwrap_or(usize::MAX).min(DISKS_MAX)
    }

    /// Returns size and kind of a disk of the table.
    #[must_use]
    pub fn geometry(&self, disk: usize) -> Option<Geometry> {
        let at = TABLE.saturating_add(disk.checked_mul(DISK_WORDS)?);
        (disk < self.disk_count())
            .then(|| Geometry { sectors: self.get(at), read_only: self.get(at.saturating_add(1)) != 0 })
    }

    /// Says that nothing more is served here.
    pub fn close(&self) {
        self.set(STATE, CLOSED);
    }

    /// Returns true if that was said.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.get(STATE) != OPEN
    }

    /// Takes the sending end of the asks.
    #[must_use]
    pub fn ask_sender(&self, position: u32) -> Option<Sender<'a>> {
        Sender::resume(self.asks, position)
    }

    /// Takes the receiving end of the asks.
    #[must_use]
    pub fn ask_receiver(&self, position: u32) -> Option<Receiver<'a>> {
        Receiver::resume(self.asks, position)
    }

    /// Takes the sending end of the answers.
    #[must_use]
    pub fn answer_sender(&self, position: u32) -> Option<Sender<'a>> {
        Sender::resume(self.answers, position)
    }

    /// Takes the receiving end of the answers.
    #[must_use]
    pub fn answer_receiver(&self, position: u32) -> Option<Receiver<'a>> {
        Receiver::resume(self.answers, position)
    }

    fn get(&self, place: usize) -> u64 {
        self.words.get(place).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn set(&self, place: usize, value: u64) {
        if let Some(word) = self.words.get(place) {
            word.store(value, Ordering::Release);
        }
    }
}
