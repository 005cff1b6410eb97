//! Operations of an io_uring: those within the submitting call, those that are work of the asynchronous I/O resource,
//! and those that pass the I/O streams.

use super::world::{Surroundings, User, run_in, tmpfs};
use crate::file::passage::Passage;
use crate::file::transfer_limit::TransferPlace;
use crate::{Arguments, Errno, memory};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::async_io::{UNDER_WAY_MAX, async_io};
use gyre_interface::files::files;
use gyre_message::direct::direct_link;
use linux_raw_sys::general as raw;
use std::boxed::Box;
use std::vec;

const SETUP: u64 = 425;
const ENTER: u64 = 426;
pub(super) const READ: u8 = 22;
const WRITE: u8 = 23;
const CLOSE: u8 = 19;
const LINK: u8 = 1 << 2;
const HARD_LINK: u8 = 1 << 3;
const ASYNC: u8 = 1 << 4;
const PAGE: u64 = 4096;

/// A ring as its program sees it: two pages, of which the second has the submissions.
pub(super) struct Ring {
    user: User,
    descriptor: u64,
    at: u64,
    parameters: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
}

impl Ring {
    pub(super) async fn new(user: &User) -> Ring {
        let parameters = user.put(&[0; 120]).await;
        let descriptor = user.call(SETUP, &[8, parameters]).await.unwrap();
        let rights = u64::from(raw::PROT_READ | raw::PROT_WRITE);
        let arguments = Arguments([0, 2 * PAGE, rights, u64::from(raw::MAP_SHARED), descriptor, 0]);
        let at = memory::mmap(&user.thread, arguments).await.unwrap();
        Ring { user: user.clone(), descriptor, at, parameters: user.get(parameters, 120).await }
    }

    async fn load(&self, field: usize) -> u64 {
        word(&self.user.get(self.at + word(&self.parameters, field), 4).await, 0)
    }

    async fn store(&self, at: u64, value: u64) {
        self.user.thread.copy_out(self.at + at, &(value as u32).to_le_bytes()).await.unwrap();
    }

    /// Submits operations, each its code, flags, descriptor, address, bytes and offset, waits for so many, and answers the results there are.
    pub(super) async fn submit(&self, wishes: &[(u8, u8, u64, u64, u64, u64)], wait: u64) -> Vec<i32> {
        let (tail, seen) = (self.load(44).await, self.load(84).await);
        for (wish, slot) in wishes.iter().zip(tail..) {
            let mut entry = [0; 64];
            (entry[0], entry[1]) = (wish.0, wish.1);
            entry[4..8].copy_from_slice(&(wish.2 as u32).to_le_bytes());
            entry[8..16].copy_from_slice(&wish.5.to_le_bytes());
            entry[16..24].copy_from_slice(&wish.3.to_le_bytes());
            entry[24..28].copy_from_slice(&(wish.4 as u32).to_le_bytes());
            self.user.thread.copy_out(self.at + PAGE + slot % 8 * 64, &entry).await.unwrap();
            self.store(word(&self.parameters, 64) + slot % 8 * 4, slot % 8).await;
        }
        self.store(word(&self.parameters, 44), tail + wishes.len() as u64).await;
        let count = wishes.len() as u64;
        assert_eq!(self.user.call(ENTER, &[self.descriptor, count, wait, wait.min(1), 0, 0]).await, Ok(count));
        self.results(seen).await
    }

    /// Returns the results behind the first so many, which the program has seen then.
    pub(super) async fn results(&self, seen: u64) -> Vec<i32> {
        let mut results = vec![];
        for number in seen..self.load(84).await {
            let at = self.at + word(&self.parameters, 100) + number % 16 * 16;
            results.push(word(&self.user.get(at, 16).await, 8) as i32);
        }
        self.store(word(&self.parameters, 80), self.load(84).await).await;
        results
    }
}

/// Runs a test with counts of the work and of the bytes that passed since they were asked for last.
fn run<F: Future<Output = ()>>(
    (is_gate, divides_async_io): (bool, bool),
    test: impl FnOnce(User, Box<dyn Fn() -> [u64; 2]>) -> F,
) {
    run_around((is_gate, divides_async_io), tmpfs(), test);
}

/// Runs a test as `run` does, with a root file system of its own.
pub(super) fn run_at<F: Future<Output = ()>>(
    root: files::Client,
    test: impl FnOnce(User, Box<dyn Fn() -> [u64; 2]>) -> F,
) {
    run_around((false, false), root, test);
}

fn run_around<F: Future<Output = ()>>(
    (is_gate, divides_async_io): (bool, bool),
    root: files::Client,
    test: impl FnOnce(User, Box<dyn Fn() -> [u64; 2]>) -> F,
) {
    let [works, passed] = [const { AtomicU64::new(0) }; 2].map(Arc::new);
    let counts = [works.clone(), passed.clone()];
    let link = direct_link(move |request| {
        works.fetch_add(1, Ordering::Relaxed);
        let async_io::Request::run { work, reply } = request;
        Box::pin(async move {
            work.await;
            reply.send(Ok(()));
        })
    });
    let async_io = Some(async_io::Client::new(link));
    let passage = Passage::counted(is_gate, passed);
    gyre_machine::set_virtual_time(1_000_000_000);
    run_in(Surroundings { passage, async_io, divides_async_io, ..Surroundings::of(root) }, |user| {
        test(user, Box::new(move || counts.each_ref().map(|count| count.swap(0, Ordering::Relaxed))))
    });
}

#[test]
fn what_is_in_memory_is_read_and_written_over_in_the_call_and_passes_as_by_a_plain_call() {
    for is_gate in [false, true] {
        run((is_gate, false), |user, counts| async move {
            let price = u64::from(is_gate);
            user.file("/file", &vec![3; 50_000]).await;
            let file = user.open("/file", raw::O_RDWR, 0).await.unwrap();
            let ring = Ring::new(&user).await;
            let at = user.put(&[0; 10_000]).await;
            counts();
            assert_eq!(ring.submit(&[(READ, 0, file, at, 5000, 100)], 0).await, [5000]);
            assert_eq!((counts(), user.get(at, 5000).await), ([0, price * 5000], vec![3; 5000]));
            let both = [(READ, 0, file, at, 5000, 49_000), (READ, 0, file, at, 10, u64::MAX)];
            assert_eq!(ring.submit(&both, 0).await, [1000, 10], "a part at the end; from the position");
            assert_eq!((counts(), user.call(8, &[file, 0, 1]).await), ([0, price * 1010], Ok(10)));
            let read = (READ, 0, file, at, 100, 0);
            assert_eq!(ring.submit(&[(READ, ASYNC, file, at, 100, 0)], 1).await, [100]);
            assert_eq!(counts(), [1, price * 100], "its program does not want it tried");
            assert_eq!(ring.submit(&[(READ, LINK, file, at, 100, 0), read, read], 3).await, [100; 3]);
            assert_eq!(counts(), [1, price * 300], "a chain is work, what follows it is not");
            let not_here = [(READ, 0, file, 8, 100, 0), (WRITE, 0, file, at, 100, 49_950)];
            assert_eq!(ring.submit(&not_here, 2).await, [-Errno::EFAULT.0, 100]);
            assert_eq!(counts()[0], 2, "what fails or grows is looked at anew");
        });
    }
}

#[test]
fn work_that_is_divided_is_not_done_past_its_scheduler() {
    run((true, true), |user, counts| async move {
        user.file("/file", &[3; 5000]).await;
        let file = user.open("/file", raw::O_RDWR, 0).await.unwrap();
        let ring = Ring::new(&user).await;
        let at = user.put(&[7; 5000]).await;
        counts();
        assert_eq!(ring.submit(&[(READ, 0, file, at, 5000, 0), (READ, 0, file, at, 100, 0)], 2).await, [5000, 100]);
        assert_eq!(counts(), [2, 5100], "each passes once");
    });
}

#[test]
fn what_a_program_has_under_way_ends_with_it() {
    run((false, false), |user, _| async move {
        let (read, write) = user.pipe(0).await;
        let kept = user.call(32, &[read]).await.unwrap();
        let ring = Ring::new(&user).await;
        let at = user.put(&[0; 10]).await;
        let one = |flag| [(READ, flag, read, at, 1, 0), (CLOSE, 0, kept, 0, 0, 0)];
        assert_eq!(ring.submit(&[one(LINK), one(HARD_LINK)].concat(), 0).await, []);
        user.thread.process().under_way.end().await;
        assert_eq!(ring.results(0).await, [-Errno::ECANCELED.0; 4], "also behind a hard link");
        user.write(write, b"ab").await.unwrap();
        assert_eq!((user.read(kept, 10).await, user.call(32, &[kept]).await.is_ok()), (Ok(b"ab".to_vec()), true));
    });
}

#[test]
fn a_tenant_has_as_many_transfers_at_devices_as_it_may() {
    run_in(Surroundings::of(tmpfs()), |user| async move {
        let tenant = user.thread.tenant();
        let mut places: Vec<_> = (0..UNDER_WAY_MAX).map(|_| TransferPlace::take(tenant).unwrap()).collect();
        assert!(TransferPlace::take(tenant).is_none());
        drop(places.pop());
        assert!(TransferPlace::take(tenant).is_some());
    });
}
