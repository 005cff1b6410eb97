//! The TCP timer resource: one deadline per connection or listener, moved cheaply, told as a message of its owner.
//!
//! Connections set a new deadline only where it lies before the one that they have set, so this sees a few requests per
//! connection, not one per segment.

use crate::protocols::tcp_timer;
use crate::shared::{Shared, labels, now_ns};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use gyre_account::{ActivityId, current_activity, set_current_activity};
use gyre_interface::tcp::{NetError, SocketId};
use gyre_message::{WaitQueue, select, sleep_ns};
use gyre_object::SpinLock;
use hashbrown::HashMap;

/// Deadlines that are over within so long are told at once: 1 ms is little beside the shortest delay of TCP (40 ms), and one
/// interrupt for many.
const GRAIN_NS: u64 = 1_000_000;
/// Deadlines told per turn; then others of the infrastructure may go first.
const BATCH: usize = 64;

#[derive(Clone, Copy)]
struct Armed {
    deadline_ns: u64,
    label: u64,
    owner: ActivityId,
}

#[derive(Default)]
struct Deadlines {
    armed: HashMap<SocketId, Armed, crate::flow::Hashed>,
    order: BTreeSet<(u64, SocketId)>,
}

impl Deadlines {
    /// Sets a deadline; true where it is the first of all.
    fn arm(&mut self, socket: SocketId, armed: Armed) -> bool {
        self.disarm(socket);
        self.armed.insert(socket, armed);
        self.order.insert((armed.deadline_ns, socket));
        self.order.first().is_some_and(|first| first.1 == socket)
    }

    fn disarm(&mut self, socket: SocketId) {
        if let Some(old) = self.armed.remove(&socket) {
            self.order.remove(&(old.deadline_ns, socket));
        }
    }

    /// Takes what is due, and says when the next one is.
    fn due(&mut self, now_ns: u64) -> (Vec<(SocketId, Armed)>, Option<u64>) {
        let mut due = Vec::new();
        while due.len() < BATCH
            && let Some((deadline, socket)) = self.order.first().copied()
            && deadline <= now_ns
        {
            self.order.pop_first();
            due.extend(self.armed.remove(&socket).map(|armed| (socket, armed)));
        }
        (due, self.order.first().map(|first| first.0))
    }
}

/// Serves [`tcp_timer`].
pub struct TcpTimer {
    shared: &'static Shared,
    deadlines: SpinLock<Deadlines>,
    changed: WaitQueue,
}

impl TcpTimer {
    pub(crate) fn new(shared: &'static Shared) -> TcpTimer {
        TcpTimer { shared, deadlines: SpinLock::default(), changed: WaitQueue::new() }
    }

    /// Tells deadlines for ever: a task of the infrastructure.
    pub(crate) async fn keep_time(&'static self) {
        loop {
            let changed = self.changed.wait();
            let now = now_ns();
            let (due, next) = self.deadlines.lock().due(now);
            let full = due.len() == BATCH;
            due.into_iter().for_each(|(socket, armed)| self.tell(socket, armed));
            match next {
                Some(_) if full => gyre_message::yield_now().await,
                Some(next) => {
                    let look_at = (next / GRAIN_NS + 1) * GRAIN_NS;
                    select(changed, sleep_ns(look_at.saturating_sub(now_ns()))).await;
                }
                None => changed.await,
            }
        }
    }

    fn tell(&self, socket: SocketId, armed: Armed) {
        if let Some(ports) = self.shared.ports.get() {
            let before = set_current_activity(armed.owner);
            drop(ports.tcp_input.labelled(labels(armed.label)).expired(socket));
            set_current_activity(before);
        }
    }
}

impl tcp_timer::Server for TcpTimer {
    async fn arm(&'static self, socket: SocketId, label: u64, deadline_ns: u64) -> Result<(), NetError> {
        let armed = Armed { deadline_ns, label, owner: current_activity() };
        if self.deadlines.lock().arm(socket, armed) {
            self.changed.wake_all();
        }
        Ok(())
    }

    async fn disarm(&'static self, socket: SocketId) -> Result<(), NetError> {
        self.deadlines.lock().disarm(socket);
        Ok(())
    }
}
