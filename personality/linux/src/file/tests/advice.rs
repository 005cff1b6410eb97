//! The effect of POSIX_FADV_RANDOM on reads, with and without a gate of the I/O streams.

use super::world::{Surroundings, User, run_in};
use crate::file::passage::Passage;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::files::files;
use gyre_message::direct::direct_link;
use gyre_tmpfs::{Limits, Tmpfs};
use linux_raw_sys::general as raw;
use std::boxed::Box;
use std::vec;

const PREAD: u64 = 17;
const FADVISE: u64 = 221;

/// Returns a file system that shows nothing, so that everything is asked for, and counts `read` and `read_random`.
fn counting(plain: Arc<AtomicU64>, alone: Arc<AtomicU64>) -> files::Client {
    let limits = Limits { pages_max: 1024, nodes_max: 100 };
    let server: &'static Tmpfs = Box::leak(Box::new(Tmpfs::new(limits, 0o1777)));
    files::Client::new(direct_link(move |request| {
        match request {
            files::Request::read { .. } => _ = plain.fetch_add(1, Ordering::Relaxed),
            files::Request::read_random { .. } => _ = alone.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
        Box::pin(files::serve(server, request))
    }))
}

async fn advise(user: &User, file: u64, advice: u32) {
    assert_eq!(user.call(FADVISE, &[file, 0, 0, u64::from(advice)]).await, Ok(0));
}

#[test]
fn who_reads_here_and_there_is_not_read_ahead_of_and_pays_for_what_was_read() {
    for is_gate in [false, true] {
        let [plain, alone, passed] = [const { AtomicU64::new(0) }; 3].map(Arc::new);
        let count = [plain.clone(), alone.clone(), passed.clone()];
        let counts = move || count.each_ref().map(|one| one.swap(0, Ordering::Relaxed));
        let price = u64::from(is_gate);
        let around =
            Surroundings { passage: Passage::counted(is_gate, passed), ..Surroundings::of(counting(plain, alone)) };
        run_in(around, |user| async move {
            user.file("/file", &vec![3; 10_000]).await;
            let file = user.open("/file", raw::O_RDONLY, 0).await.unwrap();
            let at = user.room(20_000);
            counts();
            advise(&user, file, raw::POSIX_FADV_RANDOM).await;
            assert_eq!(user.call(PREAD, &[file, at, 4096, 4096]).await, Ok(4096));
            assert_eq!(counts(), [0, 1, price * 4096]);
            assert_eq!(user.call(PREAD, &[file, at, 20_000, 4096]).await, Ok(5904));
            assert_eq!(counts(), [0, 1, price * 5904], "only what was there");
            let other = user.open("/file", raw::O_RDONLY, 0).await.unwrap();
            assert_eq!(user.call(PREAD, &[other, at, 4096, 0]).await, Ok(4096));
            assert_eq!(counts(), [1, 0, price * 4096], "another open file has advice of its own");
            advise(&user, file, raw::POSIX_FADV_NORMAL).await;
            assert_eq!(user.call(PREAD, &[file, at, 4096, 0]).await, Ok(4096));
            assert_eq!(counts(), [1, 0, price * 4096]);
        });
    }
}
