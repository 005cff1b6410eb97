//! The bytes that pass the I/O stream resource, and their cost.

use super::world::{User, run_through};
use crate::Errno;
use crate::file::passage::Passage;
use alloc::sync::Arc;
use core::future::Future;
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as raw;
use std::boxed::Box;
use std::vec;

const PREAD: u64 = 17;
const PWRITE: u64 = 18;
const FCNTL: u64 = 72;
const SENDFILE: u64 = 40;
const SPLICE: u64 = 275;
const COPY_FILE_RANGE: u64 = 326;

/// Runs a test with a count of the bytes that passed since it was asked last.
fn run<F: Future<Output = ()>>(is_gate: bool, test: impl FnOnce(User, Box<dyn Fn() -> u64>) -> F) {
    let passed = Arc::<AtomicU64>::default();
    let count = passed.clone();
    run_through(Passage::counted(is_gate, passed), |user| {
        test(user, Box::new(move || count.swap(0, Ordering::Relaxed)))
    });
}

#[test]
fn what_is_moved_by_reference_is_counted_when_read_and_when_written() {
    run(false, |user, passed| async move {
        user.file("/from", &vec![7; 200_000]).await;
        let from = user.open("/from", raw::O_RDONLY, 0).await.unwrap();
        let to = user.open("/to", raw::O_RDWR | raw::O_CREAT, 0o644).await.unwrap();
        assert_eq!(passed(), 0, "plain writes do not pass");
        assert_eq!(user.call(COPY_FILE_RANGE, &[from, 0, to, 0, 1 << 20, 0]).await, Ok(200_000));
        assert_eq!(passed(), 400_000);
        let at = user.put(&100_000_u64.to_le_bytes()).await;
        assert_eq!(user.call(SENDFILE, &[to, from, at, 5000]).await, Ok(5000));
        assert_eq!(passed(), 10_000);
        let (read, write) = user.pipe(0).await;
        assert_eq!(user.call(SPLICE, &[from, at, write, 0, 6000, 0]).await, Ok(6000));
        assert_eq!(user.call(SPLICE, &[read, 0, to, 0, 10_000, 0]).await, Ok(6000));
        assert_eq!(passed(), 24_000);
        assert_eq!(user.call(SPLICE, &[read, 0, to, 0, 10_000, 2]).await, Err(Errno::EAGAIN));
        user.read(from, 4096).await.unwrap();
        assert_eq!(passed(), 0, "what was not moved costs nothing, and plain reads do not pass");
    });
}

#[test]
fn plain_reads_and_writes_of_files_are_counted_where_bytes_are_divided() {
    run(true, |user, passed| async move {
        user.file("/file", &vec![3; 300_000]).await;
        assert_eq!(passed(), 300_000);
        let file = user.open("/file", raw::O_RDWR, 0).await.unwrap();
        assert_eq!(user.read(file, 4096).await.unwrap().len(), 4096);
        assert_eq!(passed(), 4096);
        assert_eq!(user.read(file, 400_000).await.unwrap(), vec![3; 300_000 - 4096]);
        assert_eq!(passed(), 300_000 - 4096, "only what was there");
        assert_eq!(user.read(file, 10).await, Ok(vec![]));
        user.write(file, &[1; 100]).await.unwrap();
        assert_eq!(passed(), 100);
        let end = user.open("/file", raw::O_WRONLY | raw::O_APPEND, 0).await.unwrap();
        user.write(end, &[2; 50]).await.unwrap();
        assert_eq!(passed(), 50);
    });
}

#[test]
fn o_direct_is_taken_and_costs_nothing_where_there_is_no_device() {
    run(true, |user, passed| async move {
        let flags = raw::O_RDWR | raw::O_CREAT | raw::O_DIRECT;
        let file = user.open("/file", flags, 0o644).await.unwrap();
        let at = user.room(3 * 4096).next_multiple_of(4096);
        for _ in 0..2 {
            assert_eq!(user.call(PWRITE, &[file, at, 8192, 0]).await, Ok(8192));
            assert_eq!(passed(), 8192, "bytes pass once");
        }
        assert_eq!(user.call_at_once(PREAD, &[file, at, 8192, 0]), Some(Ok(8192)), "what is in memory does not wait");
        assert_eq!(user.call_at_once(PREAD, &[file, at + 1, 100, 3]), Some(Ok(100)));
        assert_eq!(passed(), 8292);
        let flags = user.call(FCNTL, &[file, u64::from(raw::F_GETFL)]).await.unwrap();
        assert!(flags & u64::from(raw::O_DIRECT) != 0);
        let plain = user.open("/file", raw::O_RDWR, 0).await.unwrap();
        let set = [plain, u64::from(raw::F_SETFL), u64::from(raw::O_DIRECT)];
        assert_eq!(user.call(FCNTL, &set).await, Ok(0));
        assert_eq!(user.call(PREAD, &[plain, at, 8192, 0]).await, Ok(8192));
        assert_eq!(user.call_at_once(PREAD, &[plain, at, 8192, 0]), Some(Ok(8192)));
        assert_eq!(passed(), 2 * 8192);
    });
}

#[test]
fn what_a_full_pipe_does_not_take_stays_where_it_was() {
    run(false, |user, passed| async move {
        let (from, into) = user.pipe(raw::O_NONBLOCK).await;
        let (out, full) = user.pipe(raw::O_NONBLOCK).await;
        user.write(into, b"some words").await.unwrap();
        while user.write(full, &[0; 4096]).await.is_ok() {}
        assert_eq!(user.call(SPLICE, &[from, 0, full, 0, 100, 0]).await, Err(Errno::EAGAIN));
        assert_eq!((passed(), user.read(from, 100).await), (0, Ok(b"some words".to_vec())));
        user.read(out, 4096).await.unwrap();
        assert_eq!(user.call(SPLICE, &[from, 0, full, 0, 100, 0]).await, Err(Errno::EAGAIN), "nothing is there");
    });
}
