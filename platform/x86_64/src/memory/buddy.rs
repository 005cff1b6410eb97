//! The buddy allocator: blocks of `2^order` frames, split and merged. Pure arithmetic over frame descriptions, tested on the host.
//!
//! Lists run through the descriptions and not through the free memory, so that a device or a stale pointer that writes to a
//! freed frame cannot break the allocator.
//!
//! A lot (2 MiB) of which a part is taken is of one [`Kind`]: the kernel's own frames and pages that can be moved lie in different lots, as far
//! as there are lots enough, so that lots can be emptied and leave ([`super::leaving`]). A free lot has no kind.
//!
//! Called under the lock of [`super::raw`], which also keeps single frames for each core.

use super::leaving::LotSet;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Orders of blocks: 4 KiB to 128 MiB. The kernel's large tables (hash maps, vectors) are single blocks, so the limit is generous.
pub(crate) const ORDERS: usize = 16;
/// Order of a lot.
pub(crate) const LOT_ORDER: u8 = 9;
/// No frame.
pub(crate) const NONE: u32 = u32::MAX;
/// Free lots of one order that are looked at for the lowest.
const LOOKS_MAX: usize = 32;

/// In the middle of a block, or not ours.
pub(crate) const INSIDE: u8 = 0;
/// First frame of a free block.
pub(crate) const FREE: u8 = 1;
/// First frame of a block that somebody has.
pub(crate) const TAKEN: u8 = 2;
/// A single free frame in a core's cache.
pub(crate) const CACHED: u8 = 3;
/// A frame of a lot that this instance shares with another one: the allocator neither has nor takes it.
pub(crate) const FOREIGN: u8 = 4;
/// First frame of a block that nobody gets, because its lot is leaving.
pub(crate) const LEAVING: u8 = 5;

/// The use of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Somebody knows their addresses: objects of the kernel, tables, buffers of devices.
    Fixed,
    /// Pages of programs and files: they can be copied elsewhere, or had again.
    Movable,
}

/// The description of a frame. Atomic, because a neighbour's state is read under the allocator's lock while its owner changes it.
#[repr(C)]
#[derive(Default)]
pub(crate) struct FrameInfo {
    /// Link of the free list; free for the owner of a taken block.
    pub(crate) next: AtomicU32,
    /// Likewise.
    pub(crate) prev: AtomicU32,
    /// The payer of the block that starts here.
    pub(crate) owner: AtomicU32,
    /// Order of the block that starts here.
    pub(crate) order: AtomicU8,
    /// One of the states above.
    pub(crate) state: AtomicU8,
    /// The kind of the lot in which the block that starts here lies: [`Kind`] as a number.
    lot_kind: AtomicU8,
    /// The kind as which the block was taken that starts here.
    taken_kind: AtomicU8,
}

impl FrameInfo {
    /// The kind of its lot.
    pub(crate) fn lot_kind(&self) -> Kind {
        Kind::of(self.lot_kind.load(Relaxed))
    }

    /// The kind as which it was taken.
    pub(crate) fn taken_kind(&self) -> Kind {
        Kind::of(self.taken_kind.load(Relaxed))
    }

    pub(super) fn set_kinds(&self, lot: Kind, taken: Kind) {
        self.lot_kind.store(lot as u8, Relaxed);
        self.taken_kind.store(taken as u8, Relaxed);
    }
}

impl Kind {
    fn of(number: u8) -> Kind {
        if number == Kind::Movable as u8 { Kind::Movable } else { Kind::Fixed }
    }

    fn other(self) -> Kind {
        match self {
            Kind::Fixed => Kind::Movable,
            Kind::Movable => Kind::Fixed,
        }
    }
}

/// Gives the description of a frame.
pub(crate) trait FrameTable {
    /// The description of frame `number`, whose lot must have descriptions.
    fn info(&self, number: u32) -> &FrameInfo;
    /// True if the lot of frame `number` has descriptions.
    fn knows(&self, number: u32) -> bool;
}

/// A block was given back that was not taken, or not with this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotTaken;

/// The free blocks.
pub(crate) struct Buddy {
    /// Blocks of less than a lot, by the kind of their lot.
    parts: [[u32; LOT_ORDER as usize]; 2],
    /// Blocks of whole lots.
    whole: [u32; ORDERS - LOT_ORDER as usize],
    free_frames: usize,
    frames: usize,
    /// Lots of which all frames are the instance's: others cannot leave.
    pub(super) owned: LotSet,
    /// Of these, those that are leaving.
    pub(super) leaving: LotSet,
}

impl Buddy {
    /// An allocator without memory.
    pub(crate) const fn new() -> Buddy {
        Buddy {
            parts: [[NONE; LOT_ORDER as usize]; 2],
            whole: [NONE; ORDERS - LOT_ORDER as usize],
            free_frames: 0,
            frames: 0,
            owned: LotSet::EMPTY,
            leaving: LotSet::EMPTY,
        }
    }

    /// Frames that are free here.
    pub(crate) fn free_frames(&self) -> usize {
        self.free_frames
    }

    /// Frames that were added, less those that have left.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Adds the frames `start..end`, which have descriptions. Beginning and end of it that are no whole lots are for fixed frames first.
    pub(crate) fn add_region(&mut self, table: &impl FrameTable, start: u32, end: u32) {
        let mut at = start;
        while at < end {
            let by_alignment = at.trailing_zeros().min(ORDERS as u32 - 1);
            let order = by_alignment.min((end - at).ilog2()) as u8;
            table.info(at).set_kinds(Kind::Fixed, Kind::Fixed);
            self.add_block(table, at, order);
            (at..at + (1 << order))
                .step_by(1 << LOT_ORDER)
                .filter(|_| order >= LOT_ORDER)
                .for_each(|lot| self.owned.insert(lot_of(lot)));
            at += 1 << order;
        }
        self.frames += end.saturating_sub(start) as usize;
    }

    /// Takes a block; its first frame's description says `TAKEN` and the order.
    pub(crate) fn take(&mut self, table: &impl FrameTable, order: u8, kind: Kind) -> Option<u32> {
        let block = match order < LOT_ORDER {
            true => self.take_part(table, order, kind)?,
            false => self.take_lots(table, order)?,
        };
        let info = table.info(block);
        let lot_kind = if order < LOT_ORDER { info.lot_kind() } else { kind };
        info.set_kinds(lot_kind, kind);
        info.order.store(order, Relaxed);
        info.state.store(TAKEN, Relaxed);
        Some(block)
    }

    /// Takes less than a lot: of a lot of its kind, of a free lot, or of any lot.
    fn take_part(&mut self, table: &impl FrameTable, order: u8, kind: Kind) -> Option<u32> {
        self.take_of(table, order, kind).or_else(|| {
            if let Some(lot) = self.take_lots(table, LOT_ORDER) {
                table.info(lot).set_kinds(kind, kind);
                self.shorten(table, lot, LOT_ORDER, order);
                return Some(lot);
            }
            self.take_of(table, order, kind.other())
        })
    }

    fn take_of(&mut self, table: &impl FrameTable, order: u8, kind: Kind) -> Option<u32> {
        let found = (order..LOT_ORDER).find(|order| *self.head(*order, kind) != NONE)?;
        let block = *self.head(found, kind);
        self.unlink(table, block, found);
        self.shorten(table, block, found, order);
        Some(block)
    }

    /// Takes whole lots, the lowest ones that are found quickly: so the upper ones stay free and can leave.
    fn take_lots(&mut self, table: &impl FrameTable, order: u8) -> Option<u32> {
        let lowest = |order: u8| {
            let mut at = *self.whole.get(usize::from(order - LOT_ORDER))?;
            let mut found = at;
            for _ in 0..LOOKS_MAX {
                if at == NONE {
                    break;
                }
                found = found.min(at);
                at = table.info(at).next.load(Relaxed);
            }
            (found != NONE).then_some((found, order))
        };
        let (block, found) = (order..ORDERS as u8).filter_map(lowest).min()?;
        self.unlink(table, block, found);
        self.shorten(table, block, found, order);
        Some(block)
    }

    /// Frees what a block that is in no list has beyond its first `2^order` frames.
    fn shorten(&mut self, table: &impl FrameTable, block: u32, from: u8, order: u8) {
        let kind = table.info(block).lot_kind();
        for half in (order..from).rev() {
            let upper = block + (1 << half);
            table.info(upper).set_kinds(kind, kind);
            self.link(table, upper, half);
        }
    }

    /// Takes a block back and merges it with its free neighbours.
    ///
    /// # Errors
    /// [`NotTaken`]: nothing was changed.
    pub(crate) fn give(&mut self, table: &impl FrameTable, block: u32, order: u8) -> Result<(), NotTaken> {
        let info = table.info(block);
        if info.state.load(Relaxed) != TAKEN || info.order.load(Relaxed) != order {
            return Err(NotTaken);
        }
        if !self.leaving.is_empty() && self.give_leaving(table, block, order) {
            return Ok(());
        }
        info.state.store(INSIDE, Relaxed);
        self.add_block(table, block, order);
        Ok(())
    }

    /// Puts a block that is in no list with its free neighbours.
    pub(super) fn add_block(&mut self, table: &impl FrameTable, block: u32, order: u8) {
        let (mut block, mut order) = (block, order);
        let kind = table.info(block).lot_kind();
        while usize::from(order) < ORDERS - 1 {
            let buddy = block ^ 1 << order;
            if order >= LOT_ORDER && !table.knows(buddy) {
                break;
            }
            let other = table.info(buddy);
            let is_alike = order >= LOT_ORDER || other.lot_kind() == kind;
            if other.state.load(Relaxed) != FREE || other.order.load(Relaxed) != order || !is_alike {
                break;
            }
            self.unlink(table, buddy, order);
            block &= !(1 << order);
            order += 1;
        }
        table.info(block).set_kinds(kind, kind);
        self.link(table, block, order);
    }

    fn head(&mut self, order: u8, kind: Kind) -> &mut u32 {
        match order.checked_sub(LOT_ORDER) {
            Some(whole) => &mut self.whole[usize::from(whole)],
            None => &mut self.parts[kind as usize][usize::from(order)],
        }
    }

    fn link(&mut self, table: &impl FrameTable, block: u32, order: u8) {
        let info = table.info(block);
        let head = self.head(order, info.lot_kind());
        info.order.store(order, Relaxed);
        info.state.store(FREE, Relaxed);
        info.prev.store(NONE, Relaxed);
        info.next.store(*head, Relaxed);
        if *head != NONE {
            table.info(*head).prev.store(block, Relaxed);
        }
        *head = block;
        self.free_frames += 1 << order;
    }

    /// Takes a free block out of its list; it is in nobody's hands then.
    pub(super) fn unlink(&mut self, table: &impl FrameTable, block: u32, order: u8) {
        let info = table.info(block);
        let (next, prev) = (info.next.load(Relaxed), info.prev.load(Relaxed));
        if prev == NONE {
            *self.head(order, info.lot_kind()) = next;
        } else {
            table.info(prev).next.store(next, Relaxed);
        }
        if next != NONE {
            table.info(next).prev.store(prev, Relaxed);
        }
        info.state.store(INSIDE, Relaxed);
        self.free_frames -= 1 << order;
    }

    /// Forgets a lot that has left.
    pub(super) fn forget(&mut self, lot: u32) {
        self.owned.remove(lot);
        self.leaving.remove(lot);
        self.frames -= 1 << LOT_ORDER;
    }
}

/// The number of a frame's lot.
pub(super) fn lot_of(frame: u32) -> u32 {
    frame >> LOT_ORDER
}

#[cfg(test)]
#[path = "buddy_tests.rs"]
mod tests;
