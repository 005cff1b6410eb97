//! File systems: one protocol for ext2, tmpfs and every other holder of files. Nodes are named by number.
//!
//! Protocol of use: [`files::root`] gives the first node, [`files::lookup`] the others. A node lives as long as it
//! has a name or is open; so [`files::open`] comes before reads and writes, and [`files::close`] after. The caller
//! checks permissions and walks paths; the server knows neither users nor mount points.
//!
//! Contents move by reference ([`Bytes`], [`Page`]), never by copying into a message. Clients first look at the near
//! part ([`Near`]), which answers at once what is in memory, and send the request if it answers `None`.
//!
//! Left out: waiting for locks of files, notices of changes and mapped pages; the personality keeps these.

use alloc::vec::Vec;
use gyre_message::{Gone, protocol};
use gyre_object::{Bytes, Page};

use crate::block::BlockError;
use crate::near::Near;

/// Names a node of one file system for as long as that exists. A later node never has the same name, even if it takes
/// the same place on the disk. Requests for a node that is gone answer [`FileError::Stale`]. Programs see
/// [`Attributes::number`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

/// A name in a directory: 1 to 255 bytes without '/' and NUL.
pub type Name = Vec<u8>;
/// Longest name, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most pages of which one request tells whether they are in memory.
pub const CACHED_PAGES_MAX: usize = 1024;

/// Why a file operation failed. The Linux personality maps each to one errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileError {
    /// No such name (ENOENT).
    NotFound,
    /// The node is gone: the name that led to it may lead to another by now (ESTALE).
    Stale,
    /// The name is taken (EEXIST).
    Exists,
    /// A directory was needed (ENOTDIR).
    NotDirectory,
    /// A directory is not allowed here (EISDIR).
    IsDirectory,
    /// The directory still has entries (ENOTEMPTY).
    NotEmpty,
    /// No space left on the device (ENOSPC).
    NoSpace,
    /// The file would become too large (EFBIG).
    TooLarge,
    /// The name is too long (ENAMETOOLONG).
    NameTooLong,
    /// Too many links (EMLINK).
    TooManyLinks,
    /// The argument makes no sense for this node (EINVAL).
    Invalid,
    /// The file system or device is read-only (EROFS).
    ReadOnly,
    /// The image is damaged here (EUCLEAN).
    Damaged,
    /// The device failed (EIO).
    Io,
    /// No memory (ENOMEM).
    OutOfMemory,
    /// Not offered by this file system (EOPNOTSUPP).
    Unsupported,
    /// Would lead to another file system (EXDEV).
    OtherFileSystem,
    /// The node has no extended attribute of this name (ENODATA).
    NoAttribute,
    /// The extended attributes of a node are larger than this file system can keep (ENOSPC).
    TooMuch,
    /// The server is gone (EIO).
    Gone,
    /// The asker may not (EACCES).
    Denied,
}

impl From<BlockError> for FileError {
    fn from(error: BlockError) -> FileError {
        match error {
            BlockError::Io | BlockError::OutOfRange => FileError::Io,
            BlockError::Unsupported => FileError::ReadOnly,
            BlockError::OutOfMemory => FileError::OutOfMemory,
            BlockError::Gone => FileError::Gone,
        }
    }
}

impl From<Gone> for FileError {
    fn from(_: Gone) -> FileError {
        FileError::Gone
    }
}

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    SymbolicLink,
    /// A character device (major, minor in [`Attributes::device`]).
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Pipe,
    /// A local socket's name.
    Socket,
}

/// Everything that `stat` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// The node.
    pub node: NodeId,
    /// The number that programs see (`st_ino`); one that is free is used again.
    pub number: u64,
    /// Its kind.
    pub kind: NodeKind,
    /// Permission bits, set-user-id and the like: the low 12 bits of `st_mode`.
    pub mode: u16,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Space used, in units of 512 bytes.
    pub blocks_512: u64,
    /// Device number, for device nodes.
    pub device: u64,
    /// Last access, ns since 1970.
    pub accessed_ns: u64,
    /// Last change of contents, ns since 1970.
    pub modified_ns: u64,
    /// Last change of the node, ns since 1970.
    pub changed_ns: u64,
    /// How often somebody was told that contents were lost at a write-back, since the node came into memory. Whoever has it open sees by a
    /// change that it was told to another (Linux: `errseq_t`, lib/errseq.c).
    pub losses: u32,
}

/// The changes of [`files::set_attributes`]; `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AttributeChange {
    /// Permission bits.
    pub mode: Option<u16>,
    /// Owner.
    pub user: Option<u32>,
    /// Group.
    pub group: Option<u32>,
    /// New size; longer files get a hole.
    pub size_bytes: Option<u64>,
    /// Access time, ns since 1970.
    pub accessed_ns: Option<u64>,
    /// Modification time, ns since 1970.
    pub modified_ns: Option<u64>,
}

/// A node to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNode {
    /// Its kind.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Target of a symbolic link; empty otherwise.
    pub target: Vec<u8>,
    /// Device number of a device node; 0 otherwise.
    pub device: u64,
}

/// The way in which a rename treats the new name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RenameMode {
    /// The node that it leads to is replaced.
    #[default]
    Replace,
    /// It must be free, else [`FileError::Exists`].
    Keep,
    /// It must lead to a node, and both names exchange their nodes.
    Exchange,
}

/// The demand of setting an extended attribute on the one that is there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Presence {
    /// Nothing.
    #[default]
    Any,
    /// There is none, else [`FileError::Exists`].
    Absent,
    /// There is one, else [`FileError::NoAttribute`].
    Present,
}

/// The way in which a program says that it goes through a mapped file (madvise(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// It says nothing (MADV_NORMAL): pages are read ahead if those before are in memory.
    Usual,
    /// It says nothing and mostly finds its pages in memory: they are read ahead as with `Usual`, and else an absent
    /// page brings the absent ones beside it, of so many pages from one on, up to the next that is in memory.
    Around {
        /// The first one that may come.
        first: u64,
        /// How many there are from that one on.
        pages: u8,
    },
    /// It goes here and there: nothing is read ahead (MADV_RANDOM).
    Random,
    /// It goes from page to page: the first absent page brings those behind it (MADV_SEQUENTIAL).
    Sequential,
}

/// The thing to look for in a sparse file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sought {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not stored; the end of the file counts.
    Hole,
}

/// One name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Name,
    /// The number that programs see. To act on the node, look the name up.
    pub number: u64,
    /// Its kind.
    pub kind: NodeKind,
    /// The position from which to read on after this entry.
    pub next: u64,
}

/// Space and names of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSystemStatistics {
    /// Block size, bytes.
    pub block_bytes: u32,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// All nodes.
    pub nodes: u64,
    /// Free nodes.
    pub nodes_free: u64,
    /// Number that Linux's statfs gives for the type (0xEF53 for ext2, 0x01021994 for tmpfs).
    pub magic: u64,
}

protocol! {
    /// The requests of a file system. The caller checks permissions.
    pub mod files near Near {
        /// Returns the root directory's node.
        async fn root() -> Result<NodeId, FileError>;
        /// Finds a name ("." and ".." included, but not above the root).
        async fn lookup(directory: NodeId, name: Name) -> Result<Attributes, FileError>;
        /// Returns attributes of a node.
        async fn attributes(node: NodeId) -> Result<Attributes, FileError>;
        /// Changes attributes, size included (truncation).
        async fn set_attributes(node: NodeId, change: AttributeChange) -> Result<Attributes, FileError>;
        /// Entries from position `from` on (0 is the start), about `bytes_max` of names; empty at the end.
        async fn read_directory(node: NodeId, from: u64, bytes_max: usize) -> Result<Vec<DirectoryEntry>, FileError>;
        /// Creates a node under a name.
        async fn create(directory: NodeId, name: Name, new: NewNode) -> Result<Attributes, FileError>;
        /// Gives a node that is not a directory another name.
        async fn link(node: NodeId, directory: NodeId, name: Name) -> Result<(), FileError>;
        /// Removes a name of a node that is not a directory. The node lives on while it is open.
        async fn unlink(directory: NodeId, name: Name) -> Result<(), FileError>;
        /// Removes an empty directory.
        async fn remove_directory(directory: NodeId, name: Name) -> Result<(), FileError>;
        /// Renames atomically; `mode` says how the node of the new name is treated.
        async fn rename(from: NodeId, from_name: Name, to: NodeId, to_name: Name, mode: RenameMode) -> Result<(), FileError>;
        /// Creates a file without a name near `directory`, open once; `link` gives it a name as long as it is open.
        async fn create_nameless(directory: NodeId, new: NewNode) -> Result<Attributes, FileError>;
        /// Returns the target of a symbolic link.
        async fn read_link(node: NodeId) -> Result<Vec<u8>, FileError>;
        /// Keeps a node alive while it is open, also without names.
        async fn open(node: NodeId) -> Result<Attributes, FileError>;
        /// Ends one `open`. Frees the node with its last name and user.
        async fn close(node: NodeId) -> Result<(), FileError>;
        /// Returns the cached page of a file, shared: read-only for the caller unless it maps it shared and writable
        /// and calls `page_dirtied`. Bytes beyond the file's end are zeroes. If it must be read, `pattern` says what is
        /// read with it.
        async fn page(node: NodeId, index: u64, pattern: Pattern) -> Result<Page, FileError>;
        /// Tells that a page got from `page` was written through a mapping.
        async fn page_dirtied(node: NodeId, index: u64) -> Result<(), FileError>;
        /// Reads by reference. Answers fewer bytes at the end of the file, none beyond it.
        async fn read(node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError>;
        /// Reads as `read` does, without read-ahead: for callers with random access.
        async fn read_random(node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError>;
        /// Writes and extends the file. Answers the bytes written.
        async fn write(node: NodeId, offset: u64, data: Vec<Bytes>) -> Result<usize, FileError>;
        /// Reads past the cache, straight from the device into the views; file systems without a device answer
        /// [`FileError::Unsupported`]. Offset, lengths and addresses must be multiples of a sector, else
        /// [`FileError::Invalid`]. Answers the bytes that the file has there: fewer than asked for at its end and of
        /// large requests, none beyond it. After an error the views may have changed.
        async fn read_direct(node: NodeId, offset: u64, into: Vec<Bytes>) -> Result<usize, FileError>;
        /// Overwrites past the cache, straight from the views to the device, with the bounds of `read_direct`.
        /// Answers the bytes written; the rest begins at a place for which the file has no space on the device yet,
        /// and is for `write`. The bytes are durable only after `sync`.
        async fn write_direct(node: NodeId, offset: u64, from: Vec<Bytes>) -> Result<usize, FileError>;
        /// Writes at the end that the file has then. Answers the offset at which it was written.
        async fn append(node: NodeId, data: Vec<Bytes>) -> Result<u64, FileError>;
        /// Takes space for a range of a file, which reads as zeroes if it was a hole; the file grows to the end of the range.
        async fn allocate(node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError>;
        /// Gives a range of a file back: it reads as zeroes, whole blocks become holes, the size stays.
        async fn punch(node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError>;
        /// Returns the next position of data or of a hole from `offset` on, which lies in the file;
        /// [`FileError::NotFound`] if no data follows.
        async fn seek(node: NodeId, offset: u64, sought: Sought) -> Result<u64, FileError>;
        /// Returns the value of an extended attribute; names have their prefix ("user.").
        async fn extended(node: NodeId, name: Name) -> Result<Vec<u8>, FileError>;
        /// Sets an extended attribute.
        async fn set_extended(node: NodeId, name: Name, value: Vec<u8>, demand: Presence) -> Result<(), FileError>;
        /// Removes an extended attribute.
        async fn remove_extended(node: NodeId, name: Name) -> Result<(), FileError>;
        /// Returns the names of all extended attributes.
        async fn list_extended(node: NodeId) -> Result<Vec<Name>, FileError>;
        /// Writes the dirty pages of a node to the device without making them durable.
        async fn write_out(node: NodeId) -> Result<(), FileError>;
        /// Makes a node's contents, and the metadata needed to find them, durable. [`FileError::Io`] tells a loss of contents once; who asks
        /// later sees it by [`Attributes::losses`].
        async fn sync(node: NodeId) -> Result<(), FileError>;
        /// Makes everything durable that the current activity has written.
        async fn sync_all() -> Result<(), FileError>;
        /// Writes a part of a file back, without the metadata needed to find it after a crash (sync_file_range). Tells losses as `sync`.
        async fn write_back(node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError>;
        /// Tells of each of up to [`CACHED_PAGES_MAX`] pages of a file, from one on, whether it is in memory: 1, else 0 (mincore).
        async fn cached(node: NodeId, first: u64, pages: usize) -> Result<Vec<u8>, FileError>;
        /// Drops cached clean pages of a part of a file that are not in use. Answers their bytes.
        async fn evict(node: NodeId, offset: u64, bytes: u64) -> Result<u64, FileError>;
        /// Drops those of these pages of a file from memory that nobody uses; dirty ones are written first. Answers the bytes dropped.
        async fn evict_pages(node: NodeId, pages: Vec<u64>) -> Result<u64, FileError>;
        /// Returns the figures of space and names.
        async fn statistics() -> Result<FileSystemStatistics, FileError>;
    }
}
