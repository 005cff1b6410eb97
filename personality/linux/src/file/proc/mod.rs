//! /proc (proc(5)): made up at each look from the state of the personality and the machine.
//!
//! A node's number encodes it: 0 in the upper half for the files of the whole tenant (the row of a [`tree::Tree`]), else the process, the kind
//! of file and the descriptor. /sys is served in this way too, with a tree of its own and no processes.
//!
//! ```text
//! 63        32 31    24 23          0
//! | process   | kind   | descriptor |
//! ```

mod cgroup;
mod figures;
mod fixed;
mod looker;
mod maps;
mod network;
mod process_files;
mod resident;
mod rollup;
pub mod secret;
mod smaps;
mod system;
mod tenant;
mod tree;
pub mod view;
mod window;

pub use looker::Looker;
pub use view::{ProcessView, Processes};

use super::attributes::nameless;
use super::context::FileContext;
use super::open_file::OpenFile;
use super::tenant_files::TenantFiles;
use crate::ipc;
use crate::{Errno, Thread};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use gyre_interface::files::{Attributes, DirectoryEntry, FileError, FileSystemStatistics, NodeId, NodeKind};
use gyre_object::{Bytes, TenantLock};
use process_files::Kind;
use secret::Secret;
use tree::{Name, Tree};
use window::Window;

/// The meaning of a node's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    Fixed(usize),
    Process { id: i32, kind: Kind, descriptor: u32 },
}

impl Node {
    fn of(node: NodeId) -> Option<Node> {
        let id = i32::try_from(node.0 >> 32).ok()?;
        if id == 0 {
            return usize::try_from(node.0).ok().and_then(|number| number.checked_sub(1)).map(Node::Fixed);
        }
        Some(Node::Process { id, kind: Kind::of_number((node.0 >> 24) as u8)?, descriptor: node.0 as u32 & 0xff_ffff })
    }

    fn number(self) -> NodeId {
        NodeId(match self {
            Node::Fixed(index) => (index as u64).saturating_add(1),
            Node::Process { id, kind, descriptor } => {
                u64::from(id.unsigned_abs()) << 32 | u64::from(kind.number()) << 24 | u64::from(descriptor)
            }
        })
    }
}

/// The proc file system of a tenant, or its sysfs.
pub struct ProcFs {
    tree: &'static Tree,
    numbers: TenantLock<BTreeMap<usize, u64>>,
    processes: TenantLock<Option<Weak<dyn Processes>>>,
    files: TenantLock<Weak<TenantFiles>>,
    /// Drawn once for the tenant's life.
    boot_id: TenantLock<Option<String>>,
}

type Answer<T> = Result<T, FileError>;

/// The longest write to a file, as to Linux' sysctls.
const WRITE_BYTES_MAX: usize = 4096;

impl ProcFs {
    fn of(tree: &'static Tree) -> ProcFs {
        ProcFs {
            tree,
            numbers: TenantLock::default(),
            processes: TenantLock::default(),
            files: TenantLock::default(),
            boot_id: TenantLock::default(),
        }
    }

    /// Makes /proc.
    pub fn new() -> ProcFs {
        ProcFs::of(&fixed::TREE)
    }

    /// Makes /sys.
    pub fn system() -> ProcFs {
        ProcFs::of(&system::TREE)
    }

    /// Makes /sys/fs/cgroup.
    pub fn control_groups() -> ProcFs {
        ProcFs::of(&cgroup::TREE)
    }

    /// Returns a number that the tenant may change, by its path.
    pub(crate) fn number_at(&self, path: &str) -> Option<u64> {
        self.tree.number_at(self, path)
    }

    /// Returns the longest backlog that listen(2) gives.
    pub fn backlog_max(&self) -> u32 {
        let number = self.tree.number_at(self, fixed::BACKLOG);
        number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX)
    }

    /// Returns the process whose directory a node is.
    pub fn process_of(&self, node: NodeId) -> Option<i32> {
        match Node::of(node)? {
            Node::Process { id, kind: Kind::Directory, .. } if self.has_processes() => Some(id),
            _ => None,
        }
    }

    fn has_processes(&self) -> bool {
        core::ptr::eq(self.tree, &fixed::TREE)
    }

    fn number(&self, row: usize) -> Option<u64> {
        self.numbers.lock().get(&row).copied()
    }

    fn set_number(&self, row: usize, number: u64) {
        self.numbers.lock().insert(row, number);
    }

    fn name(&self, name: Name) -> String {
        self.processes().map_or_else(String::new, |processes| processes.name(name))
    }

    fn set_name(&self, name: Name, text: &[u8]) -> Answer<()> {
        self.processes().ok_or(FileError::NotFound)?.set_name(name, text)
    }

    /// Sets the tables of processes and files to look in. Until then there are none.
    pub fn connect(&self, processes: Weak<dyn Processes>, files: &Arc<TenantFiles>) {
        *self.processes.lock() = Some(processes);
        *self.files.lock() = Arc::downgrade(files);
    }

    fn boot_id(&self) -> String {
        self.boot_id.lock().get_or_insert_with(fixed::uuid).clone()
    }

    fn processes(&self) -> Option<Arc<dyn Processes>> {
        self.processes.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Returns the descriptors of all processes.
    pub(in crate::file) fn tables(&self) -> Vec<Arc<FileContext>> {
        self.processes().map(|processes| processes.tables()).unwrap_or_default()
    }

    fn tenant_files(&self) -> Option<Arc<TenantFiles>> {
        self.files.lock().upgrade()
    }

    fn view(&self, id: i32) -> Answer<ProcessView> {
        self.processes().and_then(|processes| processes.view(id)).ok_or(FileError::NotFound)
    }

    /// Returns the root's node.
    pub fn root(&self) -> NodeId {
        Node::Fixed(0).number()
    }

    fn node(node: NodeId) -> Answer<Node> {
        Node::of(node).ok_or(FileError::NotFound)
    }

    /// Returns attributes of a node.
    ///
    /// # Errors
    /// NotFound once the process is gone.
    pub fn attributes(&self, node: NodeId) -> Answer<Attributes> {
        let (kind, mode, owner) = match ProcFs::node(node)? {
            Node::Fixed(index) => {
                let (kind, mode) = self.tree.shape(index).ok_or(FileError::NotFound)?;
                (kind, mode, (0, 0))
            }
            Node::Process { id, kind, descriptor } => {
                let view = self.view(id)?;
                if kind == Kind::Descriptor {
                    process_files::descriptor(&view, descriptor)?;
                }
                let (shape, mode) = kind.shape();
                (shape, mode, process_files::owner(&view, kind))
            }
        };
        let mut attributes = nameless(kind, mode);
        (attributes.node, attributes.number) = (node, node.0);
        (attributes.user, attributes.group) = owner;
        attributes.links = if kind == NodeKind::Directory { 2 } else { 1 };
        Ok(attributes)
    }

    /// Finds a name.
    ///
    /// # Errors
    /// NotFound; NotDirectory.
    pub fn lookup(&self, directory: NodeId, name: &[u8]) -> Answer<Attributes> {
        let here = ProcFs::node(directory)?;
        if name == b"." {
            return self.attributes(directory);
        }
        if name == b".." {
            return self.attributes(self.parent(here).number());
        }
        let found = match here {
            Node::Fixed(index) => self
                .tree
                .child(index, name)
                .map(Node::Fixed)
                .or_else(|| (index == 0 && self.has_processes()).then(|| process_named(name)).flatten()),
            Node::Process { id, kind, .. } => process_files::child(id, kind, name),
        };
        self.attributes(found.ok_or(FileError::NotFound)?.number())
    }

    /// Entries from `from` on: of those that are numbers some at a time, none at the end.
    ///
    /// # Errors
    /// NotFound; NotDirectory.
    pub fn read_directory(&self, node: NodeId, from: u64) -> Answer<Vec<DirectoryEntry>> {
        let here = ProcFs::node(node)?;
        if self.attributes(node)?.kind != NodeKind::Directory {
            return Err(FileError::NotDirectory);
        }
        let mut names: Vec<(Vec<u8>, Node)> = alloc::vec![(b".".to_vec(), here), (b"..".to_vec(), self.parent(here))];
        let mut numbered: Vec<(Vec<u8>, Node)> = Vec::new();
        match here {
            Node::Fixed(index) => {
                names.extend(
                    self.tree.children(index).map(|(name, child)| (name.as_bytes().to_vec(), Node::Fixed(child))),
                );
                if index == 0 && self.has_processes() {
                    let some = self.processes().map(|processes| processes.some_from(first_from(from)));
                    numbered.extend(some.into_iter().flatten().map(|id| (decimal(id), directory_of(id))));
                }
            }
            Node::Process { id, kind, .. } => {
                let processes = self.processes().ok_or(FileError::NotFound)?;
                let children = process_files::children(&*processes, &self.view(id)?, id, kind, first_from(from));
                if kind.has_numbers() { &mut numbered } else { &mut names }.extend(children);
            }
        }
        let named = (0u64..).zip(names);
        let numbered = numbered.into_iter().map(|(name, node)| (position_of(node), (name, node)));
        let entries = named.chain(numbered).filter(|(position, _)| *position >= from);
        Ok(entries.map(|(position, (name, node))| self.entry(position, name, node)).collect())
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// Invalid if it is no link; Denied; NotFound.
    pub fn read_link(&self, node: NodeId, looker: Looker<'_>) -> Answer<Vec<u8>> {
        match ProcFs::node(node)? {
            Node::Fixed(index) => {
                let own = match looker {
                    Looker::Thread(thread) => self.own_link(index, thread),
                    Looker::Owner => None,
                };
                let fixed = || self.tree.link(index).map(|target| target.as_bytes().to_vec());
                own.or_else(fixed).ok_or(FileError::Invalid)
            }
            Node::Process { id, kind, descriptor } => {
                let view = self.view(id)?;
                let target = process_files::link(&view, kind, descriptor);
                looker.check(&view)?;
                target
            }
        }
    }

    /// Returns the target of /proc/self and /proc/thread-self for a thread.
    fn own_link(&self, index: usize, thread: &Thread) -> Option<Vec<u8>> {
        let process = thread.process().id();
        if self.tree.is_thread_self(index) {
            return Some(alloc::format!("{process}/task/{}", thread.id()).into_bytes());
        }
        self.tree.is_self(index).then(|| decimal(process))
    }

    /// Returns the open file that a link under fd/ leads to; `None` for any other link.
    ///
    /// # Errors
    /// Denied; NotFound.
    pub fn open_file(&self, node: NodeId, looker: Looker<'_>) -> Answer<Option<Arc<OpenFile>>> {
        let Node::Process { id, kind: Kind::Descriptor, descriptor } = ProcFs::node(node)? else { return Ok(None) };
        let view = self.view(id)?;
        let file = process_files::descriptor(&view, descriptor);
        looker.check(&view)?;
        file.map(Some)
    }

    /// Takes what a file tells of a process that this may keep from others; `None` for any other node.
    ///
    /// # Errors
    /// EACCES; ESRCH for a process that has ended; ENOENT.
    pub fn secret(&self, node: NodeId, looker: Looker<'_>) -> Result<Option<Secret>, Errno> {
        let Node::Process { id, kind, .. } = ProcFs::node(node)? else { return Ok(None) };
        let Some(told) = kind.secret() else { return Ok(None) };
        Secret::of(&self.view(id)?, told, looker).map(Some)
    }

    /// Checks the rights to a node whose bits give `by_bits`: a process sees its own descriptors and names its threads, also if it does not show itself;
    /// only those who may look into it ask about its descriptors.
    ///
    /// # Errors
    /// EACCES; ENOENT.
    pub fn check(&self, node: NodeId, looker: Looker<'_>, by_bits: Result<(), Errno>) -> Result<(), Errno> {
        match (ProcFs::node(node)?, by_bits) {
            (Node::Process { id, kind: Kind::Descriptors | Kind::Comm, .. }, Err(_))
                if looker.is_of(self.view(id)?.process) =>
            {
                Ok(())
            }
            (Node::Process { id, kind: Kind::DescriptorInfos, .. }, Ok(())) => Ok(looker.check(&self.view(id)?)?),
            _ => by_bits,
        }
    }

    /// Contents of a file that all may read who may open it.
    ///
    /// # Errors
    /// IsDirectory; Invalid; NotFound.
    pub async fn read(&self, node: NodeId, offset: u64, bytes: usize) -> Answer<Vec<Bytes>> {
        let text = match ProcFs::node(node)? {
            Node::Process { kind: Kind::NetworkFile, descriptor, .. } => {
                let tenant = self.tenant_files().ok_or(FileError::NotFound)?;
                return bytes_of(&Box::pin(network::part(&tenant, descriptor, offset, bytes)).await?);
            }
            Node::Fixed(index) if self.tree.lists_processes(index) => {
                return bytes_of(&Box::pin(self.list_processes(offset, bytes)).await);
            }
            Node::Fixed(index) if let Some(kind) = self.tree.list_of(index) => {
                return bytes_of(&Box::pin(self.list_ipc(kind, offset, bytes)).await);
            }
            Node::Fixed(index) if let Some(make) = self.tree.waiting(index) => make(self).await.into_bytes(),
            Node::Fixed(index) => self.tree.contents(self, index)?,
            Node::Process { id, kind: kind @ (Kind::Status | Kind::Statm), .. } => {
                Box::pin(resident::text(self.view(id)?, kind)).await?
            }
            Node::Process { id, kind, descriptor } => process_files::contents(self, &self.view(id)?, kind, descriptor)?,
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let end = start.saturating_add(bytes).min(text.len());
        bytes_of(text.get(start..end).unwrap_or_default())
    }

    /// Returns a part of the text of all processes' numbers.
    async fn list_processes(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let (mut window, mut first) = (Window::new(offset, bytes), 0);
        while let Some(processes) = self.processes().filter(|_| !window.is_full()) {
            let some = processes.some_from(first);
            let Some(last) = some.last() else { break };
            first = last.saturating_add(1);
            for number in some {
                window.push(alloc::format!("{number}\n").as_bytes()).await;
            }
        }
        window.into_text()
    }

    /// Returns a part of the text of all objects of a kind (sysvipc(7)).
    async fn list_ipc(&self, kind: ipc::Kind, offset: u64, bytes: usize) -> Vec<u8> {
        let (mut window, mut first) = (Window::new(offset, bytes), 0);
        window.push(kind.head().as_bytes()).await;
        while let Some(processes) = self.processes().filter(|_| !window.is_full()) {
            let some = processes.ipc_lines(kind, first);
            let Some((last, _)) = some.last() else { break };
            first = last.saturating_add(1);
            for (_, line) in some {
                window.push(line.as_bytes()).await;
            }
        }
        window.into_text()
    }

    /// Writes to a file, all at once as to a sysctl; at most [`WRITE_BYTES_MAX`].
    ///
    /// # Errors
    /// ReadOnly; Invalid for what cannot be; Denied.
    pub fn write(&self, node: NodeId, data: &[Bytes]) -> Answer<usize> {
        let bytes = data.iter().map(Bytes::len).fold(0, usize::saturating_add);
        if bytes > WRITE_BYTES_MAX {
            return Err(FileError::Invalid);
        }
        let text: Vec<u8> = data.iter().flat_map(|part| part.as_slice().iter().copied()).collect();
        match ProcFs::node(node)? {
            Node::Fixed(row) => self.tree.write(self, row, &text)?,
            Node::Process { id, kind, .. } => {
                let processes = self.processes().ok_or(FileError::NotFound)?;
                process_files::write(&*processes, id, kind, &text)?;
            }
        }
        Ok(bytes)
    }

    /// Returns the figures of space and names.
    pub fn statistics(&self) -> FileSystemStatistics {
        FileSystemStatistics {
            block_bytes: 4096,
            blocks: 0,
            blocks_free: 0,
            nodes: 0,
            nodes_free: 0,
            magic: self.tree.magic,
        }
    }

    fn parent(&self, node: Node) -> Node {
        match node {
            Node::Fixed(index) => Node::Fixed(self.tree.parent(index)),
            Node::Process { kind: Kind::Directory, .. } => Node::Fixed(0),
            Node::Process { id, kind, .. } => process_files::parent(id, kind),
        }
    }

    fn entry(&self, position: u64, name: Vec<u8>, node: Node) -> DirectoryEntry {
        let kind = match node {
            Node::Fixed(index) => self.tree.shape(index).map_or(NodeKind::File, |shape| shape.0),
            Node::Process { kind, .. } => kind.shape().0,
        };
        DirectoryEntry { name, number: node.number().0, kind, next: position.saturating_add(1) }
    }
}

fn bytes_of(text: &[u8]) -> Answer<Vec<Bytes>> {
    match text {
        [] => Ok(Vec::new()),
        text => Ok(alloc::vec![Bytes::copy_from(text).map_err(|_| FileError::OutOfMemory)?]),
    }
}

fn directory_of(id: i32) -> Node {
    Node::Process { id, kind: Kind::Directory, descriptor: 0 }
}

fn process_named(name: &[u8]) -> Option<Node> {
    let id: i32 = core::str::from_utf8(name).ok()?.parse().ok()?;
    (id > 0).then(|| directory_of(id))
}

fn decimal(number: i32) -> Vec<u8> {
    alloc::format!("{number}").into_bytes()
}

/// The position of the number 0.
const FIRST: u64 = 1 << 8;

/// Returns the first number whose position is not before `position`.
fn first_from(position: u64) -> i32 {
    i32::try_from(position.saturating_sub(FIRST)).unwrap_or(i32::MAX)
}

/// Returns the position of an entry that is a number. It follows from the number, so an entry that goes or comes while a program reads the
/// directory moves no other one.
fn position_of(node: Node) -> u64 {
    let number = match node {
        Node::Process { kind: Kind::Descriptor | Kind::DescriptorInfo, descriptor, .. } => u64::from(descriptor),
        Node::Process { id, .. } => u64::from(id.unsigned_abs()),
        Node::Fixed(index) => index as u64,
    };
    FIRST.saturating_add(number)
}
