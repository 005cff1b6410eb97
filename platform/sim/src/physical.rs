//! Memory as a device sees it: by physical address. Simulated devices use this; a touch outside of the live frames of their machine is a
//! fault of whoever gave them the address, and ends the test.

use crate::machine::with_machine;
use gyre_platform::{OutOfMemory, PAGE_BYTES, Pa};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Start and length of all live frames of a machine.
#[derive(Default)]
struct Frames {
    live: BTreeMap<u64, usize>,
    /// The machine was stopped: it has no frames and gets none.
    is_stopped: bool,
}

/// The memory of one machine.
pub(crate) struct Memory(Mutex<Frames>);

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory(Mutex::default())
    }

    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refused to a machine that was stopped.
    pub(crate) fn may_take(&self) -> Result<(), OutOfMemory> {
        if self.frames().is_stopped { Err(OutOfMemory) } else { Ok(()) }
    }

    pub(crate) fn frame_born(&self, start: u64, bytes: usize) {
        self.frames().live.insert(start, bytes);
    }

    pub(crate) fn frame_died(&self, start: u64) {
        self.frames().live.remove(&start);
    }

    pub(crate) fn stop(&self) {
        *self.frames() = Frames { live: BTreeMap::new(), is_stopped: true };
    }
}

/// How many bytes of frames this machine has.
pub fn live_frame_bytes() -> usize {
    with_machine(|machine| machine.memory.frames().live.values().sum())
}

fn check(live: &BTreeMap<u64, usize>, start: u64, bytes: usize) {
    let frame = live.range(..=start).next_back();
    let fits = frame.is_some_and(|(first, length)| start - first + bytes as u64 <= *length as u64);
    assert!(
        fits,
        "a device touches {bytes} bytes at {start:#x}, which is no live frame (pages have {PAGE_BYTES} bytes)"
    );
}

/// Reads as a device of this machine does.
///
/// # Panics
/// If the range is not inside one live frame of this machine.
pub fn device_read(pa: Pa, into: &mut [u8]) {
    with_machine(|machine| {
        let frames = machine.memory.frames();
        check(&frames.live, pa.0, into.len());
        // SAFETY: the range lies inside a live frame, which cannot die while the list is locked.
        unsafe { core::ptr::copy_nonoverlapping(pa.0 as *const u8, into.as_mut_ptr(), into.len()) };
    });
}

/// Writes as a device of this machine does.
///
/// # Panics
/// If the range is not inside one live frame of this machine.
pub fn device_write(pa: Pa, from: &[u8]) {
    with_machine(|machine| {
        let frames = machine.memory.frames();
        check(&frames.live, pa.0, from.len());
        // SAFETY: as above; frames allow writes through shared access (`write_shared`).
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), pa.0 as *mut u8, from.len()) };
    });
}
