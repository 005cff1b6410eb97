//! What a file system shows of itself without waiting.
//!
//! Names, attributes and pages that are in memory, and what is begun at the disk without waiting for it. Every method answers at once; `None` says that a message has to ask, and that nothing
//! was changed. What is answered is what the message would be answered, at that moment. Permissions are checked by the caller.

use crate::begun::Begun;
use crate::files::{Attributes, FileError, NodeId};
use gyre_object::{Bytes, Page};

/// Bytes that one look at a file's contents is about, at most.
pub const NEAR_BYTES_MAX: usize = 32 << 10;
/// Pages of 4 KiB that they may lie in.
pub const NEAR_PAGES_MAX: usize = 9;

/// Pages of 4 KiB that as many bytes as one has may lie in.
pub const FEW_PAGES: usize = 2;

/// Pages of a file from the one that holds the first byte asked for.
pub type NearPages = [Option<Page>; NEAR_PAGES_MAX];

/// Copies so many bytes to pages, from a byte of the first one on; false where they are not to be had at once, perhaps after a part.
pub type Fill<'a> = &'a mut dyn FnMut(&[Option<Page>], usize, usize) -> bool;

/// The near part of a file system.
pub trait Near: Sync {
    /// Attributes of a node.
    fn attributes(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>>;
    /// Finds a name, not "." or "..".
    fn lookup(&'static self, directory: NodeId, name: &[u8]) -> Option<Result<Attributes, FileError>>;
    /// Keeps a node alive while it is open.
    fn open(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>>;
    /// Ends one `open`; false where a message has to.
    fn close(&'static self, node: NodeId) -> bool;
    /// The pages of up to [`NEAR_BYTES_MAX`] bytes from `offset` on, and how many bytes of them are the file's.
    fn read(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>>;
    /// Overwrites up to [`NEAR_BYTES_MAX`] bytes that a file has, in pages that are in memory, with what `fill` copies there. `None`
    /// where a message has to, with the same bytes: a part may have been copied.
    fn overwrite(&'static self, node: NodeId, offset: u64, bytes: usize, fill: Fill<'_>) -> Option<()> {
        let _ = (node, offset, bytes, fill);
        None
    }
    /// Begins to bring what is not in memory of up to so many bytes from `offset` on, and what is read next where `may_guess`. Once that is
    /// done, [`Near::read`] finds more of it.
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
