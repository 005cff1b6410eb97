//! The TCP timer resource: one deadline per connection or listener, told as a message of its owner when it comes.
//!
//! An acknowledgment moves a deadline and seldom lets it come. So moving it is a store in the connection's [`Alarm`].
//! The timer is told only of a deadline before the time at which it looks next; if it then finds a later one, it
//! tells no one and looks again at that time. Deadlines that are far away are told less exactly, as in Linux's timer
//! wheel: by up to an eighth of the way to them.

use crate::alarm::{Alarm, NEVER};
use crate::protocols::tcp_timer;
use crate::shared::{Shared, labels, now_ns};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::{ActivityId, current_activity, set_current_activity};
use gyre_interface::tcp::{NetError, SocketId};
use gyre_message::{WaitQueue, select, sleep_ns};
use gyre_object::SpinLock;
use hashbrown::HashMap;

/// Deadlines within so long are told at once, however near they are, and however far: a millisecond to a seventh of a second.
const GRAIN_NS: core::ops::RangeInclusive<u64> = 1 << 20..=1 << 27;
/// Deadlines looked at in one go; then other work of the infrastructure may run.
const BATCH: usize = 64;
/// Possible difference of the clocks of deadlines and of sleep, ns.
const ROUNDING_NS: u64 = 1000;

struct Armed {
    look_at_ns: u64,
    label: u64,
    owner: ActivityId,
    alarm: Arc<Alarm>,
}

/// Whom to tell.
#[derive(Clone, Copy)]
struct Due {
    socket: SocketId,
    label: u64,
    owner: ActivityId,
}

#[derive(Default)]
struct Deadlines {
    armed: HashMap<SocketId, Armed, crate::connection_key::Hashed>,
    order: BTreeSet<(u64, SocketId)>,
}

impl Deadlines {
    /// Looks at an alarm when it says; true if that is before all others.
    fn arm(&mut self, socket: SocketId, armed: Armed, now_ns: u64) -> bool {
        let first_ns = self.order.first().map_or(NEVER, |first| first.0);
        self.disarm(socket);
        let deadline_ns = armed.alarm.look();
        if deadline_ns == NEVER {
            return false;
        }
        let look_at_ns = rounded(deadline_ns, now_ns);
        self.armed.insert(socket, Armed { look_at_ns, ..armed });
        self.order.insert((look_at_ns, socket));
        look_at_ns < first_ns
    }

    fn disarm(&mut self, socket: SocketId) {
        if let Some(old) = self.armed.remove(&socket) {
            self.order.remove(&(old.look_at_ns, socket));
        }
    }

    /// Takes the due deadlines, each look in its owner's name. Returns them, when to look next, and whether this was
    /// only a batch.
    fn due(&mut self, now_ns: u64) -> (Vec<Due>, Option<u64>, bool) {
        let (before, mut due, mut looks) = (current_activity(), Vec::new(), 0);
        while looks < BATCH
            && let Some((look_at_ns, socket)) = self.order.first().copied()
            && look_at_ns <= now_ns
        {
            looks = looks.saturating_add(1);
            self.order.pop_first();
            let Some(armed) = self.armed.remove(&socket) else { continue };
            set_current_activity(armed.owner);
            match armed.alarm.look_at(now_ns) {
                true => due.push(Due { socket, label: armed.label, owner: armed.owner }),
                false => _ = self.arm(socket, armed, now_ns),
            }
        }
        set_current_activity(before);
        (due, self.order.first().map(|first| first.0), looks == BATCH)
    }
}

/// Rounds a deadline up, so that those of about its time come together.
fn rounded(deadline_ns: u64, now_ns: u64) -> u64 {
    let way_ns = deadline_ns.saturating_sub(now_ns);
    let step = 1 << (way_ns / 8).max(1).ilog2();
    deadline_ns.next_multiple_of(step.clamp(*GRAIN_NS.start(), *GRAIN_NS.end()))
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

    /// Returns how many deadlines there are.
    #[cfg(test)]
    pub(crate) fn armed(&self) -> usize {
        self.deadlines.lock().armed.len()
    }

    /// Tells deadlines for ever: a task of the infrastructure.
    pub(crate) async fn keep_time(&'static self) {
        loop {
            let changed = self.changed.wait();
            let (due, next, is_batch) = self.deadlines.lock().due(now_ns());
            due.into_iter().for_each(|due| self.tell(due));
            match next {
                Some(_) if is_batch => gyre_message::yield_now().await,
                Some(next) => {
                    select(changed, sleep_ns(next.saturating_sub(now_ns()).saturating_add(ROUNDING_NS))).await;
                }
                None => changed.await,
            }
        }
    }

    fn tell(&self, due: Due) {
        if let Some(ports) = self.shared.ports.get() {
            let before = set_current_activity(due.owner);
            drop(ports.tcp_input.labelled(labels(due.label)).expired(due.socket));
            set_current_activity(before);
        }
    }
}

impl tcp_timer::Server for TcpTimer {
    async fn arm(&'static self, socket: SocketId, label: u64, alarm: Arc<Alarm>) -> Result<(), NetError> {
        let armed = Armed { look_at_ns: NEVER, label, owner: current_activity(), alarm };
        if self.deadlines.lock().arm(socket, armed, now_ns()) {
            self.changed.wake_all();
        }
        Ok(())
    }

    async fn disarm(&'static self, socket: SocketId) -> Result<(), NetError> {
        self.deadlines.lock().disarm(socket);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn armed(deadlines: &mut Deadlines, alarm: &Arc<Alarm>, now_ns: u64) -> bool {
        let armed = Armed { look_at_ns: NEVER, label: 1, owner: ActivityId(1), alarm: alarm.clone() };
        deadlines.arm(SocketId(7), armed, now_ns)
    }

    #[test]
    fn who_has_moved_its_deadline_is_not_told() {
        let (mut deadlines, alarm) = (Deadlines::default(), Arc::<Alarm>::default());
        assert!(alarm.set(200 * MS) && armed(&mut deadlines, &alarm, 0));
        assert!(!alarm.set(300 * MS), "later is not told");
        let (due, next, _) = deadlines.due(230 * MS);
        assert!(due.is_empty() && next.is_some_and(|next| (300 * MS..320 * MS).contains(&next)), "{next:?}");
        let (due, next, _) = deadlines.due(320 * MS);
        assert!(due.len() == 1 && next.is_none());
        assert!(alarm.set(900 * MS), "it looks no more");
    }

    #[test]
    fn an_earlier_deadline_is_told_and_one_taken_back_is_forgotten() {
        let (mut deadlines, alarm) = (Deadlines::default(), Arc::<Alarm>::default());
        assert!(alarm.set(200 * MS) && armed(&mut deadlines, &alarm, 0));
        assert!(alarm.set(40 * MS) && armed(&mut deadlines, &alarm, 0));
        assert_eq!(deadlines.due(45 * MS).0.len(), 1);
        assert!(alarm.set(200 * MS) && armed(&mut deadlines, &alarm, 45 * MS));
        assert!(!alarm.set(NEVER));
        let (due, next, _) = deadlines.due(240 * MS);
        assert!(due.is_empty() && next.is_none());
        assert!(alarm.set(900 * MS));
    }

    #[test]
    fn requests_that_come_in_the_wrong_order_arm_the_deadline_that_counts() {
        let (mut deadlines, alarm) = (Deadlines::default(), Arc::<Alarm>::default());
        assert!(alarm.set(7_200_000 * MS) && alarm.set(200 * MS));
        // the request for the earlier one overtakes the other
        armed(&mut deadlines, &alarm, 0);
        armed(&mut deadlines, &alarm, 0);
        assert_eq!(deadlines.due(220 * MS).0.len(), 1);
    }

    #[test]
    fn far_deadlines_are_told_together_and_none_too_early() {
        for (way_ms, late_ms) in [(1, 2), (40, 5), (200, 17), (1000, 68), (7_200_000, 135)] {
            let rounded = rounded(12_345_678 + way_ms * MS, 12_345_678) - 12_345_678;
            assert!((way_ms * MS..(way_ms + late_ms) * MS).contains(&rounded), "{way_ms}: {rounded}");
        }
        assert_eq!(rounded(310 * MS, MS), rounded(330 * MS, 7 * MS));
    }
}
