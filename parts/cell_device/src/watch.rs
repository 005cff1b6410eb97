//! The look at a queue: by the service while requests come, and for some time after the last one; then it sleeps, and the cell rings.

use crate::queue::{Lie, Queue};
use core::future::pending;
use gyre_cell_memory::Bell;
use gyre_machine::{cycles_per_ms, now};
use gyre_message::yield_now;

/// The time for which it looks at the queue after the last request, ns: about what an exit of a cell costs.
const POLL_NS: u64 = 20_000;

/// Whether a look has found something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    None,
    Some,
}

/// The state of the look at a queue.
pub(crate) struct Watch {
    bell: Bell,
    /// Up to this cycle the service looks by itself.
    polls_until: u64,
}

impl Watch {
    /// Begins with a cell that rings, whatever it has written there; requests that stand already are found by the first look.
    pub(crate) fn begin(queue: &Queue) -> Watch {
        let _ = queue.listen();
        Watch { bell: Bell::Wanted, polls_until: 0 }
    }

    /// Looks for requests, which `take` begins; says who looks next.
    ///
    /// # Errors
    /// Those of `take`.
    pub(crate) fn look(
        &mut self,
        queue: &mut Queue,
        mut take: impl FnMut(&mut Queue) -> Result<News, Lie>,
    ) -> Result<Bell, Lie> {
        let time = now();
        if take(queue)? == News::Some {
            let cycles = POLL_NS.saturating_mul(cycles_per_ms()).checked_div(1_000_000).unwrap_or(0);
            self.polls_until = time.saturating_add(cycles);
        }
        let bell = if time < self.polls_until { Bell::NotWanted } else { Bell::Wanted };
        if bell == self.bell {
            return Ok(bell);
        }
        self.bell = bell;
        match bell {
            Bell::NotWanted => queue.hush(),
            // One that came before the bell was wanted.
            Bell::Wanted if queue.listen() => _ = take(queue)?,
            Bell::Wanted => {}
        }
        Ok(bell)
    }
}

/// Completes at the next look that is due without a bell.
pub(crate) async fn pause(bell: Bell) {
    match bell {
        Bell::NotWanted => yield_now().await,
        Bell::Wanted => pending().await,
    }
}
