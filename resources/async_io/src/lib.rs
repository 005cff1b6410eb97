//! Asynchronous input and output: work that its asker does not wait for (Linux's io_uring and aio ride on it).
//!
//! A request of its own for each piece of work, so that it is scheduled here, by this resource's policy, and charged to who asked;
//! what the work does at files, sockets and disks is scheduled there again.
//!
//! Messages in: [`gyre_interface::async_io`]. Messages out: those of the work. Invariant: an activity has at most
//! [`gyre_interface::async_io::UNDER_WAY_MAX`] pieces under way; more are refused at once, for waiting here could be waiting for oneself.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::{ActivityId, current_activity};
use gyre_interface::async_io::async_io::Server;
use gyre_interface::async_io::{AsyncIoError, UNDER_WAY_MAX, Work};
use gyre_object::SpinLock;

/// The resource. Lives as long as the instance.
#[derive(Default)]
pub struct AsyncIo {
    under_way: SpinLock<BTreeMap<ActivityId, usize>>,
    done: AtomicU64,
    refused: AtomicU64,
}

/// A place among what an activity has under way; given back when dropped.
struct Place<'a> {
    resource: &'a AsyncIo,
    activity: ActivityId,
}

impl AsyncIo {
    /// What an activity has under way.
    pub fn under_way(&self, activity: ActivityId) -> usize {
        self.under_way.lock().get(&activity).copied().unwrap_or(0)
    }

    /// Pieces of work done, and refused.
    pub fn counts(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    fn admit(&self, activity: ActivityId) -> Option<Place<'_>> {
        let mut under_way = self.under_way.lock();
        let count = under_way.entry(activity).or_default();
        if *count >= UNDER_WAY_MAX {
            return None;
        }
        *count += 1;
        Some(Place { resource: self, activity })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut under_way = self.resource.under_way.lock();
        let left = under_way.get_mut(&self.activity).map_or(0, |count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == 0 {
            under_way.remove(&self.activity);
        }
    }
}

impl Server for AsyncIo {
    async fn run(&'static self, work: Work) -> Result<(), AsyncIoError> {
        let Some(_place) = self.admit(current_activity()) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(AsyncIoError::Full);
        };
        work.await;
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

    fn resource() -> (&'static AsyncIo, Client) {
        gyre_machine::set_virtual_time(0);
        let server: &'static AsyncIo = Box::leak(Box::default());
        (server, Client::new(direct_link(move |request| Box::pin(serve(server, request)))))
    }

    #[test]
    fn work_goes_on_when_nobody_waits_for_it() {
        let (server, client) = resource();
        block_on(async {
            drop(client.run(Box::pin(sleep_ns(100))));
            sleep_ns(10).await;
            assert_eq!((server.under_way(current_activity()), server.counts()), (1, (0, 0)));
            sleep_ns(1000).await;
            assert_eq!((server.under_way(current_activity()), server.counts()), (0, (1, 0)));
        });
    }

    #[test]
    fn more_than_an_activity_may_have_is_refused_at_once_and_taken_later() {
        let (server, client) = resource();
        block_on(async {
            let under_way: Vec<_> = (0..UNDER_WAY_MAX).map(|_| client.run(Box::pin(sleep_ns(1_000_000)))).collect();
            sleep_ns(10).await;
            assert_eq!(client.run(Box::pin(async {})).await, Err(AsyncIoError::Full));
            for call in under_way {
                assert_eq!(call.await, Ok(()));
            }
            assert_eq!(client.run(Box::pin(async {})).await, Ok(()));
            assert_eq!(server.counts(), (UNDER_WAY_MAX as u64 + 1, 1));
        });
    }
}
