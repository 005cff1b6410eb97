//! /proc (proc(5)): made up at each look from what the personality and the machine know.
//!
//! A node's number says what it is: 0 in the upper half for the files of the whole tenant (an index into [`fixed::NODES`]),
//! else the process, the kind of file and the descriptor.
//!
//! ```text
//! 63        32 31    24 23          0
//! | process   | kind   | descriptor |
//! ```

mod fixed;
mod process_files;
mod rollup;
mod tenant;
pub mod view;

pub use view::{ProcessView, Processes};

use super::attributes::nameless;
use super::open_file::OpenFile;
use super::tenant_files::TenantFiles;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use gyre_interface::files::{Attributes, DirectoryEntry, FileError, FileSystemStatistics, NodeId, NodeKind};
use gyre_object::{Bytes, TenantLock};
use process_files::Kind;

/// What statfs gives for proc.
const MAGIC: u64 = 0x9fa0;

/// What a node is.
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

/// The proc file system of a tenant.
#[derive(Default)]
pub struct ProcFs {
    processes: TenantLock<Option<Weak<dyn Processes>>>,
    files: TenantLock<Weak<TenantFiles>>,
    /// Drawn once for the tenant's life.
    boot_id: TenantLock<Option<String>>,
}

type Answer<T> = Result<T, FileError>;

impl ProcFs {
    /// Sets where processes and files are looked up. Until then there are none.
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

    fn tenant_files(&self) -> Option<Arc<TenantFiles>> {
        self.files.lock().upgrade()
    }

    fn view(&self, id: i32) -> Answer<ProcessView> {
        self.processes().and_then(|processes| processes.view(id)).ok_or(FileError::NotFound)
    }

    /// The root's node.
    pub fn root(&self) -> NodeId {
        Node::Fixed(0).number()
    }

    fn node(node: NodeId) -> Answer<Node> {
        Node::of(node).ok_or(FileError::NotFound)
    }

    /// Attributes of a node.
    ///
    /// # Errors
    /// NotFound once the process is gone.
    pub fn attributes(&self, node: NodeId) -> Answer<Attributes> {
        let (kind, mode, owner) = match ProcFs::node(node)? {
            Node::Fixed(index) => {
                let (kind, mode) = fixed::shape(index).ok_or(FileError::NotFound)?;
                (kind, mode, (0, 0))
            }
            Node::Process { id, kind, descriptor } => {
                let view = self.view(id)?;
                if kind == Kind::Descriptor {
                    process_files::descriptor(&view, descriptor)?;
                }
                let (shape, mode) = kind.shape();
                (shape, mode, (view.credentials.user_effective, view.credentials.group_effective))
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
            return self.attributes(parent(here).number());
        }
        let found = match here {
            Node::Fixed(index) => fixed::child(index, name)
                .map(Node::Fixed)
                .or_else(|| (index == 0).then(|| process_named(name)).flatten()),
            Node::Process { id, kind, .. } => process_files::child(id, kind, name),
        };
        self.attributes(found.ok_or(FileError::NotFound)?.number())
    }

    /// Entries from `from` on.
    ///
    /// # Errors
    /// NotFound; NotDirectory.
    pub fn read_directory(&self, node: NodeId, from: u64) -> Answer<Vec<DirectoryEntry>> {
        let here = ProcFs::node(node)?;
        if self.attributes(node)?.kind != NodeKind::Directory {
            return Err(FileError::NotDirectory);
        }
        let mut names: Vec<(Vec<u8>, Node)> = alloc::vec![(b".".to_vec(), here), (b"..".to_vec(), parent(here))];
        match here {
            Node::Fixed(index) => {
                names
                    .extend(fixed::children(index).map(|(name, child)| (name.as_bytes().to_vec(), Node::Fixed(child))));
                if index == 0 {
                    let all = self.processes().map(|processes| processes.all()).unwrap_or_default();
                    names.extend(all.into_iter().map(|id| (decimal(id), directory_of(id))));
                }
            }
            Node::Process { id, kind, .. } => {
                let threads = self.processes().map(|processes| processes.threads(id)).unwrap_or_default();
                names.extend(process_files::children(&self.view(id)?, id, kind, &threads));
            }
        }
        let entries = names.into_iter().enumerate().skip(usize::try_from(from).unwrap_or(usize::MAX));
        Ok(entries.map(|(index, (name, node))| entry(index, name, node)).collect())
    }

    /// The target of a symbolic link, but for those of "self", which [`ProcFs::own_link`] tells.
    ///
    /// # Errors
    /// Invalid for what is no link; NotFound.
    pub fn read_link(&self, node: NodeId) -> Answer<Vec<u8>> {
        match ProcFs::node(node)? {
            Node::Fixed(index) => fixed::link(index).map(|target| target.as_bytes().to_vec()).ok_or(FileError::Invalid),
            Node::Process { id, kind, descriptor } => process_files::link(&self.view(id)?, kind, descriptor),
        }
    }

    /// The target of /proc/self and /proc/thread-self for a process.
    pub fn own_link(&self, node: NodeId, process: i32) -> Option<Vec<u8>> {
        match Node::of(node)? {
            Node::Fixed(index) if fixed::is_self(index) => Some(decimal(process)),
            Node::Fixed(index) if fixed::is_thread_self(index) => {
                Some(alloc::format!("{process}/task/{process}").into_bytes())
            }
            _ => None,
        }
    }

    /// The open file that a link under fd/ leads to.
    ///
    /// # Errors
    /// NotFound.
    pub fn open_file(&self, node: NodeId) -> Answer<Option<Arc<OpenFile>>> {
        match ProcFs::node(node)? {
            Node::Process { id, kind: Kind::Descriptor, descriptor } => {
                process_files::descriptor(&self.view(id)?, descriptor).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Contents of a file.
    ///
    /// # Errors
    /// IsDirectory; Invalid; NotFound.
    pub async fn read(&self, node: NodeId, offset: u64, bytes: usize) -> Answer<Vec<Bytes>> {
        let text = match ProcFs::node(node)? {
            Node::Fixed(index) => fixed::contents(self, index)?,
            Node::Process { id, kind: Kind::Rollup, .. } => Box::pin(rollup::text(self.view(id)?)).await?,
            Node::Process { id, kind, descriptor } => process_files::contents(self, &self.view(id)?, kind, descriptor)?,
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let end = start.saturating_add(bytes).min(text.len());
        match text.get(start..end) {
            None | Some([]) => Ok(Vec::new()),
            Some(part) => Ok(alloc::vec![Bytes::copy_from(part).map_err(|_| FileError::OutOfMemory)?]),
        }
    }

    /// Writes to a file: none changes anything yet, those that programs write to at start accept it.
    ///
    /// # Errors
    /// ReadOnly for the rest.
    pub fn write(&self, node: NodeId, data: &[Bytes]) -> Answer<usize> {
        match ProcFs::node(node)? {
            Node::Process { kind: Kind::Comm | Kind::OomScoreAdjust, .. } => Ok(data.iter().map(Bytes::len).sum()),
            _ => Err(FileError::ReadOnly),
        }
    }

    /// Space and names.
    pub fn statistics(&self) -> FileSystemStatistics {
        FileSystemStatistics { block_bytes: 4096, blocks: 0, blocks_free: 0, nodes: 0, nodes_free: 0, magic: MAGIC }
    }
}

fn parent(node: Node) -> Node {
    match node {
        Node::Fixed(index) => Node::Fixed(fixed::parent(index)),
        Node::Process { kind: Kind::Directory, .. } => Node::Fixed(0),
        Node::Process { id, .. } => directory_of(id),
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

fn entry(index: usize, name: Vec<u8>, node: Node) -> DirectoryEntry {
    let kind = match node {
        Node::Fixed(index) => fixed::shape(index).map_or(NodeKind::File, |shape| shape.0),
        Node::Process { kind, .. } => kind.shape().0,
    };
    DirectoryEntry { name, number: node.number().0, kind, next: (index as u64).saturating_add(1) }
}
