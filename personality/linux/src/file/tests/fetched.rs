//! Reads of a ring that wait for the disk only: copying the fetched pages.

use super::rings::{READ, Ring, run_at};
use super::world::tmpfs;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_interface::begun::{Begun, Held, Hold, Part};
use gyre_interface::block::BlockError;
use gyre_interface::files::{Attributes, FileError, NodeId, files};
use gyre_interface::near::Near;
use gyre_message::{Reply, reply_pair, sleep_ns, spawn};
use gyre_object::{Bytes, ObjectLock, Page};
use linux_raw_sys::general as raw;
use std::boxed::Box;
use std::vec;

type Answer = Reply<Result<Vec<Bytes>, BlockError>>;

struct Nothing;
impl Hold for Nothing {
    fn let_go(&self) {}
}

/// A file system whose contents are not in memory before its disk answers, which it does when the test says so.
struct Slow {
    inner: &'static dyn Near,
    is_here: AtomicBool,
    /// False: a message has to ask.
    may_fetch: AtomicBool,
    asked: ObjectLock<Vec<Answer>>,
}

impl Slow {
    fn leak() -> (&'static Slow, files::Client) {
        let root = tmpfs();
        let inner = root.visit(|near| near).unwrap();
        let (is_here, may_fetch) = (AtomicBool::new(true), AtomicBool::new(true));
        let slow: &'static Slow = Box::leak(Box::new(Slow { inner, is_here, may_fetch, asked: ObjectLock::default() }));
        (slow, root.with_near(slow))
    }

    /// Lets the disk answer; the fetched pages are there, or were evicted again.
    fn answer(&self, result: Result<(), BlockError>, is_here: bool) {
        self.is_here.store(is_here, Ordering::Relaxed);
        self.may_fetch.store(is_here, Ordering::Relaxed);
        let asked = core::mem::take(&mut *self.asked.lock());
        asked.into_iter().for_each(|reply| reply.send(result.map(|()| Vec::new())));
    }
}

impl Near for Slow {
    fn attributes(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        self.inner.attributes(node)
    }
    fn lookup(&'static self, directory: NodeId, name: &[u8]) -> Option<Result<Attributes, FileError>> {
        self.inner.lookup(directory, name)
    }
    fn open(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        self.inner.open(node)
    }
    fn close(&'static self, node: NodeId) -> bool {
        self.inner.close(node)
    }
    fn read(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>> {
        self.is_here.load(Ordering::Relaxed).then(|| self.inner.read(node, offset, bytes, into))?
    }
    fn fetch(&'static self, _node: NodeId, _offset: u64, _bytes: usize, _may_guess: bool) -> Option<Begun> {
        let is_absent = !self.is_here.load(Ordering::Relaxed);
        (is_absent && self.may_fetch.load(Ordering::Relaxed)).then_some(())?;
        let (reply, part) = reply_pair();
        self.asked.lock().push(reply);
        Some(Begun::new(0, [Part::Read(part)].into_iter(), Held::new(Arc::new(Nothing))))
    }
}

/// Reads by a ring; answers the pieces of work that it took. The thread waits for the answer in the call, or looks later.
fn works(result: Result<(), BlockError>, is_here: bool, waits: bool) -> u64 {
    let (slow, root) = Slow::leak();
    let told = Arc::new(ObjectLock::new(0));
    let count = told.clone();
    run_at(root, |user, counts| async move {
        user.file("/file", &vec![3; 9000]).await;
        let file = user.open("/file", raw::O_RDWR, 0).await.unwrap();
        let ring = Ring::new(&user).await;
        let at = user.put(&[0; 9000]).await;
        counts();
        slow.is_here.store(false, Ordering::Relaxed);
        spawn(async move {
            sleep_ns(10_000).await;
            slow.answer(result, is_here);
        });
        let read = [(READ, 0, file, at, 5000, 4000)];
        if waits {
            assert_eq!(ring.submit(&read, 1).await, [5000]);
        } else {
            assert!(ring.submit(&read, 0).await.is_empty());
            sleep_ns(20_000).await;
            assert_eq!(ring.results(0).await, [5000]);
        }
        assert_eq!(user.get(at, 5000).await, vec![3; 5000]);
        *count.lock() = counts()[0];
    });
    let works = *told.lock();
    works
}

#[test]
fn what_is_brought_is_copied_by_a_piece_of_work_and_so_is_what_failed_or_is_gone_again() {
    for waits in [true, false] {
        assert_eq!(works(Ok(()), true, waits), 1);
        assert_eq!(works(Ok(()), false, waits), 1);
        assert_eq!(works(Err(BlockError::Io), false, waits), 1);
    }
}

/// pread64.
const READ_AT: u64 = 17;

#[test]
fn a_plain_read_copies_what_was_brought_and_asks_again_for_what_was_not() {
    for (result, is_here) in [(Ok(()), true), (Ok(()), false), (Err(BlockError::Io), false)] {
        let (slow, root) = Slow::leak();
        run_at(root, |user, _| async move {
            user.file("/file", &vec![3; 9000]).await;
            let file = user.open("/file", raw::O_RDWR, 0).await.unwrap();
            let at = user.put(&[0; 9000]).await;
            let reads = [(at, 5000, 4000, Ok(5000)), (at, 5000, 6000, Ok(3000)), (8, 100, 0, Err(Errno::EFAULT))];
            for (to, bytes, offset, expected) in reads {
                user.thread.copy_out(at, &[0; 9000]).await.unwrap();
                slow.is_here.store(false, Ordering::Relaxed);
                slow.may_fetch.store(true, Ordering::Relaxed);
                spawn(async move {
                    sleep_ns(10_000).await;
                    slow.answer(result, is_here);
                });
                assert_eq!(user.call(READ_AT, &[file, to, bytes, offset]).await, expected);
                let count = expected.unwrap_or(0) as usize;
                assert_eq!(user.get(at, count + 1).await, [vec![3; count], vec![0]].concat());
                sleep_ns(20_000).await;
            }
        });
    }
}
