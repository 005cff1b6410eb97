//! Unmounting while old data are written back in the background: nothing is written after it, and the disk is marked as clean.

use crate::support::*;
use gyre_ext2::MountOptions;
use gyre_interface::files::files::Server;
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};

/// The place of the state in an image with blocks of 1 KiB, and the state of one that was unmounted in order.
const STATE_AT: usize = 1024 + 58;
const CLEAN: u8 = 1;

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
        let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 };
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
