//! The batches that wait before a disk, and the search for one that a request can join.
//!
//! A request looks only at batches near its range, however many wait. It joins one if activity, kind, labels and
//! borders fit and the sum is not too large, and if it would overtake nothing that it must not. The gate's scheduler
//! chooses a [`Ticket`]; taking it closes its batch.
//!
//! * A ticket waits (others may join), is taken (none may), or is dropped: then each part's caller is told.
//! * A request behind one that overlaps it and of which one writes must stay behind it.
//! * A single batch lies in `only`, so that a disk without a queue costs no look into trees.
//!
//! Called by the block resource's gate on any core, under one lock that is held for a few looks. No request of another
//! activity is ever joined, so each batch has one payer.

use crate::batch::{Answer, Batch, Part, Parts};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_interface::block::{MERGED_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_VIEWS_MAX, SECTOR_BYTES};
use gyre_message::Labels;
use gyre_object::{Bytes, SpinLock};
use smallvec::smallvec;

/// No request is longer.
const SECTORS_MAX: u64 = (REQUEST_BYTES_MAX / SECTOR_BYTES) as u64;

struct Entry {
    activity: ActivityId,
    labels: Labels,
    is_write: bool,
    first: u64,
    end: u64,
    views: usize,
    parts: Parts,
}

/// A request on its way in.
pub(crate) struct Arriving {
    pub(crate) activity: ActivityId,
    pub(crate) labels: Labels,
    pub(crate) first: u64,
    pub(crate) views: Vec<Bytes>,
    pub(crate) answer: Answer,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// The only one that waits, with its number, so that requests which need not wait cost no look into the trees.
    only: Option<(u64, Entry)>,
    /// The others by the number of their tickets, which is the order in which they were made.
    entries: BTreeMap<u64, Entry>,
    /// The first sector and number of each: a request looks only at those near it, however many wait. A request that
    /// is too long is not among them: the device refuses it.
    places: BTreeSet<(u64, u64)>,
}

/// The batches before one disk. Lives as long as the instance.
#[derive(Default)]
pub struct Waiting {
    table: SpinLock<Table>,
}

/// A batch's place in the queue. When it is dropped, it answers all parts that are still without an answer.
pub struct Ticket {
    waiting: &'static Waiting,
    number: u64,
}

impl Entry {
    fn overlaps(&self, first: u64, end: u64) -> bool {
        self.first < end && first < self.end
    }

    fn sectors(&self) -> u64 {
        self.end.saturating_sub(self.first)
    }

    /// Returns whether it is found by its place: no longer than a request may be.
    fn is_placed(&self) -> bool {
        self.sectors() <= SECTORS_MAX
    }

    fn may_take(&self, request: &Arriving, end: u64, is_write: bool) -> bool {
        let sectors = self.sectors().saturating_add(end.saturating_sub(request.first));
        let bytes = sectors.saturating_mul(SECTOR_BYTES as u64);
        self.activity == request.activity
            && self.labels == request.labels
            && self.is_write == is_write
            && (self.end == request.first || self.first == end)
            && bytes <= MERGED_BYTES_MAX as u64
            && self.views.saturating_add(request.views.len()) <= REQUEST_VIEWS_MAX
    }
}

impl Table {
    /// Returns batches that may lie beside or over a range, with their numbers. Those elsewhere are not looked at.
    fn near(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let from = first.saturating_sub(SECTORS_MAX);
        let is_near = move |entry: &Entry| entry.is_placed() && (from..=end).contains(&entry.first);
        let only = self.only.iter().filter(move |(_, entry)| is_near(entry)).map(|(number, entry)| (*number, entry));
        // No tree is looked into while it is empty.
        let places = (!self.places.is_empty()).then(|| self.places.range((from, 0)..=(end, u64::MAX)));
        let others = places.into_iter().flatten();
        only.chain(others.filter_map(|(_, number)| Some((*number, self.entries.get(number)?))))
    }

    /// Returns the number of the entry that takes a request: none behind it is overtaken that must not be.
    fn place(&self, request: &Arriving, end: u64, is_write: bool) -> Option<u64> {
        let near = || self.near(request.first, end);
        let conflicts = |entry: &Entry| entry.overlaps(request.first, end) && (entry.is_write || is_write);
        let last = near().filter(|(_, entry)| conflicts(entry)).map(|(number, _)| number).max();
        let fits = |(number, entry): &(u64, &Entry)| {
            last.is_none_or(|last| *number > last) && entry.may_take(request, end, is_write)
        };
        near().filter(fits).map(|(number, _)| number).min()
    }

    fn insert(&mut self, entry: Entry) -> u64 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        if self.only.is_none() && self.entries.is_empty() {
            self.only = Some((number, entry));
            return number;
        }
        if let Some((other, entry)) = self.only.take() {
            self.file(other, entry);
        }
        self.file(number, entry);
        number
    }

    fn file(&mut self, number: u64, entry: Entry) {
        if entry.is_placed() {
            self.places.insert((entry.first, number));
        }
        self.entries.insert(number, entry);
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        if let Some((_, entry)) = self.only.take_if(|(only, _)| *only == number) {
            return Some(entry);
        }
        let entry = self.entries.remove(&number)?;
        self.places.remove(&(entry.first, number));
        Some(entry)
    }

    /// Returns the entry with a number; its place must not be changed.
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        match &mut self.only {
            Some((only, entry)) if *only == number => Some(entry),
            _ => self.entries.get_mut(&number),
        }
    }

    /// Puts a request that fits to its end of an entry.
    fn join(&mut self, number: u64, request: Arriving, end: u64) {
        let Some(entry) = self.entry(number) else { return };
        entry.views = entry.views.saturating_add(request.views.len());
        if entry.end == request.first {
            entry.end = end;
            return entry.parts.push(request.into_part());
        }
        let (before, first) = (entry.first, request.first);
        entry.first = first;
        entry.parts.insert(0, request.into_part());
        if self.places.remove(&(before, number)) {
            self.places.insert((first, number));
        }
    }
}

impl Arriving {
    /// Returns the request that a part was before.
    pub(crate) fn of(part: Part, activity: ActivityId, labels: Labels) -> Arriving {
        Arriving { activity, labels, first: part.first_sector, views: part.views, answer: part.answer }
    }

    /// Returns a batch of this alone.
    pub(crate) fn alone(self) -> Batch {
        Batch { parts: smallvec![self.into_part()] }
    }

    fn into_part(self) -> Part {
        Part { first_sector: self.first, views: self.views, answer: self.answer }
    }
}

impl Waiting {
    /// Puts a request to one that waits, else makes a ticket for it. One that cannot be a request of whole sectors goes alone: the device
    /// refuses it.
    pub(crate) fn add(&'static self, request: Arriving) -> Option<Ticket> {
        let bytes: usize = request.views.iter().map(Bytes::len).sum();
        let is_write = matches!(request.answer, Answer::Write(_));
        let end = request.first.saturating_add((bytes / SECTOR_BYTES) as u64);
        let is_whole =
            bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES) && end < u64::MAX && request.labels.dependency == 0;
        let mut table = self.table.lock();
        if let Some(number) = is_whole.then(|| table.place(&request, end, is_write)).flatten() {
            table.join(number, request, end);
            return None;
        }
        let (activity, labels, first) = (request.activity, request.labels, request.first);
        // Nothing fits behind or before a request that is not whole.
        let views = if is_whole { request.views.len() } else { REQUEST_VIEWS_MAX + 1 };
        let parts = smallvec![request.into_part()];
        let number = table.insert(Entry { activity, labels, is_write, first, end, views, parts });
        Some(Ticket { waiting: self, number })
    }

    fn take(&self, number: u64) -> Option<Batch> {
        let entry = self.table.lock().remove(number)?;
        Some(Batch { parts: entry.parts })
    }

    /// Batches that a request for a range looks at.
    #[cfg(test)]
    pub(crate) fn looked_at(&self, first: u64, end: u64) -> usize {
        self.table.lock().near(first, end).count()
    }

    /// Batches that wait.
    pub fn len(&self) -> usize {
        let table = self.table.lock();
        table.entries.len().saturating_add(usize::from(table.only.is_some()))
    }

    /// Returns whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Ticket {
    /// Returns the batch as it is now; nothing joins it any more.
    pub fn take(self) -> Option<Batch> {
        self.waiting.take(self.number)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Dropping the reply tells the waiting caller of a part that will not be done.
        drop(self.waiting.take(self.number));
    }
}
