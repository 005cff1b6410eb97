//! The batches that wait.

use crate::batch::{Answer, Batch, Part};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_interface::block::{REQUEST_BYTES_MAX, SECTOR_BYTES};
use gyre_message::Labels;
use gyre_object::{Bytes, SpinLock};

/// Most views of a batch: 32 KiB in parts of a sector.
const VIEWS_MAX: usize = REQUEST_BYTES_MAX / SECTOR_BYTES;

struct Entry {
    number: u64,
    activity: ActivityId,
    labels: Labels,
    is_write: bool,
    first: u64,
    end: u64,
    views: usize,
    parts: VecDeque<Part>,
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
    /// In the order in which their tickets were made.
    entries: Vec<Entry>,
}

/// The batches before one disk. Lives as long as the instance.
#[derive(Default)]
pub struct Waiting {
    table: SpinLock<Table>,
}

/// A batch's place in the queue. Dropped, it answers all parts that nobody answers any more.
pub struct Ticket {
    waiting: &'static Waiting,
    number: u64,
}

impl Entry {
    fn overlaps(&self, first: u64, end: u64) -> bool {
        self.first < end && first < self.end
    }

    fn may_take(&self, request: &Arriving, end: u64, is_write: bool) -> bool {
        let bytes = (self.end - self.first + (end - request.first)).saturating_mul(SECTOR_BYTES as u64);
        self.activity == request.activity
            && self.labels == request.labels
            && self.is_write == is_write
            && (self.end == request.first || self.first == end)
            && bytes <= REQUEST_BYTES_MAX as u64
            && self.views + request.views.len() <= VIEWS_MAX
    }
}

impl Table {
    /// The entry that takes a request: none behind it is overtaken that must not be.
    fn place(&mut self, request: &Arriving, end: u64, is_write: bool) -> Option<&mut Entry> {
        let conflicts = |entry: &Entry| entry.overlaps(request.first, end) && (entry.is_write || is_write);
        let from = self.entries.iter().rposition(conflicts).map_or(0, |last| last + 1);
        self.entries.get_mut(from..)?.iter_mut().find(|entry| entry.may_take(request, end, is_write))
    }
}

impl Waiting {
    /// Puts a request to one that waits, else makes a ticket for it. What cannot be a request of whole sectors goes alone: the device
    /// refuses it.
    pub(crate) fn add(&'static self, request: Arriving) -> Option<Ticket> {
        let bytes: usize = request.views.iter().map(Bytes::len).sum();
        let is_write = matches!(request.answer, Answer::Write(_));
        let end = request.first.saturating_add((bytes / SECTOR_BYTES) as u64);
        let is_whole =
            bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES) && end < u64::MAX && request.labels.dependency == 0;
        let mut table = self.table.lock();
        let place = if is_whole { table.place(&request, end, is_write) } else { None };
        let part =
            |request: Arriving| Part { first_sector: request.first, views: request.views, answer: request.answer };
        if let Some(entry) = place {
            entry.views += request.views.len();
            if entry.end == request.first {
                entry.end = end;
                entry.parts.push_back(part(request));
            } else {
                entry.first = request.first;
                entry.parts.push_front(part(request));
            }
            return None;
        }
        let number = table.next;
        table.next += 1;
        let (activity, labels, first, views) = (request.activity, request.labels, request.first, request.views.len());
        let parts = VecDeque::from([part(request)]);
        // Nothing fits behind or before what is not whole.
        let views = if is_whole { views } else { VIEWS_MAX + 1 };
        table.entries.push(Entry { number, activity, labels, is_write, first, end, views, parts });
        Some(Ticket { waiting: self, number })
    }

    fn take(&self, number: u64) -> Option<Batch> {
        let mut table = self.table.lock();
        let position = table.entries.iter().position(|entry| entry.number == number)?;
        let entry = table.entries.remove(position);
        drop(table);
        Some(Batch { parts: entry.parts })
    }

    /// Batches that wait.
    pub fn len(&self) -> usize {
        self.table.lock().entries.len()
    }

    /// True where none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Ticket {
    /// The batch as it is now; nothing joins it any more.
    pub fn take(self) -> Option<Batch> {
        self.waiting.take(self.number)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Who waits for a part that nobody will do is told so by its reply, which is dropped here.
        drop(self.waiting.take(self.number));
    }
}
