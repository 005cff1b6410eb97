//! The last output of a tenant's console, for `gyre logs`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_message::WaitQueue;
use gyre_object::SpinLock;

/// Bytes kept.
pub const LOG_BYTES: usize = 64 * 1024;

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// Position of the first byte kept, counted from the start.
    first: u64,
}

/// A ring of output, with positions that never go back.
#[derive(Default)]
pub struct LogRing {
    state: SpinLock<State>,
    grown: WaitQueue,
    /// The last position that a reader outside asked for: it has what is before. 0 if nobody has asked.
    asked: AtomicU64,
}

impl LogRing {
    /// Adds output; the oldest goes when the ring is full.
    pub fn append(&self, data: &[u8]) {
        let mut state = self.state.lock();
        state.bytes.extend(data);
        let over = state.bytes.len().saturating_sub(LOG_BYTES);
        state.bytes.drain(..over);
        state.first = state.first.saturating_add(over as u64);
        drop(state);
        self.grown.wake_all();
    }

    /// Returns the position behind the last output.
    pub fn end(&self) -> u64 {
        let state = self.state.lock();
        state.first.saturating_add(state.bytes.len() as u64)
    }

    /// Notes that a reader outside asks for output from `position` on, and so has what is before it.
    pub fn note_asked(&self, position: u64) {
        self.asked.store(position, Ordering::Release);
    }

    /// Returns whether a reader outside has not asked for what is behind the last output yet. Nothing is untold if there is no reader.
    pub fn is_untold(&self) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        asked != 0 && asked < self.end()
    }

    /// Returns output from `position` on, at most `bytes_max`, and the position of its first byte, which is later if
    /// older output is gone.
    pub fn read(&self, position: u64, bytes_max: usize) -> (u64, Vec<u8>) {
        let state = self.state.lock();
        let start = position.max(state.first);
        let skip = usize::try_from(start.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let data = state.bytes.iter().skip(skip).take(bytes_max).copied().collect();
        (start, data)
    }

    /// Waits until there is output behind `position`, then as [`LogRing::read`].
    pub async fn follow(&self, position: u64, bytes_max: usize) -> (u64, Vec<u8>) {
        self.grown
            .until(|| {
                let (start, data) = self.read(position, bytes_max);
                (!data.is_empty()).then_some((start, data))
            })
            .await
    }
}
