//! The last output of a tenant's console, for `gyre logs`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
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

    /// Output from `position` on, at most `bytes_max`, and the position of its first byte: later where older output is gone.
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
