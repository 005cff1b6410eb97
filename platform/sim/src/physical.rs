//! Memory as a device sees it: by physical address. Simulated devices use this; a touch outside of live frames is a fault of
//! whoever gave them the address, and ends the test.

use gyre_platform::{PAGE_BYTES, Pa};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Start and length of all live frames of the process.
static LIVE: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

fn with_live<T>(act: impl FnOnce(&mut BTreeMap<u64, usize>) -> T) -> T {
    act(&mut LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

pub(crate) fn frame_born(start: u64, bytes: usize) {
    with_live(|live| live.insert(start, bytes));
}

pub(crate) fn frame_died(start: u64) {
    with_live(|live| live.remove(&start));
}

/// How many bytes of frames are alive in this process.
pub fn live_frame_bytes() -> usize {
    with_live(|live| live.values().sum())
}

fn check(live: &BTreeMap<u64, usize>, start: u64, bytes: usize) {
    let frame = live.range(..=start).next_back();
    let fits = frame.is_some_and(|(first, length)| start - first + bytes as u64 <= *length as u64);
    assert!(
        fits,
        "a device touches {bytes} bytes at {start:#x}, which is no live frame (pages have {PAGE_BYTES} bytes)"
    );
}

/// Reads as a device does.
///
/// # Panics
/// Where the range is not inside one live frame.
pub fn device_read(pa: Pa, into: &mut [u8]) {
    with_live(|live| {
        check(live, pa.0, into.len());
        // SAFETY: the range lies inside a live frame, which cannot die while the registry is locked.
        unsafe { core::ptr::copy_nonoverlapping(pa.0 as *const u8, into.as_mut_ptr(), into.len()) };
    });
}

/// Writes as a device does.
///
/// # Panics
/// Where the range is not inside one live frame.
pub fn device_write(pa: Pa, from: &[u8]) {
    with_live(|live| {
        check(live, pa.0, from.len());
        // SAFETY: as above; frames allow writes through shared access (`write_shared`).
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), pa.0 as *mut u8, from.len()) };
    });
}
