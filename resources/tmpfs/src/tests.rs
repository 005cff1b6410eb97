//! Behaviour that a program can see, through the protocol.
//!
//! Each test has a file system of its own, with few pages and nodes, so that its bounds are met. Its server is called directly, without the
//! engine: a call that lets others run (`yield_now`) is polled again at once. Pages are those of the host's heap.
//!
//! * Names, links and directories; files that are open and have no name.
//! * Contents: holes, bounds, pages that are given by reference.
//! * Room: what is freed by whom, and in how large pieces; what is left to programs if memory is short.

use crate::{Limits, Memory, Tmpfs};
use gyre_account::ActivityId;
use gyre_interface::around::Around;
use gyre_interface::files::files::Server;
use gyre_interface::files::{AttributeChange, FileError, NewNode, NodeId, NodeKind, Pattern, RenameMode, files};
use gyre_interface::memory::{Budget, Figures, MemoryError, memory};
use gyre_message::direct::{block_on, direct_link};
use gyre_object::{Bytes, Page};
use std::boxed::Box;
use std::cell::Cell;
use std::format;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec;
use std::vec::Vec;

fn client(pages_max: u64) -> files::Client {
    let limits = Limits { pages_max, nodes_max: 16 };
    let server: &'static Tmpfs = Box::leak(Box::new(Tmpfs::new(limits, 0o1777)));
    files::Client::new(direct_link(|request| Box::pin(files::serve(server, request)))).with_near(server)
}

fn new(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o644, user: 1, group: 2, target: Vec::new(), device: 0 }
}

fn bytes(data: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from(data).unwrap()]
}

const ROOT: NodeId = NodeId(1);

async fn file(fs: &files::Client, name: &[u8]) -> NodeId {
    fs.create(ROOT, name.to_vec(), new(NodeKind::File)).await.unwrap().node
}

async fn directory(fs: &files::Client, parent: NodeId, name: &[u8]) -> NodeId {
    fs.create(parent, name.to_vec(), new(NodeKind::Directory)).await.unwrap().node
}

async fn contents(fs: &files::Client, node: NodeId, offset: u64, count: usize) -> Vec<u8> {
    let pieces = fs.read(node, offset, count).await.unwrap();
    pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect()
}

#[test]
fn what_is_written_is_read_and_holes_are_zero() {
    let fs = client(64);
    block_on(async {
        let node = file(&fs, b"f").await;
        assert_eq!(fs.write(node, 10_000, bytes(b"tail")).await, Ok(4));
        assert_eq!(fs.attributes(node).await.unwrap().size_bytes, 10_004);
        assert_eq!(fs.attributes(node).await.unwrap().blocks_512, 8);
        assert_eq!(contents(&fs, node, 9_998, 100).await, b"\0\0tail");
        assert_eq!(contents(&fs, node, 0, 5000).await, vec![0; 5000]);
        assert_eq!(contents(&fs, node, 10_004, 5).await, b"");
    });
}

#[test]
fn a_shrunk_and_grown_file_shows_zeroes_not_old_bytes() {
    let fs = client(64);
    block_on(async {
        let node = file(&fs, b"f").await;
        fs.write(node, 0, bytes(&[7; 9000])).await.unwrap();
        for size_bytes in [Some(3), Some(6000)] {
            let change = AttributeChange { size_bytes, ..AttributeChange::default() };
            fs.set_attributes(node, change).await.unwrap();
        }
        assert_eq!(contents(&fs, node, 0, 6).await, [7, 7, 7, 0, 0, 0]);
        assert_eq!(contents(&fs, node, 4096, 10).await, [0; 10]);
    });
}

#[test]
fn a_mapped_page_and_the_file_are_the_same() {
    let fs = client(64);
    block_on(async {
        let node = file(&fs, b"f").await;
        fs.write(node, 0, bytes(b"abc")).await.unwrap();
        let page = fs.page(node, 0, Pattern::Usual).await.unwrap();
        page.write(1, b"X");
        assert_eq!(contents(&fs, node, 0, 3).await, b"aXc");
        fs.write(node, 2, bytes(b"Y")).await.unwrap();
        let mut seen = [0; 3];
        page.read(0, &mut seen);
        assert_eq!(&seen, b"aXY");
        assert_eq!(fs.page(node, 1, Pattern::Usual).await.err(), Some(FileError::Invalid));
    });
}

#[test]
fn a_full_file_system_takes_what_fits_and_frees_with_the_last_user() {
    let fs = client(2);
    block_on(async {
        let node = file(&fs, b"f").await;
        assert_eq!(fs.write(node, 0, bytes(&[1; 20_000])).await, Ok(8192));
        assert_eq!(fs.write(node, 8192, bytes(b"x")).await, Err(FileError::NoSpace));
        fs.open(node).await.unwrap();
        fs.unlink(ROOT, b"f".to_vec()).await.unwrap();
        assert_eq!(contents(&fs, node, 0, 1).await, [1]);
        assert_eq!(fs.statistics().await.unwrap().blocks_free, 0);
        fs.close(node).await.unwrap();
        assert_eq!(fs.statistics().await.unwrap().blocks_free, 2);
        assert_eq!(fs.attributes(node).await, Err(FileError::Stale));
    });
}

#[test]
fn reading_a_directory_goes_on_where_it_was_while_names_go() {
    let fs = client(2);
    block_on(async {
        for name in [&b"a"[..], b"b", b"c"] {
            file(&fs, name).await;
        }
        let first = fs.read_directory(ROOT, 0, 80).await.unwrap();
        let names: Vec<_> = first.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!(names, [&b"."[..], b"..", b"a", b"b"]);
        fs.unlink(ROOT, b"a".to_vec()).await.unwrap();
        fs.unlink(ROOT, b"b".to_vec()).await.unwrap();
        let rest = fs.read_directory(ROOT, first[3].next, 4096).await.unwrap();
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0].name, b"c");
        assert_eq!(fs.read_directory(ROOT, rest[0].next, 4096).await, Ok(vec![]));
    });
}

#[test]
fn rename_obeys_the_rules_of_kinds() {
    let fs = client(2);
    block_on(async {
        let a = directory(&fs, ROOT, b"a").await;
        let b = directory(&fs, a, b"b").await;
        file(&fs, b"f").await;
        let rename = |from, from_name: &[u8], to, to_name: &[u8]| {
            fs.rename(from, from_name.to_vec(), to, to_name.to_vec(), RenameMode::Replace)
        };
        assert_eq!(rename(ROOT, b"a", b, b"x").await, Err(FileError::Invalid));
        assert_eq!(rename(ROOT, b"f", ROOT, b"a").await, Err(FileError::IsDirectory));
        assert_eq!(rename(ROOT, b"a", ROOT, b"f").await, Err(FileError::NotDirectory));
        directory(&fs, ROOT, b"d").await;
        assert_eq!(rename(ROOT, b"d", ROOT, b"a").await, Err(FileError::NotEmpty));
        assert_eq!(rename(a, b"b", ROOT, b"d").await, Ok(()));
        assert_eq!(fs.lookup(b, b"..".to_vec()).await.unwrap().node, ROOT);
        assert_eq!(fs.attributes(a).await.unwrap().links, 2);
        assert_eq!(fs.attributes(ROOT).await.unwrap().links, 4);
        assert_eq!(rename(ROOT, b"f", ROOT, b"f").await, Ok(()));
        assert_eq!(rename(ROOT, b"none", ROOT, b"g").await, Err(FileError::NotFound));
    });
}

#[test]
fn names_are_checked_and_nodes_are_bounded() {
    let fs = client(2);
    block_on(async {
        let create = |name: &[u8]| fs.create(ROOT, name.to_vec(), new(NodeKind::File));
        assert_eq!(create(b"").await.err(), Some(FileError::Invalid));
        assert_eq!(create(b"a/b").await.err(), Some(FileError::Invalid));
        assert_eq!(create(&[b'x'; 256]).await.err(), Some(FileError::NameTooLong));
        for index in 0..15u8 {
            create(&[b'a' + index]).await.unwrap();
        }
        assert_eq!(create(b"z").await.err(), Some(FileError::NoSpace));
        assert_eq!(create(b"a").await.err(), Some(FileError::Exists));
    });
}

#[test]
fn a_removed_directory_takes_no_names() {
    let fs = client(2);
    block_on(async {
        let d = directory(&fs, ROOT, b"d").await;
        fs.open(d).await.unwrap();
        fs.remove_directory(ROOT, b"d".to_vec()).await.unwrap();
        let made = fs.create(d, b"x".to_vec(), new(NodeKind::File)).await;
        assert_eq!(made.err(), Some(FileError::NotFound));
        assert_eq!(fs.close(d).await, Ok(()));
        assert_eq!(fs.close(d).await, Err(FileError::Stale));
    });
}

/// Lets a call run; returns how often others ran in between.
async fn turns<T>(call: impl Future<Output = T>) -> (T, u32) {
    let (turns, mut call) = (Cell::new(0), std::pin::pin!(call));
    let answer = std::future::poll_fn(|context| {
        turns.set(turns.get() + 1);
        call.as_mut().poll(context)
    });
    (answer.await, turns.get() - 1)
}

#[test]
fn calls_that_make_or_free_many_pages_let_others_run() {
    const PAGES: u64 = 1000;
    let fs: &'static Tmpfs = Box::leak(Box::new(Tmpfs::new(Limits { pages_max: PAGES, nodes_max: 16 }, 0o1777)));
    let shrink = AttributeChange { size_bytes: Some(0), ..Default::default() };
    block_on(async {
        let node = fs.create(ROOT, b"f".to_vec(), new(NodeKind::File)).await.unwrap().node;
        let fill = || fs.allocate(node, 0, PAGES * 4096);
        let (filled, between) = turns(fill()).await;
        assert_eq!((filled, between >= 15), (Ok(()), true), "{between}");
        assert_eq!(fs.allocate(node, PAGES * 4096, 4096).await, Err(FileError::NoSpace));
        let (punched, between) = turns(fs.punch(node, 0, PAGES * 4096)).await;
        assert_eq!((punched, between >= 15), (Ok(()), true), "{between}");
        assert_eq!(fs.attributes(node).await.unwrap().blocks_512, 0);
        fill().await.unwrap();
        let (shrunk, between) = turns(fs.set_attributes(node, shrink)).await;
        assert!(shrunk.unwrap().blocks_512 == 0 && between >= 15, "{between}");
        fill().await.unwrap();
        let (gone, between) = turns(fs.unlink(ROOT, b"f".to_vec())).await;
        assert_eq!((gone, between >= 15), (Ok(()), true), "{between}");
        assert_eq!(fs.statistics().await.unwrap().blocks_free, PAGES);
    });
}

#[test]
fn what_is_discarded_is_free_whoever_has_it_and_the_root_is_empty() {
    const PAGES: u64 = 200;
    let fs: &'static Tmpfs = Box::leak(Box::new(Tmpfs::new(Limits { pages_max: PAGES, nodes_max: 200 }, 0o1777)));
    block_on(async {
        for number in 0..150_u8 {
            let node = fs.create(ROOT, format!("f{number}").into_bytes(), new(NodeKind::File)).await.unwrap().node;
            fs.write(node, 0, bytes(&[1])).await.unwrap();
        }
        let folder = fs.create(ROOT, b"d".to_vec(), new(NodeKind::Directory)).await.unwrap().node;
        let open = fs.create(folder, b"open".to_vec(), new(NodeKind::File)).await.unwrap().node;
        fs.open(open).await.unwrap();
        fs.write(open, 0, bytes(&[1; 40 * 4096])).await.unwrap();
        fs.unlink(folder, b"open".to_vec()).await.unwrap();
        fs.discard().await;
        assert_eq!(fs.attributes(open).await.err(), Some(FileError::Stale));
        assert_eq!(fs.lookup(ROOT, b"f7".to_vec()).await.err(), Some(FileError::NotFound));
        let statistics = fs.statistics().await.unwrap();
        assert_eq!((statistics.blocks_free, statistics.nodes_free), (PAGES, 199));
        fs.discard().await;
        let node = fs.create(ROOT, b"again".to_vec(), new(NodeKind::File)).await.unwrap().node;
        assert_eq!(fs.write(node, 0, bytes(&[1; 8])).await, Ok(8));
    });
}

#[test]
fn pages_for_a_mapping_come_in_one_look_but_for_holes_and_what_is_behind_the_end() {
    let fs = client(64);
    block_on(async {
        let node = file(&fs, b"f").await;
        fs.write(node, 0, bytes(&[1; 2 * 4096])).await.unwrap();
        fs.write(node, 5 * 4096, bytes(&[2; 4096 + 1])).await.unwrap();
        let look = |mut around: Around| {
            fs.visit(|near| near.to_map(node, &mut around)).unwrap();
            let found = around.pages().iter_mut().enumerate();
            found.filter_map(|(place, page)| Some((place, page.take()?))).collect::<Vec<_>>()
        };
        let places = |found: &[(usize, Page)]| found.iter().map(|(place, _)| *place).collect::<Vec<_>>();
        let found = look(Around::new(0, u16::MAX).needing(1));
        assert_eq!(places(&found), [0, 1, 5, 6]);
        for (place, page) in &found {
            assert!(
                page.same(&fs.page(node, *place as u64, Pattern::Usual).await.unwrap()),
                "it is the one that a message gives"
            );
        }
        assert_eq!(places(&look(Around::new(0, u16::MAX).needing(3))), [], "a message makes a hole's page");
        assert_eq!(fs.attributes(node).await.unwrap().blocks_512, 4 * 8);
        let shorter = AttributeChange { size_bytes: Some(4096 + 1), ..AttributeChange::default() };
        fs.set_attributes(node, shorter).await.unwrap();
        assert_eq!(places(&look(Around::new(1, u16::MAX))), [0]);
        assert_eq!(places(&look(Around::new(u64::MAX, u16::MAX))), []);
    });
}

/// A memory resource that has so many answers that there is room.
#[derive(Default)]
struct Keeper {
    rooms: AtomicUsize,
}

impl memory::Server for Keeper {
    async fn reserve(&'static self, _activity: ActivityId, _bytes: u64) -> Result<(), MemoryError> {
        let take = |rooms: usize| rooms.checked_sub(1);
        let taken = self.rooms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(|_| ()).map_err(|_| MemoryError::LimitReached)
    }

    async fn take_back(&'static self, _activity: ActivityId, _bytes: u64) -> Result<u64, MemoryError> {
        Err(MemoryError::Unknown)
    }

    async fn set_budget(&'static self, _activity: ActivityId, _budget: Budget) -> Result<(), MemoryError> {
        Err(MemoryError::Unknown)
    }

    async fn figures(&'static self, _activity: ActivityId) -> Result<Figures, MemoryError> {
        Err(MemoryError::Unknown)
    }
}

#[test]
fn a_file_does_not_grow_into_the_last_memory_of_its_owner() {
    let keeper: &'static Keeper = Box::leak(Box::default());
    let asked = memory::Client::new(direct_link(move |request| Box::pin(memory::serve(keeper, request))));
    let limits = Limits { pages_max: 64, nodes_max: 16 };
    let tmpfs = Tmpfs::new(limits, 0o1777).within(Memory { client: asked, has_room: &|| false });
    let server: &'static Tmpfs = Box::leak(Box::new(tmpfs));
    let fs = files::Client::new(direct_link(|request| Box::pin(files::serve(server, request)))).with_near(server);
    block_on(async {
        let node = file(&fs, b"f").await;
        keeper.rooms.store(2, Ordering::Relaxed);
        assert_eq!(fs.write(node, 0, bytes(&[1; 4096])).await, Ok(4096));
        assert_eq!(fs.append(node, bytes(&[2; 100])).await, Ok(4096));
        // Pages that it has cost nothing more; another one would.
        assert_eq!(fs.write(node, 4000, bytes(&[3; 200])).await, Ok(200));
        assert_eq!(fs.append(node, bytes(&[4; 4096])).await, Err(FileError::NoSpace));
        assert_eq!(fs.write(node, 8192, bytes(&[4; 1])).await, Err(FileError::NoSpace));
        assert_eq!(fs.allocate(node, 0, 12_288).await, Err(FileError::NoSpace));
        assert_eq!(fs.attributes(node).await.unwrap().size_bytes, 4200);
        assert_eq!(fs.attributes(node).await.unwrap().blocks_512, 16);
        // Nor by its mapping, which shows the pages that it has.
        let longer = AttributeChange { size_bytes: Some(16_384), ..Default::default() };
        fs.set_attributes(node, longer).await.unwrap();
        assert!(fs.page(node, 1, Pattern::Usual).await.is_ok());
        assert_eq!(fs.page(node, 3, Pattern::Usual).await.err(), Some(FileError::NoSpace));
        keeper.rooms.store(1, Ordering::Relaxed);
        assert!((fs.page(node, 3, Pattern::Usual).await.is_ok()) && fs.page(node, 3, Pattern::Usual).await.is_ok());
    });
}
