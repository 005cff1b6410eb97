//! The near part of a file system: what it answers without a message and without waiting.
//!
//! It holds names, attributes and pages that are in memory, and begins transfers at the disk. Every method answers at
//! once. `None` says that the client must send the message instead, and that nothing was changed. An answer is the
//! one that the message would have got at that time. The caller checks permissions.

use crate::around::Around;
use crate::begun::Begun;
use crate::files::{Attributes, FileError, NodeId};
use gyre_object::{Bytes, Page};

/// Most bytes of a file that one look is about.
pub const NEAR_BYTES_MAX: usize = 32 << 10;
/// Most pages of 4 KiB that these bytes may lie in.
pub const NEAR_PAGES_MAX: usize = 9;

/// Returns the most pages of 4 KiB that `bytes` may lie in.
pub const FEW_PAGES: usize = 2;

/// Pages of a file, from the one that holds the first byte asked for.
pub type NearPages = [Option<Page>; NEAR_PAGES_MAX];

/// Copies a number of bytes to pages, from a byte of the first one on. Answers false if they are not available at
/// once, perhaps after copying a part.
pub type Fill<'a> = &'a mut dyn FnMut(&[Option<Page>], usize, usize) -> bool;

/// The near part of a file system.
pub trait Near: Sync {
    /// Returns the attributes of a node.
    fn attributes(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>>;
    /// Finds a name, not "." or "..".
    fn lookup(&'static self, directory: NodeId, name: &[u8]) -> Option<Result<Attributes, FileError>>;
    /// Keeps a node alive while it is open.
    fn open(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>>;
    /// Ends one `open`; answers false if the client must send the message.
    fn close(&'static self, node: NodeId) -> bool;
    /// Returns the pages of up to [`NEAR_BYTES_MAX`] bytes from `offset` on, and how many of these bytes the file
    /// has.
    fn read(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>>;
    /// Returns pages as [`Near::read`] does, which nobody changes while they are held: a writer of the file replaces them.
    /// `None` also if that cannot be promised of one, as somebody may write it without asking.
    fn lend(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>> {
        let _ = (node, offset, bytes, into);
        None
    }
    /// Takes pages for a program that maps them, as `page` of the protocol gives them: they may be written from then
    /// on. None that is not in memory.
    fn to_map(&'static self, node: NodeId, around: &mut Around) {
        let _ = (node, around);
    }
    /// Overwrites up to [`NEAR_BYTES_MAX`] existing bytes of a file in cached pages; `fill` copies them there. On
    /// `None` the client must send a message with the same bytes; a part may have been copied.
    fn overwrite(&'static self, node: NodeId, offset: u64, bytes: usize, fill: Fill<'_>) -> Option<()> {
        let _ = (node, offset, bytes, fill);
        None
    }
    /// Begins to fetch up to `bytes` from `offset` on that are not in memory, and with `may_guess` also read-ahead.
    /// Once that is done, [`Near::read`] finds more of them.
    fn fetch(&'static self, node: NodeId, offset: u64, bytes: usize, may_guess: bool) -> Option<Begun> {
        let _ = (node, offset, bytes, may_guess);
        None
    }
    /// Begins to read past the cache, straight into views, as `read_direct` of the protocol does.
    fn read_direct(&'static self, node: NodeId, offset: u64, into: &[Bytes]) -> Option<Begun> {
        let _ = (node, offset, into);
        None
    }
    /// Begins to overwrite past the cache, straight from views, as `write_direct` of the protocol does.
    fn write_direct(&'static self, node: NodeId, offset: u64, from: &[Bytes]) -> Option<Begun> {
        let _ = (node, offset, from);
        None
    }
}
