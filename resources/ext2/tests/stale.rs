//! A node that is gone stays gone: its name never leads to the next node of its inode.

use crate::support::*;
use gyre_ext2::Ext2;
use gyre_interface::files::files::Server;
use gyre_interface::files::*;
use gyre_interface::near::{NEAR_PAGES_MAX, Near};
use gyre_message::direct::block_on;

fn new(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o600, user: 7, group: 7, target: Vec::new(), device: 0 }
}

/// Tries everything on a node that is gone. True if all of it was refused.
async fn is_refused(fs: &'static Ext2, gone: NodeId, root: NodeId, number: u64) -> bool {
    let change = AttributeChange { mode: Some(0o777), size_bytes: Some(1), ..AttributeChange::default() };
    let owner = AttributeChange { user: Some(0), ..AttributeChange::default() };
    let name = || b"stale".to_vec();
    let attribute = || b"user.stale".to_vec();
    let mut pages = [const { None }; NEAR_PAGES_MAX];
    let answers = [
        Server::attributes(fs, gone).await.err(),
        fs.set_attributes(gone, change).await.err(),
        fs.set_attributes(gone, owner).await.err(),
        Server::lookup(fs, gone, b"inner".to_vec()).await.err(),
        fs.read_directory(gone, 0, 100).await.err(),
        fs.create(gone, name(), new(NodeKind::File)).await.err(),
        fs.link(gone, root, name()).await.err(),
        fs.link(root, gone, name())
            .await
            .err()
            .map(|error| if error == FileError::IsDirectory { FileError::Stale } else { error }),
        fs.unlink(gone, b"inner".to_vec()).await.err(),
        fs.remove_directory(gone, b"inner".to_vec()).await.err(),
        fs.rename(gone, b"inner".to_vec(), root, name(), RenameMode::Replace).await.err(),
        fs.create_nameless(gone, new(NodeKind::File)).await.err(),
        fs.read_link(gone).await.err(),
        Server::open(fs, gone).await.err(),
        Server::close(fs, gone).await.err(),
        fs.page(gone, 0, Pattern::Usual).await.err(),
        fs.page_dirtied(gone, 0).await.err(),
        Server::read(fs, gone, 0, 10).await.err(),
        fs.write(gone, 0, views_of(b"stale")).await.err(),
        fs.append(gone, views_of(b"stale")).await.err(),
        fs.allocate(gone, 0, 10).await.err(),
        fs.punch(gone, 0, 10).await.err(),
        fs.seek(gone, 0, Sought::Data).await.err(),
        fs.extended(gone, attribute()).await.err(),
        fs.set_extended(gone, attribute(), b"x".to_vec(), Presence::Any).await.err(),
        fs.remove_extended(gone, attribute()).await.err(),
        fs.list_extended(gone).await.err(),
        fs.write_out(gone).await.err(),
        fs.sync(gone).await.err(),
        fs.write_back(gone, 0, 10).await.err(),
        fs.evict(gone, 0, 0).await.err(),
    ];
    let near = [
        Near::attributes(fs, gone).map_or(Some(FileError::Stale), Result::err),
        Near::lookup(fs, gone, b"inner").map_or(Some(FileError::Stale), Result::err),
        Near::open(fs, gone).map_or(Some(FileError::Stale), Result::err),
        Near::read(fs, gone, 0, 10, &mut pages).map_or(Some(FileError::Stale), Result::err),
    ];
    let done = answers.iter().chain(&near).position(|answer| *answer != Some(FileError::Stale));
    assert_eq!(done, None, "inode {number}: {:?}", done.map(|at| answers.iter().chain(&near).nth(at)));
    !Near::close(fs, gone)
}

/// Checks random creations and removals, so that numbers are used again; after each, nodes that are gone are refused,
/// and present ones are as they were made.
#[test]
fn the_name_of_a_node_that_is_gone_never_reaches_its_successor() {
    for seed in 1..=6 {
        block_on(async {
            let (_, fs, client) = mount(make_image(2 * 1024, &["-b", "1024", "-N", "64"])).await;
            let root = client.root().await.unwrap();
            let mut random = Random(seed);
            let (mut there, mut gone, mut again) = (Vec::new(), Vec::<Attributes>::new(), 0);
            for step in 0..120_u32 {
                if there.len() < 2 || random.below(2) == 0 && there.len() < 20 {
                    let kind = if random.below(3) == 0 { NodeKind::Directory } else { NodeKind::File };
                    let name = format!("{step}").into_bytes();
                    let made = client.create(root, name.clone(), new(kind)).await.unwrap();
                    if kind == NodeKind::File {
                        client.write(made.node, 0, views_of(&[step as u8; 2000])).await.unwrap();
                    } else {
                        client.create(made.node, b"inner".to_vec(), new(NodeKind::File)).await.unwrap();
                    }
                    again += usize::from(gone.iter().any(|old| old.number == made.number));
                    there.push((name, made, step as u8));
                } else {
                    let (name, made, _) = there.swap_remove(random.below(there.len()));
                    if made.kind == NodeKind::Directory {
                        client.unlink(made.node, b"inner".to_vec()).await.unwrap();
                        client.remove_directory(root, name).await.unwrap();
                    } else {
                        client.unlink(root, name).await.unwrap();
                    }
                    gone.push(made);
                    client.sync_all().await.unwrap();
                }
                for old in gone.iter().rev().take(12) {
                    assert!(is_refused(fs, old.node, root, old.number).await, "seed {seed}, step {step}");
                }
                for (name, made, fill) in &there {
                    let now = client.lookup(root, name.clone()).await.unwrap();
                    assert_eq!((now.node, now.mode, now.user), (made.node, 0o600, 7), "seed {seed}, step {step}");
                    if made.kind == NodeKind::File {
                        assert_eq!(read_all(&client, made.node).await.unwrap(), vec![*fill; 2000]);
                    }
                }
            }
            assert!(again > 10, "numbers were used again {again} times");
        });
    }
}
