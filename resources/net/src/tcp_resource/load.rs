//! The overload controller at listeners: refusals, and its looks by the timer.

use super::input::Segment;
use super::{Connection, Listener, Tcp};
use crate::connection_key::ConnectionKey;
use crate::guard::{Guard, Lines, Refusal};
use crate::shared::now_ns;
use crate::statistics::DropReason;
use crate::tenant::Tenant;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::{set_current_activity, set_current_tenant};
use gyre_interface::tcp::SocketId;

impl Tcp {
    /// Refuses a segment that would open a connection above the limit of its tenant's controller; false if there is no such limit.
    pub(super) fn turns_away(
        &'static self,
        listener: &Listener,
        key: &ConnectionKey,
        segment: &Segment,
        now: u64,
    ) -> bool {
        let guard = listener.tenant.guard_for(segment.ends.remote.address);
        let Some(guard) = guard.filter(|guard| !guard.admits()) else {
            return false;
        };
        listener.tenant.counters.drop(DropReason::Overloaded);
        if guard.refusal == Refusal::Reset {
            listener.state.lock().half_open.remove(key);
            self.reset(segment, now);
        }
        true
    }

    /// A connection stands in line: if it is guarded it counts, and somebody looks soon.
    pub(super) fn count_in(&self, connection: &Connection, now: u64) {
        if let Some(visit) = &connection.visit
            && visit.guard.enter(now)
        {
            self.arm_look(connection.tenant, visit.guard);
        }
    }

    /// The time for a tenant's look has come. The timer tells it in the tenant's name.
    pub(super) fn look_at_load(&self, socket: SocketId) {
        let Ok(tenant) = self.shared.current_tenant() else {
            return;
        };
        if let Some(guard) = tenant.guard.as_ref().filter(|guard| guard.id == socket)
            && guard.look(lines(tenant), now_ns())
        {
            self.arm_look(tenant, guard);
        }
    }

    fn arm_look(&self, tenant: &Tenant, guard: &Guard) {
        let before = set_current_tenant(tenant.activity);
        self.arm(guard.id, self.shared.label([guard.id.0, 0]), &guard.alarm);
        set_current_activity(before);
    }
}

/// The lines of all listeners of a tenant.
fn lines(tenant: &Tenant) -> Lines {
    let listeners: Vec<Arc<Listener>> = tenant.ports.lock().listeners.values().flatten().cloned().collect();
    listeners.iter().fold(Lines::default(), |lines, listener| {
        let state = listener.state.lock();
        let first = state.ready.front().and_then(|first| first.visit.as_ref()).map(|visit| visit.came_ns);
        Lines {
            waiting: lines.waiting.saturating_add(state.ready.len()),
            oldest_ns: lines.oldest_ns.into_iter().chain(first).min(),
        }
    })
}
