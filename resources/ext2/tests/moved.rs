//! Bytes of files that requests and visits move are counted exactly: those that were read and written, not those
//! asked for.

use crate::support::*;
use gyre_ext2::{Ext2, MountOptions};
use gyre_interface::files::*;
use gyre_interface::near::{NEAR_PAGES_MAX, Near, NearPages};
use gyre_message::direct::block_on;
use std::sync::atomic::{AtomicU64, Ordering};

static MOVED: AtomicU64 = AtomicU64::new(0);

fn note(bytes: u64) {
    MOVED.fetch_add(bytes, Ordering::Relaxed);
}

/// Returns the bytes told since the last look.
fn told() -> u64 {
    MOVED.swap(0, Ordering::Relaxed)
}

#[test]
fn the_bytes_of_files_are_told() {
    block_on(async {
        let disk = RamDisk::leak(make_image(8 * 1024, &["-b", "4096"]));
        let options = MountOptions { report: Some(&|bytes| note(bytes)), ..MountOptions::new(1) };
        let fs = Ext2::mount(disk.client(), options, new_cache(1024)).await.unwrap();
        let client = client_of(fs);
        let root = client.root().await.unwrap();
        let file = NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 };
        let node = client.create(root, b"a".into(), file).await.unwrap().node;
        assert_eq!(told(), 0, "a name is no contents");
        client.write(node, 0, views_of(&[1; 10_000])).await.unwrap();
        assert_eq!(told(), 10_000);
        client.append(node, views_of(&[2; 500])).await.unwrap();
        assert_eq!(told(), 500);
        client.read(node, 10_000, 9_000).await.unwrap();
        assert_eq!(told(), 500, "what is there");
        client.read(node, 20_000, 9_000).await.unwrap();
        assert_eq!(told(), 0, "nothing is there");
        client.page(node, 1, Pattern::Usual).await.unwrap();
        assert_eq!(told(), 4096);
        let mut pages: NearPages = [const { None }; NEAR_PAGES_MAX];
        assert_eq!(Near::read(fs, node, 5_000, 2_000, &mut pages), Some(Ok(2_000)));
        assert_eq!(told(), 2_000);
        assert_eq!(Near::overwrite(fs, node, 100, 50, &mut |_, _, _| true), Some(()));
        assert_eq!(told(), 50);
    });
}
