//! The machine stops at any time: e2fsck repairs the image, synced data is there, names that move are old or new,
//! contents that were not synced are old or new sector by sector, and no file shows another one's bytes.
#![allow(missing_docs, reason = "an example shares what is public here")]

mod cell;
mod check;
mod node;
mod style;
mod work;
mod world;

use crate::support::*;
pub use check::Compared;
use gyre_account::{ActivityId, set_current_activity};
use gyre_interface::files::files::Client;
use gyre_interface::files::{NewNode, NodeId, NodeKind};
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
pub use style::{ALL, CONTENTS, FILES, MOVES, Operation, STYLES, Style};
use work::{DIRECTORIES, OWNERS, Site, Worker};
use world::World;

/// The work of one machine until it had stopped often enough.
#[derive(Default)]
pub struct Outcome {
    pub operations: BTreeMap<Operation, u64>,
    pub compared: Vec<Compared>,
    /// Sectors that were written and not flushed when it stopped, and those of them that got to the disk.
    pub sectors_at_risk: u64,
    pub sectors_kept: u64,
}

/// The disk at a crash, and the world that it must hold for each worker.
struct Crash {
    image: Vec<u8>,
    worlds: Vec<World>,
    sectors: (u64, u64),
}

/// Works, with several workers, until the machine has stopped `crashes` times, and checks each crash.
pub fn run(seed: u64, image: &[u8], crashes: usize, style: Style, workers: usize) -> Outcome {
    block_on(async {
        let disk = RamDisk::leak(image.to_vec());
        let file_system = mount_on(disk, new_cache(1024)).await.unwrap();
        spawn(file_system.maintain());
        let client = client_of(file_system);
        let block_bytes = client.statistics().await.unwrap().block_bytes as usize;
        let bytes_max = image.len() / style.file_of_device;
        let (mut sites, mut begun) = (Vec::new(), Vec::new());
        for number in 0..workers {
            let site = site(&client, block_bytes, number, workers).await;
            sites.push(site.world.clone());
            let seed = seed ^ (number as u64) << 32;
            begun.push(Worker::begin(client, site, seed, (style, bytes_max), workers).await);
        }
        let taken = Rc::new(RefCell::new(Vec::new()));
        spawn(crash_often(disk, seed, crashes, sites, taken.clone()));
        let done = Rc::new(RefCell::new(Vec::new()));
        for (worker, number) in begun.into_iter().zip(1..) {
            let before = set_current_activity(ActivityId(number));
            spawn(work(worker, taken.clone(), crashes, done.clone()));
            set_current_activity(before);
        }
        while done.borrow().len() < workers {
            sleep_ns(1000).await;
        }
        disk.discard();
        let mut outcome = Outcome::default();
        for (operation, count) in done.take().into_iter().flat_map(|worker: Worker| worker.done) {
            *outcome.operations.entry(operation).or_default() += count;
        }
        for (index, crash) in taken.take().into_iter().enumerate() {
            let what = format!("seed {seed}, crash {index}");
            outcome.compared.push(check::check(crash.image, &crash.worlds, &what).await);
            outcome.sectors_at_risk += crash.sectors.0;
            outcome.sectors_kept += crash.sectors.1;
        }
        outcome
    })
}

/// Works until there were enough crashes.
async fn work(mut worker: Worker, taken: Rc<RefCell<Vec<Crash>>>, crashes: usize, done: Rc<RefCell<Vec<Worker>>>) {
    while taken.borrow().len() < crashes {
        worker.step().await;
    }
    worker.compare().await;
    done.borrow_mut().push(worker);
}

/// Returns the directory below which a worker works: the root for the only one.
async fn top(client: &Client, root: NodeId, number: usize, of: usize) -> NodeId {
    match of {
        1 => root,
        _ => client.lookup(root, format!("w{number}").into_bytes()).await.unwrap().node,
    }
}

/// Makes the site of a worker; its top is durable.
async fn site(client: &Client, block_bytes: usize, number: usize, of: usize) -> Site {
    let (root, first_owner) = (client.root().await.unwrap(), number as u32 * OWNERS);
    if of > 1 {
        let name = format!("w{number}").into_bytes();
        let made = client.create(root, name, work::new(NodeKind::Directory, first_owner, b"")).await.unwrap();
        client.sync(made.node).await.unwrap();
    }
    let world = Rc::new(RefCell::new(World::new(block_bytes)));
    Site { world, top: top(client, root, number, of).await, first_owner }
}

async fn crash_often(
    disk: &'static RamDisk,
    seed: u64,
    crashes: usize,
    worlds: Vec<Rc<RefCell<World>>>,
    taken: Rc<RefCell<Vec<Crash>>>,
) {
    let mut random = Random(seed ^ 0xc4a5);
    while taken.borrow().len() < crashes {
        sleep_ns(random.next() % (150_000 * (25 / crashes as u64).max(1))).await;
        let image = disk.crash_image(&mut random);
        let worlds = worlds.iter().map(|world| world.borrow().clone()).collect();
        let crash = Crash { sectors: disk.sectors_at_risk(&image), image, worlds };
        taken.borrow_mut().push(crash);
    }
}

/// Returns the file systems that are worked on, by mke2fs. The directories of the second one are by mke2fs too.
pub fn images(kib: usize) -> [Vec<u8>; 2] {
    let tree = temporary("tree");
    (0..DIRECTORIES).for_each(|d| std::fs::create_dir_all(tree.join(format!("d{d}"))).unwrap());
    let second = make_image(kib, &["-b", "4096", "-I", "256", "-d", tree.to_str().unwrap()]);
    std::fs::remove_dir_all(tree).unwrap();
    [make_image(kib, &["-b", "1024"]), second]
}

fn crash_seeds(seeds: u64, kib: usize, style: Style) {
    let images = images(kib);
    for seed in 0..seeds {
        let outcome = run(seed, &images[seed as usize % 2], 25, style, 1 + seed as usize % 3);
        assert!(outcome.operations.values().sum::<u64>() > 20);
    }
}

#[test]
fn whatever_was_synced_survives_a_crash_at_any_moment() {
    crash_seeds(seeds(2), 6 * 1024, FILES);
    crash_seeds(seeds(2), 2 * 1024, ALL);
}

#[test]
fn a_name_that_moves_is_old_or_new_whichever_sectors_of_its_block_got_to_the_disk() {
    crash_seeds(seeds(8), 4 * 1024, MOVES);
}

#[test]
fn a_file_that_is_removed_before_its_new_blocks_were_written_shows_nobody_elses() {
    block_on(async {
        let (disk, _, client) = mount(make_image(512, &["-b", "1024"])).await;
        let root = client.root().await.unwrap();
        let new = || NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 };
        let node = client.create(root, b"kept".to_vec(), new()).await.unwrap().node;
        client.write(node, 0, views_of(&[1; 20_000])).await.unwrap();
        let other = client.create(root, b"secret".to_vec(), new()).await.unwrap().node;
        client.write(other, 0, views_of(&[0xee; 60_000])).await.unwrap();
        client.sync_all().await.unwrap();
        client.unlink(root, b"secret".to_vec()).await.unwrap();
        client.sync_all().await.unwrap();
        // Blocks that the other one had, on the way to the disk with pointers that it knows.
        client.append(node, views_of(&[2; 40_000])).await.unwrap();
        client.unlink(root, b"kept".to_vec()).await.unwrap();
        let before = disk.0.lock().requests;
        let images = Rc::new(RefCell::new(Vec::new()));
        let taken = images.clone();
        spawn(async move {
            while disk.0.lock().requests < before + 30 {
                sleep_ns(500).await;
                taken.borrow_mut().push(disk.image());
            }
        });
        client.sync_all().await.unwrap();
        assert!(images.borrow().len() > 5);
        for image in images.take() {
            assert_shows_nothing_else(image, &[0, 1, 2]).await;
        }
    });
}

/// Checks that the file, if it is there, has no other bytes than these.
async fn assert_shows_nothing_else(mut image: Vec<u8>, bytes: &[u8]) {
    let (code, words) = e2fsck(&mut image, &["-fy"]);
    assert!(code <= 1, "{words}");
    let (disk, _, client) = mount(image).await;
    let root = client.root().await.unwrap();
    if let Ok(found) = client.lookup(root, b"kept".to_vec()).await {
        let data = read_all(&client, found.node).await.unwrap();
        assert!(data.iter().all(|byte| bytes.contains(byte)), "it shows what another file held");
    }
    disk.discard();
}

#[test]
fn contents_that_change_are_old_or_new_sector_by_sector() {
    crash_seeds(seeds(2), 2 * 1024, CONTENTS);
}
