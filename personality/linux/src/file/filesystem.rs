//! Mountable file systems: those served by resources, and /proc, which this crate makes up.
//!
//! [`FileSystem`] has the requests of the files protocol as methods. A served one forwards each to its client, /proc
//! answers most with an error of a read-only file system. Every method answers the server's errors.
//!
//! Protocol of use: first look at [`FileSystem::visit`], which answers from memory without a message; then send the
//! request. Permissions, paths and mounts are checked by the caller ([`super::walk`]).
//!
//! To add a request: a method here with the name of the protocol's, and an answer for /proc. Callers never look at
//! which of both it is, but for mappings and programs, which need a client ([`FileSystem::client`]).

use super::proc::{Looker, ProcFs};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{
    AttributeChange, Attributes, DirectoryEntry, FileError, FileSystemStatistics, Name, NewNode, NodeId, RenameMode,
    Sought, files,
};
use gyre_interface::near::Near;
use gyre_object::Bytes;

/// A file system.
#[derive(Clone)]
pub enum FileSystem {
    /// A resource's.
    Served(files::Client),
    /// /proc.
    Proc(Arc<ProcFs>),
}

type Answer<T> = Result<T, FileError>;

impl FileSystem {
    /// Returns the resource behind it, if there is one: for mappings and programs.
    pub fn client(&self) -> Option<files::Client> {
        match self {
            FileSystem::Served(client) => Some(*client),
            FileSystem::Proc(_) => None,
        }
    }

    /// Looks at its near part, without a message; `None` if that is not possible now.
    #[inline]
    pub fn visit<T>(&self, look: impl FnOnce(&'static dyn Near) -> T) -> Option<T> {
        match self {
            FileSystem::Served(client) => client.visit(look),
            FileSystem::Proc(_) => None,
        }
    }

    fn writable(&self) -> Answer<files::Client> {
        self.client().ok_or(FileError::ReadOnly)
    }

    /// Forwards [`files::Client::root`].
    ///
    /// # Errors
    /// The server's.
    pub async fn root(&self) -> Answer<NodeId> {
        match self {
            FileSystem::Served(client) => client.root().await,
            FileSystem::Proc(proc) => Ok(proc.root()),
        }
    }

    /// Forwards [`files::Client::lookup`].
    ///
    /// # Errors
    /// The server's.
    pub async fn lookup(&self, directory: NodeId, name: &[u8]) -> Answer<Attributes> {
        match self {
            FileSystem::Served(client) => client.lookup(directory, name.to_vec()).await,
            FileSystem::Proc(proc) => proc.lookup(directory, name),
        }
    }

    /// Forwards [`files::Client::attributes`].
    ///
    /// # Errors
    /// The server's.
    pub async fn attributes(&self, node: NodeId) -> Answer<Attributes> {
        match self {
            FileSystem::Served(client) => client.attributes(node).await,
            FileSystem::Proc(proc) => proc.attributes(node),
        }
    }

    /// Forwards [`files::Client::set_attributes`]. Files of /proc have no size of their own, so they take any.
    ///
    /// # Errors
    /// The server's.
    pub async fn set_attributes(&self, node: NodeId, change: AttributeChange) -> Answer<Attributes> {
        let size_alone = AttributeChange { size_bytes: change.size_bytes, ..AttributeChange::default() };
        match self {
            FileSystem::Proc(proc) if change == size_alone => proc.attributes(node),
            _ => self.writable()?.set_attributes(node, change).await,
        }
    }

    /// Forwards [`files::Client::read_directory`].
    ///
    /// # Errors
    /// The server's.
    pub async fn read_directory(&self, node: NodeId, from: u64, bytes_max: usize) -> Answer<Vec<DirectoryEntry>> {
        match self {
            FileSystem::Served(client) => client.read_directory(node, from, bytes_max).await,
            FileSystem::Proc(proc) => proc.read_directory(node, from),
        }
    }

    /// Forwards [`files::Client::create`].
    ///
    /// # Errors
    /// The server's.
    pub async fn create(&self, directory: NodeId, name: Name, new: NewNode) -> Answer<Attributes> {
        self.writable()?.create(directory, name, new).await
    }

    /// Forwards [`files::Client::link`].
    ///
    /// # Errors
    /// The server's.
    pub async fn link(&self, node: NodeId, directory: NodeId, name: Name) -> Answer<()> {
        self.writable()?.link(node, directory, name).await
    }

    /// Forwards [`files::Client::unlink`].
    ///
    /// # Errors
    /// The server's.
    pub async fn unlink(&self, directory: NodeId, name: Name) -> Answer<()> {
        self.writable()?.unlink(directory, name).await
    }

    /// Forwards [`files::Client::remove_directory`].
    ///
    /// # Errors
    /// The server's.
    pub async fn remove_directory(&self, directory: NodeId, name: Name) -> Answer<()> {
        self.writable()?.remove_directory(directory, name).await
    }

    /// Forwards [`files::Client::rename`].
    ///
    /// # Errors
    /// The server's.
    pub async fn rename(
        &self,
        from: NodeId,
        from_name: Name,
        to: NodeId,
        to_name: Name,
        mode: RenameMode,
    ) -> Answer<()> {
        self.writable()?.rename(from, from_name, to, to_name, mode).await
    }

    /// Forwards [`files::Client::create_nameless`].
    ///
    /// # Errors
    /// The server's.
    pub async fn create_nameless(&self, directory: NodeId, new: NewNode) -> Answer<Attributes> {
        self.client().ok_or(FileError::Unsupported)?.create_nameless(directory, new).await
    }

    /// Forwards [`files::Client::allocate`].
    ///
    /// # Errors
    /// The server's.
    pub async fn allocate(&self, node: NodeId, offset: u64, bytes: u64) -> Answer<()> {
        self.client().ok_or(FileError::Unsupported)?.allocate(node, offset, bytes).await
    }

    /// Forwards [`files::Client::punch`].
    ///
    /// # Errors
    /// The server's.
    pub async fn punch(&self, node: NodeId, offset: u64, bytes: u64) -> Answer<()> {
        self.client().ok_or(FileError::Unsupported)?.punch(node, offset, bytes).await
    }

    /// Forwards [`files::Client::seek`]; files of /proc are data up to their end.
    ///
    /// # Errors
    /// The server's.
    pub async fn seek(&self, node: NodeId, offset: u64, sought: Sought) -> Answer<u64> {
        match self {
            FileSystem::Served(client) => client.seek(node, offset, sought).await,
            FileSystem::Proc(proc) => {
                let size = proc.attributes(node)?.size_bytes;
                let at = if sought == Sought::Data { offset } else { size };
                if offset < size { Ok(at) } else { Err(FileError::NotFound) }
            }
        }
    }

    /// Forwards [`files::Client::write_out`].
    ///
    /// # Errors
    /// The server's.
    pub async fn write_out(&self, node: NodeId) -> Answer<()> {
        self.client().ok_or(FileError::Unsupported)?.write_out(node).await
    }

    /// Forwards [`files::Client::read_link`]; of /proc, not all may see where a link leads.
    ///
    /// # Errors
    /// The server's.
    pub async fn read_link(&self, node: NodeId, looker: Looker<'_>) -> Answer<Vec<u8>> {
        match self {
            FileSystem::Served(client) => client.read_link(node).await,
            FileSystem::Proc(proc) => proc.read_link(node, looker),
        }
    }

    /// Forwards [`files::Client::open`].
    ///
    /// # Errors
    /// The server's.
    pub async fn open(&self, node: NodeId) -> Answer<Attributes> {
        match self {
            FileSystem::Served(client) => client.open(node).await,
            FileSystem::Proc(proc) => proc.attributes(node),
        }
    }

    /// Forwards [`files::Client::read`].
    ///
    /// # Errors
    /// The server's.
    pub async fn read(&self, node: NodeId, offset: u64, bytes: usize) -> Answer<Vec<Bytes>> {
        match self {
            FileSystem::Served(client) => client.read(node, offset, bytes).await,
            FileSystem::Proc(proc) => proc.read(node, offset, bytes).await,
        }
    }

    /// Forwards [`files::Client::read_random`].
    ///
    /// # Errors
    /// The server's.
    pub async fn read_random(&self, node: NodeId, offset: u64, bytes: usize) -> Answer<Vec<Bytes>> {
        match self {
            FileSystem::Served(client) => client.read_random(node, offset, bytes).await,
            FileSystem::Proc(proc) => proc.read(node, offset, bytes).await,
        }
    }

    /// Forwards [`files::Client::write`].
    ///
    /// # Errors
    /// The server's.
    pub async fn write(&self, node: NodeId, offset: u64, data: Vec<Bytes>) -> Answer<usize> {
        match self {
            FileSystem::Served(client) => client.write(node, offset, data).await,
            FileSystem::Proc(proc) => proc.write(node, &data),
        }
    }

    /// Forwards [`files::Client::read_direct`].
    ///
    /// # Errors
    /// The server's.
    pub async fn read_direct(&self, node: NodeId, offset: u64, into: Vec<Bytes>) -> Answer<usize> {
        match self.visit(|near| near.read_direct(node, offset, &into)).flatten() {
            Some(begun) => begun.done().await,
            None => self.client().ok_or(FileError::Unsupported)?.read_direct(node, offset, into).await,
        }
    }

    /// Forwards [`files::Client::write_direct`].
    ///
    /// # Errors
    /// The server's.
    pub async fn write_direct(&self, node: NodeId, offset: u64, from: Vec<Bytes>) -> Answer<usize> {
        match self.visit(|near| near.write_direct(node, offset, &from)).flatten() {
            Some(begun) => begun.done().await,
            None => self.client().ok_or(FileError::Unsupported)?.write_direct(node, offset, from).await,
        }
    }

    /// Forwards [`files::Client::append`].
    ///
    /// # Errors
    /// The server's.
    pub async fn append(&self, node: NodeId, data: Vec<Bytes>) -> Answer<u64> {
        self.writable()?.append(node, data).await
    }

    /// Forwards [`files::Client::sync`].
    ///
    /// # Errors
    /// The server's.
    pub async fn sync(&self, node: NodeId) -> Answer<()> {
        match self {
            FileSystem::Served(client) => client.sync(node).await,
            FileSystem::Proc(_) => Err(FileError::Invalid),
        }
    }

    /// Forwards [`files::Client::sync_all`].
    ///
    /// # Errors
    /// The server's.
    pub async fn sync_all(&self) -> Answer<()> {
        match self {
            FileSystem::Served(client) => client.sync_all().await,
            FileSystem::Proc(_) => Ok(()),
        }
    }

    /// Forwards [`files::Client::write_back`].
    ///
    /// # Errors
    /// The server's.
    pub async fn write_back(&self, node: NodeId, offset: u64, bytes: u64) -> Answer<()> {
        match self {
            FileSystem::Served(client) => client.write_back(node, offset, bytes).await,
            FileSystem::Proc(_) => Ok(()),
        }
    }

    /// Forwards [`files::Client::evict`].
    ///
    /// # Errors
    /// The server's.
    pub async fn evict(&self, node: NodeId, offset: u64, bytes: u64) -> Answer<u64> {
        match self {
            FileSystem::Served(client) => client.evict(node, offset, bytes).await,
            FileSystem::Proc(_) => Ok(0),
        }
    }

    /// Forwards [`files::Client::statistics`].
    ///
    /// # Errors
    /// The server's.
    pub async fn statistics(&self) -> Answer<FileSystemStatistics> {
        match self {
            FileSystem::Served(client) => client.statistics().await,
            FileSystem::Proc(proc) => Ok(proc.statistics()),
        }
    }
}
