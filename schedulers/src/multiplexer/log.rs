//! The log of yields and wake-ups that all cores of a component read.
//!
//! An entry takes effect at a time that no core has passed yet, so each core finds it in its place. A writer proposes an entry, then looks
//! whether a core has passed its time meanwhile; if none has, it confirms the entry. A reader that reaches the time of an entry that is only
//! proposed makes it void, and the writer tries again with a later time. So an entry's fate is decided once, for all cores, and nobody waits.
//!
//! Order: a reader publishes how far it is, fences, and reads the log; a writer publishes its proposal, fences, and reads how far all are. One of
//! the two sees the other. Times of entries grow strictly.
//!
//! The log is a ring: an entry's place is used again when all cores have read it. [`Log::append`] answers [`LogFull`] before that.

use super::table::CORES_MAX;
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Entries of the ring.
pub const ENTRIES: usize = 128;
/// An entry takes effect so much later than it is made, ns: other cores hear of it by then.
pub const DELAY_NS: u64 = 20_000;
/// Attempts of a writer that others overtake.
const ATTEMPTS: usize = 64;

const PROPOSED: u64 = 0;
const CONFIRMED: u64 = 1;
const VOID: u64 = 2;

/// The ring has no room, or cores overtook each attempt: append again later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFull;

/// An entry whose fate is decided, as a machine reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) at_ns: u64,
    pub(super) cell: u8,
    /// Its news; none if it is void.
    pub(super) news: Option<News>,
}

/// News of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// Its first thread has become ready.
    Wakes,
    /// Its last thread waits.
    Rests,
}

/// A core's progress, in a line of its own.
#[repr(align(64))]
struct Progress {
    passed_ns: AtomicU64,
    read: AtomicU64,
}

/// The log of one component.
pub struct Log {
    entries: [AtomicU64; ENTRIES],
    tail: AtomicU64,
    cores: [Progress; CORES_MAX],
    members: u8,
}

impl Log {
    /// Makes an empty log for the cores with these bits.
    #[must_use]
    pub const fn new(members: u8) -> Log {
        Log {
            entries: [const { AtomicU64::new(0) }; ENTRIES],
            tail: AtomicU64::new(0),
            cores: [const { Progress { passed_ns: AtomicU64::new(0), read: AtomicU64::new(0) } }; CORES_MAX],
            members,
        }
    }

    /// Notes news of a cell, by its place in the table. Answers the time at which it takes effect; then each core of the cell must look.
    ///
    /// # Errors
    /// [`LogFull`].
    pub fn append(&self, now_ns: u64, cell: usize, news: News) -> Result<u64, LogFull> {
        let body = (cell as u64 & 0x1f) << 1 | u64::from(news == News::Wakes);
        for _ in 0..ATTEMPTS {
            if let Some(at_ns) = self.try_append(now_ns, body)? {
                return Ok(at_ns);
            }
        }
        Err(LogFull)
    }

    fn try_append(&self, now_ns: u64, body: u64) -> Result<Option<u64>, LogFull> {
        let number = self.tail.load(Ordering::Acquire);
        if number.saturating_sub(self.slowest()) >= ENTRIES as u64 {
            return Err(LogFull);
        }
        let place = self.place(number);
        let old = place.load(Ordering::Acquire);
        let last = number.checked_sub(1).map_or(0, |last| self.place(last).load(Ordering::Acquire) >> 8);
        let at_ns = now_ns.saturating_add(DELAY_NS).max(last.saturating_add(1)).max(self.furthest().saturating_add(1));
        let proposal = at_ns << 8 | PROPOSED << 6 | body;
        // A tail that has moved meanwhile means that the place is another entry's; times differ, so the exchange fails.
        let is_mine = self.tail.load(Ordering::Acquire) == number
            && place.compare_exchange(old, proposal, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // Whoever wrote it: the entry is there.
        if place.load(Ordering::Acquire) != old {
            let _ = self.tail.compare_exchange(number, number.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
        }
        if !is_mine {
            return Ok(None);
        }
        fence(Ordering::SeqCst);
        let fate = if self.furthest() < at_ns { CONFIRMED } else { VOID };
        let decided =
            place.compare_exchange(proposal, at_ns << 8 | fate << 6 | body, Ordering::AcqRel, Ordering::Relaxed);
        Ok((decided.is_ok() && fate == CONFIRMED).then_some(at_ns))
    }

    /// A core says that it plays to this time; before it reads.
    pub(super) fn pass(&self, core: usize, to_ns: u64) {
        if let Some(progress) = self.cores.get(core) {
            progress.passed_ns.fetch_max(to_ns, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// A core says which entry it reads next.
    pub(super) fn has_read(&self, core: usize, next: u64) {
        if let Some(progress) = self.cores.get(core) {
            progress.read.store(next, Ordering::Release);
        }
    }

    /// Returns the entry with a number if it takes effect up to a time.
    pub(super) fn entry(&self, number: u64, to_ns: u64) -> Option<Entry> {
        if number >= self.tail.load(Ordering::Acquire) {
            return None;
        }
        let word = self.decide(number, to_ns)?;
        let news = if word & 1 == 1 { News::Wakes } else { News::Rests };
        let is_confirmed = word >> 6 & 3 == CONFIRMED;
        Some(Entry { at_ns: word >> 8, cell: (word >> 1 & 0x1f) as u8, news: is_confirmed.then_some(news) })
    }

    /// The moment of the entry with a number, or of a later one; `u64::MAX` if there is none yet.
    pub(super) fn next_at(&self, number: u64) -> u64 {
        match number < self.tail.load(Ordering::Acquire) {
            true => self.place(number).load(Ordering::Acquire) >> 8,
            false => u64::MAX,
        }
    }

    /// Returns an entry's word once its fate is decided; `None` if it takes effect later.
    fn decide(&self, number: u64, to_ns: u64) -> Option<u64> {
        let place = self.place(number);
        let word = place.load(Ordering::Acquire);
        if word >> 8 > to_ns {
            return None;
        }
        if word >> 6 & 3 != PROPOSED {
            return Some(word);
        }
        let void = word | VOID << 6;
        match place.compare_exchange(word, void, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(void),
            Err(decided) => Some(decided),
        }
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        // The remainder is a place.
        &self.entries[(number % ENTRIES as u64) as usize]
    }

    fn members(&self) -> impl Iterator<Item = &Progress> {
        self.cores.iter().enumerate().filter(|(core, _)| self.members >> core & 1 == 1).map(|(_, progress)| progress)
    }

    fn furthest(&self) -> u64 {
        self.members().map(|progress| progress.passed_ns.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    fn slowest(&self) -> u64 {
        self.members().map(|progress| progress.read.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }
}
