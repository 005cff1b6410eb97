//! Contents that were lost at a write-back: each description that was open is told once, by whatever asks first.

use super::world::{User, run_on};
use crate::memory;
use crate::{Arguments, Errno};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_interface::files::{Attributes, FileError, files};
use gyre_message::direct::direct_link;
use gyre_tmpfs::{Limits, Tmpfs};
use linux_raw_sys::general as raw;

const FSYNC: u64 = 74;
const FDATASYNC: u64 = 75;
const SYNC_FILE_RANGE: u64 = 277;
const PWRITE: u64 = 18;
const DUP: u64 = 32;
const PAGE: u64 = 4096;
const READ_WRITE: u64 = (raw::PROT_READ | raw::PROT_WRITE) as u64;
const LOST: Result<u64, Errno> = Err(Errno::EIO);
const KEPT: Result<u64, Errno> = Ok(0);

/// Losses of all files of a file system: twice those that were told, and one more while one is not.
type Losses = Arc<AtomicU32>;

fn lose(losses: &Losses) {
    losses.fetch_or(1, Ordering::Relaxed);
}

/// Returns a file system that tells losses as one on a disk does.
fn lossy(losses: &Losses) -> files::Client {
    let limits = Limits { pages_max: 1024, nodes_max: 100 };
    let server: &'static Tmpfs = Box::leak(Box::new(Tmpfs::new(limits, 0o1777)));
    let losses = losses.clone();
    files::Client::new(direct_link(move |request| {
        let losses = losses.clone();
        Box::pin(async move {
            let seen = |found: Attributes| Attributes { losses: losses.load(Ordering::Relaxed) >> 1, ..found };
            let told = || match losses.load(Ordering::Relaxed) & 1 {
                0 => Ok(()),
                _ => {
                    losses.fetch_add(1, Ordering::Relaxed);
                    Err(FileError::Io)
                }
            };
            match request {
                files::Request::attributes { node, reply } => {
                    reply.send(files::Server::attributes(server, node).await.map(seen));
                }
                files::Request::open { node, reply } => reply.send(files::Server::open(server, node).await.map(seen)),
                files::Request::sync { reply, .. } => reply.send(told()),
                files::Request::write_back { reply, .. } => reply.send(told()),
                other => files::serve(server, other).await,
            }
        })
    }))
}

fn run_lossy<F: Future<Output = ()>>(test: impl FnOnce(User, Losses) -> F) {
    gyre_machine::set_virtual_time(1_000_000_000);
    let losses = Losses::default();
    run_on(lossy(&losses), |user| test(user, losses.clone()));
}

async fn map(user: &User, file: u64, flags: u32, rights: u64) -> u64 {
    let arguments = Arguments([0, 2 * PAGE, rights, u64::from(flags), file, 0]);
    memory::mmap(&user.thread, arguments).await.unwrap()
}

async fn msync(user: &User, at: u64, flags: u32) -> Result<u64, Errno> {
    memory::msync(&user.thread, Arguments([at, PAGE, u64::from(flags), 0, 0, 0])).await
}

#[test]
fn each_description_that_was_open_is_told_once() {
    run_lossy(|user, losses| async move {
        user.file("/f", &[7; 100]).await;
        user.file("/g", &[7; 100]).await;
        let [one, two] =
            [user.open("/f", raw::O_RDWR, 0).await.unwrap(), user.open("/f", raw::O_RDONLY, 0).await.unwrap()];
        let copy = user.call(DUP, &[one]).await.unwrap();
        assert_eq!(user.call(FSYNC, &[one]).await, KEPT);
        lose(&losses);
        let before = user.open("/f", raw::O_RDWR, 0).await.unwrap();
        assert_eq!((user.call(FSYNC, &[one]).await, user.call(FSYNC, &[copy]).await), (LOST, KEPT));
        let after = user.open("/f", raw::O_RDWR, 0).await.unwrap();
        assert_eq!((user.call(FDATASYNC, &[two]).await, user.call(FSYNC, &[two]).await), (LOST, KEPT));
        assert_eq!(
            (user.call(FSYNC, &[before]).await, user.call(FSYNC, &[before]).await),
            (LOST, KEPT),
            "nobody knew it yet"
        );
        assert_eq!(user.call(FSYNC, &[after]).await, KEPT, "it was known when the file was opened");
        lose(&losses);
        for file in [after, two, before] {
            assert_eq!((user.call(FSYNC, &[file]).await, user.call(FSYNC, &[file]).await), (LOST, KEPT));
        }
        assert_eq!((user.call(FSYNC, &[copy]).await, user.call(FSYNC, &[one]).await), (LOST, KEPT));
    });
}

#[test]
fn a_mapping_tells_by_the_description_that_it_was_made_of() {
    run_lossy(|user, losses| async move {
        user.file("/f", &[7; 2 * PAGE as usize]).await;
        let open = async |flags| user.open("/f", flags, 0).await.unwrap();
        let [one, closed, copied, shown] =
            [open(raw::O_RDWR).await, open(raw::O_RDWR).await, open(raw::O_RDWR).await, open(raw::O_RDONLY).await];
        let of_one = map(&user, one, raw::MAP_SHARED, READ_WRITE).await;
        let of_closed = map(&user, closed, raw::MAP_SHARED, u64::from(raw::PROT_READ)).await;
        let of_copied = map(&user, copied, raw::MAP_PRIVATE, READ_WRITE).await;
        let of_shown = map(&user, shown, raw::MAP_SHARED, u64::from(raw::PROT_READ)).await;
        user.close(closed).await.unwrap();
        lose(&losses);
        assert_eq!(msync(&user, of_one, raw::MS_ASYNC).await, KEPT, "it waits for nothing");
        assert_eq!(msync(&user, of_copied, raw::MS_SYNC).await, KEPT, "its pages go to no disk");
        assert_eq!(msync(&user, of_shown, raw::MS_SYNC).await, KEPT, "it cannot be written");
        assert_eq!(msync(&user, of_one, raw::MS_SYNC).await, LOST);
        assert_eq!((user.call(FSYNC, &[one]).await, msync(&user, of_one, raw::MS_SYNC).await), (KEPT, KEPT));
        assert_eq!((msync(&user, of_closed, 0).await, msync(&user, of_closed, raw::MS_SYNC).await), (KEPT, LOST));
        assert_eq!(msync(&user, of_closed, raw::MS_SYNC).await, KEPT);
        assert_eq!((user.call(FSYNC, &[copied]).await, user.call(FSYNC, &[shown]).await), (LOST, LOST));
        lose(&losses);
        user.call(FSYNC, &[shown]).await.unwrap_err();
        let all = Arguments([of_one, 2 * PAGE + 1, u64::from(raw::MS_SYNC), 0, 0, 0]);
        assert_eq!((memory::msync(&user.thread, all).await, msync(&user, of_one, raw::MS_SYNC).await), (LOST, KEPT));
    });
}

#[test]
fn what_lies_before_locked_memory_is_synced_before_that_is_refused() {
    run_lossy(|user, losses| async move {
        user.file("/f", &[7; 2 * PAGE as usize]).await;
        let file = user.open("/f", raw::O_RDWR, 0).await.unwrap();
        let at = map(&user, file, raw::MAP_SHARED, READ_WRITE).await;
        memory::mlock(&user.thread, Arguments([at + PAGE, PAGE, 0, 0, 0, 0])).await.unwrap();
        lose(&losses);
        let both = async |flags: u32| {
            let flags = u64::from(raw::MS_INVALIDATE | flags);
            memory::msync(&user.thread, Arguments([at, 2 * PAGE, flags, 0, 0, 0])).await
        };
        assert_eq!((both(0).await, both(raw::MS_ASYNC).await), (Err(Errno::EBUSY), Err(Errno::EBUSY)));
        assert_eq!((both(raw::MS_SYNC).await, both(raw::MS_SYNC).await), (LOST, Err(Errno::EBUSY)));
        assert_eq!(msync(&user, at, raw::MS_SYNC | raw::MS_INVALIDATE).await, KEPT);
    });
}

#[test]
fn durable_writes_and_ranges_tell_losses_too() {
    run_lossy(|user, losses| async move {
        user.file("/f", &[7; 100]).await;
        let [one, two] = [
            user.open("/f", raw::O_RDWR, 0).await.unwrap(),
            user.open("/f", raw::O_RDWR | raw::O_DSYNC, 0).await.unwrap(),
        ];
        let data = user.put(&[8; 10]).await;
        lose(&losses);
        assert_eq!(user.call(SYNC_FILE_RANGE, &[one, 0, 0, 0]).await, KEPT);
        assert_eq!(user.call(SYNC_FILE_RANGE, &[one, 0, 0, 7]).await, LOST);
        assert_eq!((user.call(SYNC_FILE_RANGE, &[one, 0, 0, 7]).await, user.call(FSYNC, &[one]).await), (KEPT, KEPT));
        assert_eq!(user.call(PWRITE, &[two, data, 10, 0]).await, LOST);
        assert_eq!((user.call(PWRITE, &[two, data, 10, 0]).await, user.call(FSYNC, &[two]).await), (Ok(10), KEPT));
    });
}
