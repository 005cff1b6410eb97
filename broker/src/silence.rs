//! Silence: a tenant that sends no heartbeat keeps its allocation for three windows, then falls to its share.

use crate::reason::Reason;

/// Windows without a heartbeat after which a tenant falls to its share.
pub const SILENT_WINDOWS: u32 = 3;

/// How long a tenant has been silent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence(u32);

impl Silence {
    /// Takes down a window; returns the reason if the tenant was silent in it.
    pub(crate) fn window(&mut self, beats: u64) -> Option<Reason> {
        if beats > 0 {
            self.0 = 0;
            return None;
        }
        self.0 = self.0.saturating_add(1);
        let windows = self.0;
        let keeps = windows <= SILENT_WINDOWS;
        Some(if keeps { Reason::SilentKeeps { windows } } else { Reason::SilentFalls { windows } })
    }
}
