//! A disk: its buffers and the requests for them.
//!
//! A program that reads in a row gets whole buffers, and the next ones are asked for before it comes to them. One that reads here and there
//! gets the pages that it reads. Writes go to the disk at once, and buffers with an older state of it are dropped.
//!
//! Protocol of use: [`Disk::look`], and if the byte is unknown [`Disk::load`]; [`Disk::take_buffer`], fill it, [`Disk::store`], then
//! [`Disk::ended`] until it has an answer. [`Disk::collect`] takes answers of the kernel. After each of them [`Disk::takes_bell`].
//!
//! Offsets and lengths are bytes of the disk. Left out: memory of the program as a target, which would save a copy.

use gyre_cell_abi::device::{DeviceFacts, SECTOR_BYTES, kind};

use super::{Buffer, Ring, SLOTS, Use};
use crate::memory::{PAGE_BYTES, Window};

/// Bytes of a buffer, which is the most of one request.
pub const BUFFER_BYTES: u64 = 64 << 10;
/// Buffers that are asked for ahead of a program that reads in a row.
const AHEAD: u64 = 3;

/// The name of a disk: the path by which the program opens it, and its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// The path.
    pub path: String,
    /// The number of the disk among those of cells.
    pub device: u32,
}

/// A disk that was opened.
#[derive(Debug)]
pub struct Disk {
    /// Its size, and what it does.
    pub facts: DeviceFacts,
    ring: Ring,
    buffers: [Buffer; SLOTS],
    uses: u64,
    /// The byte behind the last one that was read.
    next: u64,
    must_ring: bool,
}

/// A place in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Its physical address.
    pub physical: u64,
    /// The bytes that are there.
    pub bytes: u64,
}

/// The state of a byte of the disk in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// It is there.
    Here(Stored),
    /// It comes.
    Coming,
    /// The disk cannot read it; it is tried again the next time.
    Lost,
    /// No request has asked for it.
    Unknown,
}

impl Disk {
    /// Makes a disk of a queue that the kernel serves and memory for its buffers.
    pub fn new(ring: Ring, facts: DeviceFacts, memory: [u64; SLOTS]) -> Self {
        let buffers = memory.map(|physical| Buffer { physical, ..Buffer::NONE });
        Self { facts, ring, buffers, uses: 0, next: 0, must_ring: false }
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.facts.sectors.saturating_mul(SECTOR_BYTES)
    }

    /// Returns whether the kernel is to be told of requests since the last question.
    pub fn takes_bell(&mut self) -> bool {
        core::mem::replace(&mut self.must_ring, false)
    }

    /// Looks for a byte.
    pub fn look(&mut self, at: u64) -> Grain {
        let Some(slot) = self.slot_of(at) else { return Grain::Unknown };
        self.uses += 1;
        let buffer = &mut self.buffers[slot];
        buffer.used = self.uses;
        match buffer.state {
            Use::Ready => {
                let within = at - buffer.start;
                Grain::Here(Stored { physical: buffer.physical + within, bytes: buffer.bytes - within })
            }
            Use::Failed => {
                buffer.state = Use::Free;
                Grain::Lost
            }
            _ => Grain::Coming,
        }
    }

    fn slot_of(&self, at: u64) -> Option<usize> {
        let is_it =
            |buffer: &Buffer| matches!(buffer.state, Use::Loading | Use::Ready | Use::Failed) && buffer.holds(at);
        self.buffers.iter().position(is_it)
    }

    /// The buffer that was used longest ago, of those that can go.
    fn oldest(&self) -> Option<usize> {
        let can_go = (0..SLOTS).filter(|slot| self.buffers[*slot].can_go());
        can_go.min_by_key(|slot| match self.buffers[*slot].state {
            Use::Free => 0,
            _ => self.buffers[*slot].used,
        })
    }

    /// Asks for a byte and some behind it, `wanted` at least; `false` if all buffers are in use.
    pub fn load<W: Window + ?Sized>(&mut self, window: &mut W, at: u64, wanted: u64) -> bool {
        let in_a_row = at == self.next;
        let start = at / PAGE_BYTES * PAGE_BYTES;
        let least = (at - start).saturating_add(wanted).next_multiple_of(PAGE_BYTES).min(BUFFER_BYTES);
        let is_asked = self.ask_for(window, start, if in_a_row { BUFFER_BYTES } else { least });
        if is_asked && in_a_row {
            self.read_ahead(window, start);
        }
        is_asked
    }

    fn ask_for<W: Window + ?Sized>(&mut self, window: &mut W, start: u64, bytes: u64) -> bool {
        let Some(slot) = self.oldest() else { return false };
        let bytes = bytes.min(self.bytes().saturating_sub(start));
        self.begin(window, slot, Request { kind: kind::READ, start, bytes, state: Use::Loading });
        true
    }

    /// Asks for the buffers behind the one that holds a byte, which a program is reading in a row.
    fn read_ahead<W: Window + ?Sized>(&mut self, window: &mut W, at: u64) {
        let Some(slot) = self.slot_of(at) else { return };
        let mut end = self.buffers[slot].start + self.buffers[slot].bytes;
        for _ in 0..AHEAD {
            match self.slot_of(end) {
                Some(slot) => end = self.buffers[slot].start + self.buffers[slot].bytes,
                None if end < self.bytes() && self.ask_for(window, end, BUFFER_BYTES) => end += BUFFER_BYTES,
                None => return,
            }
        }
    }

    /// Takes note of a read that has been given to the program.
    pub fn has_read<W: Window + ?Sized>(&mut self, window: &mut W, at: u64, bytes: u64) {
        let in_a_row = at == self.next;
        self.next = at + bytes;
        // At the first look into a buffer: the ones ahead have time until its end.
        if in_a_row && at.is_multiple_of(PAGE_BYTES) {
            self.read_ahead(window, at);
        }
    }

    /// Takes a buffer for a write of so many bytes of the disk, or for a flush; `None` if all are in use. Its user fills it and then calls
    /// [`Disk::store`] or [`Disk::flush`].
    pub fn take_buffer(&mut self) -> Option<(usize, u64)> {
        let slot = self.oldest()?;
        self.buffers[slot].state = Use::Free;
        self.buffers[slot].bytes = 0;
        Some((slot, self.buffers[slot].physical))
    }

    /// Writes a buffer to the disk.
    pub fn store<W: Window + ?Sized>(&mut self, window: &mut W, slot: usize, start: u64, bytes: u64) {
        self.drop_old(start, bytes);
        self.begin(window, slot, Request { kind: kind::WRITE, start, bytes, state: Use::Busy });
    }

    /// Makes all writes that have ended durable.
    pub fn flush<W: Window + ?Sized>(&mut self, window: &mut W, slot: usize) {
        self.begin(window, slot, Request { kind: kind::FLUSH, start: 0, bytes: 0, state: Use::Busy });
    }

    /// Returns whether the request of a buffer has ended: its bytes, or `Err` if the disk could not. The buffer is free then.
    pub fn ended(&mut self, slot: usize) -> Option<Result<u64, ()>> {
        let buffer = self.buffers.get_mut(slot)?;
        let Buffer { start, bytes, state, .. } = *buffer;
        let result = match state {
            Use::Done => Ok(bytes),
            Use::Undone => Err(()),
            _ => return None,
        };
        buffer.state = Use::Free;
        // Reads that were asked for meanwhile may have either state.
        self.drop_old(start, bytes);
        Some(result)
    }

    fn drop_old(&mut self, start: u64, bytes: u64) {
        for buffer in self.buffers.iter_mut().filter(|buffer| buffer.touches(start, bytes)) {
            buffer.state = match buffer.state {
                Use::Loading => Use::Stale,
                Use::Ready | Use::Failed => Use::Free,
                other => other,
            };
        }
    }

    fn begin<W: Window + ?Sized>(&mut self, window: &mut W, slot: usize, request: Request) {
        self.uses += 1;
        let buffer = &mut self.buffers[slot];
        let Request { start, bytes, state, kind } = request;
        *buffer = Buffer { physical: buffer.physical, start, bytes, state, used: self.uses };
        self.must_ring |= self.ring.ask(window, slot, kind, buffer);
    }

    /// Takes all answers; returns whether there was one.
    pub fn collect<W: Window + ?Sized>(&mut self, window: &W) -> bool {
        let mut some = false;
        while let Some(answer) = self.ring.take(window) {
            self.buffers[answer.slot].ended(answer);
            some = true;
        }
        some
    }
}

/// A request that begins.
struct Request {
    kind: u32,
    start: u64,
    bytes: u64,
    state: Use,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Answer;
    use crate::testing::{Memory, START};
    use gyre_cell_abi::device::status;

    const RING: u64 = START + (1 << 20);
    const BUFFERS: u64 = RING + (1 << 16);

    /// A disk whose requests are answered by the tests.
    fn disk(sectors: u64) -> (Memory, Disk) {
        let (mut memory, _) = Memory::with_lots(2);
        let ring = Ring::new(&mut memory, RING);
        let facts = DeviceFacts { sectors, request_bytes_max: BUFFER_BYTES as u32, is_read_only: 0 };
        let places = core::array::from_fn(|slot| BUFFERS + slot as u64 * BUFFER_BYTES);
        (memory, Disk::new(ring, facts, places))
    }

    /// The parts of the disk that are loading, in order.
    fn loading(disk: &Disk) -> Vec<[u64; 2]> {
        let mut all: Vec<_> = disk.buffers.iter().filter(|buffer| buffer.state == Use::Loading).collect();
        all.sort_by_key(|buffer| buffer.start);
        all.into_iter().map(|buffer| [buffer.start, buffer.bytes]).collect()
    }

    fn answer_all(disk: &mut Disk) {
        let waits = |buffer: &&mut Buffer| matches!(buffer.state, Use::Loading | Use::Busy | Use::Stale);
        let answer = Answer { slot: 0, status: status::DONE };
        disk.buffers.iter_mut().filter(waits).for_each(|buffer| buffer.ended(answer));
    }

    #[test]
    fn reading_in_a_row_is_ahead_and_reading_here_and_there_is_not() {
        let (mut memory, mut disk) = disk(1 << 20);
        assert_eq!(disk.look(0), Grain::Unknown);
        assert!(disk.load(&mut memory, 0, 4096));
        assert_eq!(loading(&disk), [0, 1, 2, 3].map(|number| [number * BUFFER_BYTES, BUFFER_BYTES]));
        answer_all(&mut disk);
        disk.has_read(&mut memory, 0, 4096);
        assert!(disk.load(&mut memory, 100 << 20, 100));
        assert_eq!(loading(&disk), [[100 << 20, 4096]]);
        assert!(disk.load(&mut memory, (90 << 20) + 4095, 2));
        assert_eq!(loading(&disk)[0], [90 << 20, 8192]);
    }

    #[test]
    fn the_end_of_the_disk_is_the_end() {
        let (mut memory, mut disk) = disk(9);
        assert!(disk.load(&mut memory, 0, 1 << 20));
        assert_eq!(loading(&disk), [[0, 9 * 512]]);
        answer_all(&mut disk);
        assert_eq!(disk.look(9 * 512 - 1), Grain::Here(Stored { physical: BUFFERS + 9 * 512 - 1, bytes: 1 }));
        assert_eq!(disk.look(9 * 512), Grain::Unknown);
    }

    #[test]
    fn a_write_drops_what_was_read_before_and_meanwhile() {
        let (mut memory, mut disk) = disk(1 << 20);
        disk.load(&mut memory, 0, 4096);
        let (slot, _) = disk.take_buffer().unwrap();
        disk.store(&mut memory, slot, BUFFER_BYTES, 512);
        assert_eq!(disk.look(BUFFER_BYTES), Grain::Unknown);
        assert_eq!(disk.look(2 * BUFFER_BYTES), Grain::Coming);
        assert_eq!(disk.ended(slot), None);
        answer_all(&mut disk);
        assert!(matches!(disk.look(2 * BUFFER_BYTES), Grain::Here(_)));
        assert_eq!(disk.ended(slot), Some(Ok(512)));
        assert_eq!(disk.ended(slot), None);
    }

    #[test]
    fn all_buffers_in_use_is_said() {
        let (mut memory, mut disk) = disk(1 << 20);
        for number in 0..SLOTS as u64 {
            assert!(disk.load(&mut memory, (number + 1) << 24, 1));
        }
        assert!(!disk.load(&mut memory, 1 << 28, 1) && disk.take_buffer().is_none());
        answer_all(&mut disk);
        assert!(disk.take_buffer().is_some());
    }

    #[test]
    fn answers_come_to_their_slots() {
        let (mut memory, mut disk) = disk(1 << 20);
        disk.load(&mut memory, 1 << 24, 1);
        disk.load(&mut memory, 2 << 24, 1);
        assert!(disk.takes_bell() && !disk.takes_bell());
        assert!(!disk.collect(&memory));
        // The second one is done, the first one is not.
        let request = disk.ring.describe(0);
        let headers = RING + PAGE_BYTES;
        memory.write(headers + 32 + 16, 0);
        memory.write(headers + 16, 1);
        memory.write(request.used, 1 | 2 << 16 | 3 << 32);
        memory.write(request.used + 8, 0);
        assert!(disk.collect(&memory) && !disk.collect(&memory));
        assert!(matches!(disk.look(2 << 24), Grain::Here(_)));
        assert_eq!(disk.look(1 << 24), Grain::Lost);
        assert_eq!(disk.look(1 << 24), Grain::Unknown);
    }
}
