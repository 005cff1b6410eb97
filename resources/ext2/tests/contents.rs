//! Contents that go through the file cache as a resource: the same bytes, counted once there, whether they are in
//! memory or not.

use crate::support::*;
use gyre_file_cache::Contents;
use gyre_interface::files::*;
use gyre_interface::near::{NEAR_PAGES_MAX, Near, NearPages};
use gyre_message::direct::{block_on, direct_link};
use gyre_object::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGES: u64 = 64;
static MOVED: AtomicU64 = AtomicU64::new(0);

fn note(bytes: u64) {
    MOVED.fetch_add(bytes, Ordering::Relaxed);
}

/// Returns the bytes told since the last look.
fn told() -> u64 {
    MOVED.swap(0, Ordering::Relaxed)
}

fn flat(views: &[Bytes]) -> Vec<u8> {
    views.iter().flat_map(|view| view.as_slice().to_vec()).collect()
}

/// Makes a file system whose contents go through the file cache. Both tell bytes, as in a machine: the shower of
/// pages, and the cache.
async fn gated() -> (&'static gyre_ext2::Ext2, files::Client) {
    let disk = RamDisk::leak(make_image(8 * 1024, &["-b", "4096"]));
    let fs = gyre_ext2::Ext2::mount(disk.client(), gyre_ext2::MountOptions::new(77), new_cache(1024)).await.unwrap();
    let direct = direct_link(move |request| Box::pin(files::serve(fs, request)));
    let contents: &'static Contents = Box::leak(Box::new(Contents::new(direct, fs, &|bytes| note(bytes))));
    (fs, contents.client(direct_link(move |request| Box::pin(contents.serve(request)))))
}

#[test]
fn contents_are_the_same_through_the_file_cache_and_counted_there() {
    block_on(async {
        let (fs, client) = gated().await;
        let root = client.root().await.unwrap();
        let file = NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 };
        let node = client.create(root, b"a".into(), file).await.unwrap().node;
        let mut model: Vec<u8> = (0..PAGES * 4096 - 1000).map(|at| (at / 7 % 251) as u8).collect();
        client.write(node, 0, views_of(&model)).await.unwrap();
        assert_eq!(told(), model.len() as u64);
        client.append(node, views_of(&[9; 500])).await.unwrap();
        model.extend([9; 500]);
        assert_eq!(told(), 500);
        client.sync(node).await.unwrap();
        let mut random = 5_u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let (mut asked, mut missed) = (0, 0);
        for _ in 0..300 {
            client.evict(node, below(PAGES) * 4096, below(20) * 4096).await.unwrap();
            let (from, bytes) = (below(model.len() as u64 + 9000), below(90_000));
            let end = (from + bytes).min(model.len() as u64);
            let expected = model.get(from as usize..end as usize).unwrap_or_default();
            let mut pages: NearPages = [const { None }; NEAR_PAGES_MAX];
            let seen = Near::read(fs, node, from, bytes.min(4096) as usize, &mut pages);
            missed += u64::from(seen.is_none());
            let read = if below(2) == 0 {
                client.read(node, from, bytes as usize)
            } else {
                client.read_random(node, from, bytes as usize)
            };
            assert_eq!(flat(&read.await.unwrap()), expected, "{bytes} from {from}");
            asked += expected.len() as u64;
        }
        assert!(missed > 20, "{missed} of 300 begin with a page that is not in memory");
        let from_disk = told();
        assert!(from_disk > 0 && from_disk < asked, "{from_disk} of {asked}: who shows pages counts the others");
        let page = client.page(node, PAGES - 1, Pattern::Usual).await.unwrap();
        assert_eq!(page.as_slice().get(..3596), model.get(model.len() - 3596..));
    });
}

#[test]
fn names_go_past_the_file_cache() {
    block_on(async {
        let (_, client) = gated().await;
        let root = client.root().await.unwrap();
        let file = NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 };
        let made = client.create(root, b"a".into(), file).await.unwrap();
        assert_eq!(client.lookup(root, b"a".into()).await.unwrap().node, made.node);
        client.unlink(root, b"a".into()).await.unwrap();
        assert_eq!(client.lookup(root, b"a".into()).await.err(), Some(FileError::NotFound));
    });
}
