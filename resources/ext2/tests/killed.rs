//! A task killed at any await point leaves no lock, no page and no block behind.

use crate::support::*;
use gyre_interface::files::files::Server;
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use gyre_message::wait::Either;
use gyre_message::{select, sleep_ns};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;

/// Drops the future when it has waited `polls` times; true if it was done before.
async fn kill_after<T>(polls: usize, future: impl Future<Output = T>) -> bool {
    let mut future = pin!(Some(future));
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().as_pin_mut().unwrap().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn new(kind: NodeKind) -> NewNode {
    let target = if kind == NodeKind::SymbolicLink { vec![b'x'; 300] } else { Vec::new() };
    NewNode { kind, mode: 0o755, user: 0, group: 0, target, device: 0 }
}

type Operation = fn(&'static gyre_ext2::Ext2, NodeId) -> Pin<Box<dyn Future<Output = ()>>>;

fn operations() -> Vec<(&'static str, Operation)> {
    fn ignore<T>(_: T) {}
    vec![
        ("create", |fs, dir| {
            Box::pin(async move { ignore(fs.create(dir, b"new".to_vec(), new(NodeKind::File)).await) })
        }),
        ("mkdir", |fs, dir| {
            Box::pin(async move { ignore(fs.create(dir, b"dir".to_vec(), new(NodeKind::Directory)).await) })
        }),
        ("symlink", |fs, dir| {
            Box::pin(async move { ignore(fs.create(dir, b"sym".to_vec(), new(NodeKind::SymbolicLink)).await) })
        }),
        ("write", |fs, dir| {
            Box::pin(async move {
                let node = fs.lookup(dir, b"old".to_vec()).await.unwrap().node;
                ignore(fs.write(node, 250_000, views_of(&[5; 60_000])).await);
            })
        }),
        ("read", |fs, dir| {
            Box::pin(async move {
                let node = fs.lookup(dir, b"old".to_vec()).await.unwrap().node;
                ignore(fs.read(node, 0, 200_000).await);
            })
        }),
        ("truncate", |fs, dir| {
            Box::pin(async move {
                let node = fs.lookup(dir, b"old".to_vec()).await.unwrap().node;
                let change = AttributeChange { size_bytes: Some(1000), ..AttributeChange::default() };
                ignore(fs.set_attributes(node, change).await);
            })
        }),
        ("rename", |fs, dir| {
            Box::pin(async move {
                let sub = fs.lookup(dir, b"sub".to_vec()).await.unwrap().node;
                ignore(fs.rename(dir, b"old".to_vec(), sub, b"there".to_vec(), RenameMode::Replace).await);
            })
        }),
        ("rename a directory", |fs, dir| {
            Box::pin(async move {
                let sub = fs.lookup(dir, b"sub".to_vec()).await.unwrap().node;
                ignore(fs.rename(dir, b"empty".to_vec(), sub, b"there".to_vec(), RenameMode::Replace).await);
            })
        }),
        ("rmdir", |fs, dir| Box::pin(async move { ignore(fs.remove_directory(dir, b"empty".to_vec()).await) })),
        ("link", |fs, dir| {
            Box::pin(async move {
                let node = fs.lookup(dir, b"old".to_vec()).await.unwrap().node;
                ignore(fs.link(node, dir, b"second".to_vec()).await);
            })
        }),
        ("unlink and sync", |fs, dir| {
            Box::pin(async move {
                ignore(fs.unlink(dir, b"old".to_vec()).await);
                ignore(fs.sync_all().await);
            })
        }),
        ("write and sync", |fs, dir| {
            Box::pin(async move {
                let node = fs.lookup(dir, b"old".to_vec()).await.unwrap().node;
                ignore(fs.write(node, 0, views_of(&[6; 30_000])).await);
                ignore(fs.sync(node).await);
            })
        }),
    ]
}

fn base_image() -> Vec<u8> {
    block_on(async {
        let (disk, fs, _) = mount(make_image(4 * 1024, &["-b", "1024"])).await;
        let root = fs.root().await.unwrap();
        let old = fs.create(root, b"old".to_vec(), new(NodeKind::File)).await.unwrap().node;
        fs.write(old, 0, views_of(&[9; 300_000])).await.unwrap();
        for name in ["sub", "empty"] {
            fs.create(root, name.into(), new(NodeKind::Directory)).await.unwrap();
        }
        fs.unmount().await.unwrap();
        disk.image()
    })
}

#[test]
fn a_kill_at_any_await_point_leaves_nothing_behind() {
    let image = base_image();
    let mut cases = 0;
    for (name, operation) in operations() {
        for polls in 1.. {
            cases += 1;
            let done = block_on(async {
                let (disk, fs, _) = mount(image.clone()).await;
                let root = fs.root().await.unwrap();
                let done = kill_after(polls, operation(fs, root)).await;
                let synced = async {
                    fs.sync_all().await.unwrap();
                    let (code, words) = e2fsck(&mut disk.image(), &["-fn"]);
                    assert_eq!(code, 0, "{name}, killed at {polls}, synced: {words}");
                };
                synced.await;
                let others = async {
                    // All that could hang on a lock that was left: every node is written, moved and synced.
                    fs.create(root, b"other".to_vec(), new(NodeKind::File)).await.unwrap();
                    for entry in fs.read_directory(root, 0, 10_000).await.unwrap() {
                        if entry.kind == NodeKind::File {
                            let node = fs.lookup(root, entry.name.clone()).await.unwrap().node;
                            fs.write(node, 400_000, views_of(&[1; 5000])).await.unwrap();
                            fs.sync(node).await.unwrap();
                        }
                    }
                    let sub = fs.lookup(root, b"sub".to_vec()).await.unwrap().node;
                    fs.rename(root, b"other".to_vec(), sub, b"moved".to_vec(), RenameMode::Replace).await.unwrap();
                    fs.unmount().await.unwrap();
                };
                match select(others, sleep_ns(60_000_000_000)).await {
                    Either::First(()) => {}
                    Either::Second(()) => panic!("{name}, killed at {polls}: something is locked for ever"),
                }
                let mut image = disk.image();
                let (code, words) = e2fsck(&mut image, &["-fn"]);
                assert_eq!(code, 0, "{name}, killed at {polls}: {words}");
                done
            });
            if done {
                break;
            }
        }
    }
    assert!(cases > 100, "only {cases} kills");
}
