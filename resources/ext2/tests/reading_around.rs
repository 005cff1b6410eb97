//! A touch of a mapping whose program says nothing and mostly hits (`Pattern::Around`): absent pages beside it come, too.
//!
//! The file is on a disk in memory, with no page in the cache; after each touch the test asks which pages are there, and
//! counts requests. The tests hold that the window comes up to the next page in memory and to the file's end, that a
//! wrong window brings no more than 32 pages, that a neighbour that cannot be read fails no touch, and that no room is
//! taken that is short.
//!
//! When a mapping asks so is left out: `gyre_address_space` has its tests.

use crate::random_reads::{PAGE, PAGES, cold, drop_pages};
use crate::support::*;
use gyre_account::ActivityId;
use gyre_address_space::{
    AddressSpace, Limits, LocalFlush, MapRequest, MappedFile, MappedSize, Options, PageIndex, Place, Populate,
    Provider, Rights,
};
use gyre_file_cache::Room;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_interface::memory::memory;
use gyre_message::direct::{block_on, direct_link};
use gyre_message::sleep_ns;
use std::sync::atomic::{AtomicBool, Ordering};

/// The page that is touched in most tests, and the 32 around it.
const TOUCHED: u64 = 100;
const AROUND: Pattern = Pattern::Around { first: 96, pages: 32 };

const LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

/// Touches a page of which each byte but the number at its start is 7; returns the pages in memory then.
async fn touch(client: &Client, node: NodeId, index: u64, pattern: Pattern) -> Vec<u64> {
    let page = client.page(node, index, pattern).await.unwrap();
    let mut bytes = [0; PAGE as usize];
    page.read(0, &mut bytes);
    assert!(bytes[..8] == index.to_le_bytes() && bytes[8..].iter().all(|byte| *byte == 7));
    sleep_ns(1_000_000).await;
    let here = client.cached(node, 0, PAGES as usize).await.unwrap();
    here.iter().zip(0..).filter(|(is_here, _)| **is_here == 1).map(|(_, index)| index).collect()
}

/// Lets the next `count` requests fail.
fn fail_next(disk: &RamDisk, count: u64) {
    let mut state = disk.0.lock();
    state.fail_at = Some((state.requests + 1, count));
}

#[test]
fn all_absent_pages_of_the_window_come_in_few_requests() {
    for block_bytes in ["1024", "4096"] {
        block_on(async {
            let (disk, _, client, node) = cold(block_bytes).await;
            touch(&client, node, TOUCHED, Pattern::Random).await;
            drop_pages(&client, node).await;
            let before = disk.0.lock().requests;
            assert_eq!(touch(&client, node, TOUCHED, AROUND).await, Vec::from_iter(96..128));
            let requests = disk.0.lock().requests - before;
            assert!(requests <= 4, "{requests} requests of at most 64 KiB");
            for index in 96..128 {
                touch(&client, node, index, Pattern::Random).await;
            }
            assert_eq!(disk.0.lock().requests - before, requests, "they are here");
        });
    }
}

#[test]
fn a_page_in_memory_bounds_what_comes() {
    block_on(async {
        let (_, _, client, node) = cold("4096").await;
        for index in [98, 110] {
            touch(&client, node, index, Pattern::Random).await;
        }
        assert_eq!(touch(&client, node, TOUCHED, AROUND).await, Vec::from_iter(98..=110));
        assert_eq!(touch(&client, node, 115, AROUND).await, Vec::from_iter(98..128));
    });
}

#[test]
fn nothing_comes_behind_the_end_of_the_file() {
    block_on(async {
        let (_, _, client, node) = cold("4096").await;
        let around = Pattern::Around { first: PAGES - 4, pages: 32 };
        assert_eq!(touch(&client, node, PAGES - 2, around).await, Vec::from_iter(PAGES - 4..PAGES));
        let shorter = AttributeChange { size_bytes: Some(200 * PAGE + 1), ..AttributeChange::default() };
        client.set_attributes(node, shorter).await.unwrap();
        let around = Pattern::Around { first: 190, pages: 32 };
        assert_eq!(touch(&client, node, 195, around).await, Vec::from_iter(190..=200));
    });
}

#[test]
fn a_window_that_is_wrong_brings_the_page_and_never_many() {
    block_on(async {
        let (_, _, client, node) = cold("4096").await;
        for (first, pages) in [(0, 255), (u64::MAX, 255), (900, 255), (0, 0), (u64::MAX, 0), (600, 1), (501, 1)] {
            let here = touch(&client, node, 500, Pattern::Around { first, pages }).await;
            assert!(here.contains(&500) && here.len() <= 32, "{first}, {pages}: {here:?}");
            drop_pages(&client, node).await;
        }
    });
}

#[test]
fn a_page_comes_alone_if_those_beside_it_cannot_be_read() {
    block_on(async {
        let (disk, _, client, node) = cold("4096").await;
        touch(&client, node, TOUCHED, Pattern::Random).await;
        drop_pages(&client, node).await;
        let before = disk.0.lock().requests;
        touch(&client, node, TOUCHED, AROUND).await;
        let all = disk.0.lock().requests - before;
        drop_pages(&client, node).await;
        fail_next(disk, all);
        assert_eq!(touch(&client, node, TOUCHED, AROUND).await, [TOUCHED]);
        drop_pages(&client, node).await;
        fail_next(disk, all + 1);
        assert_eq!(client.page(node, TOUCHED, AROUND).await.err(), Some(FileError::Io), "it cannot be read itself");
        assert_eq!(touch(&client, node, TOUCHED, AROUND).await, Vec::from_iter(96..128), "the disk is well again");
    });
}

#[test]
fn pages_around_take_the_place_of_unused_ones_but_no_room_that_is_short() {
    static HAS_ROOM: AtomicBool = AtomicBool::new(true);
    block_on(async {
        let disk = RamDisk::leak(make_image(8 * 1024, &["-b", "4096"]));
        let cache = new_cache(4096);
        let client = client_of(mount_on(disk, cache).await.unwrap());
        let nobody = memory::Client::new(direct_link(|_| Box::pin(async {})));
        let has_room = &|_| HAS_ROOM.load(Ordering::Relaxed);
        cache.connect(Room { client: nobody, has_room, process_pages: &|_| usize::MAX, kept_pages: 0 });
        let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 };
        let node = client.create(client.root().await.unwrap(), b"f".to_vec(), new).await.unwrap().node;
        for index in 0..200_u64 {
            let mut page = vec![7; PAGE as usize];
            page[..8].copy_from_slice(&index.to_le_bytes());
            client.write(node, index * PAGE, views_of(&page)).await.unwrap();
        }
        client.sync_all().await.unwrap();
        client.evict(node, 0, 0).await.unwrap();
        let held = || cache.usage().iter().map(|usage| usage.held).sum::<usize>();

        // Pages that nobody uses go for it.
        for index in 150..200 {
            touch(&client, node, index, Pattern::Random).await;
        }
        HAS_ROOM.store(false, Ordering::Relaxed);
        let before = held();
        // The cache looks at two of its parts for one that may go: some pages around may find none.
        let mut here = Vec::new();
        for first in [32, 64, 96] {
            here = touch(&client, node, first + 5, Pattern::Around { first, pages: 32 }).await;
        }
        let around = here.iter().filter(|index| (32..128).contains(*index)).count();
        assert!(around > 3, "{here:?}");
        assert!(held() <= before + 3, "{before} pages before, {} now", held());

        // Those that a program maps stay, and nothing comes but the page.
        let mut mapped = Vec::new();
        HAS_ROOM.store(true, Ordering::Relaxed);
        client.evict(node, 0, 0).await.unwrap();
        for index in 150..200 {
            mapped.push(client.page(node, index, Pattern::Random).await.unwrap());
        }
        HAS_ROOM.store(false, Ordering::Relaxed);
        let before = held();
        let here = touch(&client, node, TOUCHED, AROUND).await;
        assert!(here.contains(&TOUCHED) && held() <= before + 1, "{before} pages before, {} now", held());
    });
}

/// MADV_WILLNEED in what MADV_RANDOM was said of.
#[test]
fn pages_that_a_program_will_need_come_in_few_requests_and_no_others() {
    block_on(async {
        let (disk, _, client, node) = cold("4096").await;
        touch(&client, node, 0, Pattern::Random).await;
        drop_pages(&client, node).await;
        let space = AddressSpace::new(&LocalFlush, LIMITS, ActivityId(1)).unwrap();
        let file = MappedFile::new(client, node, MappedSize::new(PAGES * PAGE), b"/f".to_vec(), None, None);
        let request = MapRequest {
            place: Place::Anywhere(0),
            bytes: PAGES * PAGE,
            rights: Rights::READ,
            rights_max: Rights::READ,
            options: Options::SHARED | Options::RANDOM,
            provider: Provider::File(file),
            first_index: PageIndex::FIRST,
        };
        let at = space.map(request).await.unwrap();
        let before = disk.0.lock().requests;
        space.populate(at + 50 * PAGE, 75 * PAGE, Populate::Files).await.unwrap();
        let requests = disk.0.lock().requests - before;
        assert!(requests <= 12, "{requests} requests for 75 pages");
        let here = client.cached(node, 0, PAGES as usize).await.unwrap();
        assert!(here.iter().enumerate().all(|(index, is_here)| (*is_here == 1) == (50..125).contains(&index)));
    });
}
