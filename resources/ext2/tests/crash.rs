//! The machine stops at any moment: e2fsck repairs the image, what was synced is there, renames are old or new, and no file shows
//! what another one held.
mod support;

use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use support::*;

type Path = (usize, String);

/// One of these paths leads to one of these contents.
#[derive(Clone, Debug)]
struct Expectation {
    paths: Vec<Path>,
    fills: Vec<(u8, usize)>,
}

#[derive(Default)]
struct World {
    expectations: Vec<Expectation>,
    /// Bytes that a file of this name may show, besides 0.
    fills: BTreeMap<String, BTreeSet<u8>>,
    files: BTreeMap<Path, (u8, usize)>,
}

/// What is done, and with names of which length.
#[derive(Clone, Copy)]
pub struct Style {
    name_bytes: usize,
    /// Operations as `work` counts them: each is as likely as it is named.
    operations: &'static [u8],
    /// The largest file, as a part of the device.
    file_of_device: usize,
}

/// Everything, with short names.
pub const ALL: Style =
    Style { name_bytes: 0, operations: &[0, 0, 0, 0, 4, 4, 6, 6, 8, 8, 10, 11], file_of_device: 150 };
/// Names that move and take each other's place, long ones: most in another sector than where they come from.
pub const MOVES: Style = Style { name_bytes: 90, operations: &[0, 6, 8, 8, 11], file_of_device: 150 };

const DIRECTORIES: usize = 5;

fn new(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o755, user: 0, group: 0, target: Vec::new(), device: 0 }
}

async fn make(client: &Client, directory: NodeId, name: &str, fill: u8, bytes: usize) -> NodeId {
    let node = client.create(directory, name.into(), new(NodeKind::File)).await.unwrap().node;
    client.write(node, 0, views_of(&vec![fill; bytes])).await.unwrap();
    node
}

async fn work(
    client: &Client,
    directories: &[NodeId],
    world: &RefCell<World>,
    random: &mut Random,
    (number, bytes_max): (usize, usize),
    style: Style,
) {
    let name_of = |kind: &str, number: usize| format!("{kind}{number}{}", "_".repeat(style.name_bytes));
    let d = random.below(DIRECTORIES);
    let (fill, bytes) = (1 + (number % 255) as u8, 1 + random.below(bytes_max));
    let existing = {
        let world = world.borrow();
        let count = world.files.len();
        world.files.iter().nth(random.below(count)).map(|(path, what)| (path.clone(), *what))
    };
    match style.operations[random.below(style.operations.len())] {
        0 => {
            let name = name_of("f", number);
            world.borrow_mut().fills.entry(name.clone()).or_default().insert(fill);
            let node = make(client, directories[d], &name, fill, bytes).await;
            client.sync(node).await.unwrap();
            let path = (d, name);
            world.borrow_mut().expectations.push(Expectation { paths: vec![path.clone()], fills: vec![(fill, bytes)] });
            world.borrow_mut().files.insert(path, (fill, bytes));
        }
        4 => {
            let name = name_of("junk", number % 7);
            world.borrow_mut().fills.entry(name.clone()).or_default().insert(fill);
            if client.unlink(directories[d], name.clone().into()).await.is_err() {
                make(client, directories[d], &name, fill, bytes).await;
            }
        }
        6 => {
            let Some((path, what)) = existing else { return };
            let target = (d, name_of("m", number));
            {
                let mut world = world.borrow_mut();
                let fills: BTreeSet<u8> = world.fills[&path.1].clone();
                world.fills.insert(target.1.clone(), fills);
                let of = |expectation: &&mut Expectation| expectation.paths.last() == Some(&path);
                world.expectations.iter_mut().filter(of).for_each(|expectation| expectation.paths.push(target.clone()));
            }
            client
                .rename(
                    directories[path.0],
                    path.1.clone().into(),
                    directories[d],
                    target.1.clone().into(),
                    RenameMode::Replace,
                )
                .await
                .unwrap();
            let mut world = world.borrow_mut();
            world.files.remove(&path);
            world.files.insert(target, what);
        }
        8 => {
            // A safe save: a new file takes the place of a synced one.
            let Some((path, old)) = existing else { return };
            let temporary = (path.0, name_of("t", number));
            {
                let mut world = world.borrow_mut();
                world.fills.entry(temporary.1.clone()).or_default().insert(fill);
                world.fills.get_mut(&path.1).unwrap().insert(fill);
            }
            let node = make(client, directories[path.0], &temporary.1, fill, bytes).await;
            client.sync(node).await.unwrap();
            {
                let mut world = world.borrow_mut();
                world
                    .expectations
                    .push(Expectation { paths: vec![temporary.clone(), path.clone()], fills: vec![(fill, bytes)] });
                // Whatever leads to the old file may lead to the new one from now on.
                let of = |expectation: &&mut Expectation| {
                    expectation.fills.contains(&old) && expectation.paths.contains(&path)
                };
                world.expectations.iter_mut().filter(of).for_each(|expectation| expectation.fills.push((fill, bytes)));
            }
            client
                .rename(
                    directories[path.0],
                    temporary.1.into(),
                    directories[path.0],
                    path.1.clone().into(),
                    RenameMode::Replace,
                )
                .await
                .unwrap();
            world.borrow_mut().files.insert(path, (fill, bytes));
        }
        10 => {
            let Some((path, _)) = existing else { return };
            {
                let mut world = world.borrow_mut();
                world.expectations.retain(|expectation| !expectation.paths.contains(&path));
                world.files.remove(&path);
            }
            client.unlink(directories[path.0], path.1.into()).await.unwrap();
        }
        _ => {
            client.sync_all().await.unwrap();
            let mut world = world.borrow_mut();
            let World { expectations, files, .. } = &mut *world;
            *expectations = files
                .iter()
                .map(|(path, what)| Expectation { paths: vec![path.clone()], fills: vec![*what] })
                .collect();
        }
    }
}

async fn check(image: Vec<u8>, expectations: Vec<Expectation>, fills: &BTreeMap<String, BTreeSet<u8>>, what: &str) {
    let mut image = image;
    let (code, words) = e2fsck(&mut image, &["-fy"]);
    assert!(code <= 1, "{what}: e2fsck -fy says {code}: {words}");
    if code != 0 {
        assert_clean(image.clone());
    }
    let (disk, _, client) = mount(image).await;
    let root = client.root().await.unwrap();
    let mut found: BTreeMap<Path, Vec<u8>> = BTreeMap::new();
    for d in 0..DIRECTORIES {
        let directory = client.lookup(root, format!("d{d}").into_bytes()).await.expect(what).node;
        for entry in client.read_directory(directory, 0, usize::MAX).await.unwrap() {
            let name = String::from_utf8(entry.name.clone()).unwrap();
            if entry.kind == NodeKind::File {
                let node = client.lookup(directory, entry.name).await.unwrap().node;
                let data = read_all(&client, node).await.unwrap();
                let allowed = &fills[&name];
                assert!(
                    data.iter().all(|byte| *byte == 0 || allowed.contains(byte)),
                    "{what}: {name} shows what another file held"
                );
                found.insert((d, name), data);
            }
        }
    }
    for expectation in expectations {
        let is_there = expectation.paths.iter().filter_map(|path| found.get(path)).any(|data| {
            expectation.fills.iter().any(|(fill, bytes)| data.len() == *bytes && data.iter().all(|byte| byte == fill))
        });
        assert!(is_there, "{what}: lost {expectation:?}\n{words}");
    }
    disk.discard();
}

/// Works until the machine has stopped `crashes` times, and checks what each left. Answers the operations that were done.
pub fn run(seed: u64, image: &[u8], crashes: usize, style: Style) -> usize {
    block_on(async {
        let disk = RamDisk::leak(image.to_vec());
        let file_system = mount_on(disk, new_cache(1024)).await.unwrap();
        spawn(file_system.maintain());
        let client = client_of(file_system);
        let root = client.root().await.unwrap();
        let mut directories = Vec::new();
        for d in 0..DIRECTORIES {
            let name = format!("d{d}").into_bytes();
            let found = match client.create(root, name.clone(), new(NodeKind::Directory)).await {
                Err(FileError::Exists) => client.lookup(root, name).await,
                made => made,
            };
            directories.push(found.unwrap().node);
        }
        client.sync_all().await.unwrap();
        let world = Rc::new(RefCell::new(World::default()));
        let images = Rc::new(RefCell::new(Vec::new()));
        let (watched, taken) = (world.clone(), images.clone());
        spawn(async move {
            let mut random = Random(seed ^ 0xc4a5);
            while taken.borrow().len() < crashes {
                sleep_ns(random.next() % (150_000 * (25 / crashes as u64).max(1))).await;
                let image = disk.crash_image(&mut random);
                taken.borrow_mut().push((image, watched.borrow().expectations.clone()));
            }
        });
        let mut random = Random(seed);
        let mut number = 0;
        while images.borrow().len() < crashes {
            work(&client, &directories, &world, &mut random, (number, image.len() / style.file_of_device), style).await;
            number += 1;
        }
        let fills = world.borrow().fills.clone();
        for (index, (image, expectations)) in images.take().into_iter().enumerate() {
            check(image, expectations, &fills, &format!("seed {seed}, crash {index}")).await;
        }
        disk.discard();
        number
    })
}

/// The file systems that are worked on, by mke2fs. The directories of the second one are by mke2fs too.
pub fn images(kib: usize) -> [Vec<u8>; 2] {
    let tree = temporary("tree");
    (0..DIRECTORIES).for_each(|d| std::fs::create_dir_all(tree.join(format!("d{d}"))).unwrap());
    let second = make_image(kib, &["-b", "4096", "-I", "256", "-d", tree.to_str().unwrap()]);
    std::fs::remove_dir_all(tree).unwrap();
    [make_image(kib, &["-b", "1024"]), second]
}

fn seeds(usual: u64) -> u64 {
    std::env::var("GYRE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

#[test]
fn whatever_was_synced_survives_a_crash_at_any_moment() {
    let images = images(6 * 1024);
    for seed in 0..seeds(2) {
        assert!(run(seed, &images[seed as usize % 2], 25, ALL) > 20);
    }
}

#[test]
fn a_name_that_moves_is_old_or_new_whichever_sectors_of_its_block_got_to_the_disk() {
    let images = images(4 * 1024);
    for seed in 0..seeds(8) {
        run(seed, &images[seed as usize % 2], 25, MOVES);
    }
}
