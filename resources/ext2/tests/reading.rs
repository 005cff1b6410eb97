//! Images that mke2fs fills from a directory are read as they are.

use crate::support::*;
use gyre_interface::files::{FileError, NodeId, NodeKind, Pattern};
use gyre_message::direct::block_on;
use std::os::unix::fs::symlink;

const SHAPES: &[&[&str]] = &[
    &["-b", "1024"],
    &["-b", "2048", "-I", "128"],
    &["-b", "4096", "-I", "256"],
    &["-b", "1024", "-r", "0", "-O", "none"],
    &["-b", "4096", "-O", "^dir_index,^resize_inode"],
];

fn pattern(bytes: usize, salt: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index / 512 * 7 + index + salt) as u8).collect()
}

fn filled_image(shape: &[&str]) -> Vec<u8> {
    let root = temporary("tree");
    std::fs::create_dir_all(root.join("usr/share/deep")).unwrap();
    std::fs::write(root.join("empty"), []).unwrap();
    std::fs::write(root.join("small"), b"hello\n").unwrap();
    std::fs::write(root.join("usr/medium"), pattern(300_000, 1)).unwrap();
    std::fs::write(root.join("usr/share/deep/large"), pattern(9_000_000, 2)).unwrap();
    for number in 0..500 {
        std::fs::write(root.join(format!("usr/share/file-with-a-long-name-{number}")), number.to_string()).unwrap();
    }
    let sparse = std::fs::File::create(root.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 5_000_000).unwrap();
    symlink("small", root.join("fast-link")).unwrap();
    symlink("x/".repeat(100), root.join("slow-link")).unwrap();
    let path = root.to_str().unwrap().to_owned();
    let image = make_image(32 * 1024, &[shape, &["-d", &path]].concat());
    std::fs::remove_dir_all(root).unwrap();
    image
}

#[test]
fn trees_of_every_shape_are_read_back() {
    for shape in SHAPES {
        let image = filled_image(shape);
        block_on(async {
            let (_, _, client) = mount(image).await;
            let root = client.root().await.unwrap();
            let small = client.lookup(root, b"small".to_vec()).await.unwrap();
            assert_eq!((small.kind, small.size_bytes), (NodeKind::File, 6));
            assert_eq!(read_all(&client, small.node).await.unwrap(), b"hello\n");
            let usr = client.lookup(root, b"usr".to_vec()).await.unwrap();
            assert_eq!(usr.kind, NodeKind::Directory);
            let medium = client.lookup(usr.node, b"medium".to_vec()).await.unwrap();
            assert_eq!(read_all(&client, medium.node).await.unwrap(), pattern(300_000, 1), "{shape:?}");
            let share = client.lookup(usr.node, b"share".to_vec()).await.unwrap().node;
            let deep = client.lookup(share, b"deep".to_vec()).await.unwrap().node;
            let large = client.lookup(deep, b"large".to_vec()).await.unwrap();
            assert_eq!(read_all(&client, large.node).await.unwrap(), pattern(9_000_000, 2));
            let sparse = client.lookup(root, b"sparse".to_vec()).await.unwrap();
            let data = read_all(&client, sparse.node).await.unwrap();
            assert_eq!((data.len(), &data[5_000_000..]), (5_000_003, &b"end"[..]));
            assert!(data[..5_000_000].iter().all(|byte| *byte == 0));
            for (name, target) in [("fast-link", b"small".to_vec()), ("slow-link", b"x/".repeat(100))] {
                let link = client.lookup(root, name.as_bytes().to_vec()).await.unwrap();
                assert_eq!(link.kind, NodeKind::SymbolicLink);
                assert_eq!(client.read_link(link.node).await.unwrap(), target);
            }
            let up = client.lookup(share, b"..".to_vec()).await.unwrap();
            assert_eq!(up.node, usr.node);
            assert_eq!(client.lookup(root, b"..".to_vec()).await.unwrap().node, root);
            assert_eq!(client.lookup(root, b"absent".to_vec()).await, Err(FileError::NotFound));
            assert_eq!(client.lookup(small.node, b"x".to_vec()).await, Err(FileError::NotDirectory));
            assert_eq!(list_all(&client, share, 100).await.len(), 500 + 3);
        });
    }
}

async fn list_all(client: &gyre_interface::files::files::Client, node: NodeId, bytes: usize) -> Vec<Vec<u8>> {
    let (mut names, mut from) = (Vec::new(), 0);
    loop {
        let part = client.read_directory(node, from, bytes).await.unwrap();
        let Some(last) = part.last() else {
            return names;
        };
        from = last.next;
        names.extend(part.into_iter().map(|entry| entry.name));
    }
}

#[test]
fn adjacent_pages_are_read_together_and_ahead() {
    let image = filled_image(&["-b", "4096"]);
    block_on(async {
        let (disk, _, client) = mount(image).await;
        let root = client.root().await.unwrap();
        let usr = client.lookup(root, b"usr".to_vec()).await.unwrap().node;
        let share = client.lookup(usr, b"share".to_vec()).await.unwrap().node;
        let deep = client.lookup(share, b"deep".to_vec()).await.unwrap().node;
        let large = client.lookup(deep, b"large".to_vec()).await.unwrap().node;
        let before = disk.0.lock().requests;
        for index in 0..256 {
            let views = client.read(large, index * 4096, 4096).await.unwrap();
            assert_eq!(flatten(&views).len(), 4096);
        }
        let requests = disk.0.lock().requests - before;
        // The pages of one reader are fetched in one request of up to 64 KiB (docs/decisions/0013).
        assert!((16..40).contains(&requests), "{requests} requests for 256 pages");
        assert_eq!(disk.0.lock().largest_read, 64 * 1024);
    });
}

#[test]
fn readers_of_one_page_share_one_request() {
    let image = filled_image(&["-b", "4096"]);
    block_on(async {
        let (disk, _, client) = mount(image).await;
        let root = client.root().await.unwrap();
        let small = client.lookup(root, b"small".to_vec()).await.unwrap().node;
        let before = disk.0.lock().requests;
        let calls: Vec<_> = (0..20).map(|_| client.page(small, 0, Pattern::Usual)).collect();
        let mut pages = Vec::new();
        for call in calls {
            pages.push(call.await.unwrap());
        }
        assert!(pages.iter().all(|page| page.same(&pages[0])));
        assert_eq!(disk.0.lock().requests - before, 1);
    });
}

#[test]
fn images_that_are_not_known_are_refused() {
    block_on(async {
        let plain = RamDisk::leak(vec![0; 1 << 20]);
        assert_eq!(mount_on(plain, new_cache(64)).await.err(), Some(FileError::Invalid));
        let path = temporary("ext4");
        let made = std::process::Command::new("mke2fs")
            .args(["-q", "-F", "-t", "ext4"])
            .arg(&path)
            .arg("8192")
            .status()
            .unwrap();
        assert!(made.success());
        let ext4 = RamDisk::leak(std::fs::read(&path).unwrap());
        std::fs::remove_file(path).unwrap();
        assert_eq!(mount_on(ext4, new_cache(64)).await.err(), Some(FileError::Unsupported));
    });
}
