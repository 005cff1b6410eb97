//! A disk that fails during writes: the next sync is told once, and a file system that cannot be kept right becomes
//! read-only.

use crate::support::*;
use gyre_account::{ActivityId, set_current_activity};
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};

fn file() -> NewNode {
    NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 }
}

/// Lets the next `count` requests fail.
fn fail(disk: &RamDisk, count: u64) {
    let mut state = disk.0.lock();
    state.fail_at = Some((state.requests + 1, count));
}

/// Returns a file in a new file system, synced, and written over since.
async fn overwritten_file() -> (&'static RamDisk, Client, NodeId) {
    let (disk, _, client) = mount(make_image(4096, &["-b", "4096"])).await;
    let root = client.root().await.unwrap();
    let node = client.create(root, b"f".to_vec(), file()).await.unwrap().node;
    client.write(node, 0, views_of(&[1; 4096])).await.unwrap();
    client.sync_all().await.unwrap();
    client.write(node, 0, views_of(&[2; 4096])).await.unwrap();
    (disk, client, node)
}

#[test]
fn a_write_back_that_failed_is_told_once_to_who_syncs() {
    block_on(async {
        let (disk, client, node) = overwritten_file().await;
        // The write and its repetition.
        fail(disk, 2);
        assert_eq!(client.sync(node).await, Err(FileError::Io));
        assert_eq!(client.sync(node).await, Ok(()));
        client.write(node, 0, views_of(&[3; 4096])).await.unwrap();
        fail(disk, 1);
        assert_eq!(client.sync(node).await, Ok(()), "repeating helped");
        assert_eq!(disk.image().chunks(4096).filter(|block| block.iter().all(|byte| *byte == 3)).count(), 1);
    });
}

#[test]
fn a_write_back_that_failed_is_told_to_who_syncs_everything_and_counted_for_all_that_have_the_file_open() {
    block_on(async {
        let (disk, client, node) = overwritten_file().await;
        let losses = async || client.attributes(node).await.unwrap().losses;
        fail(disk, 2);
        client.write_out(node).await.unwrap();
        assert_eq!(client.sync_all().await, Err(FileError::Io));
        assert_eq!(client.sync_all().await, Ok(()), "told once");
        assert_eq!(losses().await, 0, "nobody took it from who syncs the file");
        assert_eq!(client.write_back(node, 0, 0).await, Err(FileError::Io), "a part that is written back");
        assert_eq!((client.sync(node).await, losses().await), (Ok(()), 1));
        client.write(node, 0, views_of(&[3; 4096])).await.unwrap();
        fail(disk, 2);
        assert_eq!((client.sync(node).await, losses().await), (Err(FileError::Io), 2));
    });
}

#[test]
fn metadata_that_cannot_be_written_makes_the_file_system_read_only_and_reading_goes_on() {
    block_on(async {
        let (disk, _, client) = mount(make_image(4096, &["-b", "4096"])).await;
        let root = client.root().await.unwrap();
        let node = client.create(root, b"f".to_vec(), file()).await.unwrap().node;
        client.write(node, 0, views_of(&[1; 9000])).await.unwrap();
        fail(disk, 1000);
        assert_eq!(client.sync_all().await, Err(FileError::Io));
        disk.0.lock().fail_at = None;
        assert_eq!(client.create(root, b"g".to_vec(), file()).await, Err(FileError::ReadOnly));
        assert_eq!(client.write(node, 0, views_of(&[2])).await, Err(FileError::ReadOnly));
        assert_eq!(read_all(&client, node).await.unwrap(), [1; 9000]);
    });
}

#[test]
fn what_nobody_syncs_reaches_the_disk_by_its_age() {
    block_on(async {
        let (disk, fs, client) = mount(make_image(4096, &["-b", "1024"])).await;
        spawn(fs.maintain());
        let root = client.root().await.unwrap();
        let before = set_current_activity(ActivityId(4));
        let node = client.create(root, b"f".to_vec(), file()).await.unwrap().node;
        client.write(node, 0, views_of(&[0xa7; 50_000])).await.unwrap();
        set_current_activity(before);
        let whole = |image: &[u8]| image.chunks(1024).filter(|block| block.iter().all(|byte| *byte == 0xa7)).count();
        assert_eq!(whole(&disk.image()), 0);
        sleep_ns(40_000_000_000).await;
        assert_eq!(whole(&disk.0.lock().medium.durable()), 50_000 / 1024);
        assert_clean(disk.image());
        let requests = disk.0.lock().requests;
        sleep_ns(3_600_000_000_000).await;
        assert_eq!(disk.0.lock().requests, requests, "an idle file system asks for nothing");
    });
}

#[test]
fn a_writer_over_its_limit_writes_its_own_pages_back() {
    block_on(async {
        let disk = RamDisk::leak(make_image(8192, &["-b", "4096"]));
        let cache = new_cache(200);
        let fs = mount_on(disk, cache).await.unwrap();
        let client = client_of(fs);
        let root = client.root().await.unwrap();
        let node = client.create(root, b"f".to_vec(), file()).await.unwrap().node;
        for index in 0..1000 {
            client.write(node, index * 4096, views_of(&[5; 4096])).await.unwrap();
            let dirty: usize = cache.usage().iter().map(|usage| usage.dirty).sum();
            assert!(dirty <= 51, "{dirty} dirty pages");
        }
        assert_eq!(disk.0.lock().largest_read, 4096, "nothing was read but metadata");
        assert_eq!(read_all(&client, node).await.unwrap(), vec![5; 4_096_000]);
    });
}
