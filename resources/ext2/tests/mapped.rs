//! Files that programs map and write: all of it reaches the disk, and pages that are not used can go.
//!
//! A `World` is a file of 24 pages on the disk in memory of `support`, a cache, and two programs whose address spaces map the file,
//! shared and writable. `Programs` answers for them as the server of shown pages does. A test pokes and peeks bytes of a program, reads
//! and writes past the cache from its mapping, and asks for the file as a crash now would leave it.
//!
//! The tests hold that writes after a write-back reach the disk with the next sync, that unused pages go and come back as they were, that
//! lost pages are told to each once, that writers by mappings wait for the disk as writers by calls do, and that devices see and change
//! mappings truly. Random steps beside write-backs compare with a model at each moment.
//!
//! Memory that is taken back within an operation is in `moments.rs`.

use crate::support::*;
use gyre_account::ActivityId;
use gyre_address_space::{
    AddressSpace, GivenBack, Limits, LocalFlush, MapRequest, MappedFile, MappedSize, Options, PageIndex, Place,
    Provider, Rights, SpaceError, Unneeded,
};
use gyre_file_cache::FileCache;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_interface::memory::{Effort, KeptFile, MemoryError, shown};
use gyre_machine::Access;
use gyre_message::direct::{block_on, direct_link};
use gyre_message::{sleep_ns, spawn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const PAGE: usize = 4096;
const PAGES: usize = 24;
const LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

/// The programs that show the file.
#[derive(Default)]
struct Programs {
    spaces: Mutex<Vec<Arc<AddressSpace>>>,
    /// The file's server and node, once it is there.
    file: Mutex<Option<(usize, NodeId)>>,
    asked: AtomicU64,
}

impl shown::Server for Programs {
    async fn write_protect(&'static self, file: KeptFile, pages: Vec<u64>) -> Result<(), MemoryError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (server, node) = self.file.lock().unwrap().unwrap();
        assert_eq!(file.node, node);
        let spaces = self.spaces.lock().unwrap().clone();
        for space in spaces {
            space.write_protect(server, node, &pages).await;
        }
        Ok(())
    }
}

/// A file of [`PAGES`] pages that two programs map at [`World::at`].
struct World {
    disk: &'static RamDisk,
    cache: &'static FileCache,
    client: Client,
    node: NodeId,
    programs: &'static Programs,
    spaces: [Arc<AddressSpace>; 2],
    at: [u64; 2],
}

impl World {
    async fn new(cache_pages: usize) -> World {
        let (disk, cache) = (RamDisk::leak(make_image(8 * 1024, &["-b", "4096"])), new_cache(cache_pages));
        let programs: &'static Programs = Box::leak(Box::default());
        cache.set_shown(shown::Client::new(direct_link(move |request| Box::pin(shown::serve(programs, request)))));
        let fs = mount_on(disk, cache).await.unwrap();
        let client = client_of(fs);
        let node = new_file(&client, "f").await;
        client.write(node, 0, views_of(&[0; PAGES * PAGE])).await.unwrap();
        *programs.file.lock().unwrap() = Some((client.server(), node));
        let size = MappedSize::new((PAGES * PAGE) as u64);
        let (one, two) = (map(&client, node, &size).await, map(&client, node, &size).await);
        *programs.spaces.lock().unwrap() = vec![one.0.clone(), two.0.clone()];
        World { disk, cache, client, node, programs, spaces: [one.0, two.0], at: [one.1, two.1] }
    }

    async fn poke(&self, program: usize, offset: usize, value: u8) {
        self.spaces[program].copy_out(self.at[program] + offset as u64, &[value]).await.unwrap();
    }

    async fn peek(&self, program: usize, offset: usize) -> u8 {
        let mut byte = [0];
        self.spaces[program].copy_in(self.at[program] + offset as u64, &mut byte).await.unwrap();
        byte[0]
    }

    /// Reads past the cache into a program's mapping, as a read with O_DIRECT does.
    async fn read_direct(&self, program: usize, from: usize, to: usize, bytes: usize) {
        let (space, mut lent) = (&self.spaces[program], Vec::new());
        space.lend(self.at[program] + to as u64, bytes, Access::Write, &mut lent).await.unwrap();
        let into = lent.iter().map(|piece| piece.view.clone()).collect();
        assert_eq!(self.client.read_direct(self.node, from as u64, into).await, Ok(bytes));
        assert_eq!(space.land(&lent, bytes).await, Ok(bytes));
    }

    /// Writes past the cache from a program's mapping.
    async fn write_direct(&self, program: usize, from: usize, to: usize, bytes: usize) {
        let mut lent = Vec::new();
        self.spaces[program].lend(self.at[program] + from as u64, bytes, Access::Read, &mut lent).await.unwrap();
        let from = lent.iter().map(|piece| piece.view.clone()).collect();
        assert_eq!(self.client.write_direct(self.node, to as u64, from).await, Ok(bytes));
    }

    /// Returns the file as a crash now would leave it.
    async fn after_crash(&self, random: &mut Random) -> Vec<u8> {
        let mut image = self.disk.crash_image(random);
        e2fsck(&mut image, &["-fy"]);
        let (disk, _, client) = mount(image).await;
        let root = client.root().await.unwrap();
        let node = client.lookup(root, b"f".to_vec()).await.unwrap().node;
        let contents = read_all(&client, node).await.unwrap();
        disk.discard();
        contents
    }
}

async fn new_file(client: &Client, name: &str) -> NodeId {
    let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 1, group: 1, target: Vec::new(), device: 0 };
    client.create(client.root().await.unwrap(), name.into(), new).await.unwrap().node
}

/// Maps the file, shared and writable, into a new program.
async fn map(client: &Client, node: NodeId, size: &Arc<MappedSize>) -> (Arc<AddressSpace>, u64) {
    let space = AddressSpace::new(&LocalFlush, LIMITS, ActivityId(1)).unwrap();
    let file = MappedFile::new(*client, node, size.clone(), b"/f".to_vec(), None, None);
    let request = MapRequest {
        place: Place::Anywhere(0),
        bytes: (PAGES * PAGE) as u64,
        rights: Rights::READ | Rights::WRITE,
        rights_max: Rights::all(),
        options: Options::SHARED,
        provider: Provider::File(file),
        first_index: PageIndex::FIRST,
    };
    let at = space.map(request).await.unwrap();
    (space, at)
}

#[test]
fn a_write_after_a_write_back_reaches_the_disk_with_the_next_sync() {
    block_on(async {
        let world = World::new(4096).await;
        for value in 1..=3 {
            world.poke(0, 5 * PAGE, value).await;
            world.poke(1, 6 * PAGE, value).await;
            world.client.sync(world.node).await.unwrap();
            assert!(world.cache.is_clean());
            let file = world.after_crash(&mut Random(u64::from(value))).await;
            assert_eq!((file[5 * PAGE], file[6 * PAGE]), (value, value));
        }
        let asked = world.programs.asked.load(Ordering::Relaxed);
        let other = new_file(&world.client, "g").await;
        world.client.write(other, 0, views_of(&[1])).await.unwrap();
        world.client.sync(other).await.unwrap();
        assert_eq!(world.programs.asked.load(Ordering::Relaxed), asked, "no program shows that file");
    });
}

#[test]
fn pages_that_were_written_go_once_they_are_not_used_and_come_back_as_they_were() {
    block_on(async {
        let world = World::new(4096).await;
        for page in 0..PAGES {
            world.poke(page % 2, page * PAGE, page as u8 + 1).await;
            assert_eq!(world.peek((page + 1) % 2, page * PAGE).await, page as u8 + 1);
        }
        let all = (PAGES * PAGE) as u64;
        let first = world.spaces[0].give_back(all, Effort::Thorough).await;
        assert_eq!(first, GivenBack { hidden_bytes: all, free_bytes: 0 }, "the other one shows them");
        let last = world.spaces[1].give_back(all, Effort::Thorough).await;
        assert_eq!(last, GivenBack { hidden_bytes: all, free_bytes: all }, "a page that two show leaves both");
        assert!(world.cache.is_clean() && world.cache.usage().iter().all(|usage| usage.held < PAGES));
        for page in 0..PAGES {
            assert_eq!(world.peek(0, page * PAGE).await, page as u8 + 1);
        }
    });
}

#[test]
fn a_file_tells_which_of_its_pages_are_in_memory() {
    block_on(async {
        let world = World::new(4096).await;
        let cached = async |first, pages| world.client.cached(world.node, first, pages).await.unwrap();
        assert_eq!(cached(0, PAGES + 2).await, [&[1; PAGES][..], &[0, 0]].concat());
        world.client.sync(world.node).await.unwrap();
        world.client.evict(world.node, 0, 0).await.unwrap();
        assert_eq!(cached(0, PAGES).await, [0; PAGES]);
        world.spaces[0].set_options(world.at[0], (PAGES * PAGE) as u64, Options::RANDOM, Options::empty()).unwrap();
        world.poke(0, 3 * PAGE, 1).await;
        world.client.sync(world.node).await.unwrap();
        world.client.evict(world.node, 0, 0).await.unwrap();
        assert_eq!(cached(2, 3).await, [0, 1, 0], "a program shows it");
        assert_eq!((cached(u64::MAX, 2).await, cached(0, usize::MAX).await.len()), (vec![0, 0], CACHED_PAGES_MAX));
    });
}

#[test]
fn pages_that_the_disk_does_not_take_go_and_their_loss_is_told_to_each_once() {
    block_on(async {
        let world = World::new(4096).await;
        world.client.sync(world.node).await.unwrap();
        for page in 0..PAGES {
            world.poke(0, page * PAGE, page as u8 + 1).await;
        }
        let requests = world.disk.0.lock().requests;
        world.disk.0.lock().fail_at = Some((requests + 1, 1000));
        let all = (PAGES * PAGE) as u64;
        let given = world.spaces[0].give_back(all, Effort::Thorough).await;
        assert_eq!(
            given,
            GivenBack { hidden_bytes: all, free_bytes: all },
            "memory is not kept for what cannot be kept"
        );
        assert!(world.cache.is_clean());
        world.disk.0.lock().fail_at = None;
        assert_eq!(world.client.attributes(world.node).await.unwrap().losses, 0);
        assert_eq!(world.client.sync(world.node).await, Err(FileError::Io));
        assert_eq!(world.client.sync(world.node).await, Ok(()));
        assert_eq!(world.client.attributes(world.node).await.unwrap().losses, 1, "by this others see it");
        // From here on the file is as it was, and as it will be written.
        assert_eq!(world.peek(1, 5 * PAGE).await, 0);
        world.poke(1, 5 * PAGE, 77).await;
        world.client.sync(world.node).await.unwrap();
        assert_eq!(world.after_crash(&mut Random(1)).await[5 * PAGE], 77);
    });
}

#[test]
fn pages_that_a_program_does_not_need_go_at_once_or_first() {
    block_on(async {
        let world = World::new(4096).await;
        let (space, at) = (&world.spaces[0], world.at[0]);
        for page in 0..PAGES {
            world.poke(0, page * PAGE, page as u8 + 1).await;
        }
        let bytes = |pages: usize| (pages * PAGE) as u64;
        let shown = || space.residency(at, bytes(PAGES)).unwrap().pages.into_iter().filter(|page| *page == 1).count();
        space.give_up(at, bytes(8), Unneeded::Later).await.unwrap();
        assert_eq!(shown(), PAGES, "there is room for all");
        space.give_up(at + bytes(8), bytes(8), Unneeded::Now).await.unwrap();
        assert_eq!(shown(), PAGES - 8);
        assert_eq!(
            world.cache.usage().iter().map(|usage| usage.dirty).sum::<usize>(),
            PAGES - 8,
            "those are on the disk"
        );
        space.set_options(at, bytes(1), Options::LOCKED, Options::empty()).unwrap();
        assert_eq!(space.give_up(at, bytes(2), Unneeded::Now).await, Err(SpaceError::Invalid));
        assert_eq!(space.give_up(at, bytes(2 * PAGES), Unneeded::Now).await, Err(SpaceError::Invalid));
        let rest = space.give_up(at + bytes(16), bytes(2 * PAGES), Unneeded::Now).await;
        assert_eq!((rest, shown()), (Err(SpaceError::NotMapped), 8), "what is mapped is done");
        for page in 0..PAGES {
            assert_eq!(world.peek(0, page * PAGE).await, page as u8 + 1);
        }
    });
}

#[test]
fn who_writes_through_a_mapping_waits_for_the_disk_as_who_writes_by_calls() {
    block_on(async {
        // A quarter of the cache may be dirty.
        let world = World::new(32).await;
        for round in 0..4 {
            for page in 0..PAGES {
                world.poke(0, page * PAGE, round).await;
                let dirty = world.cache.usage().iter().map(|usage| usage.dirty).sum::<usize>();
                assert!(dirty <= 9, "{dirty} pages are dirty");
                if page % 5 == 4 {
                    world.spaces[0].give_back((2 * PAGE) as u64, Effort::Usual).await;
                }
            }
        }
    });
}

#[test]
fn what_a_device_reads_into_a_mapping_is_dirty_and_what_it_writes_from_one_is_there() {
    block_on(async {
        let world = World::new(4096).await;
        for page in 0..PAGES {
            world.poke(0, page * PAGE, page as u8 + 1).await;
        }
        world.client.sync(world.node).await.unwrap();
        world.client.evict(world.node, 0, 0).await.unwrap();
        let all = (PAGES * PAGE) as u64;
        for hidden in [false, true] {
            if hidden {
                world.spaces[0].give_back(all, Effort::Thorough).await;
                world.spaces[1].give_back(all, Effort::Thorough).await;
            }
            world.read_direct(0, 3 * PAGE, 9 * PAGE, 2 * PAGE).await;
            assert!(!world.cache.is_clean(), "the device has written to the mapping");
            assert_eq!((world.peek(1, 9 * PAGE).await, world.peek(1, 10 * PAGE).await), (4, 5));
            world.write_direct(1, 10 * PAGE, 15 * PAGE, PAGE).await;
            // A page from itself, and to itself.
            world.read_direct(0, 5 * PAGE, 5 * PAGE, PAGE).await;
            world.write_direct(0, 6 * PAGE, 6 * PAGE, PAGE).await;
            world.client.sync(world.node).await.unwrap();
            let file = world.after_crash(&mut Random(1)).await;
            assert_eq!([9, 10, 15, 5, 6].map(|page| file[page * PAGE]), [4, 5, 5, 6, 7]);
            world.poke(1, 9 * PAGE, 10).await;
            world.poke(1, 15 * PAGE, 16).await;
            world.client.sync(world.node).await.unwrap();
            let file = world.after_crash(&mut Random(2)).await;
            assert_eq!([9, 15].map(|page| file[page * PAGE]), [10, 16], "a later write is told again");
        }
    });
}

#[test]
fn whatever_is_written_and_synced_stays_beside_write_backs_at_any_moment() {
    for seed in 0..seeds(6) {
        block_on(async {
            let (world, mut random) = (World::new(4096).await, Random(seed));
            let world: &'static World = Box::leak(Box::new(world));
            world.disk.0.lock().latency_ns = 2_000;
            // Writes back beside, at its own moments.
            spawn(async move {
                let mut random = Random(seed ^ 77);
                for _ in 0..60 {
                    sleep_ns(random.below(4_000) as u64).await;
                    let at = random.below(PAGES) * PAGE;
                    world.client.write_back(world.node, at as u64, (4 * PAGE) as u64).await.unwrap();
                }
            });
            let mut model = vec![0; PAGES * PAGE];
            for step in 0..120 {
                let (offset, value) = (random.below(model.len()), random.below(256) as u8);
                match random.below(10) {
                    0 => {
                        world.client.sync(world.node).await.unwrap();
                        let file = world.after_crash(&mut random).await;
                        let wrong = file.iter().zip(&model).position(|(found, wanted)| found != wanted);
                        assert_eq!((file.len(), wrong), (model.len(), None), "seed {seed}, step {step}");
                    }
                    1 => drop(world.spaces[random.below(2)].give_back(3 * PAGE as u64, Effort::Usual).await),
                    2 => drop(world.client.evict(world.node, 0, 0).await.unwrap()),
                    3 => sleep_ns(random.below(3_000) as u64).await,
                    4 | 5 => {
                        let sectors = 1 + random.below(20);
                        let mut at = || random.below(PAGES * PAGE / 512 - sectors) * 512;
                        let (from, to, bytes) = (at(), at(), sectors * 512);
                        match value % 2 {
                            0 => world.read_direct(random.below(2), from, to, bytes).await,
                            _ => world.write_direct(random.below(2), from, to, bytes).await,
                        }
                        model.copy_within(from..from + bytes, to);
                    }
                    _ => {
                        world.poke(random.below(2), offset, value).await;
                        model[offset] = value;
                    }
                }
                let seen = world.peek(random.below(2), offset).await;
                assert_eq!(seen, model[offset], "seed {seed}, step {step}");
            }
        });
    }
}
