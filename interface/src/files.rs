//! File systems: one protocol for ext2, tmpfs and whatever else holds files. Nodes are named by number.

use alloc::vec::Vec;
use gyre_message::{Gone, protocol};
use gyre_object::{Bytes, Page};

use crate::block::BlockError;
use crate::near::Near;

/// Names a node of one file system for as long as that exists: what is made later never has the same name, whatever place it takes
/// on the disk. Who acts on a node that is gone gets [`FileError::Stale`]. What programs see is [`Attributes::number`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

/// A name in a directory: 1 to 255 bytes without '/' and NUL.
pub type Name = Vec<u8>;
/// Longest name, bytes.
pub const NAME_BYTES_MAX: usize = 255;

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

/// What a node is.
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

/// Everything `stat` tells.
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
}

/// What [`files::set_attributes`] changes; `None` leaves it.
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

/// What to create.
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

/// What a rename does about the new name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RenameMode {
    /// Whatever it leads to is replaced.
    #[default]
    Replace,
    /// It must be free, else [`FileError::Exists`].
    Keep,
    /// It must lead to something, and both names exchange what they lead to.
    Exchange,
}

/// What setting an extended attribute demands of the one that is there.
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

/// What is looked for in a sparse file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sought {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not; the end of the file counts.
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
    /// Where to go on reading after this entry.
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
    /// What a file system does for others. Permissions are checked by the caller.
    pub mod files near Near {
        /// The root directory's node.
        async fn root() -> Result<NodeId, FileError>;
        /// Finds a name ("." and ".." included, but not above the root).
        async fn lookup(directory: NodeId, name: Name) -> Result<Attributes, FileError>;
        /// Attributes of a node.
        async fn attributes(node: NodeId) -> Result<Attributes, FileError>;
        /// Changes attributes, size included (truncation).
        async fn set_attributes(node: NodeId, change: AttributeChange) -> Result<Attributes, FileError>;
        /// Entries from position `from` on (0 is the start), about `bytes_max` of names; empty at the end.
        async fn read_directory(node: NodeId, from: u64, bytes_max: usize) -> Result<Vec<DirectoryEntry>, FileError>;
        /// Creates a node under a name.
        async fn create(directory: NodeId, name: Name, new: NewNode) -> Result<Attributes, FileError>;
        /// Another name for a node that is not a directory.
        async fn link(node: NodeId, directory: NodeId, name: Name) -> Result<(), FileError>;
        /// Removes a name of something that is not a directory. The node lives on while it is open.
        async fn unlink(directory: NodeId, name: Name) -> Result<(), FileError>;
        /// Removes an empty directory.
        async fn remove_directory(directory: NodeId, name: Name) -> Result<(), FileError>;
        /// Renames atomically; `mode` says what becomes of what the new name leads to.
        async fn rename(from: NodeId, from_name: Name, to: NodeId, to_name: Name, mode: RenameMode) -> Result<(), FileError>;
        /// Creates a file without a name near `directory`, open once; `link` gives it a name as long as it is open.
        async fn create_nameless(directory: NodeId, new: NewNode) -> Result<Attributes, FileError>;
        /// The target of a symbolic link.
        async fn read_link(node: NodeId) -> Result<Vec<u8>, FileError>;
        /// Keeps a node alive while it is open, also without names.
        async fn open(node: NodeId) -> Result<Attributes, FileError>;
        /// Ends one `open`. Frees the node with its last name and user.
        async fn close(node: NodeId) -> Result<(), FileError>;
        /// The cached page of a file, shared: read-only for the caller unless it maps it shared and writable and calls `page_dirtied`. Zeroes beyond the end.
        async fn page(node: NodeId, index: u64) -> Result<Page, FileError>;
        /// A page got from `page` was written through a mapping.
        async fn page_dirtied(node: NodeId, index: u64) -> Result<(), FileError>;
        /// Reads by reference; fewer bytes at the end of the file, none beyond it.
        async fn read(node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError>;
        /// The same for who reads here and there: nothing that is not asked for is brought from the disk.
        async fn read_alone(node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError>;
        /// Writes; extends the file. Answers the bytes written.
        async fn write(node: NodeId, offset: u64, data: Vec<Bytes>) -> Result<usize, FileError>;
        /// Reads past the cache, straight from the device into the views, where the file system has one, else [`FileError::Unsupported`].
        /// Offset, lengths and places in memory are multiples of a sector, else [`FileError::Invalid`]. Answers the bytes that the file
        /// has there; fewer than asked for at its end, none beyond it, and of large requests. The views may have changed beside an error.
        async fn read_direct(node: NodeId, offset: u64, into: Vec<Bytes>) -> Result<usize, FileError>;
        /// Overwrites past the cache, straight from the views to the device; as `read_direct`. Answers the bytes written: what is left
        /// begins where the file has no space on the device yet, and is for `write`. Nobody has it durable before `sync`.
        async fn write_direct(node: NodeId, offset: u64, from: Vec<Bytes>) -> Result<usize, FileError>;
        /// Writes at the end of the file, whatever that is then; answers the offset where it was written.
        async fn append(node: NodeId, data: Vec<Bytes>) -> Result<u64, FileError>;
        /// Takes space for a range of a file, which reads as zeroes where it was a hole; the file grows to the end of the range.
        async fn allocate(node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError>;
        /// Gives a range of a file back: it reads as zeroes, whole blocks become holes, the size stays.
        async fn punch(node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError>;
        /// The next position of data or of a hole from `offset` on, which lies in the file; [`FileError::NotFound`] where no data follows.
        async fn seek(node: NodeId, offset: u64, sought: Sought) -> Result<u64, FileError>;
        /// The value of an extended attribute; names have their prefix ("user.").
        async fn extended(node: NodeId, name: Name) -> Result<Vec<u8>, FileError>;
        /// Sets an extended attribute.
        async fn set_extended(node: NodeId, name: Name, value: Vec<u8>, demand: Presence) -> Result<(), FileError>;
        /// Removes an extended attribute.
        async fn remove_extended(node: NodeId, name: Name) -> Result<(), FileError>;
        /// The names of all extended attributes.
        async fn list_extended(node: NodeId) -> Result<Vec<Name>, FileError>;
        /// Brings the dirty pages of a node to the device without making them durable.
        async fn write_out(node: NodeId) -> Result<(), FileError>;
        /// Makes a node's contents and what is needed to find it durable.
        async fn sync(node: NodeId) -> Result<(), FileError>;
        /// Makes everything durable that the current activity has written.
        async fn sync_all() -> Result<(), FileError>;
        /// Writes the contents of a part of a file back, without what is needed to find it after a crash (sync_file_range).
        async fn write_back(node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError>;
        /// Drops what is cached of a part of a file and can be had again: clean pages that nobody holds. Answers their bytes.
        async fn evict(node: NodeId, offset: u64, bytes: u64) -> Result<u64, FileError>;
        /// Space and names.
        async fn statistics() -> Result<FileSystemStatistics, FileError>;
    }
}
