//! The files of a process, as the rest of the personality sees them.
//!
//! A [`FileContext`] joins a table of descriptors (shared by CLONE_FILES), root, current directory and mask (shared
//! by CLONE_FS), and the tenant's files. Threads hold it by reference; clone, unshare and execve replace it.
//!
//! Protocol of use: [`FileContext::walk`] leads a path to a node, [`FileContext::find`] also takes a descriptor with
//! AT_EMPTY_PATH, [`FileContext::open_executable`] and [`FileContext::mapping`] are for execve and mmap. A node may
//! go between the walk and its use: callers wrap both into [`retry_stale`].
//!
//! The end of a process calls [`FileContext::ended`], which gives up locks and closes all descriptors in pieces, so
//! that no core is held long, unless others share them. Left out: the calls themselves ([`super::calls`]) and the kinds of open objects
//! ([`super::object`]).

use super::contents::Used;
use super::descriptors::{Abandoned, DescriptorTable};
use super::locks::Owner;
use super::mount::Place;
use super::object::Object;
use super::open_file::{Location, OpenFile};
use super::pace::Pace;
use super::permission::{Asker, EXECUTE};
use super::proc::Looker;
use super::remains::Remain;
use super::tenant_files::TenantFiles;
use super::terminal::TerminalSide;
use super::walk::{Found, LastLink, Start, Walked, Walker, retry_stale};
use crate::{Errno, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use gyre_interface::files::{Attributes, NodeId, NodeKind, files};
use gyre_interface::io_stream::io_stream;
use gyre_object::ObjectLock;
use linux_raw_sys::general as raw;

/// A program file that execve may read.
pub struct Executable {
    /// The file system.
    pub client: files::Client,
    /// The file.
    pub attributes: Attributes,
    /// Its path as the tenant sees it, for /proc and scripts.
    pub path: Vec<u8>,
    /// The counter of bytes that mappings move, if there is one.
    pub passage: Option<io_stream::Client>,
    /// Keeps the file open.
    pub keep: Option<Arc<dyn Any + Send + Sync>>,
    /// Nobody writes to it while this lives.
    pub run: Arc<Used>,
}

impl Executable {
    /// Keeps the file open, and as it is.
    pub fn keep_as_it_is(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new((self.keep.clone(), self.run.clone())))
    }
}

/// A file as a memory mapping needs it.
pub struct FileMapping {
    /// The file system.
    pub client: files::Client,
    /// The file.
    pub node: NodeId,
    /// True if the descriptor may be read (needed for every mapping).
    pub readable: bool,
    /// True if the descriptor may be written (needed for shared writable mappings).
    pub writable: bool,
    /// Its path, for /proc/PID/maps.
    pub path: Vec<u8>,
    /// The counter of bytes that mappings move, if there is one.
    pub passage: Option<io_stream::Client>,
    /// Keeps the file open while it is mapped.
    pub keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// Root, current directory and mask, shared by CLONE_FS.
pub struct Directories {
    state: ObjectLock<DirectoryState>,
    mask: AtomicU32,
}

#[derive(Clone)]
struct DirectoryState {
    root: Place,
    current: Start,
}

/// Descriptors, current and root directory, mask.
pub struct FileContext {
    tenant: Arc<TenantFiles>,
    table: Arc<DescriptorTable>,
    directories: Arc<Directories>,
    /// True once its process has ended or has another one: it uses the descriptors no more.
    left: AtomicBool,
    /// Files of a process that a failure of the kernel ended, to be closed.
    given_up: ObjectLock<Abandoned>,
}

/// Whether root, current directory and mask of new files stay shared with other processes (CLONE_FS).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// They do.
    Stays,
    /// The process has its own: its program gains rights, and others must not steer it.
    Ends,
}

impl FileContext {
    /// Returns the context of a tenant's first process: root and current directory at the tenant's root, the console as
    /// descriptors 0, 1 and 2.
    ///
    /// # Errors
    /// ENOENT without a root; ENFILE.
    pub fn new(tenant: &Arc<TenantFiles>) -> Result<Arc<FileContext>, Errno> {
        let context = FileContext::bare(tenant)?;
        let end = tenant.console.end(TerminalSide::Slave);
        let console = OpenFile::new(tenant, Object::Terminal(end), raw::O_RDWR, None)?;
        for _ in 0..3 {
            context.table.install(console.clone(), false, 0, 3)?;
        }
        Ok(context)
    }

    /// Makes it without descriptors, for `gyre exec`.
    ///
    /// # Errors
    /// ENOENT without a root.
    pub fn bare(tenant: &Arc<TenantFiles>) -> Result<Arc<FileContext>, Errno> {
        let root = tenant.mounts.root().ok_or(Errno::ENOENT)?;
        let current = Start { place: root.clone(), path: b"/".to_vec() };
        Ok(Arc::new(FileContext {
            tenant: tenant.clone(),
            table: Arc::new(DescriptorTable::default()),
            directories: Arc::new(Directories {
                state: ObjectLock::new(DirectoryState { root, current }),
                mask: AtomicU32::new(0o022),
            }),
            left: AtomicBool::new(false),
            given_up: ObjectLock::default(),
        }))
    }

    /// Returns the tenant's files.
    pub fn tenant(&self) -> &Arc<TenantFiles> {
        &self.tenant
    }

    /// Returns the descriptors.
    pub fn table(&self) -> &DescriptorTable {
        &self.table
    }

    /// Returns the context of a new process, by clone's flags (CLONE_FILES, CLONE_FS share; otherwise copies).
    ///
    /// # Errors
    /// ENOMEM.
    pub async fn duplicate(self: &Arc<Self>, clone_flags: u64) -> Result<Arc<FileContext>, Errno> {
        let table = if clone_flags & u64::from(raw::CLONE_FILES) != 0 {
            self.table.join();
            self.table.clone()
        } else {
            Arc::new(self.table.copy().await)
        };
        let is_shared = clone_flags & u64::from(raw::CLONE_FS) != 0;
        let directories = self.directories_for(if is_shared { Sharing::Stays } else { Sharing::Ends });
        Ok(self.with(table, directories))
    }

    fn with(&self, table: Arc<DescriptorTable>, directories: Arc<Directories>) -> Arc<FileContext> {
        let (left, given_up) = (AtomicBool::new(false), ObjectLock::default());
        Arc::new(FileContext { tenant: self.tenant.clone(), table, directories, left, given_up })
    }

    fn directories_for(&self, sharing: Sharing) -> Arc<Directories> {
        match sharing {
            Sharing::Stays => self.directories.clone(),
            Sharing::Ends => Arc::new(Directories {
                state: ObjectLock::new(self.directories.state.lock().clone()),
                mask: AtomicU32::new(self.mask()),
            }),
        }
    }

    /// Makes the context of `process` after execve: the sharing of descriptors ends, that of root, directory and mask as said; those marked
    /// close-on-exec are closed. A table that nobody else uses stays as it is, with its locks. The caller installs the answer in the process.
    pub async fn executed(&self, process: i32, directories: Sharing) -> Arc<FileContext> {
        let directories = self.directories_for(directories);
        let context = match self.table.is_shared() {
            true => self.with(Arc::new(self.table.copy().await), directories),
            false => {
                self.table.join();
                self.with(self.table.clone(), directories)
            }
        };
        let (mut pace, mut at) = (Pace::new(), 0);
        while let Some((next, file)) = context.table.remove_for_exec(at) {
            if let Some(file) = file {
                context.closed(process, &file);
            }
            at = next;
            pace.step().await;
        }
        context
    }

    /// Gives up the POSIX locks on a file, and the notice of a message queue, of a process that has closed a descriptor of it (fcntl(2),
    /// mq_notify(3)).
    pub(super) fn closed(&self, process: i32, file: &OpenFile) {
        if let Object::MessageQueue(queue) = file.object() {
            queue.forget_notice(process);
        }
        if let (Some(owner), Some(place)) = (self.table.lock_owner(), file.place()) {
            self.tenant.locks.release_owner(place.key(), owner);
        }
    }

    /// Returns the owner of POSIX locks that its process takes.
    pub(super) fn lock_owner(&self) -> Owner {
        self.table.lock_owner_in(&self.tenant.locks)
    }

    /// Leaves the descriptors to their other users, if there are any, as [`Drop`] does: its process has another context.
    pub(crate) fn resign(&self) {
        let files = self.leave();
        if let Some(owner) = self.table.left_locks() {
            self.table.forget_locks();
            self.tenant.leave_behind(Remain::Locks(owner));
        }
        if !files.is_empty() {
            self.tenant.leave_behind(Remain::Descriptors(files));
        }
    }

    /// Gives up the locks of a process that ends and closes all descriptors, unless they are shared. A zombie holds
    /// nothing open.
    pub async fn ended(self: Arc<Self>) {
        let files = self.leave();
        self.give_up_locks().await;
        let mut pace = Pace::new();
        for file in files {
            file.release().await;
            pace.step().await;
        }
    }

    /// Gives up the locks of a table that nobody uses any more.
    async fn give_up_locks(&self) {
        let Some(owner) = self.table.left_locks() else { return };
        let mut pace = Pace::new();
        while self.tenant.locks.release_piece(owner) {
            pace.step().await;
        }
        self.table.forget_locks();
    }

    /// Does so for a process that a failure of the kernel ended. If this fails, too, because the failed work has left a lock closed, the file
    /// with that lock is lost, and the next call goes on with the others.
    pub async fn ended_by_failure(self: Arc<Self>) {
        let left = self.leave();
        if !left.is_empty() {
            *self.given_up.lock() = left;
        }
        let in_flight = self.tenant.files_in_flight();
        let mut pace = Pace::new();
        while let Some(file) = self.next_given_up() {
            file.give_up(&in_flight).await;
            pace.step().await;
        }
        self.give_up_locks().await;
    }

    fn next_given_up(&self) -> Option<Arc<OpenFile>> {
        self.given_up.lock().next()
    }

    fn leave(&self) -> Abandoned {
        match self.left.swap(true, Ordering::AcqRel) {
            true => Abandoned::default(),
            false => self.table.leave(),
        }
    }

    /// Returns the file mode creation mask.
    pub fn mask(&self) -> u32 {
        self.directories.mask.load(Ordering::Acquire)
    }

    /// Replaces the mask; answers the old one.
    pub fn set_mask(&self, mask: u32) -> u32 {
        self.directories.mask.swap(mask & 0o777, Ordering::AcqRel)
    }

    /// Returns the root directory.
    pub fn root(&self) -> Place {
        self.directories.state.lock().root.clone()
    }

    /// Returns the current directory.
    pub fn current(&self) -> Start {
        self.directories.state.lock().current.clone()
    }

    /// Moves the current directory.
    pub fn set_current(&self, found: Found) {
        let current = Start { place: found.place, path: found.path };
        let before = core::mem::replace(&mut self.directories.state.lock().current, current);
        drop(before);
    }

    /// Moves the root directory (chroot).
    pub fn set_root(&self, found: Found) {
        let before = core::mem::replace(&mut self.directories.state.lock().root, found.place);
        drop(before);
    }

    /// Walks a path for a thread with its effective identity.
    ///
    /// # Errors
    /// Those of [`Walker::walk`]; EBADF, ENOTDIR for `directory`.
    pub async fn walk(&self, thread: &Thread, directory: i32, path: &[u8], last: LastLink) -> Result<Walked, Errno> {
        self.walk_as(Asker::of(thread), thread, directory, path, last).await
    }

    /// Walks a path with a given identity.
    ///
    /// # Errors
    /// As [`FileContext::walk`].
    pub async fn walk_as(
        &self,
        asker: Asker,
        thread: &Thread,
        directory: i32,
        path: &[u8],
        last: LastLink,
    ) -> Result<Walked, Errno> {
        let start = self.start(directory, path)?;
        let mut walker = Walker::new(&self.tenant.mounts, self.root(), asker, Looker::Thread(thread));
        walker.walk(&start, path, last).await
    }

    /// Returns the directory in which a path begins.
    fn start(&self, directory: i32, path: &[u8]) -> Result<Start, Errno> {
        if directory == raw::AT_FDCWD || path.first() == Some(&b'/') {
            return Ok(self.current());
        }
        let file = self.table.get(directory)?;
        match file.place() {
            Some(place) if matches!(file.object(), Object::Directory) => {
                Ok(Start { place: place.clone(), path: file.path().to_vec() })
            }
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Returns the directory in which a path begins; `None` if the descriptor is no open directory.
    pub(super) fn near_start(&self, directory: i32, path: &[u8]) -> Option<Place> {
        if path.first() == Some(&b'/') {
            return Some(self.root());
        }
        if directory == raw::AT_FDCWD {
            return Some(self.directories.state.lock().current.place.clone());
        }
        let file = self.table.get(directory).ok()?;
        file.place().filter(|_| matches!(file.object(), Object::Directory)).cloned()
    }

    /// Returns the path of that directory as the process sees it.
    pub(super) fn near_path(&self, directory: i32) -> Option<Vec<u8>> {
        if directory == raw::AT_FDCWD {
            return Some(self.directories.state.lock().current.path.clone());
        }
        Some(self.table.get(directory).ok()?.path().to_vec())
    }

    /// Returns the target of a path, or the object of the descriptor with AT_EMPTY_PATH and an empty path.
    ///
    /// # Errors
    /// As [`FileContext::walk`]; ENOENT if nothing is there.
    pub async fn find(&self, thread: &Thread, directory: i32, path: &[u8], flags: u32) -> Result<Target, Errno> {
        if path.is_empty() && flags & raw::AT_EMPTY_PATH != 0 {
            if directory == raw::AT_FDCWD {
                let start = self.current();
                let attributes = start.place.system().attributes(start.place.node).await?;
                return Ok(Target::Node(Found { place: start.place, attributes, path: start.path }));
            }
            return Target::of_file(self.table.get(directory)?).await;
        }
        let last = if flags & raw::AT_SYMLINK_NOFOLLOW != 0 { LastLink::Keep } else { LastLink::Follow };
        let mut walked = self.walk(thread, directory, path, last).await?;
        match walked.open_file.take() {
            Some(file) => Target::of_file(file).await,
            None => walked.existing().map(Target::Node),
        }
    }

    /// Opens a program for execve: `directory` as in openat, `flags` of execveat (AT_EMPTY_PATH,
    /// AT_SYMLINK_NOFOLLOW).
    ///
    /// # Errors
    /// Those of execve: ENOENT, EACCES if it is no regular file or not executable, ELOOP for a link that may not be
    /// followed.
    pub async fn open_executable(
        &self,
        thread: &Thread,
        directory: i32,
        path: &[u8],
        flags: u32,
    ) -> Result<Executable, Errno> {
        retry_stale(|| self.try_executable(thread, directory, path, flags)).await
    }

    async fn try_executable(
        &self,
        thread: &Thread,
        directory: i32,
        path: &[u8],
        flags: u32,
    ) -> Result<Executable, Errno> {
        let found = match self.find(thread, directory, path, flags).await? {
            Target::Node(found) => found,
            Target::Open(_) => return Err(Errno::EACCES),
        };
        if found.attributes.kind == NodeKind::SymbolicLink {
            return Err(Errno::ELOOP);
        }
        if found.attributes.kind != NodeKind::File {
            return Err(Errno::EACCES);
        }
        Asker::of(thread).check(&found.attributes, EXECUTE)?;
        let client = found.place.system().client().ok_or(Errno::EACCES)?;
        let run = Arc::new(self.tenant.contents.run(&found.place)?);
        let attributes = found.open().await?;
        let path = found.path.clone();
        let location = Location { place: found.place, path: found.path };
        let file = OpenFile::new(&self.tenant, Object::Regular, raw::O_RDONLY, Some(location))?;
        let passage = self.tenant.passage.gate().copied();
        Ok(Executable { client, attributes, path, passage, keep: Some(file), run })
    }

    /// Returns the file behind a descriptor, for mmap.
    ///
    /// # Errors
    /// EBADF; EACCES if it is not open for reading; ENODEV if it cannot be mapped.
    pub fn mapping(&self, descriptor: i32) -> Result<FileMapping, Errno> {
        let file = self.table.get(descriptor)?;
        if file.is_path_only() {
            return Err(Errno::EBADF);
        }
        let place = file.place().filter(|_| matches!(file.object(), Object::Regular));
        let client = place.and_then(|place| place.system().client());
        let (Some(place), Some(client)) = (place, client) else {
            return Err(Errno::ENODEV);
        };
        Ok(FileMapping {
            client,
            node: place.node,
            readable: file.is_readable(),
            writable: file.is_writable(),
            path: file.path().to_vec(),
            passage: file.tenant().passage.gate().copied(),
            keep: Some(file.clone()),
        })
    }
}

impl Drop for FileContext {
    fn drop(&mut self) {
        self.resign();
    }
}

/// The target of a path or descriptor.
pub enum Target {
    /// A node of a file system.
    Node(Found),
    /// Something open without a place.
    Open(Arc<OpenFile>),
}

impl Target {
    /// Returns the target that an open file stands for.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn of_file(file: Arc<OpenFile>) -> Result<Target, Errno> {
        let Some(place) = file.place().cloned() else {
            return Ok(Target::Open(file));
        };
        let attributes = place.system().attributes(place.node).await?;
        Ok(Target::Node(Found { place, attributes, path: file.path().to_vec() }))
    }

    /// Returns the node.
    ///
    /// # Errors
    /// `otherwise` if it has none.
    pub fn node(self, otherwise: Errno) -> Result<Found, Errno> {
        match self {
            Target::Node(found) => Ok(found),
            Target::Open(_) => Err(otherwise),
        }
    }
}
