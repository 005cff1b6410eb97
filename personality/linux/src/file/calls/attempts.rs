//! "Try; EAGAIN, so wait until it may be ready": the one loop of all calls that wait for a file.

use crate::file::open_file::OpenFile;
use crate::time::cycles_from_now;
use crate::{Errno, Thread};
use gyre_interface::Ready;

/// Attempts in a row that end with EAGAIN although the file says that it is ready, before a pause. Readiness and
/// result disagree then, and other tasks run meanwhile.
const TRIES_BEFORE_PAUSE: u32 = 8;
/// The pause, ns.
const PAUSE_NS: u64 = 1_000_000;

/// The attempts of one call. They cannot spin, even if the file always shows that it is ready, and every wait ends with a signal.
#[derive(Default)]
pub(super) struct Attempts {
    /// How many in a row found the file ready at once, and ended with EAGAIN.
    in_vain: u32,
}

impl Attempts {
    /// Starts the count anew after progress.
    pub(super) fn renew(&mut self) {
        self.in_vain = 0;
    }

    /// Waits, after an attempt that ended with EAGAIN, until the file may be ready for `wanted`.
    ///
    /// # Errors
    /// EAGAIN after the deadline, and for a file that is never ready; ERESTARTSYS.
    pub(super) async fn wait(
        &mut self,
        thread: &Thread,
        file: &OpenFile,
        wanted: Ready,
        deadline_cycles: Option<u64>,
    ) -> Result<(), Errno> {
        let readiness = file.readiness().ok_or(Errno::EAGAIN)?;
        let is_promised = readiness.now().intersects(wanted | Ready::ERROR | Ready::HANG_UP);
        if !is_promised {
            self.renew();
            let waited = thread.interruptible_until(deadline_cycles, readiness.wait(wanted)).await?;
            return waited.map(|_| ()).ok_or(Errno::EAGAIN);
        }
        self.in_vain = self.in_vain.saturating_add(1);
        match self.in_vain {
            1 => Ok(()),
            2..TRIES_BEFORE_PAUSE => thread.interruptible(gyre_message::yield_now()).await,
            _ => self.pause(thread, deadline_cycles).await,
        }
    }

    async fn pause(&self, thread: &Thread, deadline_cycles: Option<u64>) -> Result<(), Errno> {
        let end = cycles_from_now(PAUSE_NS);
        if deadline_cycles.is_some_and(|deadline| deadline <= gyre_machine::now()) {
            return Err(Errno::EAGAIN);
        }
        thread.interruptible(gyre_message::sleep_until(end)).await
    }
}
