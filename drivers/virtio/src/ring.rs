//! The split ring (virtio 1.2 §2.7), driver's side.
//!
//! Protocol of use, under the owner's lock:
//!
//! ```text
//!   push*  publish --true--> notify the device        chains go to the device with a token each
//!   pop*   listen  --true--> pop again                tokens come back; an interrupt follows, or there is more already
//!   hush                                              no interrupts until the next listen
//!   clear                                             after a reset: all tokens come back
//! ```
//!
//! Chains of one piece use one descriptor; longer ones use an indirect table if that was agreed on, so that the ring's size is the
//! number of requests in flight. Free lists, chain ends and lengths live in the driver's memory: the shared tables are only written.
//!
//! Numbers of the device are checked against the driver's own copy. One that cannot be true makes [`Ring::pop`] fail; the owner resets the device.

use crate::layout::*;
use alloc::vec::Vec;
use gyre_machine::{DeviceError, DmaBuffer, Pa, dma_fence};

/// The features that were agreed on, and how long chains may be.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Indirect descriptors were agreed on.
    pub indirect: bool,
    /// The event index was agreed on.
    pub event_index: bool,
    /// Most pieces of one chain.
    pub pieces_max: u16,
    /// The device may count what it has read among what it wrote, as QEMU's SCSI host does; what is too much is cut, not an error.
    pub counts_all: bool,
}

/// A chain that the device is done with.
#[derive(Debug, PartialEq, Eq)]
pub struct Used<T> {
    /// The token that was pushed with it.
    pub token: T,
    /// Bytes that the device says it wrote: never more than the chain's writable bytes.
    pub bytes: u32,
}

/// The ring is full, or the chain is longer than the ring takes; the token comes back.
#[derive(Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

struct Chain<T> {
    token: T,
    descriptors: u16,
    writable_bytes: u32,
}

/// A split ring with one token per chain in flight. Not locked: its owner is.
pub struct Ring<T> {
    memory: DmaBuffer,
    tables: Option<DmaBuffer>,
    offsets: Offsets,
    options: RingOptions,
    size: u16,
    /// Own copy of the links between descriptors: free list and chains.
    next: Vec<u16>,
    free_head: u16,
    free_count: u16,
    chains: Vec<Option<Chain<T>>>,
    in_flight: u16,
    available_index: u16,
    published_index: u16,
    used_index: u16,
    /// The device's index was seen ahead of ours: it does not move back.
    seen_ahead: bool,
    /// The device interrupts when its index passes this one, if the event index was agreed on.
    event: u16,
}

impl<T> Ring<T> {
    /// Makes a ring of `size` entries, rounded down to a power of two.
    ///
    /// # Errors
    /// [`DeviceError::Protocol`] if size or chain length is 0, [`DeviceError::OutOfMemory`].
    pub fn new(size: u16, options: RingOptions) -> Result<Ring<T>, DeviceError> {
        if size == 0 || options.pieces_max == 0 {
            return Err(DeviceError::Protocol);
        }
        let size = (1 << size.ilog2()).min(0x8000);
        let offsets = Offsets::of(size);
        let allocate = |bytes| DmaBuffer::allocate(bytes).map_err(|_| DeviceError::OutOfMemory);
        let tables = (options.indirect && options.pieces_max > 1)
            .then(|| allocate(table_start(size, options.pieces_max)))
            .transpose()?;
        let mut ring = Ring {
            memory: allocate(offsets.bytes)?,
            tables,
            offsets,
            options,
            size,
            next: (1..=size).collect(),
            free_head: 0,
            free_count: size,
            chains: (0..size).map(|_| None).collect(),
            in_flight: 0,
            available_index: 0,
            published_index: 0,
            used_index: 0,
            seen_ahead: false,
            event: 0,
        };
        ring.listen();
        Ok(ring)
    }

    /// Returns its addresses, for [`crate::Transport::enable_queue`].
    pub fn layout(&self) -> QueueLayout {
        QueueLayout {
            size: self.size,
            descriptors: place(&self.memory, 0),
            available: place(&self.memory, self.offsets.available),
            used: place(&self.memory, self.offsets.used),
        }
    }

    /// Entries.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Chains that the device has.
    pub fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// The tokens of all chains that the device has.
    pub fn tokens(&self) -> impl Iterator<Item = &T> {
        self.chains.iter().flatten().map(|chain| &chain.token)
    }

    /// Returns true if a chain of `pieces` fits now.
    pub fn has_room(&self, pieces: usize) -> bool {
        pieces > 0
            && pieces <= usize::from(self.options.pieces_max)
            && self.descriptors_for(pieces) <= usize::from(self.free_count)
    }

    fn descriptors_for(&self, pieces: usize) -> usize {
        if self.tables.is_some() { 1 } else { pieces }
    }

    /// Adds a chain; the device sees it after [`Ring::publish`]. The pieces' memory must live until the token comes back.
    ///
    /// # Errors
    /// [`Full`] with the token; nothing has changed then.
    pub fn push(&mut self, pieces: &[Piece], token: T) -> Result<(), Full<T>> {
        if !self.has_room(pieces.len()) {
            return Err(Full(token));
        }
        let head = self.free_head;
        let indirect = self.tables.is_some() && pieces.len() > 1;
        let descriptors = if indirect { self.write_table(head, pieces) } else { self.write_chain(pieces) };
        let writable = |piece: &Piece| if piece.device_writes { piece.bytes } else { 0 };
        let writable_bytes = pieces.iter().fold(0, |sum: u32, piece| sum.saturating_add(writable(piece)));
        let chain = Chain { token, descriptors, writable_bytes };
        let slot = self.offsets.available_entry(self.slot_of(self.available_index));
        self.memory.write_u16(slot, head);
        if let Some(entry) = self.chains.get_mut(usize::from(head)) {
            *entry = Some(chain);
        }
        self.available_index = self.available_index.wrapping_add(1);
        self.in_flight = self.in_flight.saturating_add(1);
        Ok(())
    }

    /// The slot of an index in a ring: the size is a power of two.
    fn slot_of(&self, index: u16) -> u16 {
        index & self.size.wrapping_sub(1)
    }

    /// Writes the pieces into free descriptors, linked; returns how many.
    fn write_chain(&mut self, pieces: &[Piece]) -> u16 {
        let Some((last, others)) = pieces.split_last() else { return 0 };
        for piece in others {
            let index = self.take_free();
            write_descriptor(&self.memory, 0, index, *piece, FLAG_NEXT, self.free_head);
        }
        let index = self.take_free();
        write_descriptor(&self.memory, 0, index, *last, 0, 0);
        pieces.len() as u16
    }

    /// Writes the pieces into the indirect table of descriptor `head`; one descriptor.
    fn write_table(&mut self, head: u16, pieces: &[Piece]) -> u16 {
        let Some(tables) = &self.tables else { return 0 };
        let start = table_start(head, self.options.pieces_max);
        let Some((last, others)) = pieces.split_last() else { return 0 };
        for ((piece, position), next) in others.iter().zip(0..).zip(1..) {
            write_descriptor(tables, start, position, *piece, FLAG_NEXT, next);
        }
        write_descriptor(tables, start, others.len() as u16, *last, 0, 0);
        let table = Piece::read(place(tables, start), pieces.len().saturating_mul(DESCRIPTOR_BYTES) as u32);
        write_descriptor(&self.memory, 0, head, table, FLAG_INDIRECT, 0);
        self.take_free();
        1
    }

    fn take_free(&mut self) -> u16 {
        let index = self.free_head;
        self.free_head = self.next.get(usize::from(index)).copied().unwrap_or(0);
        self.free_count = self.free_count.saturating_sub(1);
        index
    }

    /// Shows all pushed chains to the device; returns true if it wants to be notified.
    #[must_use = "the device sleeps until it is notified"]
    pub fn publish(&mut self) -> bool {
        let before = self.published_index;
        if self.available_index == before {
            return false;
        }
        dma_fence();
        self.memory.write_u16(self.offsets.available_index(), self.available_index);
        self.published_index = self.available_index;
        // The index must be visible before the device's wish is read (virtio 1.2 §2.7.13.4.1).
        dma_fence();
        if self.options.event_index {
            let event = self.memory.read_u16(self.offsets.used_entry(self.size).0);
            return passed(event, self.available_index, before);
        }
        self.memory.read_u16(self.offsets.used) & FLAG_QUIET == 0
    }

    /// Takes the next chain that the device is done with.
    ///
    /// # Errors
    /// [`DeviceError::Protocol`] if the device names a chain it does not have, claims to have written more than it may, or
    /// moves its index beyond what it was given, or back. It must be reset; see [`Ring::clear`].
    pub fn pop(&mut self) -> Result<Option<Used<T>>, DeviceError> {
        let ready = self.used();
        let published = self.in_flight.saturating_sub(self.available_index.wrapping_sub(self.published_index));
        if ready == 0 {
            // an honest device's index only grows: else who looks until nothing is there would look for ever
            return if self.seen_ahead { Err(DeviceError::Protocol) } else { Ok(None) };
        }
        self.seen_ahead = false;
        if ready > published {
            return Err(DeviceError::Protocol);
        }
        dma_fence();
        let slot = self.offsets.used_entry(self.slot_of(self.used_index));
        let (id, bytes) = (self.memory.read_u32(slot.0), self.memory.read_u32(slot.1));
        let entry = usize::try_from(id).ok().and_then(|id| self.chains.get_mut(id)).ok_or(DeviceError::Protocol)?;
        let counts_all = self.options.counts_all;
        if entry.as_ref().is_none_or(|chain| bytes > chain.writable_bytes && !counts_all) {
            return Err(DeviceError::Protocol);
        }
        let chain = entry.take().ok_or(DeviceError::Protocol)?;
        let bytes = bytes.min(chain.writable_bytes);
        self.release(id as u16, chain.descriptors);
        self.used_index = self.used_index.wrapping_add(1);
        self.in_flight = self.in_flight.saturating_sub(1);
        Ok(Some(Used { token: chain.token, bytes }))
    }

    /// Puts the descriptors of a chain at the head of the free list; the links inside of it are still there.
    fn release(&mut self, head: u16, descriptors: u16) {
        let mut last = head;
        for _ in 1..descriptors {
            last = self.next.get(usize::from(last)).copied().unwrap_or(last);
        }
        if let Some(link) = self.next.get_mut(usize::from(last)) {
            *link = self.free_head;
        }
        self.free_head = head;
        self.free_count = self.free_count.saturating_add(descriptors);
    }

    /// Asks for an interrupt at the next used chain; returns true if there is one already, which may not interrupt any more: pop again.
    pub fn listen(&mut self) -> bool {
        if self.options.event_index {
            self.write_used_event(self.used_index);
        } else {
            self.memory.write_u16(self.offsets.available, 0);
        }
        dma_fence();
        self.seen_ahead = self.used() != 0;
        self.seen_ahead
    }

    /// Asks for an interrupt once `chains` more are used, if the event index was agreed on (else at the next one). Returns true if
    /// they are already, which may not interrupt any more: pop again. At least 1, at most what the device has.
    pub fn listen_after(&mut self, chains: u16) -> bool {
        if !self.options.event_index {
            return self.listen();
        }
        let more = chains.clamp(1, self.in_flight.max(1));
        self.write_used_event(self.used_index.wrapping_add(more).wrapping_sub(1));
        dma_fence();
        self.seen_ahead = self.used() >= more;
        self.seen_ahead
    }

    /// Returns true if a chain is used and not taken yet.
    pub fn is_ready(&self) -> bool {
        self.used() > 0
    }

    /// Chains that are used and not taken yet, as the device says: [`Ring::pop`] checks it.
    pub fn used(&self) -> u16 {
        self.memory.read_u16(self.offsets.used_index()).wrapping_sub(self.used_index)
    }

    /// Asks for no interrupts until [`Ring::listen`]. A hint: the device may interrupt once more.
    pub fn hush(&mut self) {
        if self.options.event_index {
            self.write_used_event(self.used_index.wrapping_sub(1));
        } else {
            self.memory.write_u16(self.offsets.available, FLAG_QUIET);
        }
    }

    /// Returns true if an interrupt asked for by [`Ring::listen`] or [`Ring::listen_after`] is still to come: the device has the chain that
    /// it follows. Never without the event index, which alone says so.
    pub fn will_interrupt(&self) -> bool {
        let used = self.used();
        let at_device = self.in_flight.saturating_sub(used);
        self.options.event_index && self.event.wrapping_sub(self.used_index.wrapping_add(used)) < at_device
    }

    fn write_used_event(&mut self, index: u16) {
        self.event = index;
        self.memory.write_u16(self.offsets.available_entry(self.size), index);
    }

    /// Empties the ring after the device was reset and returns the tokens of all chains that it had.
    /// Must not be called before the reset: the device would still write to the chains' memory.
    pub fn clear(&mut self) -> Vec<T> {
        let tokens = self.chains.iter_mut().filter_map(|entry| entry.take()).map(|chain| chain.token).collect();
        self.next = (1..=self.size).collect();
        (self.free_head, self.free_count, self.in_flight) = (0, self.size, 0);
        (self.available_index, self.published_index, self.used_index) = (0, 0, 0);
        self.seen_ahead = false;
        for offset in [self.offsets.available, self.offsets.used] {
            self.memory.write_u32(offset, 0);
        }
        self.memory.write_u16(self.offsets.used_entry(self.size).0, 0);
        self.listen();
        tokens
    }
}

/// Returns the address at which the indirect table of a descriptor begins.
#[expect(clippy::arithmetic_side_effects, reason = "two numbers of 16 bits times 16")]
fn table_start(descriptor: u16, pieces_max: u16) -> usize {
    usize::from(descriptor) * usize::from(pieces_max) * DESCRIPTOR_BYTES
}

/// The address of a byte of the driver's own memory.
#[expect(clippy::arithmetic_side_effects, reason = "the byte lies in the buffer, which lies in memory")]
fn place(buffer: &DmaBuffer, offset: usize) -> Pa {
    Pa(buffer.pa().0 + offset as u64)
}

/// Returns true if going from `before` to `after` passes `event` (virtio 1.2 §2.7.10.2).
fn passed(event: u16, after: u16, before: u16) -> bool {
    after.wrapping_sub(event).wrapping_sub(1) < after.wrapping_sub(before)
}

#[inline(always)]
fn write_descriptor(memory: &DmaBuffer, start: usize, index: u16, piece: Piece, flags: u16, next: u16) {
    let write = if piece.device_writes { FLAG_WRITE } else { 0 };
    // address, length, flags and next in one (virtio 1.2 §2.7.5: little-endian, as this machine)
    let rest = u64::from(piece.bytes) | u64::from(flags | write) << 32 | u64::from(next) << 48;
    let at = start.saturating_add(table_start(index, 1));
    memory.write_u128(at, u128::from(piece.pa.0) | u128::from(rest) << 64);
}

#[cfg(test)]
mod tests;
