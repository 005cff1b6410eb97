//! Work without a message: overwriting, and reading pages of read-ahead.

use crate::support::*;
use gyre_ext2::Ext2;
use gyre_interface::files::files::{Client, Server};
use gyre_interface::files::*;
use gyre_interface::near::{NEAR_BYTES_MAX, NEAR_PAGES_MAX, Near};
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use gyre_object::Page;

async fn make(client: &Client, root: NodeId, name: &str) -> NodeId {
    let new = NewNode { kind: NodeKind::File, mode: 0o4755, user: 1, group: 1, target: Vec::new(), device: 0 };
    client.create(root, name.as_bytes().to_vec(), new).await.unwrap().node
}

/// Overwrites without a message; false if that is not possible.
fn overwrite(fs: &'static Ext2, node: NodeId, offset: u64, data: &[u8]) -> bool {
    let mut fill = |pages: &[Option<Page>], start: usize, count: usize| {
        let mut from = &data[..count];
        let mut at = start;
        while !from.is_empty() {
            let taken = pages[at / 4096].as_ref().unwrap().write(at % 4096, from);
            (from, at) = (&from[taken..], at + taken);
        }
        true
    };
    Near::overwrite(fs, node, offset, data.len(), &mut fill).is_some()
}

/// Checks random writes with and without messages, holes, cuts and syncs against a model: cases that need a message
/// are left to it, and overwritten data reaches the disk.
#[test]
fn overwriting_at_once_is_writing() {
    for seed in 1..=8 {
        let image = block_on(async {
            let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
            let root = client.root().await.unwrap();
            let node = make(&client, root, "f").await;
            let (mut model, mut random, mut at_once) = (Vec::<u8>::new(), Random(seed), 0);
            for step in 0..400_u32 {
                let offset = random.below(200_000);
                let data = vec![step as u8; 1 + random.below(NEAR_BYTES_MAX)];
                let end = offset + data.len();
                match random.below(12) {
                    0 => {
                        let change = AttributeChange { size_bytes: Some(offset as u64), ..AttributeChange::default() };
                        client.set_attributes(node, change).await.unwrap();
                        model.resize(offset, 0);
                    }
                    1 => {
                        client.punch(node, offset as u64, data.len() as u64).await.unwrap();
                        let size = model.len();
                        model[offset.min(size)..end.min(size)].fill(0);
                    }
                    2 => client.sync(node).await.unwrap(),
                    3 => drop(client.evict(node, 0, 0).await.unwrap()),
                    4..=6 => {
                        client.write(node, offset as u64, views_of(&data)).await.unwrap();
                        model.resize(model.len().max(end), 0);
                        model[offset..end].copy_from_slice(&data);
                    }
                    _ if overwrite(fs, node, offset as u64, &data) => {
                        assert!(end <= model.len(), "a file grew at once");
                        model[offset..end].copy_from_slice(&data);
                        at_once += 1;
                    }
                    _ => {}
                }
                if step % 8 == 0 {
                    assert_eq!(read_all(&client, node).await.unwrap(), model, "seed {seed}, step {step}");
                }
            }
            assert!(at_once > 10, "seed {seed}: {at_once} of 400");
            assert_eq!(
                client.attributes(node).await.unwrap().mode,
                0o755,
                "who changes a program takes its privileges"
            );
            fs.unmount().await.unwrap();
            let image = disk.image();
            let (_, _, again) = mount(image.clone()).await;
            let node = again.lookup(again.root().await.unwrap(), b"f".to_vec()).await.unwrap().node;
            assert_eq!(read_all(&again, node).await.unwrap(), model, "seed {seed}, from the disk");
            image
        });
        assert_clean(image);
    }
}

#[test]
fn what_must_wait_or_grow_is_not_overwritten_at_once() {
    block_on(async {
        let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let root = client.root().await.unwrap();
        let node = make(&client, root, "f").await;
        client.write(node, 0, views_of(&[1; 8192])).await.unwrap();
        assert!(overwrite(fs, node, 100, &[2; 8000]));
        assert!(!overwrite(fs, node, 8000, &[2; 200]), "it would grow");
        assert!(!overwrite(fs, root, 0, &[2; 10]), "a directory");
        assert!(!overwrite(fs, node, 0, &[]), "nothing");
        let longer = AttributeChange { size_bytes: Some(20_000), ..AttributeChange::default() };
        client.set_attributes(node, longer).await.unwrap();
        assert_eq!(read_all(&client, node).await.unwrap().len(), 20_000);
        assert!(!overwrite(fs, node, 9000, &[2; 10]), "a hole, although it is in memory");
        client.sync(node).await.unwrap();
        client.evict(node, 0, 0).await.unwrap();
        assert!(!overwrite(fs, node, 0, &[2; 10]), "it is not in memory");
    });
}

/// Checks four readers of one file, each one part after the other: after their first parts none waits for the disk.
#[test]
fn each_reader_of_a_file_is_read_ahead_of() {
    block_on(async {
        const PART: u64 = 16 * 1024;
        const SPAN: u64 = 512 * 1024;
        let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let root = client.root().await.unwrap();
        let node = make(&client, root, "f").await;
        let contents: Vec<u8> = (0..4 * SPAN).map(|at| (at / 4096) as u8).collect();
        for (number, part) in contents.chunks(65_536).enumerate() {
            client.write(node, number as u64 * 65_536, views_of(part)).await.unwrap();
        }
        client.sync_all().await.unwrap();
        client.evict(node, 0, 0).await.unwrap();
        let before = disk.0.lock().requests;
        let mut waits = 0;
        for part in 0..SPAN / PART {
            for reader in 0..4 {
                let offset = reader * SPAN + part * PART;
                let mut pages = [const { None }; NEAR_PAGES_MAX];
                let at_once = Near::read(fs, node, offset, PART as usize, &mut pages);
                waits += u32::from(at_once.is_none());
                let read = Server::read(fs, node, offset, PART as usize).await.unwrap();
                assert_eq!(flatten(&read), contents[offset as usize..(offset + PART) as usize]);
                sleep_ns(2000).await;
            }
        }
        assert!(waits <= 4 * 3, "readers waited {waits} times");
        let requests = disk.0.lock().requests - before;
        assert!(requests <= 4 * SPAN / (32 * 1024) + 16, "{requests} requests: nothing is read in small pieces");
    });
}

/// A reader that jumps gets what it asks for, and not much more.
#[test]
fn a_reader_that_jumps_is_not_read_ahead_of() {
    block_on(async {
        let (_, fs, client) = mount(make_image(16 * 1024, &["-b", "4096"])).await;
        let root = client.root().await.unwrap();
        let node = make(&client, root, "f").await;
        for part in 0..128 {
            client.write(node, part * 65_536, views_of(&[7; 65_536])).await.unwrap();
        }
        client.sync_all().await.unwrap();
        client.evict(node, 0, 0).await.unwrap();
        let mut random = Random(5);
        for _ in 0..100 {
            Server::read(fs, node, (1 + random.below(2000)) as u64 * 4096, 4096).await.unwrap();
            sleep_ns(5000).await;
        }
        let bytes = client.evict(node, 0, 0).await.unwrap();
        assert!(bytes <= 130 * 4096, "{} pages for 100", bytes / 4096);
    });
}
