//! A tenant's task that works on files: it makes, links, syncs, renames, replaces, reads and removes them in directories of its own.
//!
//! * The name of a file and the byte that fills it tell its contents; each read compares.
//! * A task keeps promises: what it has synced must be on the disk after a crash, what it has removed must not.
//!   `Promises` has them; the tenant checks them after a mount.
//! * A step that fails leaves what was begun done or not, so its promise is taken back before it begins.
//! * Some syncs are done aside, by the asynchronous I/O resource. Junk is never synced and comes and goes.
//! * `look_all` reads as a program's calls do, by the near part first.

use crate::whole::promises::{Fill, Path, Promises};
use gyre_interface::async_io::async_io;
use gyre_interface::files::files::Client;
use gyre_interface::files::{FileError, NewNode, NodeId, NodeKind, RenameMode};
use gyre_interface::near::{NEAR_BYTES_MAX, NEAR_PAGES_MAX};
use gyre_machine::PAGE_BYTES;
use gyre_machine::random::Random;
use gyre_object::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Directories of a task.
const DIRECTORIES: usize = 3;
/// Files beyond which none is made.
const FILES_MAX: usize = 24;
/// Largest file, bytes.
const BYTES_MAX: u64 = 14_000;
const CHUNK_BYTES: usize = 3000;

/// Makes a new node of a kind.
pub fn new(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o755, user: 0, group: 0, target: Vec::new(), device: 0 }
}

/// Data by reference, in pieces.
///
/// # Errors
/// [`FileError::OutOfMemory`].
pub fn views_of(data: &[u8]) -> Result<Vec<Bytes>, FileError> {
    let pieces = data.chunks(CHUNK_BYTES).map(Bytes::copy_from);
    pieces.collect::<Result<_, _>>().map_err(|_| FileError::OutOfMemory)
}

/// Returns the whole file.
///
/// # Errors
/// Those of reading.
pub async fn read_all(client: &Client, node: NodeId) -> Result<Vec<u8>, FileError> {
    let mut data = Vec::new();
    loop {
        let views = client.read(node, data.len() as u64, 20_000).await?;
        if views.is_empty() {
            return Ok(data);
        }
        views.iter().for_each(|view| data.extend_from_slice(view.as_slice()));
    }
}

/// Returns the whole file as a program's calls read it: looked at, fetched while it is looked at, and by messages if that cannot be.
///
/// # Errors
/// Those of reading.
async fn look_all(client: &Client, node: NodeId) -> Result<Vec<u8>, FileError> {
    let mut data: Vec<u8> = Vec::new();
    loop {
        let at = data.len() as u64;
        let mut pages = [const { None }; NEAR_PAGES_MAX];
        let before = data.len();
        if let Some(count) = client.visit(|near| near.read(node, at, NEAR_BYTES_MAX, &mut pages)).flatten() {
            let flat = pages.iter().flatten().flat_map(|page| page.as_slice()).skip(before % PAGE_BYTES);
            data.extend(flat.take(count?));
        } else if let Some(begun) = client.visit(|near| near.fetch(node, at, NEAR_BYTES_MAX, true)).flatten() {
            begun.done().await?;
            continue;
        } else {
            client.read(node, at, 5000).await?.iter().for_each(|view| data.extend_from_slice(view.as_slice()));
        }
        if data.len() == before {
            return Ok(data);
        }
    }
}

/// Makes a file.
///
/// # Errors
/// Those of making and writing.
pub async fn make(client: &Client, directory: NodeId, name: &str, what: Fill) -> Result<NodeId, FileError> {
    let node = client.create(directory, name.into(), new(NodeKind::File)).await?.node;
    fill_file(client, node, what).await?;
    Ok(node)
}

async fn fill_file(client: &Client, node: NodeId, (fill, bytes): Fill) -> Result<(), FileError> {
    let mut at = 0;
    while at < bytes {
        let count = (bytes - at).min(CHUNK_BYTES);
        let written = client.write(node, at as u64, views_of(&vec![fill; count])?).await?;
        at += written;
    }
    Ok(())
}

/// The task.
pub struct FileTask {
    client: Client,
    number: usize,
    aside: async_io::Client,
    directories: Vec<NodeId>,
    promises: Rc<RefCell<Promises>>,
    random: Random,
    made: usize,
}

fn directory_name(number: usize, directory: usize) -> Vec<u8> {
    format!("w{number}d{directory}").into_bytes()
}

impl FileTask {
    /// Makes its directories, if there are none yet.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn begin(
        (client, aside): (Client, async_io::Client),
        number: usize,
        promises: Rc<RefCell<Promises>>,
        random: Random,
    ) -> Result<FileTask, FileError> {
        let root = client.root().await?;
        let mut directories = Vec::new();
        for directory in 0..DIRECTORIES {
            let name = directory_name(number, directory);
            let made = match client.lookup(root, name.clone()).await {
                Err(FileError::NotFound) => client.create(root, name, new(NodeKind::Directory)).await?,
                found => found?,
            };
            directories.push(made.node);
        }
        client.sync_all().await?;
        promises.borrow_mut().has_directories = true;
        Ok(FileTask { client, aside, number, directories, promises, random, made: 0 })
    }

    /// Does one thing.
    ///
    /// # Errors
    /// Those of the file system; then what was begun is done or not.
    pub async fn work(&mut self) -> Result<(), FileError> {
        self.made += 1;
        let directory = self.random.below(DIRECTORIES as u64) as usize;
        let fill = (1 + (self.made * 7 + self.number) as u8 % 255, 1 + self.random.below(BYTES_MAX) as usize);
        let existing = self.promises.borrow().file(self.random.below(1 << 20));
        let is_full = self.promises.borrow().files() >= FILES_MAX;
        match (self.random.below(16), existing) {
            (0..=3, _) if !is_full => self.create(directory, fill).await,
            (4 | 5, _) => self.junk(directory, fill).await,
            (6 | 7, Some((path, what))) => self.rename(path, what, directory).await,
            (8 | 9, Some((path, old))) => self.replace(path, old, fill).await,
            (10, Some((path, _))) => self.remove(path).await,
            (11 | 12, Some((path, what))) => self.read(path, what).await,
            (13, _) => self.sync_all().await,
            (14, Some((path, what))) if !is_full => self.link(path, what, directory).await,
            (15, _) if !is_full => self.nameless(directory, fill).await,
            _ if is_full => self.sync_all().await,
            _ => self.create(directory, fill).await,
        }
    }

    async fn create(&mut self, directory: usize, fill: Fill) -> Result<(), FileError> {
        let path = (directory, format!("f{}", self.made));
        self.promises.borrow_mut().will_fill(&path.1, fill.0);
        let node = make(&self.client, self.directories[directory], &path.1, fill).await?;
        self.sync(node).await?;
        self.promises.borrow_mut().synced(path, fill);
        Ok(())
    }

    /// Another name for a file.
    async fn link(&mut self, path: Path, what: Fill, directory: usize) -> Result<(), FileError> {
        let node = self.client.lookup(self.directories[path.0], path.1.into()).await?.node;
        self.link_at(node, (directory, format!("l{}", self.made)), what).await
    }

    /// A file that gets its name when it is complete.
    async fn nameless(&mut self, directory: usize, fill: Fill) -> Result<(), FileError> {
        let node = self.client.create_nameless(self.directories[directory], new(NodeKind::File)).await?.node;
        fill_file(&self.client, node, fill).await?;
        self.link_at(node, (directory, format!("n{}", self.made)), fill).await?;
        self.client.close(node).await
    }

    async fn link_at(&mut self, node: NodeId, path: Path, what: Fill) -> Result<(), FileError> {
        self.promises.borrow_mut().will_fill(&path.1, what.0);
        self.client.link(node, self.directories[path.0], path.1.clone().into()).await?;
        self.sync(node).await?;
        self.promises.borrow_mut().synced(path, what);
        Ok(())
    }

    /// Syncs, or has it done aside.
    async fn sync(&mut self, node: NodeId) -> Result<(), FileError> {
        if self.random.once_in(2) {
            return self.client.sync(node).await;
        }
        let (client, answer) = (self.client, Arc::new(Mutex::new(Err(FileError::Gone))));
        let place = answer.clone();
        let work = async move {
            let synced = client.sync(node).await;
            *place.lock().unwrap_or_else(PoisonError::into_inner) = synced;
            0
        };
        self.aside.run(Box::pin(work)).await.map_err(|_| FileError::Gone)?;
        *answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files that are never synced come and go.
    async fn junk(&mut self, directory: usize, fill: Fill) -> Result<(), FileError> {
        let name = format!("junk{}", self.made % 7);
        self.promises.borrow_mut().will_fill(&name, fill.0);
        match self.client.unlink(self.directories[directory], name.clone().into()).await {
            Err(FileError::NotFound) => make(&self.client, self.directories[directory], &name, fill).await.map(drop),
            done => done,
        }
    }

    async fn rename(&mut self, path: Path, what: Fill, directory: usize) -> Result<(), FileError> {
        let target = (directory, format!("m{}", self.made));
        self.promises.borrow_mut().will_rename(&path, &target);
        self.move_file(&path, &target).await?;
        self.promises.borrow_mut().renamed(&path, &target, what);
        Ok(())
    }

    async fn move_file(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        let (source, target) = (self.directories[from.0], self.directories[to.0]);
        let names = (from.1.clone().into_bytes(), to.1.clone().into_bytes());
        self.client.rename(source, names.0, target, names.1, RenameMode::Replace).await
    }

    /// A safe save: a new file takes the place of a synced one.
    async fn replace(&mut self, path: Path, old: Fill, fill: Fill) -> Result<(), FileError> {
        let temporary = (path.0, format!("t{}", self.made));
        self.promises.borrow_mut().will_fill(&temporary.1, fill.0);
        self.promises.borrow_mut().will_fill(&path.1, fill.0);
        let node = make(&self.client, self.directories[path.0], &temporary.1, fill).await?;
        self.sync(node).await?;
        self.promises.borrow_mut().will_replace(&temporary, &path, old, fill);
        self.move_file(&temporary, &path).await?;
        self.promises.borrow_mut().renamed(&temporary, &path, fill);
        Ok(())
    }

    async fn remove(&mut self, path: Path) -> Result<(), FileError> {
        self.promises.borrow_mut().will_remove(&path);
        self.client.unlink(self.directories[path.0], path.1.into()).await
    }

    async fn sync_all(&mut self) -> Result<(), FileError> {
        self.client.sync_all().await?;
        self.promises.borrow_mut().all_synced();
        Ok(())
    }

    async fn read(&mut self, path: Path, (fill, bytes): Fill) -> Result<(), FileError> {
        let node = self.client.lookup(self.directories[path.0], path.1.clone().into()).await?.node;
        if self.random.once_in(2) {
            self.client.evict(node, 0, bytes as u64).await?;
        }
        let data = match self.random.once_in(3) {
            true => read_all(&self.client, node).await?,
            false => look_all(&self.client, node).await?,
        };
        let is_right = data.len() == bytes && data.iter().all(|byte| *byte == fill);
        assert!(is_right, "{path:?} is read with {} bytes, not {bytes} times {fill}", data.len());
        Ok(())
    }
}

/// Returns the files in the directories of a task.
///
/// # Errors
/// Those of the file system.
pub async fn find(client: &Client, number: usize) -> Result<BTreeMap<Path, Vec<u8>>, FileError> {
    let root = client.root().await?;
    let mut found = BTreeMap::new();
    for directory in 0..DIRECTORIES {
        let node = client.lookup(root, directory_name(number, directory)).await?.node;
        for entry in client.read_directory(node, 0, usize::MAX).await? {
            if entry.kind == NodeKind::File {
                let file = client.lookup(node, entry.name.clone()).await?.node;
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                found.insert((directory, name), read_all(client, file).await?);
            }
        }
    }
    Ok(found)
}
