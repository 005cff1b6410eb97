//! Reads and writes past the cache: the same contents as through it, in any order of arrival.
//!
//! The file system is mounted over the `RamDisk` of `support`, on an image by mke2fs. A cold file is written, synced and evicted; then
//! clients read and write it directly, also in a look at the file system in which nobody waits. The disk counts its requests, and can be
//! slow or fail one.
//!
//! The tests hold that a call is one request as far as a device takes it, that the cache stays as it was or loses what a write has made
//! old, that dirty and mapped pages agree with the disk, that holes and the end are left to a plain write, that errors are told and
//! memory comes back first, and that blocks are not taken away under a request. Readers beside many writers never see what was before an
//! answered write.
//!
//! Mappings of programs as the other end are in `mapped.rs`, crashes in `crash`.

use crate::support::*;
use gyre_interface::begun::Begun;
use gyre_interface::block::SECTOR_BYTES;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use gyre_object::{Bytes, Page};
use std::cell::Cell;
use std::rc::Rc;

fn new() -> NewNode {
    NewNode { kind: NodeKind::File, mode: 0o6755, user: 0, group: 0, target: Vec::new(), device: 0 }
}

fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes).map(|_| random.next() as u8).collect()
}

/// Returns a file of that many bytes that is on the disk, and none of it in the cache.
async fn cold_file(client: &Client, bytes: usize) -> (NodeId, Vec<u8>) {
    let node = client.create(client.root().await.unwrap(), b"f".to_vec(), new()).await.unwrap().node;
    let data = pattern(bytes, 1);
    let mut at = 0;
    for part in data.chunks(60_000) {
        client.write(node, at, views_of(part)).await.unwrap();
        at += part.len() as u64;
    }
    client.sync(node).await.unwrap();
    client.evict(node, 0, 0).await.unwrap();
    (node, data)
}

fn page_views(count: usize) -> Vec<Bytes> {
    (0..count).map(|_| Bytes::new(Page::zeroed().unwrap(), 0, 4096)).collect()
}

#[test]
fn a_direct_read_asks_the_disk_and_leaves_the_cache_alone() {
    for block in ["1024", "4096"] {
        block_on(async {
            let (disk, _, client) = mount(make_image(8 * 1024, &["-b", block])).await;
            let (node, data) = cold_file(&client, 300_000).await;
            let mut random = Random(7);
            read_direct(&client, node, 0, 512, &mut random).await;
            let before = disk.0.lock().requests;
            let views = page_views(16);
            assert_eq!(client.read_direct(node, 65_536, views.clone()).await, Ok(65_536));
            assert_eq!(flatten(&views), data[65_536..2 * 65_536]);
            assert_eq!(disk.0.lock().requests, before + 1, "one call is one request");
            assert_eq!(client.evict(node, 0, 0).await, Ok(0), "nothing came to the cache");
            for _ in 0..50 {
                let at = random.below(600) * SECTOR_BYTES;
                let bytes = (1 + random.below(100)) * SECTOR_BYTES;
                let found = read_direct(&client, node, at, bytes, &mut random).await;
                assert_eq!(found, data[at.min(300_000)..(at + bytes).min(300_000)]);
            }
        });
    }
}

#[test]
fn a_call_is_one_request_up_to_64_kib_and_as_many_views_as_a_device_takes() {
    block_on(async {
        let (disk, _, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let (node, _) = cold_file(&client, 300_000).await;
        // The first twelve blocks lie before the table of the others.
        let at = 12 * 4096;
        let written = pattern(163_840, 3);
        let from = page_views(40);
        for (view, bytes) in from.iter().zip(written.chunks(4096)) {
            view.location().0.write(0, bytes);
        }
        assert_eq!(client.write_direct(node, at as u64, from).await, Ok(written.len()));
        let before = disk.0.lock().requests;
        let views = page_views(40);
        assert_eq!(client.read_direct(node, at as u64, views.clone()).await, Ok(163_840));
        assert_eq!(flatten(&views), written);
        assert_eq!(disk.0.lock().requests, before + 3, "64, 64 and 32 KiB");
        assert_eq!(disk.0.lock().largest_read, 64 * 1024);
        let sectors: Vec<Bytes> = (0..96).map(|_| Bytes::new(Page::zeroed().unwrap(), 512, 512)).collect();
        assert_eq!(client.read_direct(node, at as u64, sectors.clone()).await, Ok(96 * 512));
        assert_eq!(flatten(&sectors), written[..96 * 512]);
        assert_eq!(disk.0.lock().requests, before + 5, "64 and 32 views");
    });
}

#[test]
fn the_end_cuts_a_read_and_what_is_not_aligned_is_refused() {
    block_on(async {
        let (_, _, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let (node, data) = cold_file(&client, 10_000).await;
        let views = page_views(2);
        assert_eq!(client.read_direct(node, 8192, views.clone()).await, Ok(1808));
        let found = flatten(&views);
        assert_eq!(found[..1808], data[8192..]);
        assert!(found[1808..2048].iter().all(|byte| *byte == 0), "the rest of the last sector is zeroes");
        assert_eq!(client.read_direct(node, 10_240, page_views(1)).await, Ok(0));
        assert_eq!(client.read_direct(node, 1 << 40, page_views(1)).await, Ok(0));
        assert_eq!(client.read_direct(node, 0, Vec::new()).await, Ok(0));
        let odd = || vec![Bytes::new(Page::zeroed().unwrap(), 0, 100)];
        let shifted = || vec![Bytes::new(Page::zeroed().unwrap(), 256, 512)];
        for views in [odd(), shifted()] {
            assert_eq!(client.read_direct(node, 0, views.clone()).await, Err(FileError::Invalid));
            assert_eq!(client.write_direct(node, 0, views).await, Err(FileError::Invalid));
        }
        assert_eq!(client.read_direct(node, 100, page_views(1)).await, Err(FileError::Invalid));
        let root = client.root().await.unwrap();
        assert_eq!(client.read_direct(root, 0, page_views(1)).await, Err(FileError::IsDirectory));
    });
}

#[test]
fn what_is_dirty_or_mapped_is_seen_by_direct_reads() {
    block_on(async {
        let (_, _, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let (node, mut data) = cold_file(&client, 50_000).await;
        client.write(node, 5000, views_of(&[7; 3000])).await.unwrap();
        data[5000..8000].fill(7);
        let mapped = client.page(node, 4, Pattern::Usual).await.unwrap();
        mapped.write(10, b"mapped");
        data[16_394..16_400].copy_from_slice(b"mapped");
        assert!(read_direct(&client, node, 0, 50_176, &mut Random(3)).await == data);
        drop(mapped);
    });
}

#[test]
fn a_direct_write_goes_to_the_disk_and_out_of_the_cache() {
    for block in ["1024", "4096"] {
        let image = block_on(async {
            let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", block])).await;
            let (node, mut data) = cold_file(&client, 200_000).await;
            let before = client.attributes(node).await.unwrap();
            // Some pages are cached, some dirty, one is mapped.
            client.read(node, 0, 30_000).await.unwrap();
            client.write(node, 20_000, views_of(&[1; 9000])).await.unwrap();
            data[20_000..29_000].fill(1);
            let mapped = client.page(node, 3, Pattern::Usual).await.unwrap();
            let fresh = pattern(65_536, 9);
            assert_eq!(write_direct(&client, node, 1024, &fresh, &mut Random(5)).await, 65_536);
            data[1024..1024 + 65_536].copy_from_slice(&fresh);
            assert_eq!(mapped.as_slice()[..], data[12_288..16_384], "a mapping shows what was written");
            let cached = fs.objects();
            drop((mapped, cached));
            let written = disk.image();
            let shown = |at: usize| written.windows(512).any(|sector| sector == &data[at..at + 512]);
            assert!(shown(1024) && shown(40_960) && shown(66_048), "it is on the disk before any sync");
            assert!(read_all(&client, node).await.unwrap() == data);
            assert!(read_direct(&client, node, 0, 200_192, &mut Random(6)).await == data);
            let after = client.attributes(node).await.unwrap();
            assert_eq!((after.size_bytes, after.blocks_512), (before.size_bytes, before.blocks_512));
            assert!(after.modified_ns >= before.modified_ns && after.mode & 0o6000 == 0, "as after any write");
            fs.unmount().await.unwrap();
            disk.image()
        });
        assert_clean(image);
    }
}

#[test]
fn a_file_may_be_written_from_its_own_pages() {
    block_on(async {
        let (_, _, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let (node, mut data) = cold_file(&client, 20_000).await;
        let mapped = client.page(node, 0, Pattern::Usual).await.unwrap();
        let views = vec![Bytes::new(mapped.clone(), 512, 2048)];
        assert_eq!(client.write_direct(node, 0, views).await, Ok(2048));
        data.copy_within(512..2560, 0);
        assert!(read_all(&client, node).await.unwrap() == data);
        assert_eq!(mapped.as_slice()[..], data[..4096]);
        drop(mapped);
        client.evict(node, 0, 0).await.unwrap();
        assert!(read_all(&client, node).await.unwrap() == data, "the disk has the same");
    });
}

#[test]
fn holes_and_the_end_are_left_to_a_plain_write() {
    let image = block_on(async {
        let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let (node, mut data) = cold_file(&client, 20_000).await;
        client.punch(node, 8192, 4096).await.unwrap();
        data[8192..12_288].fill(0);
        assert!(read_direct(&client, node, 0, 20_480, &mut Random(1)).await == data);
        let fresh = pattern(16_384, 2);
        let straight = client.write_direct(node, 4096, aligned_views(&fresh, &mut Random(2))).await;
        assert_eq!(straight, Ok(4096), "up to the hole");
        data[4096..8192].copy_from_slice(&fresh[..4096]);
        assert!(read_all(&client, node).await.unwrap() == data);
        assert_eq!(write_direct(&client, node, 8192, &fresh, &mut Random(3)).await, 0);
        data.resize(24_576, 0);
        data[8192..24_576].copy_from_slice(&fresh);
        assert!(read_all(&client, node).await.unwrap() == data);
        client.set_attributes(node, AttributeChange { size_bytes: Some(20_000), ..Default::default() }).await.unwrap();
        // The sector with the end is not overwritten straight: the write makes the file longer.
        assert_eq!(write_direct(&client, node, 19_456, &fresh[..1024], &mut Random(4)).await, 512);
        data.truncate(19_456);
        data.extend(&fresh[..1024]);
        assert!(read_direct(&client, node, 0, 32_768, &mut Random(5)).await == data);
        fs.unmount().await.unwrap();
        disk.image()
    });
    assert_clean(image);
}

#[test]
fn an_error_of_the_disk_is_told_and_nothing_old_stays() {
    block_on(async {
        let (disk, _, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let (node, data) = cold_file(&client, 65_536).await;
        client.read(node, 0, 4096).await.unwrap();
        let next = disk.0.lock().requests + 1;
        disk.0.lock().fail_at = Some((next, 1));
        let views = aligned_views(&[3; 4096], &mut Random(1));
        assert_eq!(client.write_direct(node, 0, views).await, Err(FileError::Io));
        assert_eq!(client.evict(node, 0, 4096).await, Ok(0));
        let next = disk.0.lock().requests + 1;
        disk.0.lock().fail_at = Some((next, 1));
        assert_eq!(client.read_direct(node, 0, page_views(1)).await, Err(FileError::Io));
        assert!(read_all(&client, node).await.unwrap() == data);
    });
}

#[test]
fn who_is_told_of_an_error_has_its_memory_back() {
    block_on(async {
        let (disk, _, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let (node, data) = cold_file(&client, 131_072).await;
        read_direct(&client, node, 0, 512, &mut Random(1)).await;
        // 32 KiB in each request: the first fails at once, the others take their time.
        let next = disk.0.lock().requests + 1;
        disk.0.lock().fail_at = Some((next, 1));
        let views = page_views(32);
        assert_eq!(client.read_direct(node, 0, views.clone()).await, Err(FileError::Io));
        assert!(disk.0.lock().requests >= next + 2, "several requests");
        assert!(flatten(&views)[65_536..] == data[65_536..], "the disk has done what it was asked for");
    });
}

/// Begins a read in a look at the file system; `None` if a message must do it.
fn begin(client: &Client, node: NodeId, offset: u64, into: &[Bytes]) -> Option<Begun> {
    client.visit(|near| near.read_direct(node, offset, into)).flatten()
}

#[test]
fn a_look_begins_what_needs_nobody_but_the_disk() {
    block_on(async {
        let (disk, _, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let (node, data) = cold_file(&client, 131_072 + 100).await;
        let views = page_views(16);
        let begun = begin(&client, node, 32_768, &views).expect("all that leads there is in memory");
        assert_eq!(begun.done().await, Ok(65_536));
        assert!(flatten(&views) == data[32_768..32_768 + 65_536]);
        assert!(begin(&client, node, 131_072, &page_views(1)).is_none(), "its end lies within a sector");
        assert!(begin(&client, node, 1 << 40, &page_views(1)).is_none() && begin(&client, node, 1, &views).is_none());
        assert!(begin(&client, client.root().await.unwrap(), 0, &views).is_none());
        let next = disk.0.lock().requests + 1;
        disk.0.lock().fail_at = Some((next, 1));
        assert_eq!(begin(&client, node, 0, &views).unwrap().done().await, Err(FileError::Io));
        assert!(disk.0.lock().requests > next, "the other request was waited for");
    });
}

#[test]
fn nobody_takes_blocks_away_before_the_disk_has_answered_also_where_nobody_waits() {
    for waits in [true, false] {
        block_on(async {
            let (disk, _, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
            let (node, data) = cold_file(&client, 65_536).await;
            disk.0.lock().latency_ns = 50_000;
            let views = page_views(8);
            let begun = begin(&client, node, 0, &views).unwrap();
            let is_cut = Rc::new(Cell::new(false));
            let told = is_cut.clone();
            spawn(async move {
                let change = AttributeChange { size_bytes: Some(0), ..AttributeChange::default() };
                client.set_attributes(node, change).await.unwrap();
                told.set(true);
            });
            sleep_ns(1000).await;
            assert!(begin(&client, node, 0, &views).is_none(), "who changes comes first");
            let waiting = waits.then_some(begun);
            sleep_ns(10_000).await;
            assert!(!is_cut.get());
            if let Some(begun) = waiting {
                assert_eq!(begun.done().await, Ok(32_768));
            }
            sleep_ns(1_000_000).await;
            assert!(is_cut.get() && flatten(&views) == data[..32_768]);
        });
    }
}

fn begin_write(client: &Client, node: NodeId, offset: u64, data: &[u8]) -> Option<Begun> {
    let from = aligned_views(data, &mut Random(offset + 1));
    client.visit(|near| near.write_direct(node, offset, &from)).flatten()
}

#[test]
fn a_look_begins_to_write_over_what_has_blocks_and_is_not_dirty() {
    let image = block_on(async {
        let (disk, fs, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let (node, mut data) = cold_file(&client, 131_072 + 100).await;
        read_direct(&client, node, 0, 131_072, &mut Random(1)).await;
        let fresh = pattern(65_536, 4);
        assert_eq!(begin_write(&client, node, 32_768, &fresh).unwrap().done().await, Ok(65_536));
        data[32_768..32_768 + 65_536].copy_from_slice(&fresh);
        assert!(read_all(&client, node).await.unwrap() == data);
        let refused = |offset, bytes: usize| begin_write(&client, node, offset, &fresh[..bytes]).is_none();
        assert!(refused(131_072, 512) && refused(1 << 40, 512) && refused(u64::MAX - 511, 512), "its end");
        assert!(refused(1, 512) && refused(512, 0));
        assert!(begin_write(&client, client.root().await.unwrap(), 0, &fresh[..512]).is_none());
        client.punch(node, 8192, 4096).await.unwrap();
        data[8192..12_288].fill(0);
        assert!(refused(4096, 8192) && refused(8192, 512), "a hole");
        client.write(node, 20_000, views_of(&[1; 9])).await.unwrap();
        data[20_000..20_009].fill(1);
        assert!(refused(16_384, 4096), "dirty");
        assert!(read_all(&client, node).await.unwrap() == data, "what is refused does nothing");
        client.sync(node).await.unwrap();
        let next = disk.0.lock().requests + 1;
        disk.0.lock().fail_at = Some((next, 1));
        let longer = pattern(98_304, 5);
        assert_eq!(begin_write(&client, node, 32_768, &longer).unwrap().done().await, Err(FileError::Io));
        assert!(disk.0.lock().requests > next, "the other request was waited for");
        fs.unmount().await.unwrap();
        disk.image()
    });
    assert_clean(image);
}

#[test]
fn pages_that_come_while_the_disk_writes_show_what_was_written_also_where_nobody_waits() {
    for waits in [true, false] {
        block_on(async {
            let (disk, _, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
            let (node, mut data) = cold_file(&client, 65_536).await;
            read_direct(&client, node, 0, 512, &mut Random(1)).await;
            disk.0.lock().latency_ns = 50_000;
            let fresh = pattern(16_384, 8);
            let begun = begin_write(&client, node, 0, &fresh).unwrap();
            let mapped = client.page(node, 1, Pattern::Usual).await.unwrap();
            client.read(node, 8192, 4096).await.unwrap();
            let waiting = waits.then_some(begun);
            if let Some(begun) = waiting {
                assert_eq!(begun.done().await, Ok(16_384));
            }
            // A change of the file waits until the write has ended, and its pages agree.
            client
                .set_attributes(node, AttributeChange { size_bytes: Some(60_000), ..Default::default() })
                .await
                .unwrap();
            data[..16_384].copy_from_slice(&fresh);
            data.truncate(60_000);
            assert!(mapped.as_slice()[..] == data[4096..8192], "a mapping shows it");
            assert!(read_all(&client, node).await.unwrap() == data);
            drop(mapped);
            client.evict(node, 0, 0).await.unwrap();
            assert!(read_all(&client, node).await.unwrap() == data, "the disk has it");
        });
    }
}

/// Checks direct and plain readers and writers at once: a reader sees in each sector the bytes of one write, never
/// older ones than its last answered write.
#[test]
fn many_at_once_never_see_what_was_before_an_answered_write() {
    for seed in 0..seeds(6) {
        block_on(async {
            let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
            spawn(fs.maintain());
            let (node, _) = cold_file(&client, 64 * 512).await;
            let floor: Rc<Vec<Cell<u8>>> = Rc::new((0..64).map(|_| Cell::new(0)).collect());
            client.write(node, 0, views_of(&[0; 64 * 512])).await.unwrap();
            let left = Rc::new(Cell::new(6));
            // Each writer has sectors of its own, of pages that it shares with others.
            for writer in 0..3_usize {
                let (client, floor, left) = (client, floor.clone(), left.clone());
                let mut random = Random(seed * 100 + writer as u64);
                spawn(async move {
                    for round in 1..120_u8 {
                        let sector = random.below(21) * 3 + writer;
                        let data = [round; 512];
                        if random.below(2) == 0 {
                            write_direct(&client, node, sector * 512, &data, &mut random).await;
                        } else {
                            client.write(node, (sector * 512) as u64, views_of(&data)).await.unwrap();
                        }
                        floor[sector].set(round);
                        sleep_ns(random.next() % 3000).await;
                        if random.below(6) == 0 {
                            client.evict(node, 0, 0).await.unwrap();
                        }
                        if random.below(9) == 0 {
                            client.write_out(node).await.unwrap();
                        }
                    }
                    left.set(left.get() - 1);
                });
            }
            for reader in 0..3_u64 {
                let (client, floor, left) = (client, floor.clone(), left.clone());
                let mut random = Random(seed * 100 + 50 + reader);
                spawn(async move {
                    for _ in 0..200 {
                        let sector = random.below(60);
                        let least: Vec<u8> = floor.iter().skip(sector).take(4).map(Cell::get).collect();
                        let found = match random.below(2) {
                            0 => read_direct(&client, node, sector * 512, 2048, &mut random).await,
                            _ => flatten(&client.read(node, (sector * 512) as u64, 2048).await.unwrap()),
                        };
                        for (part, least) in found.chunks(512).zip(least) {
                            assert!(part.iter().all(|byte| *byte == part[0]), "seed {seed}: a torn sector");
                            assert!(part[0] >= least, "seed {seed}: {} after {least}", part[0]);
                        }
                        sleep_ns(random.next() % 2000).await;
                    }
                    left.set(left.get() - 1);
                });
            }
            while left.get() > 0 {
                sleep_ns(1000).await;
            }
            let through = read_all(&client, node).await.unwrap();
            client.sync(node).await.unwrap();
            client.evict(node, 0, 0).await.unwrap();
            assert!(read_direct(&client, node, 0, 64 * 512, &mut Random(1)).await == through);
            assert!(read_all(&client, node).await.unwrap() == through);
        });
    }
}
