//! The places of a descriptor table, in chunks: no step is long, however many there are.
//!
//! A chunk knows which of its places are taken, and the table which of its chunks are full, so that the lowest free number of a million is
//! found in some 250 steps. A number far behind all others makes one chunk, not those between.
//!
//! Used by [`super::descriptors`] alone, under the table's lock. An empty chunk stays until the table ends. No function waits or fails; a
//! place behind the last is free.

use super::open_file::OpenFile;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// Places of a chunk: bits of a word.
const PLACES: usize = u64::BITS as usize;

/// An open file under a number. The file counts the places that it has.
pub(super) struct Slot {
    file: Arc<OpenFile>,
    pub close_on_exec: bool,
}

impl Slot {
    /// One that stays open at execve.
    pub fn new(file: Arc<OpenFile>) -> Slot {
        file.descriptors.fetch_add(1, Ordering::Relaxed);
        Slot { file, close_on_exec: false }
    }

    pub fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }
}

impl Clone for Slot {
    fn clone(&self) -> Slot {
        let mut copy = Slot::new(self.file.clone());
        copy.close_on_exec = self.close_on_exec;
        copy
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.file.descriptors.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone)]
pub(super) struct Chunk {
    slots: [Option<Slot>; PLACES],
    /// The places that are taken.
    taken: u64,
}

impl Chunk {
    fn new() -> Box<Chunk> {
        Box::new(Chunk { slots: [const { None }; PLACES], taken: 0 })
    }

    /// Takes a file out; `None` when it is empty.
    pub fn pop(&mut self) -> Option<Slot> {
        let place = (self.taken != 0).then(|| self.taken.trailing_zeros() as usize)?;
        self.taken &= !bit(place);
        self.slots.get_mut(place)?.take()
    }
}

fn bit(place: usize) -> u64 {
    1 << (place % PLACES)
}

/// Returns the bits from `place` on.
fn from(place: usize) -> u64 {
    u64::MAX << (place % PLACES)
}

/// The places.
#[derive(Default)]
pub(super) struct Slots {
    chunks: Vec<Option<Box<Chunk>>>,
    /// The chunks without a free place.
    full: Vec<u64>,
}

impl Slots {
    pub fn get(&self, index: usize) -> Option<&Slot> {
        self.chunks.get(index / PLACES)?.as_ref()?.slots.get(index % PLACES)?.as_ref()
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut Slot> {
        self.chunks.get_mut(index / PLACES)?.as_mut()?.slots.get_mut(index % PLACES)?.as_mut()
    }

    /// Puts a file at a place; returns the one that was there.
    pub fn put(&mut self, index: usize, slot: Slot) -> Option<Slot> {
        let number = index / PLACES;
        if number >= self.chunks.len() {
            self.chunks.resize(number.saturating_add(1), None);
        }
        let chunk = self.chunks.get_mut(number)?.get_or_insert_with(Chunk::new);
        chunk.taken |= bit(index);
        let is_full = chunk.taken == u64::MAX;
        let before = chunk.slots.get_mut(index % PLACES)?.replace(slot);
        if is_full {
            self.note_full(number);
        }
        before
    }

    fn note_full(&mut self, number: usize) {
        let word = number / PLACES;
        if word >= self.full.len() {
            self.full.resize(word.saturating_add(1), 0);
        }
        self.full.get_mut(word).into_iter().for_each(|word| *word |= bit(number));
    }

    /// Takes the file of a place.
    pub fn take(&mut self, index: usize) -> Option<Slot> {
        let number = index / PLACES;
        let chunk = self.chunks.get_mut(number)?.as_mut()?;
        let slot = chunk.slots.get_mut(index % PLACES)?.take()?;
        chunk.taken &= !bit(index);
        self.full.get_mut(number / PLACES).into_iter().for_each(|word| *word &= !bit(number));
        Some(slot)
    }

    fn taken(&self, number: usize) -> u64 {
        self.chunks.get(number).and_then(Option::as_ref).map_or(0, |chunk| chunk.taken)
    }

    /// Returns the lowest free place from `lowest` on.
    pub fn free_from(&self, lowest: usize) -> usize {
        let first = lowest / PLACES;
        let here = !self.taken(first) & from(lowest);
        if here != 0 {
            return place(first, here);
        }
        let next = self.chunk_with_room(first.saturating_add(1));
        place(next, !self.taken(next))
    }

    fn chunk_with_room(&self, first: usize) -> usize {
        let start = first / PLACES;
        let here = |word: usize| !self.full.get(word).copied().unwrap_or(0);
        let begin = here(start) & from(first);
        if begin != 0 {
            return place(start, begin);
        }
        let next = (start.saturating_add(1)..).find(|word| here(*word) != 0).unwrap_or(usize::MAX / PLACES);
        place(next, here(next))
    }

    /// Returns the lowest taken place from `first` to before `end`.
    pub fn next_taken(&self, first: usize, end: usize) -> Option<usize> {
        let start = first / PLACES;
        let here = |number: usize| self.taken(number) & if number == start { from(first) } else { u64::MAX };
        let number = (start..self.chunks.len().min(end.div_ceil(PLACES))).find(|number| here(*number) != 0)?;
        Some(place(number, here(number))).filter(|found| *found < end)
    }

    /// Returns copies of the chunks from a number on, `most` at most; none behind the last.
    pub fn copy(&self, first: usize, most: usize) -> Vec<Option<Box<Chunk>>> {
        self.chunks.iter().skip(first).take(most).cloned().collect()
    }

    /// Adds chunks behind the last.
    pub fn append(&mut self, chunks: Vec<Option<Box<Chunk>>>) {
        for chunk in chunks {
            let number = self.chunks.len();
            let is_full = chunk.as_ref().is_some_and(|chunk| chunk.taken == u64::MAX);
            self.chunks.push(chunk);
            if is_full {
                self.note_full(number);
            }
        }
    }

    /// Returns the chunks.
    pub fn into_chunks(self) -> Vec<Option<Box<Chunk>>> {
        self.chunks
    }
}

/// Returns the number of the first of `bits` in the word `number`.
fn place(number: usize, bits: u64) -> usize {
    number.saturating_mul(PLACES).saturating_add(bits.trailing_zeros() as usize)
}
