//! Frames of a cell: who gives them out is a policy ([`Buddy`], [`Coloured`]).

mod buddy;
mod coloured;

pub use buddy::Buddy;
pub use coloured::Coloured;

use crate::memory::PAGE_BYTES;

/// The largest block: 64 MiB, as an order (pages, as a power of two).
pub const ORDER_MAX: u8 = 14;

/// The bytes of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Zeros: nobody has had any of its pages since its lot came.
    Zeros,
    /// Those of its last use.
    Old,
}

/// A block that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its physical address.
    pub physical: u64,
    /// Its size: pages, as a power of two.
    pub order: u8,
    /// Its bytes.
    pub contents: Contents,
}

impl Block {
    /// The number of its bytes.
    pub fn bytes(&self) -> u64 {
        PAGE_BYTES << self.order
    }
}

/// The frames that a cell holds and does not use.
pub trait Frames {
    /// Takes a block of `1 << order` pages for an address, which a policy may look at.
    fn take_block(&mut self, order: u8, address: u64) -> Option<Block>;

    /// Takes a block of at most `1 << order` pages for pages in a row from an address on; smaller if that costs less than to look for more.
    fn take_up_to(&mut self, order: u8, address: u64) -> Option<Block>;

    /// Takes a block of a size, whatever lies in it; returns its physical address.
    fn take(&mut self, order: u8, address: u64) -> Option<u64> {
        self.take_block(order, address).map(|block| block.physical)
    }

    /// Gives a block back; also a part of one that was taken.
    fn give(&mut self, physical: u64, order: u8);

    /// Adds a lot. Pages below `from` are in use already; the others have these contents.
    ///
    /// # Errors
    /// [`TooMany`]; the lot is not used then.
    fn add_lot(&mut self, lot: u64, from: u64, contents: Contents) -> Result<(), TooMany>;

    /// Adds a lot that the kernel has cleared.
    ///
    /// # Errors
    /// As [`Frames::add_lot`].
    fn add(&mut self, lot: u64, from: u64) -> Result<(), TooMany> {
        self.add_lot(lot, from, Contents::Zeros)
    }

    /// Takes a lot out that is free as a whole: it is not the allocator's any more.
    fn take_lot(&mut self) -> Option<u64>;

    /// Bytes that are free.
    fn free_bytes(&self) -> u64;
}

/// No place to note another lot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany;
