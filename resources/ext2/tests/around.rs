//! Pages for mappings in one look: the file's, and only those that are in memory.

use crate::support::*;
use gyre_ext2::{Ext2, MountOptions};
use gyre_interface::around::{AROUND_PAGES, Around};
use gyre_interface::files::files::{Client, Server};
use gyre_interface::files::*;
use gyre_interface::near::{NEAR_PAGES_MAX, Near};
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use gyre_object::Page;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;
static MOVED: AtomicU64 = AtomicU64::new(0);

async fn new_file(client: &Client) -> NodeId {
    let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 1, group: 1, target: Vec::new(), device: 0 };
    client.create(client.root().await.unwrap(), b"f".to_vec(), new).await.unwrap().node
}

/// Returns the pages that a look finds from an index on, with their places.
fn look(fs: &'static Ext2, node: NodeId, mut around: Around) -> Vec<(usize, Page)> {
    Near::to_map(fs, node, &mut around);
    let found = around.pages().iter_mut().enumerate();
    found.filter_map(|(place, page)| Some((place, page.take()?))).collect()
}

fn places(found: &[(usize, Page)]) -> Vec<usize> {
    found.iter().map(|(place, _)| *place).collect()
}

/// Checks looks between all that changes a file: each page that is found is the file's page of its index, zero behind
/// the end, and lent pages stay as they are.
#[test]
fn a_page_for_a_mapping_is_the_files_page_of_its_index_whatever_changes_the_file() {
    const BYTES: usize = 60 * PAGE;
    for seed in 1..=4 {
        block_on(async {
            let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
            let node = new_file(&client).await;
            let (mut model, mut random, mut seen) = (Vec::<u8>::new(), Random(seed), 0);
            for step in 0..300_u32 {
                let (offset, data) = (random.below(BYTES), vec![step as u8; 1 + random.below(20_000)]);
                match random.below(8) {
                    0 => {
                        let change = AttributeChange { size_bytes: Some(offset as u64), ..AttributeChange::default() };
                        client.set_attributes(node, change).await.unwrap();
                        model.resize(offset, 0);
                    }
                    1 => {
                        client.punch(node, offset as u64, data.len() as u64).await.unwrap();
                        let size = model.len();
                        model[offset.min(size)..(offset + data.len()).min(size)].fill(0);
                    }
                    2 => {
                        client.sync(node).await.unwrap();
                        client.evict(node, offset as u64 & !4095, 20 * PAGE as u64).await.unwrap();
                    }
                    _ => {
                        client.write(node, offset as u64, views_of(&data)).await.unwrap();
                        model.resize(model.len().max(offset + data.len()), 0);
                        model[offset..offset + data.len()].copy_from_slice(&data);
                    }
                }
                let mut lent = [const { None }; NEAR_PAGES_MAX];
                let _ = Near::lend(fs, node, offset as u64 & !4095, 3 * PAGE, &mut lent);
                let first = random.below(60);
                let found = look(fs, node, Around::new(first as u64, random.next() as u16));
                for (place, page) in &found {
                    let start = (first + place) * PAGE;
                    assert!(start < model.len(), "seed {seed}, step {step}: page {} is behind the end", first + place);
                    let mut whole = model[start..model.len().min(start + PAGE)].to_vec();
                    whole.resize(PAGE, 0);
                    assert!(page.as_slice() == whole, "seed {seed}, step {step}: page {}", first + place);
                    assert!(!lent.iter().flatten().any(|lent| lent.same(page)), "a program may write it");
                }
                seen += found.len();
            }
            assert!(seen > 300, "seed {seed}: {seen} pages");
        });
    }
}

#[test]
fn pages_that_are_absent_or_on_their_way_are_left_out_and_bytes_are_told() {
    block_on(async {
        let disk = RamDisk::leak(make_image(8 * 1024, &["-b", "4096"]));
        begin_time();
        let options = MountOptions {
            report: Some(&|bytes| _ = MOVED.fetch_add(bytes, Ordering::Relaxed)),
            ..MountOptions::new(4077)
        };
        let fs = Ext2::mount(disk.client(), options, new_cache(4096)).await.unwrap();
        let client = client_of(fs);
        let node = new_file(&client).await;
        client.write(node, 0, views_of(&[7; 10 * PAGE])).await.unwrap();
        client.write(node, 12 * PAGE as u64, views_of(&[8; PAGE + 1])).await.unwrap();
        client.sync(node).await.unwrap();
        client.evict(node, 3 * PAGE as u64, PAGE as u64).await.unwrap();
        MOVED.store(0, Ordering::Relaxed);
        let found = look(fs, node, Around::new(0, u16::MAX));
        assert_eq!(places(&found), [0, 1, 2, 4, 5, 6, 7, 8, 9, 12, 13], "3 was evicted, 10 and 11 are a hole");
        assert_eq!(MOVED.swap(0, Ordering::Relaxed), 11 * PAGE as u64);
        drop(found);
        assert_eq!(places(&look(fs, node, Around::new(0, u16::MAX).needing(3))), [], "the needed one is absent");
        assert_eq!(MOVED.swap(0, Ordering::Relaxed), 0);
        disk.0.lock().latency_ns = 1_000_000;
        spawn(async move { drop(Server::page(fs, node, 3, Pattern::Usual).await) });
        sleep_ns(1000).await;
        assert_eq!(places(&look(fs, node, Around::new(2, 0b11))), [0], "it is on its way");
        sleep_ns(2_000_000).await;
        assert_eq!(places(&look(fs, node, Around::new(2, 0b11))), [0, 1]);
        let root = client.root().await.unwrap();
        assert_eq!(places(&look(fs, root, Around::new(0, u16::MAX))), [], "a directory has no pages");
        client.unlink(root, b"f".to_vec()).await.unwrap();
        assert_eq!(places(&look(fs, node, Around::new(0, u16::MAX))), [], "it is gone");
    });
}

/// Touches of a mapping, one page after the other, as a program reads a file.
#[test]
fn who_touches_a_cold_file_in_order_is_read_ahead_of() {
    block_on(async {
        const PAGES: u64 = 256;
        let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let node = new_file(&client).await;
        for part in 0..PAGES / 16 {
            client.write(node, part * 65_536, views_of(&[part as u8; 65_536])).await.unwrap();
        }
        client.sync_all().await.unwrap();
        client.evict(node, 0, 0).await.unwrap();
        let before = disk.0.lock().requests;
        let (mut mapped, mut waits) = (vec![false; PAGES as usize], 0);
        for index in 0..PAGES {
            if !mapped[index as usize] {
                let (first, place) = (index & !15, (index % 16) as u8);
                let mut found = look(fs, node, Around::new(first, u16::MAX).needing(place));
                if found.is_empty() {
                    waits += 1;
                    drop(Server::page(fs, node, index, Pattern::Usual).await.unwrap());
                    found = look(fs, node, Around::new(first, u16::MAX));
                    mapped[index as usize] = true;
                }
                assert!(found.len() <= AROUND_PAGES);
                found.iter().for_each(|(place, _)| mapped[first as usize + place] = true);
            }
            sleep_ns(2000).await;
        }
        let requests = disk.0.lock().requests - before;
        assert!(waits <= 8 && requests <= PAGES / 8, "{waits} waits, {requests} requests");
    });
}
