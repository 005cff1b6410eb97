//! Ticks of something that must be looked at again and again while it has work, and not otherwise: a device whose interrupt may be lost.
//!
//! States: idle (no tick is under way), armed (a notice or a timer is). The first request arms it; each tick looks and arms it again, until a look finds
//! nothing to do.

use crate::notice::Notice;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_object::SetOnce;

/// The ticks of one thing.
#[derive(Default)]
pub struct Ticks {
    notice: SetOnce<Notice>,
    is_armed: AtomicBool,
}

impl Ticks {
    /// Says which notice is the tick. Once, before the first request.
    pub fn set_notice(&self, notice: Notice) {
        self.notice.set(notice);
    }

    /// Notes that there is something to do. Cheap if a tick is under way.
    #[inline]
    pub fn note_request(&self) {
        if !self.is_armed.load(Ordering::SeqCst) {
            self.arm(Notice::send);
        }
    }

    /// Handles a tick: `look` says after how many cycles the next one follows, if there is something to do.
    ///
    /// Requests on other cores race with it. (1) Here the state becomes idle, (2) `look` reads what there is to do. There (1) a request is begun, (2) the state
    /// is read. So either `look` finds the request, or the request finds the state idle and arms it.
    pub fn on_tick(&self, look: impl FnOnce() -> Option<u64>) {
        self.is_armed.store(false, Ordering::SeqCst);
        if let Some(cycles) = look() {
            self.arm(|tick| tick.send_after(cycles));
        }
    }

    #[cold]
    fn arm(&self, send: impl FnOnce(Notice)) {
        if let Some(tick) = self.notice.get()
            && !self.is_armed.swap(true, Ordering::SeqCst)
        {
            send(tick);
        }
    }
}
