//! Memory that is taken back while a page is written: what was written stays.
//!
//! At each wait of a write everything that is clean and unused is dropped. The page that is being written must not be among that, though
//! it is clean until its blocks are known: pages of indirect blocks are read meanwhile, and take the room of whatever may go. Each case has
//! indirect blocks that are on the disk only, and places that hold an older file's bytes there.
//!
//! Reclaim beside mapped pages is in `moments.rs`, and want of room in `room.rs`.

use crate::support::*;
use gyre_file_cache::FileCache;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use gyre_object::Page;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PAGE: u64 = 4096;
/// The file's pages; more than an inode points to itself. The last but one is a hole.
const PAGES: u64 = 24;
const HOLE: u64 = PAGES - 2;
/// A page behind an indirect block.
const FAR: u64 = 15;
/// Bytes of a file that was deleted: what lies on free blocks.
const OLDER: u8 = 0xee;
/// The time that the disk takes for each request, ns.
const LATENCY_NS: u64 = 20_000;

/// A file all of which is on the disk only.
async fn world() -> (&'static FileCache, Client, NodeId) {
    let (disk, cache) = (RamDisk::leak(make_image(1024, &["-b", "4096"])), new_cache(4096));
    let client = client_of(mount_on(disk, cache).await.unwrap());
    let root = client.root().await.unwrap();
    let older = file(&client, "older").await;
    client.write(older, 0, views_of(&[OLDER; 400 << 10])).await.unwrap();
    client.sync(older).await.unwrap();
    client.unlink(root, "older".into()).await.unwrap();
    client.sync_all().await.unwrap();
    let node = file(&client, "one").await;
    for page in (0..PAGES).filter(|page| *page != HOLE) {
        client.write(node, page * PAGE, views_of(&[1 + page as u8; PAGE as usize])).await.unwrap();
    }
    client.sync_all().await.unwrap();
    take_all(cache);
    disk.0.lock().latency_ns = LATENCY_NS;
    (cache, client, node)
}

async fn file(client: &Client, name: &str) -> NodeId {
    let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 1, group: 1, target: Vec::new(), device: 0 };
    client.create(client.root().await.unwrap(), name.into(), new).await.unwrap().node
}

/// Takes all back that is clean and unused.
fn take_all(cache: &FileCache) {
    for usage in cache.usage() {
        cache.reclaim(usage.activity, usize::MAX);
    }
}

/// Runs a call, and takes all back again and again while it waits for the disk, after `shown` has gone; returns how often.
async fn with_reclaim<T>(
    cache: &'static FileCache,
    mut shown: Option<Page>,
    call: impl Future<Output = T>,
) -> (T, usize) {
    let (is_over, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (ends, counted) = (is_over.clone(), times.clone());
    gyre_message::spawn(async move {
        while !ends.load(Ordering::Relaxed) {
            take_all(cache);
            shown = shown.filter(|_| counted.load(Ordering::Relaxed) == 0);
            counted.fetch_add(1, Ordering::Relaxed);
            sleep_ns(LATENCY_NS / 4).await;
        }
    });
    let done = call.await;
    is_over.store(true, Ordering::Relaxed);
    (done, times.load(Ordering::Relaxed))
}

async fn read(client: &Client, node: NodeId, page: u64) -> Vec<u8> {
    flatten(&client.read(node, page * PAGE, PAGE as usize).await.unwrap())
}

/// Checks a page before and after it is on the disk.
async fn expect(cache: &FileCache, client: &Client, node: NodeId, page: u64, bytes: &[u8]) {
    for _ in 0..2 {
        take_all(cache);
        assert!(read(client, node, page).await == bytes, "page {page} has other bytes");
        client.sync_all().await.unwrap();
    }
}

#[test]
fn a_page_that_is_written_is_not_taken_before_it_counts_as_written() {
    block_on(async {
        for page in [0, FAR, HOLE, PAGES + 3] {
            for count in [PAGE as usize, 100] {
                let (cache, client, node) = world().await;
                let mut wanted = if page < PAGES { read(&client, node, page).await } else { vec![0; count] };
                take_all(cache);
                wanted[..count].fill(99);
                let write = client.write(node, page * PAGE, views_of(&vec![99; count]));
                let (written, times) = with_reclaim(cache, None, write).await;
                assert_eq!(written, Ok(count));
                assert!(
                    page == 0 || times > 2,
                    "page {page}: a write of {count} bytes that waits for nothing shows nothing"
                );
                expect(cache, &client, node, page, &wanted).await;
            }
        }
    });
}

#[test]
fn a_hole_that_a_mapping_is_about_to_write_is_not_taken_before_it_is_zero_on_the_disk() {
    block_on(async {
        let (cache, client, node) = world().await;
        // Its program shows the page up to here, and loses it while the file is told.
        let page = client.page(node, HOLE, Pattern::Usual).await.unwrap();
        take_all(cache);
        let (told, times) = with_reclaim(cache, Some(page), client.page_dirtied(node, HOLE)).await;
        assert_eq!(told, Ok(()));
        assert!(times > 2);
        expect(cache, &client, node, HOLE, &[0; PAGE as usize]).await;
    });
}
