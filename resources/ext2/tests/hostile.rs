//! Damaged and hostile images: errors, never a panic, never without end.
mod support;

use gyre_interface::files::files::Server;
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use gyre_message::wait::Either;
use gyre_message::{select, sleep_ns};
use support::*;

fn base_image(shape: &[&str]) -> Vec<u8> {
    let root = temporary("hostile-tree");
    std::fs::create_dir_all(root.join("a/b/c")).unwrap();
    std::fs::write(root.join("a/file"), vec![1; 100_000]).unwrap();
    std::fs::write(root.join("a/b/large"), vec![2; 600_000]).unwrap();
    for number in 0..40 {
        std::fs::write(root.join(format!("a/b/c/name{number}")), b"x").unwrap();
    }
    std::os::unix::fs::symlink("z".repeat(200), root.join("slow")).unwrap();
    let path = root.to_str().unwrap().to_owned();
    let image = make_image(1024, &[shape, &["-N", "64", "-d", &path]].concat());
    std::fs::remove_dir_all(root).unwrap();
    with_attributes(image)
}

/// Attributes in an inode or in a block, as debugfs writes them.
fn with_attributes(image: Vec<u8>) -> Vec<u8> {
    let path = temporary("hostile-attributes");
    std::fs::write(&path, image).unwrap();
    for value in ["short", &"long".repeat(100)] {
        let request = format!("ea_set a/file user.{} {value}", value.len());
        let done = std::process::Command::new("debugfs").args(["-w", "-R", &request]).arg(&path).output().unwrap();
        assert!(done.status.success());
    }
    let image = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    image
}

/// Walks and changes everything that can be reached, whatever comes of it; how many nodes answered.
async fn exercise(fs: &'static gyre_ext2::Ext2) -> usize {
    let Ok(root) = fs.root().await else { return 0 };
    let (mut queue, mut seen, mut answers) = (vec![root], std::collections::BTreeSet::new(), 0);
    while let Some(directory) = queue.pop() {
        if !seen.insert(directory) || seen.len() > 100 {
            continue;
        }
        let mut from = 0;
        for _ in 0..50 {
            let Ok(entries) = fs.read_directory(directory, from, 1000).await else { break };
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries {
                let Ok(found) = fs.lookup(directory, entry.name.clone()).await else { continue };
                answers += 1;
                for name in fs.list_extended(found.node).await.unwrap_or_default() {
                    _ = fs.extended(found.node, name).await;
                }
                match found.kind {
                    NodeKind::Directory => queue.push(found.node),
                    NodeKind::SymbolicLink => _ = fs.read_link(found.node).await,
                    NodeKind::File => {
                        _ = fs.read(found.node, 0, 1 << 20).await;
                        _ = fs.read(found.node, found.size_bytes.saturating_sub(10), 4096).await;
                        _ = fs.page(found.node, 70).await;
                        _ = fs.seek(found.node, 0, Sought::Hole).await;
                        _ = fs.seek(found.node, 20_000, Sought::Data).await;
                    }
                    _ => {}
                }
            }
        }
    }
    answers + change_everything(fs, root, seen.into_iter().collect()).await
}

async fn change_everything(fs: &'static gyre_ext2::Ext2, root: NodeId, directories: Vec<NodeId>) -> usize {
    let new = |kind| NewNode { kind, mode: 0o755, user: 0, group: 0, target: Vec::new(), device: 0 };
    for directory in directories {
        _ = fs.create(directory, b"made".to_vec(), new(NodeKind::File)).await;
        _ = fs.create(directory, b"made-dir".to_vec(), new(NodeKind::Directory)).await;
        for entry in fs.read_directory(directory, 0, 4000).await.unwrap_or_default() {
            let Ok(found) = fs.lookup(directory, entry.name.clone()).await else { continue };
            if entry.kind == NodeKind::File {
                _ = fs.write(found.node, 300_000, views_of(&[7; 3000])).await;
                _ = fs.punch(found.node, 5000, 100_000).await;
                _ = fs.allocate(found.node, 0, 20_000).await;
                let change = AttributeChange { size_bytes: Some(50), ..AttributeChange::default() };
                _ = fs.set_attributes(found.node, change).await;
            }
            _ = fs.set_extended(found.node, b"user.new".to_vec(), vec![3; 90], Presence::Any).await;
            _ = fs.rename(directory, entry.name.clone(), root, b"renamed".to_vec(), RenameMode::Exchange).await;
            _ = fs.rename(directory, entry.name.clone(), root, b"renamed".to_vec(), RenameMode::Replace).await;
            _ = fs.unlink(directory, entry.name.clone()).await;
            _ = fs.remove_directory(directory, entry.name).await;
        }
    }
    _ = fs.sync_all().await;
    _ = fs.unmount().await;
    0
}

fn survive(image: Vec<u8>, what: &str) -> usize {
    block_on(async {
        let disk = RamDisk::leak(image);
        let work = async {
            match mount_on(disk, new_cache(512)).await {
                Ok(fs) => exercise(fs).await,
                Err(_) => 0,
            }
        };
        let answers = match select(work, sleep_ns(600_000_000_000)).await {
            Either::First(answers) => answers,
            Either::Second(()) => panic!("{what}: no end"),
        };
        disk.discard();
        answers
    })
}

/// Byte ranges of an image that are metadata: where damage hurts.
fn metadata_bytes(image: &[u8]) -> Vec<usize> {
    (1024..image.len().min(64 * 1024))
        .chain((64 * 1024..image.len()).filter(|at| image[*at] != 0 && at % 7 == 0))
        .collect()
}

/// Damages images at random places of their metadata and works on them; answers how many were worth walking.
pub fn mutate(seed: u64, mutants: usize) -> usize {
    let mut random = Random(seed);
    let mut alive = 0;
    for shape in [&["-b", "1024"][..], &["-b", "4096"], &["-b", "2048", "-I", "256"]] {
        let image = base_image(shape);
        let places = metadata_bytes(&image);
        for number in 0..mutants / 3 {
            let mut mutant = image.clone();
            for _ in 0..1 + random.below(4) {
                let at = places[random.below(places.len())];
                mutant[at] = match random.below(3) {
                    0 => mutant[at] ^ 1 << random.below(8),
                    1 => random.next() as u8,
                    _ => [0, 0xff, 0x80, 1][random.below(4)],
                };
            }
            alive += usize::from(survive(mutant, &format!("seed {seed}, {shape:?}, mutant {number}")) > 10);
        }
    }
    alive
}

#[test]
fn thousands_of_damaged_images_do_no_harm() {
    let mutants = std::env::var("GYRE_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(600);
    let alive = mutate(11, mutants);
    assert!(alive > mutants / 4, "{alive} of {mutants} mutants were worth walking");
}

#[test]
fn single_fields_with_wild_values_are_refused_or_survived() {
    let image = base_image(&["-b", "1024"]);
    // The superblock, the first descriptor, the root's inode and its first block.
    let inode_table = u32::from_le_bytes(image[2048 + 8..2048 + 12].try_into().unwrap()) as usize * 1024;
    let size = usize::from(u16::from_le_bytes(image[1024 + 88..1024 + 90].try_into().unwrap()));
    let root = inode_table + size;
    let ranges = [(1024, 104), (2048, 32), (root, 128), (inode_table + 11 * size, 128)];
    for (start, bytes) in ranges {
        for at in (start..start + bytes).step_by(4) {
            for value in [0_u32, 1, 31, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                let mut mutant = image.clone();
                mutant[at..at + 4].copy_from_slice(&value.to_le_bytes());
                survive(mutant, &format!("{value:#x} at {at}"));
            }
        }
    }
}

#[test]
fn pointers_in_circles_end() {
    let image = base_image(&["-b", "1024"]);
    let inode_table = u32::from_le_bytes(image[2048 + 8..2048 + 12].try_into().unwrap()) as usize * 1024;
    let size = usize::from(u16::from_le_bytes(image[1024 + 88..1024 + 90].try_into().unwrap()));
    for inode in 11..64 {
        let at = inode_table + (inode - 1) * size;
        let block = u32::from_le_bytes(image[at + 40..at + 44].try_into().unwrap());
        if block == 0 || block > 1000 || image[at + 1] >> 4 != 8 {
            continue;
        }
        let mut mutant = image.clone();
        // A block full of pointers to itself, as the single, double and triple indirect block of a file of 16 GB.
        let start = block as usize * 1024;
        mutant[start..start + 1024].chunks_mut(4).for_each(|pointer| pointer.copy_from_slice(&block.to_le_bytes()));
        for slot in 12..15 {
            mutant[at + 40 + slot * 4..at + 44 + slot * 4].copy_from_slice(&block.to_le_bytes());
        }
        mutant[at + 4..at + 8].copy_from_slice(&u32::MAX.to_le_bytes());
        mutant[at + 108..at + 112].copy_from_slice(&3_u32.to_le_bytes());
        survive(mutant, &format!("inode {inode}"));
    }
}

#[test]
fn a_disk_that_fails_at_any_request_costs_an_error_and_nothing_hangs() {
    let image = base_image(&["-b", "1024"]);
    for at in (1..400).step_by(7) {
        for count in [1, 1_000_000] {
            block_on(async {
                let disk = RamDisk::leak(image.clone());
                disk.0.lock().fail_at = Some((at, count));
                let work = async {
                    if let Ok(fs) = mount_on(disk, new_cache(512)).await {
                        exercise(fs).await;
                    }
                };
                match select(work, sleep_ns(600_000_000_000)).await {
                    Either::First(()) => {}
                    Either::Second(()) => panic!("failing at {at}: no end"),
                }
            });
        }
    }
}
