//! The pace of the device: how fast it takes frames, and so how much may be handed down in one piece.
//!
//! A large segment costs the path little, but the next sender waits for all of it. So it is as long as the link is
//! busy for [`SEGMENT_US`], between [`SEGMENT_BYTES_MIN`] and [`SEGMENT_BYTES_MAX`]. The room that a connection gets
//! at once is no smaller than a segment, and the rooms of connections and tenants are in proportion to it.

use crate::limits::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_US, SEND_ROOM_BYTES};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use gyre_object::SpinLock;

/// Shortest time over which the pace is measured, ns: many times the device's time between two interrupts.
const WINDOW_NS: u64 = 50_000_000;
/// A longer pause means that there was nothing to send, ns.
const PAUSE_NS: u64 = 200_000_000;

/// The pace of the device, from the receipts that come back.
pub(crate) struct Pace {
    bytes: AtomicU64,
    window: SpinLock<u64>,
    segment_bytes: AtomicUsize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { bytes: AtomicU64::new(0), window: SpinLock::new(0), segment_bytes: AtomicUsize::new(SEND_ROOM_BYTES) }
    }
}

impl Pace {
    /// Counts bytes that the device has taken.
    pub(crate) fn on_taken(&self, bytes: usize, now_ns: u64) {
        let sum = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed).saturating_add(bytes as u64);
        let Some(mut since_ns) = self.window.try_lock() else {
            return;
        };
        let elapsed_ns = now_ns.saturating_sub(*since_ns);
        if elapsed_ns < WINDOW_NS {
            return;
        }
        *since_ns = now_ns;
        self.bytes.fetch_sub(sum, Ordering::Relaxed);
        if elapsed_ns < PAUSE_NS {
            let wanted = sum.saturating_mul(SEGMENT_US * 1000).checked_div(elapsed_ns).unwrap_or(u64::MAX);
            self.segment_bytes.store(smoothed(self.segment_bytes(), wanted), Ordering::Relaxed);
        }
    }

    /// Returns the longest segment.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that a connection may hand down at once.
    pub(crate) fn send_room_bytes(&self) -> usize {
        self.segment_bytes().max(SEND_ROOM_BYTES)
    }

    /// Returns a limit for a slow link, raised to this link's pace.
    pub(crate) fn scaled(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.send_room_bytes()) / SEND_ROOM_BYTES
    }
}

/// Returns the mean of the former value and that of the last window.
fn smoothed(before: usize, wanted: u64) -> usize {
    let wanted = usize::try_from(wanted).unwrap_or(SEGMENT_BYTES_MAX).min(SEGMENT_BYTES_MAX);
    before.midpoint(wanted).max(SEGMENT_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns segment and room after a second at a rate.
    fn after(bytes_per_ms: usize) -> (usize, usize) {
        let pace = Pace::default();
        (1..1000).for_each(|ms| pace.on_taken(bytes_per_ms, ms * 1_000_000));
        (pace.segment_bytes(), pace.send_room_bytes())
    }

    #[test]
    fn a_segment_is_as_long_as_the_link_is_busy_for_three_ms() {
        assert_eq!(after(625), (SEGMENT_BYTES_MIN, SEND_ROOM_BYTES), "5 Mbit/s");
        assert!(after(2500).0.abs_diff(7500) < 400, "20 Mbit/s: {:?}", after(2500));
        assert!(after(10_000).0.abs_diff(30_000) < 1500, "80 Mbit/s: {:?}", after(10_000));
        assert!(after(1_000_000).1.abs_diff(SEGMENT_BYTES_MAX) < 100, "8 Gbit/s: {:?}", after(1_000_000));
    }

    #[test]
    fn it_shrinks_again_and_a_pause_says_nothing() {
        let pace = Pace::default();
        (1..1000).for_each(|ms| pace.on_taken(20_000, ms * 1_000_000));
        let before = pace.send_room_bytes();
        pace.on_taken(1000, 10_000_000_000);
        assert_eq!(pace.send_room_bytes(), before);
        (1..1000).for_each(|ms| pace.on_taken(600, 10_000_000_000 + ms * 1_000_000));
        assert_eq!((pace.segment_bytes(), pace.send_room_bytes()), (SEGMENT_BYTES_MIN, SEND_ROOM_BYTES));
    }

    #[test]
    fn buffers_that_fill_again_after_a_halt_do_not_look_like_a_fast_link() {
        let pace = Pace::default();
        (1..1000).for_each(|ms| pace.on_taken(2500, ms * 1_000_000));
        // the device stood still for 40 ms; its ring and the queue behind it take 110 KB at once
        (1040..1041).for_each(|ms| (0..110).for_each(|part| pace.on_taken(1000, ms * 1_000_000 + part)));
        let longest = (1041..1200).map(|ms| {
            pace.on_taken(2500, ms * 1_000_000);
            pace.segment_bytes()
        });
        assert!(longest.max().is_some_and(|bytes| bytes < 12_000), "half as long again, not twice");
    }
}
