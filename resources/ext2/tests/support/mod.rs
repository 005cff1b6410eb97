//! A disk in memory with faults, images by mke2fs, and checks by e2fsck: the world of all tests of this file system.
//!
//! A `RamDisk` serves the block protocol from a medium with a volatile cache. It checks that each request is one that a device does,
//! counts requests, takes its time, fails those that a test names, and gives the image that a crash now would leave: all that was
//! flushed, and a random part of the rest, sector by sector.
//!
//! Images are the same in each run: their times, identity and hashes are set, and those who make and check them are told the time. Random
//! numbers come from seeds; the environment may ask for more seeds than usual.
//!
//! There are no tests here. Torn sectors and real devices are left out.
#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

mod layout;
mod meter;

use gyre_ext2::{Ext2, MountOptions};
use gyre_file_cache::{CacheOptions, FileCache};
use gyre_interface::block::{BlockError, Geometry, REQUEST_BYTES_MAX, REQUEST_VIEWS_MAX, SECTOR_BYTES, block};
use gyre_interface::files::{FileError, NodeId, files};
use gyre_machine::disk::Medium;
use gyre_message::direct::direct_link;
use gyre_message::sleep_ns;
use gyre_object::{Bytes, Page, TenantLock};
pub use layout::Layout;
pub use meter::METER;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Small deterministic random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

pub struct DiskState {
    pub medium: Medium,
    /// Sectors that were ever written, for checks of order.
    pub requests: u64,
    /// The request with this number fails, and so do that many after it.
    pub fail_at: Option<(u64, u64)>,
    pub latency_ns: u64,
    pub largest_read: usize,
}

impl DiskState {
    /// Notes the bytes of a request, which must be one that a device does.
    fn note_size(&mut self, views: &[Bytes], is_read: bool) {
        let total: usize = views.iter().map(Bytes::len).sum();
        let is_small = total <= REQUEST_BYTES_MAX && views.len() <= REQUEST_VIEWS_MAX;
        assert!(total > 0 && is_small, "a request of {total} bytes in {} views", views.len());
        if is_read {
            self.largest_read = self.largest_read.max(total);
        }
    }
}

/// A disk in memory with a volatile cache.
pub struct RamDisk(pub TenantLock<DiskState>);

/// Disks that a test uses beside each other, at most.
const DISKS_AT_ONCE: usize = 8;

thread_local! {
    /// The last disks of this test. Some tests make thousands, of some MiB each: the older ones have served their turn.
    static DISKS: RefCell<VecDeque<&'static RamDisk>> = const { RefCell::new(VecDeque::new()) };
}

impl RamDisk {
    /// Makes one. The eighth one after it takes its memory.
    pub fn leak(image: Vec<u8>) -> &'static RamDisk {
        let state =
            DiskState { medium: Medium::new(image), requests: 0, fail_at: None, latency_ns: 1000, largest_read: 0 };
        let disk: &RamDisk = Box::leak(Box::new(RamDisk(TenantLock::new(state))));
        DISKS.with_borrow_mut(|disks| {
            disks.push_back(disk);
        });
        let oldest = DISKS.with_borrow(|disks| disks.front().filter(|_| disks.len() > DISKS_AT_ONCE).copied());
        oldest.into_iter().for_each(RamDisk::discard);
        disk
    }

    pub fn client(&'static self) -> block::Client {
        block::Client::new(direct_link(move |request| Box::pin(block::serve(self, request))))
    }

    pub fn image(&self) -> Vec<u8> {
        self.0.lock().medium.data().to_vec()
    }

    /// Gives the memory back; the disk is empty from here on.
    pub fn discard(&self) {
        DISKS.with_borrow_mut(|disks| disks.retain(|disk| !std::ptr::eq(*disk, self)));
        self.0.lock().medium = Medium::new(Vec::new());
    }

    /// Returns the image that a crash now would leave: all flushed data, and a random part of the rest, sector by
    /// sector.
    pub fn crash_image(&self, random: &mut Random) -> Vec<u8> {
        self.0.lock().medium.crash(&[], &mut gyre_machine::random::Random::new(random.next(), 0))
    }

    /// Returns how many sectors differ between a reader's view and the durable one, and how many of them a crash has
    /// kept in its image.
    pub fn sectors_at_risk(&self, image: &[u8]) -> (u64, u64) {
        let state = self.0.lock();
        let (data, durable) = (state.medium.data(), state.medium.durable());
        let sectors = data.chunks(SECTOR_BYTES).zip(durable.chunks(SECTOR_BYTES)).zip(image.chunks(SECTOR_BYTES));
        let at_risk = sectors.filter(|((now, before), _)| now != before);
        at_risk.fold((0, 0), |(all, kept), ((_, before), left)| (all + 1, kept + u64::from(left != before)))
    }

    async fn begin(&self) -> Result<(), BlockError> {
        let (latency, fails) = {
            let mut state = self.0.lock();
            state.requests += 1;
            let number = state.requests;
            (state.latency_ns, state.fail_at.is_some_and(|(at, count)| (at..at + count).contains(&number)))
        };
        // Before those that were asked for earlier are answered.
        if fails {
            return Err(BlockError::Io);
        }
        sleep_ns(latency).await;
        Ok(())
    }
}

impl block::Server for RamDisk {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        Ok(Geometry { sectors: (self.0.lock().medium.bytes() / SECTOR_BYTES) as u64, read_only: false })
    }
    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        self.begin().await?;
        let mut state = self.0.lock();
        let mut at = first_sector as usize * SECTOR_BYTES;
        state.note_size(&into, true);
        let total: usize = into.iter().map(Bytes::len).sum();
        if at + total > state.medium.bytes() {
            return Err(BlockError::OutOfRange);
        }
        for view in &into {
            let (page, start) = view.location();
            assert!(start % SECTOR_BYTES == 0 && view.len() % SECTOR_BYTES == 0);
            page.write(start, state.medium.read(at, view.len()).unwrap());
            at += view.len();
        }
        Ok(into)
    }
    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        self.begin().await?;
        let mut state = self.0.lock();
        let mut at = first_sector as usize * SECTOR_BYTES;
        state.note_size(&from, false);
        for view in &from {
            let mut bytes = vec![0; view.len()];
            let (page, start) = view.location();
            page.read(start, &mut bytes);
            if !state.medium.write(at, &bytes) {
                return Err(BlockError::OutOfRange);
            }
            at += view.len();
        }
        Ok(())
    }
    async fn flush(&'static self) -> Result<(), BlockError> {
        self.begin().await?;
        self.0.lock().medium.flush();
        Ok(())
    }
}

/// Returns how many seeds to try: as many as the environment says, else the usual number.
pub fn seeds(usual: u64) -> u64 {
    std::env::var("GYRE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

pub fn temporary(name: &str) -> PathBuf {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    folder.join(format!("gyre-ext2-{}-{serial}-{name}", std::process::id()))
}

/// The variable by which e2fsprogs are told the time, so that each run makes the same image and says the same of it.
const CLOCK: &str = "E2FSPROGS_FAKE_TIME";
/// An image is made at the moment at which virtual time begins, and checked later than all that a test writes.
const MADE_AT: &str = "1700000000";
const CHECKED_AT: &str = "1800000000";
/// The identity of each image, which is the seed of its hashes, too.
const IDENTITY: &str = "6a79a2f0-0000-4000-8000-000000000001";

/// Returns debugfs with a request for an image that it may write.
pub fn debugfs_writing(request: &str, image: &std::path::Path) -> Command {
    let mut program = Command::new("debugfs");
    program.env(CLOCK, MADE_AT).args(["-w", "-R", request]).arg(image);
    program
}

/// Returns mke2fs, for an ext2 that is the same in each run.
fn mke2fs() -> Command {
    let mut program = Command::new("mke2fs");
    program.env(CLOCK, MADE_AT);
    program.args(["-q", "-F", "-t", "ext2", "-U", IDENTITY, "-E", &format!("hash_seed={IDENTITY}")]);
    program
}

/// Returns an image by mke2fs with these further arguments, of `kib` KiB.
pub fn make_image(kib: usize, arguments: &[&str]) -> Vec<u8> {
    let path = temporary("image");
    let output = mke2fs().args(arguments).arg(&path).arg(kib.to_string()).output();
    let output = output.expect("mke2fs runs (Debian package e2fsprogs)");
    assert!(output.status.success(), "mke2fs: {}", String::from_utf8_lossy(&output.stderr));
    let mut image = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    if arguments.contains(&"-d") {
        settle_times(&mut image);
    }
    image
}

/// Gives all inodes the time at which images are made: what mke2fs takes from a folder has the host's.
fn settle_times(image: &mut [u8]) {
    let made_at: u32 = MADE_AT.parse().unwrap();
    let mut settled = Vec::new();
    let layout = Layout::of(image);
    for at in layout.inodes() {
        // A larger inode has a time of birth, and parts of a second.
        let is_large = layout.inode_bytes > 128 && layout.half(at + 128) >= 24;
        let (seconds, parts) = if is_large { (4, 4) } else { (3, 0) };
        let seconds = [8, 12, 16, 144].into_iter().take(seconds).map(|field| (at + field, made_at));
        let parts = [132, 136, 140, 148].into_iter().take(parts).map(|field| (at + field, 0));
        settled.extend(seconds.chain(parts));
    }
    for (at, value) in settled {
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

/// Returns exit code and words of e2fsck; the image is replaced by its result.
pub fn e2fsck(image: &mut Vec<u8>, arguments: &[&str]) -> (i32, String) {
    let path = temporary("check");
    std::fs::write(&path, &image).unwrap();
    let output =
        Command::new("e2fsck").env(CLOCK, CHECKED_AT).args(arguments).arg(&path).output().expect("e2fsck runs");
    if output.status.code() != Some(0) {
        *image = std::fs::read(&path).unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Checks that the image is without fault.
pub fn assert_clean(image: Vec<u8>) {
    let mut image = image;
    let (code, words) = e2fsck(&mut image, &["-fn"]);
    assert_eq!(code, 0, "{words}");
}

pub fn new_cache(pages: usize) -> &'static FileCache {
    let options =
        CacheOptions { pages, pages_per_activity: pages, dirty_per_activity: pages / 4, payer: &|activity| activity };
    Box::leak(Box::new(FileCache::new(options)))
}

static FILE_SYSTEMS: AtomicU32 = AtomicU32::new(1);

/// Virtual time, which is brought back if a test has let the ages pass.
pub fn begin_time() {
    gyre_machine::begin_virtual_time();
    gyre_machine::set_virtual_time(gyre_machine::now().min(1 << 50));
}

pub async fn mount_on(disk: &'static RamDisk, cache: &'static FileCache) -> Result<&'static Ext2, FileError> {
    begin_time();
    let options = MountOptions::new(FILE_SYSTEMS.fetch_add(1, Ordering::Relaxed));
    Ext2::mount(disk.client(), options, cache).await
}

pub fn client_of(file_system: &'static Ext2) -> files::Client {
    files::Client::new(direct_link(move |request| Box::pin(files::serve(file_system, request)))).with_near(file_system)
}

pub async fn mount(image: Vec<u8>) -> (&'static RamDisk, &'static Ext2, files::Client) {
    let disk = RamDisk::leak(image);
    let file_system = mount_on(disk, new_cache(4096)).await.expect("mounts");
    (disk, file_system, client_of(file_system))
}

pub fn flatten(views: &[Bytes]) -> Vec<u8> {
    views.iter().flat_map(|view| view.as_slice().to_vec()).collect()
}

/// Returns the whole file.
pub async fn read_all(client: &files::Client, node: gyre_interface::files::NodeId) -> Result<Vec<u8>, FileError> {
    let mut data = Vec::new();
    loop {
        let views = client.read(node, data.len() as u64, 100_000).await?;
        let part = flatten(&views);
        if part.is_empty() {
            return Ok(data);
        }
        data.extend(part);
    }
}

/// Views for direct requests: parts of whole sectors, at places that are multiples of a sector.
pub fn aligned_views(data: &[u8], random: &mut Random) -> Vec<Bytes> {
    let mut views = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let start = random.below(8) * SECTOR_BYTES;
        let room = (gyre_machine::PAGE_BYTES - start) / SECTOR_BYTES;
        let (part, others) = rest.split_at(rest.len().min((1 + random.below(room)) * SECTOR_BYTES));
        let page = Page::zeroed().unwrap();
        page.write(start, part);
        views.push(Bytes::new(page, start, part.len()));
        rest = others;
    }
    views
}

/// Writes as a program with O_DIRECT does: past the cache if the file has blocks, the rest through it.
pub async fn write_direct(client: &files::Client, node: NodeId, at: usize, data: &[u8], random: &mut Random) -> usize {
    let from = aligned_views(data, random);
    let looked =
        (random.below(4) > 0).then(|| client.visit(|near| near.write_direct(node, at as u64, &from)).flatten());
    let straight = match looked.flatten() {
        Some(begun) => begun.done().await.unwrap(),
        None => client.write_direct(node, at as u64, from).await.unwrap(),
    };
    assert_eq!(straight % SECTOR_BYTES, 0);
    if straight < data.len() {
        let (at, rest) = ((at + straight) as u64, &data[straight..]);
        assert_eq!(client.write(node, at, views_of(rest)).await, Ok(rest.len()));
        client.write_back(node, at, rest.len() as u64).await.unwrap();
        client.evict(node, at, rest.len() as u64).await.unwrap();
    }
    straight
}

/// Reads as a program with O_DIRECT does.
pub async fn read_direct(
    client: &files::Client,
    node: NodeId,
    at: usize,
    bytes: usize,
    random: &mut Random,
) -> Vec<u8> {
    let into = aligned_views(&vec![0xa5; bytes], random);
    let count = match client.visit(|near| near.read_direct(node, at as u64, &into)).flatten() {
        Some(begun) => begun.done().await.unwrap(),
        None => client.read_direct(node, at as u64, into.clone()).await.unwrap(),
    };
    let mut data = flatten(&into);
    data.truncate(count);
    data
}

pub fn views_of(data: &[u8]) -> Vec<Bytes> {
    data.chunks(3000).map(|part| Bytes::copy_from(part).unwrap()).collect()
}
