//! The features that programs of a distribution expect beyond reading and writing: names exchanged, files without names, holes made and
//! filled, extended attributes, directories of any size.
//!
//! Images by mke2fs of three shapes, which differ in block and inode size, are mounted over the disk in memory of `support`. A client
//! works there, the file system is unmounted, and e2fsck and debugfs read the result.
//!
//! The tests hold that exchanged names lead where they must whatever they name, that a nameless file gets a name or is freed even after a
//! crash, that holes are found, filled and never show what was there before, that work on much space lets others go first, that
//! attributes stay with their node and those by other systems are read, and that a hundred thousand names in a directory are usable.
//!
//! The system calls that lead to these features are left out, and so is the speed of any of them but the last.

use crate::support::*;
use gyre_interface::files::files::{Client, Server};
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use std::process::Command;

fn new(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 }
}

async fn make(client: &Client, directory: NodeId, name: &str, kind: NodeKind) -> NodeId {
    client.create(directory, name.into(), new(kind)).await.unwrap().node
}

/// Returns debugfs's words about an image.
fn debugfs(image: &[u8], request: &str) -> String {
    let path = temporary("debugfs");
    std::fs::write(&path, image).unwrap();
    let output = Command::new("debugfs").args(["-R", request]).arg(&path).output().expect("debugfs runs");
    std::fs::remove_file(&path).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const SHAPES: [&[&str]; 3] = [&["-b", "1024", "-I", "128"], &["-b", "4096", "-I", "256"], &["-b", "2048", "-I", "256"]];

#[test]
fn names_are_exchanged_whatever_they_lead_to() {
    for shape in SHAPES {
        block_on(async {
            let (disk, fs, client) = mount(make_image(4096, shape)).await;
            let root = client.root().await.unwrap();
            let (a, b) = (
                make(&client, root, "a", NodeKind::Directory).await,
                make(&client, root, "b", NodeKind::Directory).await,
            );
            let file = make(&client, a, "file", NodeKind::File).await;
            let inner = make(&client, b, "inner", NodeKind::Directory).await;
            let rename = |from, name: &str, to, new: &str, mode| client.rename(from, name.into(), to, new.into(), mode);
            use RenameMode::{Exchange, Keep};
            assert_eq!(rename(a, "file", b, "inner", Keep).await, Err(FileError::Exists));
            assert_eq!(rename(a, "none", b, "inner", Keep).await, Err(FileError::NotFound));
            assert_eq!(rename(a, "file", b, "none", Exchange).await, Err(FileError::NotFound));
            assert_eq!(rename(root, "a", a, "file", Exchange).await, Err(FileError::Invalid));
            rename(a, "file", b, "inner", Exchange).await.unwrap();
            assert_eq!(client.lookup(a, b"file".to_vec()).await.unwrap().node, inner);
            assert_eq!(client.lookup(b, b"inner".to_vec()).await.unwrap().node, file);
            assert_eq!(client.lookup(inner, b"..".to_vec()).await.unwrap().node, a);
            assert_eq!(client.attributes(a).await.unwrap().links, 3);
            assert_eq!(client.attributes(b).await.unwrap().links, 2);
            client.sync_all().await.unwrap();
            rename(root, "a", root, "b", Exchange).await.unwrap();
            assert_eq!(client.lookup(root, b"b".to_vec()).await.unwrap().node, a);
            rename(b, "inner", b, "free", Keep).await.unwrap();
            fs.unmount().await.unwrap();
            assert_clean(disk.image());
        });
    }
}

#[test]
fn a_file_without_a_name_gets_one_or_is_freed() {
    block_on(async {
        let (disk, fs, client) = mount(make_image(4096, SHAPES[1])).await;
        let root = client.root().await.unwrap();
        let free = client.statistics().await.unwrap();
        let kept = client.create_nameless(root, new(NodeKind::File)).await.unwrap();
        let lost = client.create_nameless(root, new(NodeKind::File)).await.unwrap();
        assert_eq!((kept.links, lost.links), (0, 0));
        for node in [kept.node, lost.node] {
            client.write(node, 0, views_of(&[7; 100_000])).await.unwrap();
        }
        client.sync_all().await.unwrap();
        // A crash here: e2fsck gives everything back.
        let mut crashed = disk.image();
        assert!(e2fsck(&mut crashed, &["-fy"]).0 <= 1);
        assert_clean(crashed);
        client.link(kept.node, root, b"kept".to_vec()).await.unwrap();
        assert_eq!(client.attributes(kept.node).await.unwrap().links, 1);
        client.close(kept.node).await.unwrap();
        client.close(lost.node).await.unwrap();
        assert_eq!(client.link(lost.node, root, b"lost".to_vec()).await, Err(FileError::Stale));
        fs.unmount().await.unwrap();
        let image = disk.image();
        assert_clean(image.clone());
        let (_, _, client) = mount(image).await;
        let found = client.lookup(root, b"kept".to_vec()).await.unwrap();
        assert!(read_all(&client, found.node).await.unwrap() == [7; 100_000]);
        let now = client.statistics().await.unwrap();
        assert_eq!(free.nodes_free - now.nodes_free, 1);
    });
}

#[test]
fn nameless_files_that_are_still_open_at_the_end_leave_no_fault() {
    block_on(async {
        let (disk, fs, client) = mount(make_image(4096, SHAPES[0])).await;
        let root = client.root().await.unwrap();
        let open = client.create_nameless(root, new(NodeKind::File)).await.unwrap().node;
        client.write(open, 0, views_of(&[1; 50_000])).await.unwrap();
        let named = make(&client, root, "named", NodeKind::File).await;
        client.open(named).await.unwrap();
        client.write(named, 0, views_of(&[2; 50_000])).await.unwrap();
        client.unlink(root, b"named".to_vec()).await.unwrap();
        fs.unmount().await.unwrap();
        assert_clean(disk.image());
    });
}

#[test]
fn holes_are_made_filled_and_found() {
    for shape in SHAPES {
        block_on(async {
            let (disk, fs, client) = mount(make_image(16 * 1024, shape)).await;
            let root = client.root().await.unwrap();
            let file = make(&client, root, "file", NodeKind::File).await;
            let mut model = vec![0_u8; 3_000_000];
            let mut random = Random(shape.len() as u64 + 5);
            client.write(file, 0, views_of(&[9; 3_000_000])).await.unwrap();
            model.fill(9);
            for round in 0..60 {
                let (start, bytes) = (random.below(3_100_000), random.below(200_000) + 1);
                match random.below(4) {
                    0 => {
                        client.allocate(file, start as u64, bytes as u64).await.unwrap();
                        model.resize(model.len().max(start + bytes), 0);
                    }
                    1 => {
                        let bytes = bytes.min(20_000);
                        client.write(file, start as u64, views_of(&vec![round; bytes])).await.unwrap();
                        model.resize(model.len().max(start + bytes), 0);
                        model[start..start + bytes].fill(round);
                    }
                    _ => {
                        client.punch(file, start as u64, bytes as u64).await.unwrap();
                        let end = (start + bytes).min(model.len());
                        model.get_mut(start..end).into_iter().for_each(|part| part.fill(0));
                    }
                }
                if round % 20 == 0 {
                    client.sync(file).await.unwrap();
                }
                assert!(read_all(&client, file).await.unwrap() == model, "round {round}");
            }
            check_map(&client, file, &model).await;
            let before = client.attributes(file).await.unwrap().blocks_512;
            client.punch(file, 0, u64::MAX).await.unwrap();
            let attributes = client.attributes(file).await.unwrap();
            assert_eq!(attributes.size_bytes as usize, model.len());
            assert!(attributes.blocks_512 * 20 < before, "{} of {before} sectors are left", attributes.blocks_512);
            assert_eq!(client.seek(file, 0, Sought::Data).await, Err(FileError::NotFound));
            client.allocate(file, 100_000, 50_000).await.unwrap();
            fs.unmount().await.unwrap();
            let image = disk.image();
            assert_clean(image.clone());
            let (_, _, client) = mount(image).await;
            assert!(read_all(&client, file).await.unwrap().iter().all(|byte| *byte == 0));
        });
    }
}

/// Checks that holes by `seek` are zero, and that the walk from data to hole to data ends at the end.
async fn check_map(client: &Client, file: NodeId, model: &[u8]) {
    let (mut at, mut holes) = (0, 0);
    while at < model.len() as u64 {
        let data = client.seek(file, at, Sought::Data).await.unwrap_or(model.len() as u64);
        assert!(model[at as usize..data as usize].iter().all(|byte| *byte == 0));
        holes += u32::from(data > at);
        if data >= model.len() as u64 {
            break;
        }
        at = client.seek(file, data, Sought::Hole).await.unwrap();
        assert!(at > data);
    }
    assert!(holes > 0);
    assert_eq!(client.seek(file, model.len() as u64, Sought::Hole).await, Err(FileError::NotFound));
}

#[test]
fn freed_holes_never_show_what_was_there_before() {
    block_on(async {
        let (_, _, client) = mount(make_image(2048, SHAPES[0])).await;
        let root = client.root().await.unwrap();
        let secret = make(&client, root, "secret", NodeKind::File).await;
        client.write(secret, 0, views_of(&[0xaa; 900_000])).await.unwrap();
        client.sync_all().await.unwrap();
        client.punch(secret, 0, 900_000).await.unwrap();
        client.sync_all().await.unwrap();
        let file = make(&client, root, "file", NodeKind::File).await;
        client.allocate(file, 0, 800_000).await.unwrap();
        client.sync(file).await.unwrap();
        assert!(read_all(&client, file).await.unwrap() == vec![0; 800_000]);
    });
}

/// Waits for work; returns how often it let others go first.
async fn pauses(work: impl Future) -> u32 {
    let (mut work, mut pauses) = (std::pin::pin!(work), 0);
    let look = |context: &mut std::task::Context| {
        let poll = work.as_mut().poll(context).map(drop);
        pauses += u32::from(poll.is_pending());
        poll
    };
    std::future::poll_fn(look).await;
    pauses
}

#[test]
fn taking_and_giving_back_much_space_lets_others_go_first() {
    block_on(async {
        let (_, fs, client) = mount(make_image(8192, SHAPES[1])).await;
        let root = client.root().await.unwrap();
        let file = make(&client, root, "file", NodeKind::File).await;
        let mib = 1 << 20;
        assert!(pauses(Server::allocate(fs, file, 0, 4 * mib)).await >= 4 * 4 - 1, "4 MiB of 64 pages a turn");
        client.sync(file).await.unwrap();
        assert!(pauses(Server::punch(fs, file, 0, 4 * mib)).await >= 4 * 4 - 1);
        assert_eq!(client.attributes(file).await.unwrap().blocks_512, 8, "a block of pointers is left");
    });
}

#[test]
fn extended_attributes_stay_with_their_node_and_e2fsck_agrees() {
    for shape in SHAPES {
        block_on(async {
            let (disk, fs, client) = mount(make_image(4096, shape)).await;
            let root = client.root().await.unwrap();
            let file = make(&client, root, "file", NodeKind::File).await;
            client.write(file, 0, views_of(&[3; 5000])).await.unwrap();
            let set =
                |name: &str, bytes: usize, demand| client.set_extended(file, name.into(), vec![b'v'; bytes], demand);
            set("user.small", 10, Presence::Any).await.unwrap();
            set("security.selinux", 30, Presence::Absent).await.unwrap();
            set("user.large", 700, Presence::Any).await.unwrap();
            assert_eq!(set("user.small", 1, Presence::Absent).await, Err(FileError::Exists));
            assert_eq!(set("user.other", 1, Presence::Present).await, Err(FileError::NoAttribute));
            assert_eq!(set("user.huge", 70_000, Presence::Any).await, Err(FileError::TooMuch));
            assert_eq!(set("system.other", 1, Presence::Any).await, Err(FileError::Unsupported));
            assert_eq!(set("user.", 1, Presence::Any).await, Err(FileError::Invalid));
            client.sync_all().await.unwrap();
            assert_clean(without_state(disk.image()));
            set("user.small", 0, Presence::Present).await.unwrap();
            client.remove_extended(file, b"security.selinux".to_vec()).await.unwrap();
            assert_eq!(client.remove_extended(file, b"user.none".to_vec()).await, Err(FileError::NoAttribute));
            let directory = make(&client, root, "directory", NodeKind::Directory).await;
            client.set_extended(directory, b"trusted.overlay".to_vec(), b"y".to_vec(), Presence::Any).await.unwrap();
            let gone = make(&client, root, "gone", NodeKind::File).await;
            client.set_extended(gone, b"user.large".to_vec(), vec![1; 600], Presence::Any).await.unwrap();
            client.sync_all().await.unwrap();
            client.unlink(root, b"gone".to_vec()).await.unwrap();
            fs.unmount().await.unwrap();
            let image = disk.image();
            assert_clean(image.clone());
            let said = debugfs(&image, "ea_get -V file user.large");
            assert_eq!(said.trim(), "v".repeat(700), "debugfs: {said}");
            let (_, _, client) = mount(image).await;
            let mut names = client.list_extended(file).await.unwrap();
            names.sort();
            assert_eq!(names, [&b"user.large"[..], b"user.small"]);
            assert_eq!(client.extended(file, b"user.small".to_vec()).await.unwrap(), []);
            assert_eq!(client.extended(directory, b"trusted.overlay".to_vec()).await.unwrap(), b"y");
        });
    }
}

/// Returns the image as after an orderly end: the mark of use is no fault.
fn without_state(mut image: Vec<u8>) -> Vec<u8> {
    image[1024 + 58] |= 1;
    image
}

#[test]
fn attributes_by_other_systems_are_read() {
    let (image, text) = {
        let path = temporary("other");
        std::fs::write(&path, make_image(2048, SHAPES[1])).unwrap();
        for request in [
            "mkdir d",
            "ea_set d user.from debugfs",
            "ea_set d user.long 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
        ] {
            assert!(debugfs_writing(request, &path).output().unwrap().status.success());
        }
        let image = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        (image, "0123456789".repeat(10))
    };
    block_on(async {
        let (_, _, client) = mount(image).await;
        let root = client.root().await.unwrap();
        let node = client.lookup(root, b"d".to_vec()).await.unwrap().node;
        assert_eq!(client.extended(node, b"user.from".to_vec()).await.unwrap(), b"debugfs");
        assert_eq!(client.extended(node, b"user.long".to_vec()).await.unwrap(), text.as_bytes());
    });
}

#[test]
fn a_directory_of_a_hundred_thousand_names_is_usable() {
    block_on(async {
        let image = make_image(64 * 1024, &["-b", "4096", "-I", "128", "-N", "1024"]);
        let disk = RamDisk::leak(image);
        let fs = mount_on(disk, new_cache(8192)).await.unwrap();
        let client = client_of(fs);
        let root = client.root().await.unwrap();
        let directory = make(&client, root, "many", NodeKind::Directory).await;
        let mut files = Vec::new();
        for number in 0..4 {
            files.push(make(&client, root, &format!("file{number}"), NodeKind::File).await);
        }
        let count = 100_000;
        let computed = gyre_mutate::Computed::by_this_thread();
        let before = computed.so_far();
        for number in 0..count {
            let name = format!("name-{number:06}").into_bytes();
            client.link(files[number % 4], directory, name).await.unwrap();
        }
        for number in (0..count).step_by(7) {
            client.unlink(directory, format!("name-{number:06}").into_bytes()).await.unwrap();
        }
        for number in (0..count).step_by(3) {
            let found = client.lookup(directory, format!("name-{number:06}").into_bytes()).await;
            assert_eq!(found.is_ok(), number % 7 != 0);
        }
        // Linear searches would look at 10^10 entries here: hours.
        let used = computed.so_far() - before;
        assert!(used.as_secs() < 120, "{used:?}");
        let (mut listed, mut from) = (0, 0);
        loop {
            let entries = client.read_directory(directory, from, 30_000).await.unwrap();
            let Some(last) = entries.last() else { break };
            from = last.next;
            listed += entries.len();
        }
        assert_eq!(listed, count - count.div_ceil(7) + 2);
        fs.unmount().await.unwrap();
        assert_clean(disk.image());
    });
}
