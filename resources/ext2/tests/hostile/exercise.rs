//! Walks and changes everything that can be reached, with any result, and notes how each call ended.

use crate::support::views_of;
use gyre_ext2::Ext2;
use gyre_interface::files::files::Server as _;
use gyre_interface::files::*;
use std::collections::BTreeSet;

/// Directories that are walked at most, and parts of each.
const DIRECTORIES_MAX: usize = 100;
const PARTS_MAX: usize = 50;

/// How calls ended: "read Damaged", "read fine".
pub type Endings = BTreeSet<String>;

/// The walker.
pub struct Explorer {
    fs: &'static Ext2,
    /// Names that led somewhere.
    pub answers: usize,
    pub endings: Endings,
}

impl Explorer {
    pub fn new(fs: &'static Ext2) -> Explorer {
        Explorer { fs, answers: 0, endings: Endings::new() }
    }

    fn note<T>(&mut self, call: &str, ended: Result<T, FileError>) -> Option<T> {
        note(&mut self.endings, call, ended)
    }

    /// Reads everything, then changes everything.
    pub async fn exercise(&mut self) {
        let root = self.fs.root().await;
        let Some(root) = self.note("root", root) else { return };
        let directories = self.walk(root).await;
        for directory in directories {
            self.make_in(directory).await;
            for entry in self.fs.read_directory(directory, 0, 4000).await.unwrap_or_default() {
                self.change(directory, entry, root).await;
            }
        }
        let synced = self.fs.sync_all().await;
        self.note("sync_all", synced);
        let ended = self.fs.unmount().await;
        self.note("unmount", ended);
    }

    async fn walk(&mut self, root: NodeId) -> Vec<NodeId> {
        let (mut queue, mut seen) = (vec![root], BTreeSet::new());
        while let Some(directory) = queue.pop() {
            if !seen.insert(directory) || seen.len() > DIRECTORIES_MAX {
                continue;
            }
            let mut from = 0;
            for _ in 0..PARTS_MAX {
                let entries = self.fs.read_directory(directory, from, 1000).await;
                let Some(entries) = self.note("read_directory", entries) else { break };
                let Some(last) = entries.last() else { break };
                from = last.next;
                for entry in entries {
                    self.look(directory, entry.name, &mut queue).await;
                }
            }
        }
        seen.into_iter().collect()
    }

    async fn look(&mut self, directory: NodeId, name: Name, queue: &mut Vec<NodeId>) {
        let found = self.fs.lookup(directory, name).await;
        let Some(found) = self.note("lookup", found) else { return };
        self.answers += 1;
        let names = self.fs.list_extended(found.node).await;
        for name in self.note("list_extended", names).unwrap_or_default() {
            let value = self.fs.extended(found.node, name).await;
            self.note("extended", value);
        }
        match found.kind {
            NodeKind::Directory => queue.push(found.node),
            NodeKind::SymbolicLink => {
                let target = self.fs.read_link(found.node).await;
                self.note("read_link", target);
            }
            NodeKind::File => self.read(found).await,
            _ => {}
        }
    }

    async fn read(&mut self, file: Attributes) {
        let (fs, node) = (self.fs, file.node);
        let start = fs.read(node, 0, 1 << 20).await;
        self.note("read", start);
        let end = fs.read(node, file.size_bytes.saturating_sub(10), 4096).await;
        self.note("read at the end", end);
        let page = fs.page(node, 70, Pattern::Usual).await;
        self.note("page", page);
        let hole = fs.seek(node, 0, Sought::Hole).await;
        self.note("seek hole", hole);
        let data = fs.seek(node, 20_000, Sought::Data).await;
        self.note("seek data", data);
    }

    async fn make_in(&mut self, directory: NodeId) {
        let new = |kind| NewNode { kind, mode: 0o755, user: 0, group: 0, target: Vec::new(), device: 0 };
        let made = self.fs.create(directory, b"made".to_vec(), new(NodeKind::File)).await;
        self.note("create file", made);
        let made = self.fs.create(directory, b"made-dir".to_vec(), new(NodeKind::Directory)).await;
        self.note("create directory", made);
        let made = self.fs.create_nameless(directory, new(NodeKind::File)).await;
        if let Some(made) = self.note("create_nameless", made) {
            let linked = self.fs.link(made.node, directory, b"named".to_vec()).await;
            self.note("link nameless", linked);
            let closed = self.fs.close(made.node).await;
            self.note("close", closed);
        }
    }

    async fn change(&mut self, directory: NodeId, entry: DirectoryEntry, root: NodeId) {
        let (fs, name) = (self.fs, entry.name);
        let Ok(found) = fs.lookup(directory, name.clone()).await else { return };
        if entry.kind == NodeKind::File {
            self.change_file(found.node).await;
        }
        let set = fs.set_extended(found.node, b"user.new".to_vec(), vec![3; 90], Presence::Any).await;
        self.note("set_extended", set);
        let linked = fs.link(found.node, root, b"linked".to_vec()).await;
        self.note("link", linked);
        let other = || b"renamed".to_vec();
        let exchanged = fs.rename(directory, name.clone(), root, other(), RenameMode::Exchange).await;
        self.note("exchange", exchanged);
        let renamed = fs.rename(directory, name.clone(), root, other(), RenameMode::Replace).await;
        self.note("rename", renamed);
        let unlinked = fs.unlink(directory, name.clone()).await;
        self.note("unlink", unlinked);
        let removed = fs.remove_directory(directory, name).await;
        self.note("remove_directory", removed);
    }

    async fn change_file(&mut self, node: NodeId) {
        let fs = self.fs;
        let written = fs.write(node, 300_000, views_of(&[7; 3000])).await;
        self.note("write", written);
        let appended = fs.append(node, views_of(&[8; 3000])).await;
        self.note("append", appended);
        let punched = fs.punch(node, 5000, 100_000).await;
        self.note("punch", punched);
        let allocated = fs.allocate(node, 0, 20_000).await;
        self.note("allocate", allocated);
        let synced = fs.sync(node).await;
        self.note("sync", synced);
        let change = AttributeChange { size_bytes: Some(50), ..AttributeChange::default() };
        let cut = fs.set_attributes(node, change).await;
        self.note("set_attributes", cut);
    }
}

/// Notes how a call ended.
pub fn note<T>(endings: &mut Endings, call: &str, ended: Result<T, FileError>) -> Option<T> {
    endings.insert(match &ended {
        Ok(_) => format!("{call} fine"),
        Err(error) => format!("{call} {error:?}"),
    });
    ended.ok()
}
