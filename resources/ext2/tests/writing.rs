//! Changes are seen at once, survive unmounting, and leave images without a fault for e2fsck.

use crate::support::*;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_message::direct::block_on;

fn file() -> NewNode {
    NewNode { kind: NodeKind::File, mode: 0o644, user: 1000, group: 70_000, target: Vec::new(), device: 0 }
}

fn directory() -> NewNode {
    NewNode { kind: NodeKind::Directory, mode: 0o755, ..file() }
}

async fn write_file(client: &Client, directory: NodeId, name: &[u8], data: &[u8]) -> NodeId {
    let node = client.create(directory, name.to_vec(), file()).await.unwrap().node;
    assert_eq!(client.write(node, 0, views_of(data)).await, Ok(data.len()));
    node
}

const SHAPES: &[&[&str]] =
    &[&["-b", "1024"], &["-b", "2048", "-I", "128"], &["-b", "4096"], &["-b", "1024", "-r", "0", "-O", "none"]];

#[test]
fn files_of_every_size_survive_a_remount() {
    for shape in SHAPES {
        let sizes = [0, 1, 1023, 1024, 4096, 5000, 12 * 1024, 13 * 1024, 300_000, 2_000_000];
        let data = |size: usize| -> Vec<u8> { (0..size).map(|at| (at / 7 + at / 4096 + size) as u8).collect() };
        let image = block_on(async {
            let (disk, file_system, client) = mount(make_image(16 * 1024, shape)).await;
            let root = client.root().await.unwrap();
            for size in sizes {
                let node = write_file(&client, root, size.to_string().as_bytes(), &data(size)).await;
                assert_eq!(read_all(&client, node).await.unwrap(), data(size));
            }
            file_system.unmount().await.unwrap();
            disk.image()
        });
        assert_clean(image.clone());
        block_on(async {
            let (_, _, client) = mount(image).await;
            let root = client.root().await.unwrap();
            for size in sizes {
                let found = client.lookup(root, size.to_string().into_bytes()).await.unwrap();
                assert_eq!((found.size_bytes, found.group, found.mode), (size as u64, 70_000, 0o644));
                assert_eq!(read_all(&client, found.node).await.unwrap(), data(size), "{shape:?}");
            }
        });
    }
}

#[test]
fn every_kind_of_node_and_name_survives_a_remount() {
    for shape in SHAPES {
        let image = block_on(async {
            let (disk, file_system, client) = mount(make_image(8 * 1024, shape)).await;
            let root = client.root().await.unwrap();
            let home = client.create(root, b"home".to_vec(), directory()).await.unwrap().node;
            for number in 0..300 {
                let name = format!("a-rather-long-name-for-a-file-{number}");
                client.create(home, name.into_bytes(), file()).await.unwrap();
            }
            let new = |kind, target: &[u8], device| NewNode { kind, target: target.to_vec(), device, ..file() };
            client.create(root, b"fast".to_vec(), new(NodeKind::SymbolicLink, b"home/x", 0)).await.unwrap();
            client.create(root, b"slow".to_vec(), new(NodeKind::SymbolicLink, &[b'y'; 500], 0)).await.unwrap();
            client.create(root, b"null".to_vec(), new(NodeKind::CharacterDevice, b"", 0x103)).await.unwrap();
            client
                .create(root, b"disk".to_vec(), new(NodeKind::BlockDevice, b"", 0x10_0812_3456_u64 & 0xff_ffff_ffff))
                .await
                .unwrap();
            client.create(root, b"pipe".to_vec(), new(NodeKind::Pipe, b"", 0)).await.unwrap();
            let node = write_file(&client, home, b"two-names", b"data").await;
            client.link(node, root, b"other".to_vec()).await.unwrap();
            assert_eq!(client.create(root, b"other".to_vec(), file()).await, Err(FileError::Exists));
            assert_eq!(client.link(home, root, b"dir".to_vec()).await, Err(FileError::IsDirectory));
            assert_eq!(client.remove_directory(root, b"home".to_vec()).await, Err(FileError::NotEmpty));
            client.unlink(home, b"two-names".to_vec()).await.unwrap();
            let empty = client.create(home, b"empty".to_vec(), directory()).await.unwrap().node;
            client.remove_directory(home, b"empty".to_vec()).await.unwrap();
            assert_eq!(client.create(empty, b"x".to_vec(), file()).await, Err(FileError::Stale));
            file_system.unmount().await.unwrap();
            disk.image()
        });
        assert_clean(image.clone());
        block_on(async {
            let (_, _, client) = mount(image).await;
            let root = client.root().await.unwrap();
            let look = |name: &'static str| client.lookup(root, name.into());
            assert_eq!(client.read_link(look("fast").await.unwrap().node).await.unwrap(), b"home/x");
            assert_eq!(client.read_link(look("slow").await.unwrap().node).await.unwrap(), [b'y'; 500]);
            assert_eq!(look("null").await.unwrap().device, 0x103);
            assert_eq!(look("pipe").await.unwrap().kind, NodeKind::Pipe);
            let other = look("other").await.unwrap();
            assert_eq!((other.links, read_all(&client, other.node).await.unwrap()), (1, b"data".to_vec()));
            let home = look("home").await.unwrap();
            assert_eq!(home.links, 2);
            assert!(client.lookup(home.node, b"a-rather-long-name-for-a-file-299".to_vec()).await.is_ok());
        });
    }
}

#[test]
fn renaming_moves_replaces_and_refuses_loops() {
    let image = block_on(async {
        let (disk, file_system, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let root = client.root().await.unwrap();
        let a = client.create(root, b"a".to_vec(), directory()).await.unwrap().node;
        let b = client.create(a, b"b".to_vec(), directory()).await.unwrap().node;
        let c = client.create(b, b"c".to_vec(), directory()).await.unwrap().node;
        write_file(&client, c, b"file", b"one").await;
        write_file(&client, root, b"file", b"two").await;
        let rename = |from, name: &'static str, to, new: &'static str| {
            client.rename(from, name.into(), to, new.into(), RenameMode::Replace)
        };
        assert_eq!(rename(root, "a", c, "loop").await, Err(FileError::Invalid));
        assert_eq!(rename(root, "a", a, "loop").await, Err(FileError::Invalid));
        assert_eq!(rename(c, "file", root, "a").await, Err(FileError::IsDirectory));
        assert_eq!(rename(b, "c", root, "file").await, Err(FileError::NotDirectory));
        assert_eq!(rename(c, "file", a, "b").await, Err(FileError::IsDirectory));
        assert_eq!(rename(b, "c", root, "a").await, Err(FileError::NotEmpty));
        rename(c, "file", root, "file").await.unwrap();
        let found = client.lookup(root, b"file".to_vec()).await.unwrap();
        assert_eq!(read_all(&client, found.node).await.unwrap(), b"one");
        assert_eq!(client.lookup(c, b"file".to_vec()).await, Err(FileError::NotFound));
        rename(b, "c", root, "moved").await.unwrap();
        assert_eq!(client.lookup(c, b"..".to_vec()).await.unwrap().node, root);
        rename(root, "moved", a, "b").await.unwrap();
        assert_eq!(client.lookup(a, b"b".to_vec()).await.unwrap().node, c);
        assert_eq!(client.attributes(root).await.unwrap().links, 4);
        rename(a, "b", a, "b").await.unwrap();
        rename(a, "b", a, "bb").await.unwrap();
        file_system.unmount().await.unwrap();
        disk.image()
    });
    assert_clean(image);
}

#[test]
fn truncation_frees_and_never_shows_old_data() {
    for shape in SHAPES {
        let image = block_on(async {
            let (disk, file_system, client) = mount(make_image(16 * 1024, shape)).await;
            let root = client.root().await.unwrap();
            let before = client.statistics().await.unwrap();
            let node = write_file(&client, root, b"f", &[7; 3_000_000]).await;
            let resize = |size| {
                client.set_attributes(node, AttributeChange { size_bytes: Some(size), ..AttributeChange::default() })
            };
            resize(1_234_567).await.unwrap();
            resize(2_000_000).await.unwrap();
            let data = read_all(&client, node).await.unwrap();
            assert!(data[..1_234_567].iter().all(|byte| *byte == 7) && data[1_234_567..].iter().all(|byte| *byte == 0));
            resize(10).await.unwrap();
            resize(5000).await.unwrap();
            assert_eq!(read_all(&client, node).await.unwrap(), [vec![7; 10], vec![0; 4990]].concat());
            client.write(node, 8_000_000, views_of(b"far")).await.unwrap();
            assert!(client.attributes(node).await.unwrap().blocks_512 < 100, "a sparse file");
            resize(0).await.unwrap();
            client.unlink(root, b"f".to_vec()).await.unwrap();
            client.sync_all().await.unwrap();
            let after = client.statistics().await.unwrap();
            assert_eq!((after.blocks_free, after.nodes_free), (before.blocks_free, before.nodes_free));
            file_system.unmount().await.unwrap();
            disk.image()
        });
        assert_clean(image);
    }
}

#[test]
fn an_open_file_without_names_lives_until_it_is_closed() {
    let image = block_on(async {
        let (disk, file_system, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let root = client.root().await.unwrap();
        client.sync_all().await.unwrap();
        let free = client.statistics().await.unwrap().blocks_free;
        let node = write_file(&client, root, b"f", &[1; 100_000]).await;
        client.open(node).await.unwrap();
        client.unlink(root, b"f".to_vec()).await.unwrap();
        client.sync_all().await.unwrap();
        client.write(node, 0, views_of(b"still here")).await.unwrap();
        assert_eq!(&read_all(&client, node).await.unwrap()[..10], b"still here");
        client.close(node).await.unwrap();
        assert_eq!(client.attributes(node).await, Err(FileError::Stale));
        assert_eq!(client.open(node).await, Err(FileError::Stale));
        client.sync_all().await.unwrap();
        assert_eq!(client.statistics().await.unwrap().blocks_free, free);
        file_system.unmount().await.unwrap();
        disk.image()
    });
    assert_clean(image);
}

#[test]
fn a_full_disk_is_an_answer_and_deleting_helps() {
    let image = block_on(async {
        let (disk, file_system, client) = mount(make_image(2 * 1024, &["-b", "1024", "-N", "64"])).await;
        let root = client.root().await.unwrap();
        let node = client.create(root, b"big".to_vec(), file()).await.unwrap().node;
        let mut at = 0;
        let error = loop {
            match client.write(node, at, views_of(&[3; 10_000])).await {
                Ok(written) => at += written as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error, FileError::NoSpace);
        assert!(at > 1_000_000);
        assert_eq!(client.append(node, views_of(&[5; 2000])).await, Err(FileError::NoSpace));
        assert_eq!(client.attributes(node).await.unwrap().size_bytes, at, "an append is whole or not at all");
        let mut made = 0;
        while client.create(root, format!("n{made}").into_bytes(), file()).await.is_ok() {
            made += 1;
        }
        assert!(made > 10);
        client.unlink(root, b"big".to_vec()).await.unwrap();
        client
            .write(client.lookup(root, b"n0".to_vec()).await.unwrap().node, 0, views_of(&[4; 500_000]))
            .await
            .unwrap();
        file_system.unmount().await.unwrap();
        disk.image()
    });
    assert_clean(image);
}

#[test]
fn pages_written_through_a_mapping_reach_the_disk() {
    let image = block_on(async {
        let (disk, file_system, client) = mount(make_image(8 * 1024, &["-b", "1024"])).await;
        let root = client.root().await.unwrap();
        let node = client.create(root, b"f".to_vec(), file()).await.unwrap().node;
        client
            .set_attributes(node, AttributeChange { size_bytes: Some(10_000), ..AttributeChange::default() })
            .await
            .unwrap();
        let page = client.page(node, 1, Pattern::Usual).await.unwrap();
        page.write(100, b"mapped");
        client.page_dirtied(node, 1).await.unwrap();
        drop(page);
        file_system.unmount().await.unwrap();
        disk.image()
    });
    assert_clean(image.clone());
    block_on(async {
        let (_, _, client) = mount(image).await;
        let root = client.root().await.unwrap();
        let node = client.lookup(root, b"f".to_vec()).await.unwrap().node;
        assert_eq!(&read_all(&client, node).await.unwrap()[4196..4202], b"mapped");
    });
}
