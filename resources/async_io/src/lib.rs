//! Asynchronous input and output: work without a waiting caller (Linux's io_uring and aio, and flows, use it).
//!
//! Each piece of work is a request of its own. So it is scheduled here, by this resource's policy, and charged to the
//! caller's activity; its requests to files, sockets and disks are scheduled there again.
//!
//! Messages in: [`gyre_interface::async_io`]. Messages out: those of the work. Invariant: an activity has at most
//! [`gyre_interface::async_io::UNDER_WAY_MAX`] pieces under way; more are refused at once, for waiting here could be
//! waiting for oneself. No lock is shared by the cores on a request's way while each activity has no more than a
//! core's part under way there (see `places`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;

mod places;

use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::{ActivityId, current_activity};
use gyre_interface::BytesReport;
use gyre_interface::async_io::async_io::Server;
use gyre_interface::async_io::{AsyncIoError, UNDER_WAY_MAX, Work};
use gyre_machine::core_index;
use places::Places;

/// The resource. Lives as long as the instance.
pub struct AsyncIo {
    places: Places,
    report: BytesReport,
    done: AtomicU64,
    refused: AtomicU64,
}

impl AsyncIo {
    /// Makes it for a machine of `cores` cores; `report` is told the bytes of each piece of work when it is done.
    pub fn new(cores: usize, report: BytesReport) -> AsyncIo {
        AsyncIo {
            places: Places::new(cores, UNDER_WAY_MAX),
            report,
            done: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Returns how many pieces of work an activity has under way.
    pub fn under_way(&self, activity: ActivityId) -> usize {
        self.places.taken(activity)
    }

    /// Pieces of work done, and refused.
    pub fn counts(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

impl Server for AsyncIo {
    async fn run(&'static self, work: Work) -> Result<(), AsyncIoError> {
        let Some(_place) = self.places.take(core_index(), current_activity()) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(AsyncIoError::Full);
        };
        let bytes = work.await;
        if bytes > 0 {
            (self.report)(bytes);
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use gyre_interface::async_io::async_io::{Client, serve};
    use gyre_message::direct::{block_on, direct_link};
    use gyre_message::sleep_ns;

    static MOVED: AtomicU64 = AtomicU64::new(0);

    /// Returns work that takes this long and moves as many bytes.
    fn work(ns: u64) -> Work {
        Box::pin(async move {
            sleep_ns(ns).await;
            ns
        })
    }

    fn resource() -> (&'static AsyncIo, Client) {
        gyre_machine::set_virtual_time(0);
        let server: &'static AsyncIo =
            Box::leak(Box::new(AsyncIo::new(1, &|bytes| _ = MOVED.fetch_add(bytes, Ordering::Relaxed))));
        (server, Client::new(direct_link(move |request| Box::pin(serve(server, request)))))
    }

    #[test]
    fn work_goes_on_when_nobody_waits_for_it() {
        let (server, client) = resource();
        block_on(async {
            drop(client.run(work(100)));
            sleep_ns(10).await;
            assert_eq!((server.under_way(current_activity()), server.counts()), (1, (0, 0)));
            sleep_ns(1000).await;
            assert_eq!((server.under_way(current_activity()), server.counts()), (0, (1, 0)));
            assert!(MOVED.load(Ordering::Relaxed) >= 100, "the scheduler is told what it moved");
        });
    }

    #[test]
    fn more_than_an_activity_may_have_is_refused_at_once_and_taken_later() {
        let (server, client) = resource();
        block_on(async {
            let under_way: Vec<_> = (0..UNDER_WAY_MAX).map(|_| client.run(work(1_000_000))).collect();
            sleep_ns(10).await;
            assert_eq!(client.run(work(0)).await, Err(AsyncIoError::Full));
            for call in under_way {
                assert_eq!(call.await, Ok(()));
            }
            assert_eq!(client.run(work(0)).await, Ok(()));
            assert_eq!(server.counts(), (UNDER_WAY_MAX as u64 + 1, 1));
        });
    }
}
