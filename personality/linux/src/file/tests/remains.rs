//! Memory of things that are still to be taken apart: a call that finds none waits for it.

use super::world::{Surroundings, User, run_in, tmpfs};
use crate::file::epoll::Epoll;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::remains::Remain;
use crate::task::shortage::has_room;
use alloc::sync::{Arc, Weak};
use core::cell::RefCell;
use core::pin::Pin;
use gyre_address_space::flush::Stale;
use gyre_address_space::{Flush, LocalFlush};
use std::boxed::Box;
use std::vec::Vec;

/// More than one turn takes apart.
const FILES: usize = 3000;

std::thread_local! {
    /// The file whose memory is wanted.
    static HOLDER: RefCell<Weak<OpenFile>> = const { RefCell::new(Weak::new()) };
}

/// There is room as soon as the holder is gone.
struct Full;

impl Flush for Full {
    fn make_room(&self, _bytes: u64) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        let is_free = HOLDER.with_borrow(|holder| holder.strong_count() == 0);
        Box::pin(async move { is_free })
    }

    fn flush(&self, cores: u64, stale: Stale) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        LocalFlush.flush(cores, stale)
    }
}

fn run_full<F: Future<Output = ()>>(test: impl FnOnce(User) -> F) {
    gyre_machine::set_virtual_time(1_000_000_000);
    run_in(Surroundings { flush: &Full, ..Surroundings::of(tmpfs()) }, test);
}

/// Returns so many files that nobody has a descriptor of; the first of them, which is taken apart last, is the holder.
fn files(user: &User) -> Vec<Arc<OpenFile>> {
    let tenant = user.thread.process().files().tenant().clone();
    let list = |_| OpenFile::new(&tenant, Object::Epoll(Epoll::new(&tenant)), 0, None).unwrap();
    let files: Vec<_> = (0..FILES).map(list).collect();
    HOLDER.set(Arc::downgrade(&files[0]));
    files
}

#[test]
fn a_call_without_memory_waits_for_what_was_let_go_of() {
    run_full(|user| async move {
        let tenant = user.thread.process().files().tenant().clone();
        tenant.leave_behind(Remain::Files(files(&user)));
        assert!(has_room(&user.thread, 1).await);
        assert!(!tenant.wait_for_remains(1).await);
    });
}

#[test]
fn a_call_without_memory_is_refused_at_once_if_all_is_in_use() {
    run_full(|user| async move {
        let files = files(&user);
        let begun = gyre_machine::now();
        assert!(!has_room(&user.thread, 1).await);
        assert_eq!(gyre_machine::now(), begun);
        drop(files);
    });
}

#[test]
fn work_that_a_worker_left_is_done_for_one_who_waits() {
    run_full(|user| async move {
        let tenant = user.thread.process().files().tenant().clone();
        tenant.remains.push(Remain::Files(files(&user)));
        assert!(has_room(&user.thread, 1).await);
    });
}
