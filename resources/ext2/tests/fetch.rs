//! Pages fetched in a look at the file system: a read then finds the same bytes as by a message, in any order of
//! arrival.

use crate::support::*;
use gyre_ext2::Ext2;
use gyre_interface::begun::Begun;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_interface::near::{NEAR_PAGES_MAX, Near};
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use std::cell::Cell;
use std::rc::Rc;

fn new() -> NewNode {
    NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 }
}

/// Returns a file with these bytes on the disk, and none of it in the cache.
async fn cold_file(client: &Client, data: &[u8]) -> NodeId {
    let node = client.create(client.root().await.unwrap(), b"f".to_vec(), new()).await.unwrap().node;
    for (at, part) in (0..).step_by(65_536).zip(data.chunks(65_536)) {
        client.write(node, at, views_of(part)).await.unwrap();
    }
    client.sync(node).await.unwrap();
    client.evict(node, 0, 0).await.unwrap();
    node
}

fn pattern(bytes: usize) -> Vec<u8> {
    let mut random = Random(3);
    (0..bytes).map(|_| random.next() as u8).collect()
}

fn fetch(fs: &'static Ext2, node: NodeId, at: usize, bytes: usize) -> Option<Begun> {
    Near::fetch(fs, node, at as u64, bytes, true)
}

/// Returns up to 32 KiB from memory; `None` if not all of it is there.
fn look(fs: &'static Ext2, node: NodeId, at: usize, bytes: usize) -> Option<Vec<u8>> {
    let mut pages = [const { None }; NEAR_PAGES_MAX];
    let count = Near::read(fs, node, at as u64, bytes, &mut pages)?.unwrap();
    let flat: Vec<u8> = pages.iter().flatten().flat_map(|page| page.as_slice().to_vec()).collect();
    Some(flat.into_iter().skip(at % 4096).take(count).collect())
}

/// Reads by looks as far as that goes, else by a message; true if it went.
async fn read(fs: &'static Ext2, client: &Client, node: NodeId, at: usize, bytes: usize) -> (Vec<u8>, bool) {
    for _ in 0..10 {
        if let Some(found) = look(fs, node, at, bytes) {
            return (found, true);
        }
        match fetch(fs, node, at, bytes) {
            Some(begun) => begun.done().await.unwrap(),
            None => break,
        };
    }
    (flatten(&client.read(node, at as u64, bytes).await.unwrap()), false)
}

#[test]
fn what_is_fetched_is_what_the_file_holds_between_all_that_changes_it() {
    for seed in 1..=seeds(8) {
        block_on(async {
            let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
            spawn(fs.maintain());
            let (mut model, mut random, mut looks) = (pattern(200_000), Random(seed), 0);
            let node = cold_file(&client, &model).await;
            for step in 0..300_u32 {
                let at = random.below(220_000);
                let bytes = 1 + random.below(32_768);
                let end = at + bytes;
                match random.below(10) {
                    0 => {
                        let change = AttributeChange { size_bytes: Some(at as u64), ..AttributeChange::default() };
                        client.set_attributes(node, change).await.unwrap();
                        model.resize(at, 0);
                    }
                    1 => {
                        client.punch(node, at as u64, bytes as u64).await.unwrap();
                        let size = model.len();
                        model[at.min(size)..end.min(size)].fill(0);
                    }
                    2 => {
                        model.resize(model.len().max(end), 0);
                        model[at..end].fill(step as u8);
                        client.write(node, at as u64, views_of(&vec![step as u8; bytes])).await.unwrap();
                    }
                    3 => drop(client.sync(node).await),
                    4 | 5 => drop(client.evict(node, 0, 0).await.unwrap()),
                    6 => drop(fetch(fs, node, at, bytes)),
                    _ => {
                        let (found, is_look) = read(fs, &client, node, at, bytes).await;
                        let size = model.len();
                        assert!(found == model[at.min(size)..end.min(size)], "seed {seed}, step {step}");
                        looks += u32::from(is_look);
                    }
                }
            }
            assert!(looks > 50, "{looks} looks were enough");
        });
    }
}

#[test]
fn a_reader_in_sequence_is_read_ahead_for_and_needs_no_message() {
    block_on(async {
        let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let data = pattern(1 << 20);
        let node = cold_file(&client, &data).await;
        // The pointers to its blocks are in memory then.
        client.read(node, (1 << 20) - 4096, 4096).await.unwrap();
        disk.0.lock().latency_ns = 20_000;
        let before = disk.0.lock().requests;
        for at in (0..data.len() - 8192).step_by(4096) {
            let (found, is_look) = read(fs, &client, node, at, 4096).await;
            assert!(found == data[at..at + 4096] && is_look, "at {at}");
        }
        let requests = disk.0.lock().requests - before;
        assert!(requests <= 36, "{requests} requests of mostly 32 KiB");
    });
}

#[test]
fn an_error_is_told_and_what_failed_is_not_shown() {
    block_on(async {
        let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let data = pattern(65_536);
        let node = cold_file(&client, &data).await;
        client.read(node, 61_440, 4096).await.unwrap();
        let next = disk.0.lock().requests + 1;
        disk.0.lock().fail_at = Some((next, 1));
        assert_eq!(fetch(fs, node, 0, 32_768).unwrap().done().await, Err(FileError::Io));
        assert_eq!(look(fs, node, 0, 4096), None);
        assert_eq!(fetch(fs, node, 0, 32_768).unwrap().done().await, Ok(0));
        assert!(look(fs, node, 0, 32_768).unwrap() == data[..32_768]);
    });
}

#[test]
fn who_comes_later_waits_for_what_is_on_its_way_and_who_cuts_for_its_end() {
    block_on(async {
        let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let data = pattern(65_536);
        let node = cold_file(&client, &data).await;
        client.read(node, 61_440, 4096).await.unwrap();
        disk.0.lock().latency_ns = 50_000;
        let first = fetch(fs, node, 0, 32_768).unwrap();
        let requests = disk.0.lock().requests;
        let second = fetch(fs, node, 4096, 4096).unwrap();
        assert_eq!(disk.0.lock().requests, requests, "it is on its way");
        // The first caller has gone.
        drop(first);
        let is_cut = Rc::new(Cell::new(false));
        let told = is_cut.clone();
        spawn(async move {
            let change = AttributeChange { size_bytes: Some(0), ..AttributeChange::default() };
            client.set_attributes(node, change).await.unwrap();
            told.set(true);
        });
        sleep_ns(1000).await;
        assert!(fetch(fs, node, 40_960, 4096).is_none(), "who changes comes first");
        assert_eq!(second.done().await, Ok(0));
        assert!(!is_cut.get());
        assert!(look(fs, node, 4096, 4096).is_none_or(|found| found == data[4096..8192]));
        sleep_ns(1_000_000).await;
        assert!(is_cut.get() && look(fs, node, 4096, 4096) == Some(Vec::new()));
    });
}

#[test]
fn what_is_not_usual_is_left_to_a_message() {
    block_on(async {
        let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let node = cold_file(&client, &pattern(8192)).await;
        assert!(fetch(fs, node, 0, 4096).is_none(), "blocks smaller than pages");
        assert!(fetch(fs, client.root().await.unwrap(), 0, 4096).is_none());
        let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let node = cold_file(&client, &pattern(8192)).await;
        assert!(fetch(fs, node, 8192, 4096).is_none() && fetch(fs, node, usize::MAX, 4096).is_none());
        client.read(node, 0, 8192).await.unwrap();
        assert!(fetch(fs, node, 0, 8192).is_none(), "all of it is here");
    });
}
