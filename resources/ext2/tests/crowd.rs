//! More files than the file system remembers: changed nodes cannot give way, so that changes are committed in time; unused ones are given
//! back when memory is short.

use crate::support::*;
use gyre_ext2::{Ext2, MountOptions};
use gyre_file_cache::ShelfOptions;
use gyre_interface::files::*;
use gyre_interface::memory::{Effort, reclaim};
use gyre_message::direct::{block_on, direct_link};

const NODES: usize = 256;
const FILES: usize = 1500;

fn new(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 }
}

async fn mount_small(disk: &'static RamDisk) -> (&'static Ext2, files::Client) {
    let bounds = ShelfOptions { capacity: NODES, budget: NODES, payer: &|activity| activity };
    let options = MountOptions { nodes: bounds, names: bounds, ..MountOptions::new(1) };
    let fs = Ext2::mount(disk.client(), options, new_cache(4096)).await.unwrap();
    (fs, files::Client::new(direct_link(move |request| Box::pin(files::serve(fs, request)))))
}

#[test]
fn more_files_are_made_changed_and_removed_than_nodes_are_remembered() {
    block_on(async {
        let disk = RamDisk::leak(make_image(32 * 1024, &["-b", "4096", "-I", "256", "-N", "4096"]));
        let (fs, client) = mount_small(disk).await;
        let root = client.root().await.unwrap();
        let free = client.statistics().await.unwrap();
        let name = |number: usize| format!("file-{number}").into_bytes();
        for number in 0..FILES {
            let node = client.create(root, name(number), new(NodeKind::File)).await.unwrap().node;
            client.write(node, 0, views_of(&[number as u8; 100])).await.unwrap();
        }
        for number in 0..FILES {
            let node = client.lookup(root, name(number)).await.unwrap().node;
            let change = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
            client.set_attributes(node, change).await.unwrap();
        }
        for number in 0..FILES {
            let found = client.lookup(root, name(number)).await.unwrap();
            assert_eq!((found.mode, found.size_bytes), (0o600, 100));
            client.unlink(root, name(number)).await.unwrap();
        }
        fs.unmount().await.unwrap();
        let after = client.statistics().await.unwrap();
        assert_eq!(after.nodes_free, free.nodes_free);
        assert_clean(disk.image());
    });
}

#[test]
fn unused_nodes_and_names_are_given_back_and_read_again() {
    block_on(async {
        let disk = RamDisk::leak(make_image(8 * 1024, &["-b", "1024", "-I", "128"]));
        let (fs, client) = mount_small(disk).await;
        let root = client.root().await.unwrap();
        for number in 0..100 {
            client.create(root, format!("{number}").into_bytes(), new(NodeKind::File)).await.unwrap();
        }
        client.sync_all().await.unwrap();
        let held = client.lookup(root, b"7".to_vec()).await.unwrap().node;
        client.open(held).await.unwrap();
        let keeper = reclaim::Client::new(direct_link(move |request| Box::pin(reclaim::serve(fs, request))));
        let own = gyre_account::current_activity();
        let given = keeper.reclaim(own, 1 << 20, Effort::Thorough).await.unwrap();
        assert!(given > 100 * 300, "{given} bytes of 100 nodes and names");
        assert_eq!(keeper.reclaim(own, 1 << 20, Effort::Thorough).await.unwrap(), 0, "there is nothing left to give");
        let before = disk.0.lock().requests;
        assert_eq!(client.attributes(held).await.unwrap().links, 1);
        assert_eq!(disk.0.lock().requests, before, "an open node stays");
        for number in 0..100 {
            assert_eq!(client.lookup(root, format!("{number}").into_bytes()).await.unwrap().links, 1);
        }
        client.close(held).await.unwrap();
    });
}

#[test]
fn whole_pages_are_written_without_reading_what_they_replace() {
    block_on(async {
        let disk = RamDisk::leak(make_image(8 * 1024, &["-b", "4096", "-I", "256"]));
        let (fs, client) = mount_small(disk).await;
        let root = client.root().await.unwrap();
        let node = client.create(root, b"file".to_vec(), new(NodeKind::File)).await.unwrap().node;
        client.write(node, 0, views_of(&[1; 20_000])).await.unwrap();
        client.sync(node).await.unwrap();
        assert!(client.evict(node, 0, 0).await.unwrap() >= 20_000);
        let before = disk.0.lock().requests;
        client.write(node, 4096, views_of(&[2; 8192])).await.unwrap();
        assert_eq!(disk.0.lock().requests, before, "the pages are replaced as they are");
        client.sync(node).await.unwrap();
        client.evict(node, 0, 0).await.unwrap();
        let wanted = [vec![1; 4096], vec![2; 8192], vec![1; 20_000 - 12_288]].concat();
        assert!(read_all(&client, node).await.unwrap() == wanted);
        fs.unmount().await.unwrap();
        assert_clean(disk.image());
    });
}
