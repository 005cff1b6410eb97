//! The payer for moving blocks that files share, and only that one, pays.

use crate::support::*;
use gyre_account::{ActivityId, current_activity, set_current_activity};
use gyre_ext2::{Ext2, MountOptions};
use gyre_interface::block::{BlockError, Geometry, SECTOR_BYTES, block};
use gyre_interface::files::{NewNode, NodeId, NodeKind, files};
use gyre_message::direct::{block_on, direct_link};
use gyre_object::{Bytes, TenantLock};
use std::collections::BTreeSet;

const BLOCK_BYTES: usize = 1024;
const TABLES: ActivityId = ActivityId(9);
const FIRST: ActivityId = ActivityId(3);
const SECOND: ActivityId = ActivityId(4);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Read,
    Write,
    Flush,
}

/// A request as it came: its kind, who sent it, and its blocks.
type Seen = (Kind, ActivityId, Vec<u64>);

/// A disk that notes the sender of each request.
struct Witness {
    disk: &'static RamDisk,
    seen: TenantLock<Vec<Seen>>,
}

impl Witness {
    fn leak(disk: &'static RamDisk) -> &'static Witness {
        Box::leak(Box::new(Witness { disk, seen: TenantLock::new(Vec::new()) }))
    }

    fn client(&'static self) -> block::Client {
        block::Client::new(direct_link(move |request| Box::pin(block::serve(self, request))))
    }

    fn note(&self, kind: Kind, first_sector: u64, views: &[Bytes]) {
        let bytes: usize = views.iter().map(Bytes::len).sum();
        let end = (first_sector as usize * SECTOR_BYTES + bytes).div_ceil(BLOCK_BYTES) as u64;
        let blocks = first_sector / (BLOCK_BYTES / SECTOR_BYTES) as u64..end;
        self.seen.lock().push((kind, current_activity(), blocks.collect()));
    }

    fn take(&self) -> Vec<Seen> {
        core::mem::take(&mut self.seen.lock())
    }
}

impl block::Server for Witness {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        block::Server::geometry(self.disk).await
    }
    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        self.note(Kind::Read, first_sector, &into);
        block::Server::read(self.disk, first_sector, into).await
    }
    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        self.note(Kind::Write, first_sector, &from);
        block::Server::write(self.disk, first_sector, from).await
    }
    async fn flush(&'static self) -> Result<(), BlockError> {
        self.note(Kind::Flush, 0, &[]);
        block::Server::flush(self.disk).await
    }
}

/// The places of blocks, read from the image by other code than the file system's.
struct Layout {
    bitmaps: BTreeSet<u64>,
    inodes: BTreeSet<u64>,
    /// Superblock and descriptors.
    heads: BTreeSet<u64>,
}

impl Layout {
    fn of(image: &[u8]) -> Layout {
        let number = |at: usize| u64::from(u32::from_le_bytes(image[at..at + 4].try_into().unwrap()));
        let superblock = 1024;
        let inode_bytes = u64::from(u16::from_le_bytes(image[superblock + 88..superblock + 90].try_into().unwrap()));
        let groups = (number(superblock + 4) - 1).div_ceil(number(superblock + 32)) as usize;
        let table_blocks = (number(superblock + 40) * inode_bytes).div_ceil(BLOCK_BYTES as u64);
        let descriptor_blocks = (groups * 32).div_ceil(BLOCK_BYTES) as u64;
        let descriptors = (0..groups).map(|group| 2 * BLOCK_BYTES + group * 32);
        Layout {
            bitmaps: descriptors.clone().flat_map(|at| [number(at), number(at + 4)]).collect(),
            inodes: descriptors.flat_map(|at| number(at + 8)..number(at + 8) + table_blocks).collect(),
            heads: (1..2 + descriptor_blocks).collect(),
        }
    }

    fn is_shared(&self, block: u64) -> bool {
        [&self.bitmaps, &self.inodes, &self.heads].into_iter().any(|part| part.contains(&block))
    }
}

async fn mount_for(witness: &'static Witness, number: u32, tables: Option<ActivityId>) -> &'static Ext2 {
    begin_time();
    let options = MountOptions { tables, ..MountOptions::new(number) };
    Ext2::mount(witness.client(), options, new_cache(4096)).await.unwrap()
}

fn new(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o755, user: 0, group: 0, target: Vec::new(), device: 0 }
}

/// Does work as one process. Requests are sent when they are made: in the name of the poller, from its first poll on.
async fn of_process<T>(process: ActivityId, work: impl Future<Output = T>) -> T {
    let before = set_current_activity(process);
    let done = work.await;
    set_current_activity(before);
    done
}

/// Returns a directory with files large enough for indirect blocks, one of them with an attribute of its own.
async fn populate(client: &files::Client, name: &str) -> Vec<NodeId> {
    let root = client.root().await.unwrap();
    let directory = client.create(root, name.into(), new(NodeKind::Directory)).await.unwrap().node;
    let mut files = Vec::new();
    for number in 0..20 {
        let file = client.create(directory, format!("f{number}").into(), new(NodeKind::File)).await.unwrap().node;
        client.write(file, 0, views_of(&[7; 30_000])).await.unwrap();
        files.push(file);
    }
    files
}

/// Does all work of two processes of one tenant.
async fn work_of_two(client: &files::Client) {
    let files = of_process(FIRST, populate(client, "a")).await;
    of_process(FIRST, async { client.sync(files[3]).await }).await.unwrap();
    of_process(SECOND, populate(client, "b")).await;
    of_process(SECOND, async { client.sync_all().await }).await.unwrap();
    of_process(FIRST, async {
        let root = client.root().await.unwrap();
        let directory = client.lookup(root, b"a".to_vec()).await.unwrap().node;
        client.unlink(directory, b"f5".to_vec()).await.unwrap();
        client.sync_all().await.unwrap();
    })
    .await;
}

fn assert_divided(seen: &[Seen], layout: &Layout) {
    for (kind, payer, blocks) in seen {
        let shared = blocks.iter().filter(|block| layout.is_shared(**block)).count();
        assert!(
            shared == 0 || shared == blocks.len(),
            "{kind:?} of blocks {blocks:?} mixes what is shared with what is not"
        );
        assert_eq!(
            shared > 0,
            *payer == TABLES,
            "{kind:?} of blocks {blocks:?} ({shared} of them shared) by {payer:?}"
        );
    }
}

/// Blocks of one kind of request that one activity moved and that lie in a part.
fn moved(seen: &[Seen], kind: Kind, payer: ActivityId, part: impl Fn(u64) -> bool) -> usize {
    let of_payer = seen.iter().filter(|one| (one.0, one.1) == (kind, payer));
    of_payer.flat_map(|one| &one.2).filter(|block| part(**block)).count()
}

#[test]
fn what_files_share_is_written_in_the_tables_name_and_all_else_in_that_of_who_asked() {
    block_on(async {
        let image = make_image(20 * 1024, &["-b", "1024"]);
        let layout = Layout::of(&image);
        let disk = RamDisk::leak(image);
        let witness = Witness::leak(disk);
        let fs = of_process(FIRST, mount_for(witness, 901, Some(TABLES))).await;
        work_of_two(&client_of(fs)).await;
        of_process(SECOND, fs.unmount()).await.unwrap();
        let seen = witness.take();
        assert_divided(&seen, &layout);
        for part in [&layout.bitmaps, &layout.inodes, &layout.heads] {
            assert!(moved(&seen, Kind::Write, TABLES, |block| part.contains(&block)) > 0);
        }
        for process in [FIRST, SECOND] {
            let written = moved(&seen, Kind::Write, process, |_| true);
            assert!(written > 20 * 30_000 / BLOCK_BYTES, "{process:?} wrote {written} blocks");
            assert!(seen.iter().any(|one| (one.0, one.1) == (Kind::Flush, process)));
        }
        assert_clean(disk.image());
    });
}

#[test]
fn what_files_share_is_read_in_the_tables_name() {
    block_on(async {
        let image = make_image(20 * 1024, &["-b", "1024"]);
        let layout = Layout::of(&image);
        let disk = RamDisk::leak(image);
        let first = mount_on(disk, new_cache(4096)).await.unwrap();
        populate(&client_of(first), "a").await;
        first.unmount().await.unwrap();
        let witness = Witness::leak(disk);
        let fs = of_process(FIRST, mount_for(witness, 902, Some(TABLES))).await;
        of_process(SECOND, async {
            let client = client_of(fs);
            let directory = client.lookup(client.root().await.unwrap(), b"a".to_vec()).await.unwrap().node;
            let file = client.lookup(directory, b"f9".to_vec()).await.unwrap().node;
            assert_eq!(read_all(&client, file).await.unwrap(), [7; 30_000]);
            client.create(directory, b"more".to_vec(), new(NodeKind::File)).await.unwrap();
        })
        .await;
        let seen = witness.take();
        assert_divided(&seen, &layout);
        for part in [&layout.bitmaps, &layout.inodes, &layout.heads] {
            assert!(moved(&seen, Kind::Read, TABLES, |block| part.contains(&block)) > 0);
        }
        assert!(moved(&seen, Kind::Read, SECOND, |_| true) >= 30_000 / BLOCK_BYTES);
    });
}

#[test]
fn without_an_activity_for_the_tables_who_asks_pays() {
    block_on(async {
        let image = make_image(20 * 1024, &["-b", "1024"]);
        let layout = Layout::of(&image);
        let witness = Witness::leak(RamDisk::leak(image));
        let fs = of_process(FIRST, mount_for(witness, 903, None)).await;
        work_of_two(&client_of(fs)).await;
        let seen = witness.take();
        let others: Vec<&Seen> = seen.iter().filter(|one| one.1 != FIRST && one.1 != SECOND).collect();
        assert_eq!(others, Vec::<&Seen>::new());
        assert!(moved(&seen, Kind::Write, SECOND, |block| layout.inodes.contains(&block)) > 0);
    });
}
