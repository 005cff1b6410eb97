//! Random reads (`read_random`, POSIX_FADV_RANDOM): only the bytes asked for are read from the disk.

use crate::support::*;
use gyre_ext2::Ext2;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_interface::near::{NEAR_PAGES_MAX, Near};
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;

pub const PAGE: u64 = 4096;
pub const PAGES: u64 = 1024;

/// Returns a file of [`PAGES`] pages, none of which is in memory; each begins with its number.
pub async fn cold(block_bytes: &str) -> (&'static RamDisk, &'static Ext2, Client, NodeId) {
    let (disk, fs, client) = mount(make_image(16 * 1024, &["-b", block_bytes])).await;
    let root = client.root().await.unwrap();
    let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 };
    let node = client.create(root, b"f".to_vec(), new).await.unwrap().node;
    for index in 0..PAGES {
        let mut page = vec![7; PAGE as usize];
        page[..8].copy_from_slice(&index.to_le_bytes());
        client.write(node, index * PAGE, views_of(&page)).await.unwrap();
    }
    client.sync_all().await.unwrap();
    client.evict(node, 0, 0).await.unwrap();
    (disk, fs, client, node)
}

/// Waits for read-ahead, if there is any.
async fn wait_for_read_ahead() {
    sleep_ns(1_000_000).await;
}

/// Returns the pages in memory, which are dropped.
pub async fn drop_pages(client: &Client, node: NodeId) -> u64 {
    wait_for_read_ahead().await;
    client.evict(node, 0, 0).await.unwrap() / PAGE
}

async fn check_page(client: &Client, node: NodeId, index: u64) {
    let read = flatten(&client.read_random(node, index * PAGE, PAGE as usize).await.unwrap());
    assert_eq!((read.len() as u64, &read[..8]), (PAGE, &index.to_le_bytes()[..]));
}

#[test]
fn pages_read_here_and_there_come_alone() {
    for block_bytes in ["1024", "4096"] {
        block_on(async {
            let (disk, _, client, node) = cold(block_bytes).await;
            let (mut random, mut asked) = (Random(3), std::collections::BTreeSet::new());
            check_page(&client, node, PAGES / 2).await;
            assert_eq!(drop_pages(&client, node).await, 1, "where the blocks lie is known from here on");
            let before = disk.0.lock().requests;
            for _ in 0..700 {
                let index = random.below(PAGES as usize) as u64;
                check_page(&client, node, index).await;
                asked.insert(index);
            }
            assert_eq!(drop_pages(&client, node).await, asked.len() as u64);
            if block_bytes == "4096" {
                let requests = disk.0.lock().requests - before;
                assert_eq!(requests, asked.len() as u64, "a request for each page, and none twice");
            }
        });
    }
}

#[test]
fn one_page_after_the_other_comes_alone_where_a_plain_reader_is_read_ahead_of() {
    block_on(async {
        let (disk, fs, client, node) = cold("4096").await;
        for index in 0..64 {
            check_page(&client, node, index).await;
            wait_for_read_ahead().await;
        }
        // A look at them begins nothing either.
        for index in 0..64 {
            let mut pages = [const { None }; NEAR_PAGES_MAX];
            assert!(Near::read(fs, node, index * PAGE, PAGE as usize, &mut pages).is_some());
        }
        assert_eq!(drop_pages(&client, node).await, 64);
        let before = disk.0.lock().requests;
        for index in 0..64 {
            client.read(node, index * PAGE, PAGE as usize).await.unwrap();
        }
        let requests = disk.0.lock().requests - before;
        assert!(requests < 32, "{requests} requests: a plain reader's pages come together");
        assert!(drop_pages(&client, node).await > 64, "and ahead of it");
    });
}

#[test]
fn what_is_asked_for_at_once_comes_at_once() {
    block_on(async {
        let (disk, _, client, node) = cold("4096").await;
        check_page(&client, node, 0).await;
        drop_pages(&client, node).await;
        let before = disk.0.lock().requests;
        let read = client.read_random(node, 100 * PAGE + 100, 7 * PAGE as usize).await.unwrap();
        assert_eq!(flatten(&read)[PAGE as usize - 100..][..8], 101_u64.to_le_bytes());
        drop(read);
        let requests = disk.0.lock().requests - before;
        assert_eq!((requests, drop_pages(&client, node).await), (1, 8), "eight pages in one request");
    });
}

#[test]
fn a_mapping_reads_as_its_program_says_that_it_goes_through_it() {
    block_on(async {
        let (_, _, client, node) = cold("4096").await;
        for index in [100, 101, 102, 103, 104, 105, 500] {
            client.page(node, index, Pattern::Random).await.unwrap();
        }
        assert_eq!(drop_pages(&client, node).await, 7, "no page comes that was not asked for");
        client.page(node, 100, Pattern::Usual).await.unwrap();
        assert_eq!(drop_pages(&client, node).await, 1, "the first page says nothing of the next");
        let page = client.page(node, 100, Pattern::Sequential).await.unwrap();
        assert!(page_begins_with(&page, 100));
        wait_for_read_ahead().await;
        let here = client.cached(node, 90, 60).await.unwrap();
        assert_eq!(here[..10], [0; 10], "those before it stay away");
        assert_eq!(here[10..42], [1; 32], "those behind it come");
        assert_eq!(here[42..], [0; 18]);
        drop_pages(&client, node).await;
        client.page(node, PAGES - 2, Pattern::Sequential).await.unwrap();
        assert_eq!(drop_pages(&client, node).await, 2, "there are none behind the end");
    });
}

fn page_begins_with(page: &gyre_object::Page, index: u64) -> bool {
    let mut number = [0; 8];
    page.read(0, &mut number);
    u64::from_le_bytes(number) == index
}
