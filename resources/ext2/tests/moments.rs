//! Memory that is taken back at every moment of what programs do with mapped files.
//!
//! An operation runs up to one of its waits. There everything is taken back that can be, from both programs, and a fate falls: it goes
//! on, its caller is killed, or the disk fails the next request. So each wait of each operation meets each fate; and so does each wait of
//! a reclaim, in which the whole operation happens. Afterwards no page shows bytes that were never written there, and when the programs
//! have ended, no frame is left but those of the cache.
//!
//! The world is a disk with two files and two programs: both show the first file, shared, and the first program shows the second one for
//! itself. A meter counts the bytes that activities hold.
//!
//! Two interruptions in one operation, and operations of two programs at once, are left out; random steps are in `mapped.rs`.

use crate::support::*;
use gyre_account::{ActivityId, set_current_activity};
use gyre_address_space::{
    AddressSpace, Limits, LocalFlush, MapRequest, MappedFile, MappedSize, Options, PageIndex, Place, Provider, Rights,
    Unneeded,
};
use gyre_file_cache::FileCache;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_interface::memory::{Effort, KeptFile, MemoryError, shown};
use gyre_message::direct::{block_on, direct_link};
use gyre_message::sleep_ns;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

const PAGE: usize = 4096;
const PAGES: usize = 8;
const ALL_BYTES: u64 = (PAGES * PAGE) as u64;
const LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };
/// The page that operations touch, its byte before, and the byte that they write.
const TOUCHED: usize = 3;
const OLD: u8 = 1 + TOUCHED as u8;
const NEW: u8 = 100;
/// Bytes of the other file begin here: none of the first file's may look so.
const FOREIGN: u8 = 200;
/// Longer than everything takes that was begun, ns.
const REST_NS: u64 = 1_000_000_000;

type Work<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Other tests of this program run meanwhile, under other numbers.
const OWN: ActivityId = ActivityId(61);

#[derive(Default)]
struct Programs(Mutex<Vec<(usize, NodeId, Arc<AddressSpace>)>>);

impl shown::Server for Programs {
    async fn write_protect(&'static self, file: KeptFile, pages: Vec<u64>) -> Result<(), MemoryError> {
        let all = self.0.lock().unwrap().clone();
        for (server, node, space) in all {
            if node == file.node {
                space.write_protect(server, node, &pages).await;
            }
        }
        Ok(())
    }
}

/// Two files on one disk. Both programs show the first one, shared; the first program shows the second one, too, for itself.
struct World {
    disk: &'static RamDisk,
    cache: &'static FileCache,
    client: Client,
    programs: &'static Programs,
    nodes: [NodeId; 2],
    size: Arc<MappedSize>,
    spaces: [Arc<AddressSpace>; 2],
    at: [u64; 2],
    own_at: u64,
    /// Frames beside those of the cache before there were programs.
    frames: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Read,
    Write,
    WriteOwn,
    Fork,
    Unmap,
    Truncate,
    Sync,
    Exec,
    Exit,
}

/// The one that is held at one of its waits, while the other one happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    Operation,
    Reclaim,
}

/// The fate of the one that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    GoesOn,
    Killed,
    DiskFails,
}

impl World {
    async fn new(image: Vec<u8>) -> World {
        let (disk, cache) = (RamDisk::leak(image), new_cache(4096));
        let programs: &'static Programs = Box::leak(Box::default());
        cache.set_shown(shown::Client::new(direct_link(move |request| Box::pin(shown::serve(programs, request)))));
        let client = client_of(mount_on(disk, cache).await.unwrap());
        let nodes = [file(&client, "one", 1).await, file(&client, "two", FOREIGN).await];
        let frames = frames(cache);
        let size = MappedSize::new(ALL_BYTES);
        let spaces = [new_space(), new_space()];
        let one = MappedFile::new(client, nodes[0], size.clone(), b"/one".to_vec(), None, None);
        let two = MappedFile::new(client, nodes[1], MappedSize::new(ALL_BYTES), b"/two".to_vec(), None, None);
        let at = [map(&spaces[0], &one, Options::SHARED).await, map(&spaces[1], &one, Options::SHARED).await];
        let own_at = map(&spaces[0], &two, Options::empty()).await;
        let shown = spaces.iter().map(|space| (client.server(), nodes[0], space.clone()));
        *programs.0.lock().unwrap() = shown.collect();
        let world = World { disk, cache, client, programs, nodes, size, spaces, at, own_at, frames };
        world.warm().await;
        world
    }

    /// All pages but one are shown, and one is dirty; that one is on the disk only, as all of the other file.
    async fn warm(&self) {
        for page in (0..PAGES).filter(|page| *page != TOUCHED) {
            assert_eq!(self.peek(page % 2, page).await, Some(1 + page as u8));
        }
        self.spaces[1].copy_out(self.at[1] + 6 * PAGE as u64, &[7]).await.unwrap();
        let touched = (TOUCHED * PAGE) as u64;
        for (space, at) in self.spaces.iter().zip(self.at) {
            space.give_up(at + touched, PAGE as u64, Unneeded::Now).await.unwrap();
        }
        assert_eq!(self.client.cached(self.nodes[0], TOUCHED as u64, 1).await, Ok(vec![0]));
        self.disk.0.lock().latency_ns = 2_000;
    }

    async fn peek(&self, program: usize, page: usize) -> Option<u8> {
        let mut byte = [0];
        let found = self.spaces[program].copy_in(self.at[program] + (page * PAGE) as u64, &mut byte).await;
        found.is_ok().then_some(byte[0])
    }

    /// Begins what a program does; nothing happens before it is polled. Failures of the disk are answers.
    fn begin(&self, operation: Operation) -> Work<'_> {
        let touched = (TOUCHED * PAGE) as u64;
        let space = &self.spaces[0];
        Box::pin(async move {
            match operation {
                Operation::Read => _ = self.peek(0, TOUCHED).await,
                Operation::Write => _ = space.copy_out(self.at[0] + touched, &[NEW]).await,
                Operation::WriteOwn => _ = space.copy_out(self.own_at + touched, &[NEW]).await,
                Operation::Fork => {
                    let Ok(child) = space.duplicate(OWN).await else { return };
                    let _ = child.copy_out(self.own_at + touched, &[NEW]).await;
                    child.clear().await;
                }
                Operation::Unmap => _ = space.unmap(self.at[0], ALL_BYTES).await,
                Operation::Truncate => self.truncate(touched).await,
                Operation::Sync => {
                    let _ = space.copy_out(self.at[0] + touched, &[NEW]).await;
                    let _ = self.client.sync(self.nodes[0]).await;
                }
                Operation::Exec => {
                    let size = MappedSize::new(ALL_BYTES);
                    let text = MappedFile::new(self.client, self.nodes[1], size, b"/two".to_vec(), None, None);
                    let next = new_space();
                    let at = map(&next, &text, Options::empty()).await;
                    let mut byte = [0];
                    let _ = next.copy_in(at + touched, &mut byte).await;
                    space.clear().await;
                    next.clear().await;
                }
                Operation::Exit => space.clear().await,
            }
        })
    }

    /// As the system call does it: the file, then its size as mappings know it, then each mapping.
    async fn truncate(&self, bytes: u64) {
        let change = AttributeChange { size_bytes: Some(bytes), ..AttributeChange::default() };
        if self.client.set_attributes(self.nodes[0], change).await.is_err() {
            return;
        }
        self.size.note(bytes);
        for space in &self.spaces {
            space.shorten(&self.size, bytes).await;
        }
    }

    /// Takes everything back that can be had.
    async fn reclaim(&self) {
        for _ in 0..2 {
            for space in &self.spaces {
                space.give_back(2 * ALL_BYTES, Effort::Thorough).await;
            }
        }
        for node in self.nodes {
            let _ = self.client.evict(node, 0, 0).await;
        }
    }

    /// Checks what the second program sees afterwards.
    async fn check(&self, operation: Operation, held: Held, fate: Fate) {
        let is_whole = fate == Fate::GoesOn || (fate, held) == (Fate::Killed, Held::Reclaim);
        for page in 0..PAGES {
            let Some(seen) = self.peek(1, page).await else {
                assert!(operation == Operation::Truncate && page >= TOUCHED, "page {page} cannot be seen");
                continue;
            };
            let before = 1 + page as u8;
            let allowed: &[u8] = match (operation, page) {
                (Operation::Write | Operation::Sync, TOUCHED) if is_whole => &[NEW],
                (Operation::Write | Operation::Sync, TOUCHED) => &[OLD, NEW],
                // A killed call may have made it shorter without a word to the mappings.
                (Operation::Truncate, _) if page >= TOUCHED => &[before, 0],
                _ => &[before],
            };
            assert!(allowed.contains(&seen), "page {page} shows {seen}");
        }
    }

    /// Ends the programs, and checks that frames and bytes add up.
    async fn end(self, fate: Fate) {
        for space in &self.spaces {
            space.clear().await;
        }
        sleep_ns(REST_NS).await;
        self.programs.0.lock().unwrap().clear();
        let World { cache, client, frames: before, disk, spaces, .. } = self;
        for space in &spaces {
            assert_eq!((space.resident_bytes(), space.mapped_bytes()), (0, 0));
        }
        drop(spaces);
        assert_eq!(frames(cache), before, "frames that neither a program nor the cache has");
        let _ = client.sync_all().await;
        assert!(cache.is_clean());
        if fate != Fate::DiskFails {
            assert_clean(disk.image());
        }
        disk.discard();
    }
}

fn frames(cache: &FileCache) -> i64 {
    let cached: usize = cache.usage().iter().map(|usage| usage.held).sum();
    METER.held(OWN) / PAGE as i64 - cached as i64
}

/// Makes a file whose pages count from `first` on.
async fn file(client: &Client, name: &str, first: u8) -> NodeId {
    let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 1, group: 1, target: Vec::new(), device: 0 };
    let node = client.create(client.root().await.unwrap(), name.into(), new).await.unwrap().node;
    let data: Vec<u8> = (0..PAGES).flat_map(|page| [first + page as u8; PAGE]).collect();
    client.write(node, 0, views_of(&data)).await.unwrap();
    client.sync(node).await.unwrap();
    client.evict(node, 0, 0).await.unwrap();
    node
}

fn new_space() -> Arc<AddressSpace> {
    AddressSpace::new(&LocalFlush, LIMITS, OWN).unwrap()
}

async fn map(space: &AddressSpace, file: &Arc<MappedFile>, options: Options) -> u64 {
    let request = MapRequest {
        place: Place::Anywhere(0),
        bytes: ALL_BYTES,
        rights: Rights::READ | Rights::WRITE,
        rights_max: Rights::all(),
        options,
        provider: Provider::File(file.clone()),
        first_index: PageIndex::FIRST,
    };
    space.map(request).await.unwrap()
}

/// Runs a future up to its wait with this number, from 1 on; true if it was done before.
async fn ends_before(wait: usize, future: &mut Work<'_>) -> bool {
    let mut waits = 0;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => {
            waits += 1;
            if waits == wait { Poll::Ready(false) } else { Poll::Pending }
        }
    })
    .await
}

/// One of both meets a fate at one of its waits. False if it has no such wait.
async fn meets(world: &World, operation: Operation, held: Held, fate: Fate, wait: usize) -> bool {
    let (first, second) = (world.begin(operation), Box::pin(world.reclaim()) as Work<'_>);
    let (mut first, second) = if held == Held::Operation { (first, second) } else { (second, first) };
    if ends_before(wait, &mut first).await {
        return false;
    }
    if fate == Fate::DiskFails {
        let next = world.disk.0.lock().requests + 1;
        world.disk.0.lock().fail_at = Some((next, 1));
    }
    second.await;
    match fate {
        Fate::Killed => drop(first),
        _ => first.await,
    }
    world.disk.0.lock().fail_at = None;
    sleep_ns(REST_NS).await;
    true
}

/// Every wait meets every fate. Returns how many there were.
async fn try_all(image: &[u8], operation: Operation, held: Held) -> usize {
    let mut tried = 0;
    for fate in [Fate::GoesOn, Fate::Killed, Fate::DiskFails] {
        for wait in 1.. {
            let world = World::new(image.to_vec()).await;
            eprintln!("{operation:?}, {held:?} held at wait {wait}, {fate:?}");
            let was_met = meets(&world, operation, held, fate, wait).await;
            if was_met {
                world.check(operation, held, fate).await;
                tried += 1;
            }
            world.end(fate).await;
            if !was_met {
                break;
            }
        }
    }
    tried
}

#[test]
fn whatever_a_program_does_memory_may_be_taken_back_meanwhile() {
    use Operation::*;
    gyre_machine::set_memory_meter(&METER);
    let before = set_current_activity(OWN);
    let image = make_image(1024, &["-b", "4096"]);
    block_on(async {
        for operation in [Read, Write, WriteOwn, Fork, Unmap, Truncate, Sync, Exec, Exit] {
            let by_operation = try_all(&image, operation, Held::Operation).await;
            let by_reclaim = try_all(&image, operation, Held::Reclaim).await;
            // The end of a mapping waits for nobody here.
            assert!(
                by_operation >= 3 || [Unmap, Exit].contains(&operation),
                "{operation:?} waited {by_operation} times"
            );
            assert!(by_reclaim >= 3, "a reclaim beside {operation:?} waited {by_reclaim} times");
        }
    });
    set_current_activity(before);
}
