//! Unmounting while old data are written back in the background: nothing is written after it, and the disk is marked as clean. Before the disk
//! is given away, work of others is waited for.

use crate::support::*;
use gyre_account::{ActivityId, current_activity, set_current_activity};
use gyre_ext2::{Ext2, MountOptions};
use gyre_interface::files::files::Server;
use gyre_interface::files::*;
use gyre_interface::memory::{Effort, MemoryError, reclaim};
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};

/// The place of the state in an image with blocks of 1 KiB, and the state of one that was unmounted in order.
const STATE_AT: usize = 1024 + 58;
const CLEAN: u8 = 1;

fn new_file() -> NewNode {
    NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 }
}

/// Asks for the memory of a dirty page, as another tenant's work does.
async fn asks_for_memory(fs: &'static Ext2) -> Result<u64, MemoryError> {
    reclaim::Server::reclaim(fs, current_activity(), 4096, Effort::Usual).await
}

/// Unmounts so long after the start, ns, and returns the image at that moment and one that is looked at later.
fn unmount_after(ns: u64) -> (Vec<u8>, Vec<u8>) {
    block_on(async {
        let disk = RamDisk::leak(make_image(1024, &["-b", "1024"]));
        disk.0.lock().latency_ns = 50_000;
        let options = MountOptions { age_ms: 1, ..MountOptions::new(1) };
        begin_time();
        let fs = gyre_ext2::Ext2::mount(disk.client(), options, new_cache(600)).await.unwrap();
        spawn(fs.maintain());
        let root = fs.root().await.unwrap();
        let new = new_file();
        spawn(async move {
            for number in 0.. {
                let Ok(made) = fs.create(root, format!("n{}", number % 9).into_bytes(), new.clone()).await else {
                    return;
                };
                let _ = fs.write(made.node, 0, views_of(&[1; 3000])).await;
                let _ = fs.unlink(root, format!("n{}", number % 9).into_bytes()).await;
                sleep_ns(100_000).await;
            }
        });
        sleep_ns(ns).await;
        fs.unmount().await.unwrap();
        let at_once = disk.image();
        sleep_ns(100_000_000).await;
        (at_once, disk.image())
    })
}

#[test]
fn the_background_writes_nothing_after_the_end() {
    for step in 0..100 {
        let (at_once, later) = unmount_after(1_000_000 + step * 17_000);
        assert_eq!(at_once[STATE_AT] & CLEAN, CLEAN, "step {step}: the disk is marked as in use");
        assert!(at_once == later, "step {step}: something was written after the end");
    }
}

#[test]
fn whoever_gives_the_disk_away_waits_for_work_of_others_and_nobody_begins_any_more() {
    block_on(async {
        let disk = RamDisk::leak(make_image(1024, &["-b", "1024"]));
        begin_time();
        let options = MountOptions { age_ms: 1, ..MountOptions::new(1) };
        let other = set_current_activity(ActivityId(7));
        let fs = Ext2::mount(disk.client(), options, new_cache(600)).await.unwrap();
        set_current_activity(other);
        let root = fs.root().await.unwrap();
        let node = fs.create(root, b"n".to_vec(), new_file()).await.unwrap().node;
        fs.sync_all().await.unwrap();
        fs.write(node, 0, views_of(&[1; 3000])).await.unwrap();
        disk.0.lock().latency_ns = 50_000_000;
        spawn(async move {
            asks_for_memory(fs).await.unwrap();
        });
        sleep_ns(1_000_000).await;
        let under_way = disk.image();
        fs.close_to_others().await;
        let at_rest = disk.image();
        assert!(at_rest != under_way, "the page that was on its way was not waited for");
        fs.write(node, 0, views_of(&[2; 3000])).await.unwrap();
        assert_eq!(asks_for_memory(fs).await, Ok(0));
        // The background ends.
        fs.maintain().await;
        sleep_ns(1_000_000_000).await;
        assert!(disk.image() == at_rest, "something was written after the end");
    });
}
