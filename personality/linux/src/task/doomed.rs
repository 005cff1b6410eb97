//! Processes that end with their tenant's first process, which nobody could wait for any more.
//!
//! There may be thousands. Some are ended at once; each process that is buried ends as many others, so that no core is
//! kept and none is forgotten.

use crate::Process;
use crate::process::TOLD_AT_ONCE;
use crate::signal::number;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use gyre_object::TenantLock;

/// The processes of a tenant that are to be ended.
#[derive(Default)]
pub(crate) struct Doomed(TenantLock<VecDeque<Arc<Process>>>);

impl Doomed {
    /// Adds processes.
    pub(crate) fn add(&self, processes: impl IntoIterator<Item = Arc<Process>>) {
        self.0.lock().extend(processes);
    }

    /// Ends some that live: each of them calls this again when it is buried. Never waits.
    pub(crate) fn end_some(&self) {
        let mut ended = 0;
        while ended < TOLD_AT_ONCE {
            let Some(process) = self.0.lock().pop_front() else { return };
            ended = usize::saturating_add(ended, usize::from(!process.is_ending()));
            process.end(number::SIGKILL);
        }
    }
}
