//! Memory that is short in the middle of a request: it waits for room, and does all of its work.
//!
//! Contents are short of memory while they are written; names are, if all pages of the cache are in use and the block
//! of a directory has to come from the disk.

use crate::support::*;
use gyre_account::ActivityId;
use gyre_file_cache::{FileCache, Room};
use gyre_interface::files::*;
use gyre_interface::memory::{Budget, Figures, MemoryError, memory};
use gyre_machine::PAGE_BYTES;
use gyre_message::direct::{block_on, direct_link};
use gyre_object::{Page, SpinLock};

/// Pages of the cache, and those of them that are in use until somebody asks for room.
const PAGES: usize = 64;
const TAKEN: usize = 48;
/// Pages that one request writes.
const WRITTEN: usize = 32;
/// Files whose pages fill the cache, each of so many pages that it needs no indirect block.
const FILES: u8 = 6;
const DIRECT_PAGES: usize = 12;

/// Gives up a page in use for each wait.
#[derive(Default)]
struct Keeper {
    used: SpinLock<Vec<Page>>,
    waits: SpinLock<usize>,
}

impl memory::Server for Keeper {
    async fn reserve(&'static self, _activity: ActivityId, _bytes: u64) -> Result<(), MemoryError> {
        *self.waits.lock() += 1;
        let page = self.used.lock().pop();
        page.map(|_| ()).ok_or(MemoryError::LimitReached)
    }

    async fn take_back(&'static self, _activity: ActivityId, _bytes: u64) -> Result<u64, MemoryError> {
        Err(MemoryError::Unknown)
    }

    async fn set_budget(&'static self, _activity: ActivityId, _budget: Budget) -> Result<(), MemoryError> {
        Err(MemoryError::Unknown)
    }

    async fn figures(&'static self, _activity: ActivityId) -> Result<Figures, MemoryError> {
        Err(MemoryError::Unknown)
    }
}

struct World {
    client: files::Client,
    keeper: &'static Keeper,
    node: NodeId,
}

/// Connects a cache to a memory resource that gives up the pages in use, one for each wait.
fn connect_keeper(cache: &'static FileCache) -> &'static Keeper {
    let keeper: &'static Keeper = Box::leak(Box::default());
    let link = direct_link(move |request| Box::pin(memory::serve(keeper, request)));
    let client = memory::Client::new(link);
    cache.connect(Room { client, has_room: &|_| true, process_pages: &|_| usize::MAX, kept_pages: 0 });
    keeper
}

fn new_node(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o755, user: 0, group: 0, target: Vec::new(), device: 0 }
}

impl World {
    /// Makes a file of which half the cache's pages are in use, and an empty one.
    async fn new() -> World {
        let disk = RamDisk::leak(make_image(8 * 1024, &["-b", "4096", "-I", "128"]));
        let cache = new_cache(PAGES);
        let client = client_of(mount_on(disk, cache).await.unwrap());
        let keeper = connect_keeper(cache);
        let root = client.root().await.unwrap();
        let taken = client.create(root, b"taken".to_vec(), new_node(NodeKind::File)).await.unwrap().node;
        for index in 0..TAKEN {
            client.write(taken, (index * PAGE_BYTES) as u64, views_of(&[1; PAGE_BYTES])).await.unwrap();
        }
        let node = client.create(root, b"written".to_vec(), new_node(NodeKind::File)).await.unwrap().node;
        client.sync_all().await.unwrap();
        for index in 0..TAKEN {
            let page = client.page(taken, index as u64, Pattern::Usual).await.unwrap();
            keeper.used.lock().push(page);
        }
        World { client, keeper, node }
    }

    /// Makes a directory `folder` with a file, a directory and nothing of them in memory, beside pages in use that
    /// fill the cache. The node is the directory's.
    async fn full() -> World {
        let disk = RamDisk::leak(make_image(8 * 1024, &["-b", "4096", "-I", "128"]));
        let first = client_of(mount_on(disk, new_cache(8 * PAGES)).await.unwrap());
        let root = first.root().await.unwrap();
        for file in 0..FILES {
            let node = first.create(root, vec![b'a' + file], new_node(NodeKind::File)).await.unwrap().node;
            first.write(node, 0, views_of(&[1; DIRECT_PAGES * PAGE_BYTES])).await.unwrap();
        }
        let folder = first.create(root, b"folder".to_vec(), new_node(NodeKind::Directory)).await.unwrap().node;
        first.create(folder, b"file".to_vec(), new_node(NodeKind::File)).await.unwrap();
        first.create(folder, b"empty".to_vec(), new_node(NodeKind::Directory)).await.unwrap();
        first.sync_all().await.unwrap();

        let cache = new_cache(PAGES);
        let client = client_of(mount_on(disk, cache).await.unwrap());
        let keeper = connect_keeper(cache);
        let node = client.lookup(root, b"folder".to_vec()).await.unwrap().node;
        client.open(node).await.unwrap();
        World { client, keeper, node }.fill(root).await
    }

    /// Takes pages until no more fit: then nothing can go but what the keeper holds.
    async fn fill(self, root: NodeId) -> World {
        let mut nodes = Vec::new();
        for file in 0..FILES {
            nodes.push(self.client.lookup(root, vec![b'a' + file]).await.unwrap().node);
        }
        for (node, index) in nodes.iter().flat_map(|node| (0..DIRECT_PAGES as u64).map(move |index| (node, index))) {
            match self.client.page(*node, index, Pattern::Random).await {
                Ok(page) => self.keeper.used.lock().push(page),
                Err(error) => assert_eq!(error, FileError::OutOfMemory),
            }
        }
        *self.keeper.waits.lock() = 0;
        self
    }

    async fn assert_written(&self, at: usize, data: &[u8]) {
        assert!(*self.keeper.waits.lock() > 1, "it has waited");
        let here = read_all(&self.client, self.node).await.unwrap();
        assert!(here[at..] == *data, "{} bytes", here.len());
    }
}

fn contents() -> Vec<u8> {
    (0..WRITTEN * PAGE_BYTES).map(|at| (at / 7) as u8).collect()
}

#[test]
fn a_write_that_finds_no_room_in_the_middle_goes_on_when_there_is_some() {
    block_on(async {
        for at in [0, 100] {
            let (world, data) = (World::new().await, contents());
            assert_eq!(world.client.write(world.node, at as u64, views_of(&data)).await, Ok(data.len()));
            world.assert_written(at, &data).await;
        }
    });
}

#[test]
fn an_append_that_finds_no_room_in_the_middle_is_whole_in_the_end() {
    block_on(async {
        let (world, data) = (World::new().await, contents());
        world.client.write(world.node, 0, views_of(b"before")).await.unwrap();
        assert_eq!(world.client.append(world.node, views_of(&data)).await, Ok(6));
        world.assert_written(6, &data).await;
    });
}

#[test]
fn without_any_room_a_part_is_the_answer() {
    block_on(async {
        let (world, data) = (World::new().await, contents());
        let _held: Vec<Page> = core::mem::take(&mut *world.keeper.used.lock());
        let written = world.client.write(world.node, 0, views_of(&data)).await.unwrap();
        assert!(written > 0 && written < data.len(), "{written} bytes");
        assert_eq!(read_all(&world.client, world.node).await.unwrap(), data[..written]);
    });
}

/// Requests about names, each of which needs the directory's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Lookup,
    List,
    Unlink,
    RemoveDirectory,
}

const ASKS: [Ask; 4] = [Ask::Lookup, Ask::List, Ask::Unlink, Ask::RemoveDirectory];

impl World {
    async fn ask(&self, ask: Ask) -> Result<(), FileError> {
        match ask {
            Ask::Lookup => self.client.lookup(self.node, b"file".to_vec()).await.map(|_| ()),
            Ask::List => self.client.read_directory(self.node, 0, PAGE_BYTES).await.map(|_| ()),
            Ask::Unlink => self.client.unlink(self.node, b"file".to_vec()).await,
            Ask::RemoveDirectory => self.client.remove_directory(self.node, b"empty".to_vec()).await,
        }
    }
}

#[test]
fn requests_about_names_wait_for_room() {
    block_on(async {
        for ask in ASKS {
            let world = World::full().await;
            assert_eq!(world.ask(ask).await, Ok(()), "{ask:?}");
            assert!(*world.keeper.waits.lock() > 0, "{ask:?} has waited");
        }
    });
}

#[test]
fn requests_about_names_are_refused_if_there_is_never_room() {
    block_on(async {
        for ask in ASKS {
            let world = World::full().await;
            let _held: Vec<Page> = core::mem::take(&mut *world.keeper.used.lock());
            assert_eq!(world.ask(ask).await, Err(FileError::OutOfMemory), "{ask:?}");
        }
    });
}
