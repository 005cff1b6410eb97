//! What a process holds of files, as the rest of the personality sees it.

use crate::{Errno, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use gyre_interface::files::{Attributes, NodeId, NodeKind, files};

/// A program file that execve may read.
pub struct Executable {
    /// The file system.
    pub client: files::Client,
    /// The file.
    pub attributes: Attributes,
    /// Its path as the tenant sees it, for /proc and scripts.
    pub path: Vec<u8>,
    /// Keeps the file open.
    pub keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// A file as a memory mapping needs it.
pub struct FileMapping {
    /// The file system.
    pub client: files::Client,
    /// The file.
    pub node: NodeId,
    /// True where the descriptor may be read (needed for every mapping).
    pub readable: bool,
    /// True where the descriptor may be written (needed for shared writable mappings).
    pub writable: bool,
    /// Its path, for /proc/PID/maps.
    pub path: Vec<u8>,
    /// Keeps the file open while it is mapped.
    pub keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// Descriptors, current and root directory, mask.
pub struct FileContext {
    client: files::Client,
    root: NodeId,
}

impl FileContext {
    /// The context of a tenant's first process: no descriptors, root and current directory at `root`.
    pub fn new(client: files::Client, root: NodeId) -> Arc<FileContext> {
        Arc::new(FileContext { client, root })
    }

    /// The context of a new process, by clone's flags (CLONE_FILES, CLONE_FS share; otherwise copies).
    ///
    /// # Errors
    /// ENOMEM.
    pub fn duplicate(self: &Arc<Self>, clone_flags: u64) -> Result<Arc<FileContext>, Errno> {
        let _ = clone_flags;
        Ok(self.clone())
    }

    /// What execve does: ends sharing, closes descriptors marked close-on-exec. The caller installs the answer in the process.
    ///
    /// # Errors
    /// ENOMEM.
    pub async fn executed(self: &Arc<Self>) -> Result<Arc<FileContext>, Errno> {
        Ok(self.clone())
    }

    /// What the end of a process does: closes all descriptors, if nobody shares them.
    pub async fn ended(self: Arc<Self>) {}

    /// Opens a program for execve: `directory` as in openat, `flags` of execveat (AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW).
    ///
    /// # Errors
    /// Those of execve: ENOENT, EACCES for what is no regular file or not executable, ...
    pub async fn open_executable(
        &self,
        _thread: &Thread,
        _directory: i32,
        path: &[u8],
        _flags: u32,
    ) -> Result<Executable, Errno> {
        let mut node = self.root;
        for name in path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
        {
            node = self.client.lookup(node, name.to_vec()).await?.node;
        }
        let attributes = self.client.attributes(node).await?;
        if attributes.kind != NodeKind::File || attributes.mode & 0o111 == 0 {
            return Err(Errno::EACCES);
        }
        Ok(Executable {
            client: self.client,
            attributes,
            path: path.to_vec(),
            keep: None,
        })
    }

    /// The file behind a descriptor, for mmap.
    ///
    /// # Errors
    /// EBADF; ENODEV for what cannot be mapped.
    pub fn mapping(&self, _descriptor: i32) -> Result<FileMapping, Errno> {
        Err(Errno::EBADF)
    }
}
