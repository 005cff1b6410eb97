//! Shares among the flows of one program (2003 paper, I/O shares; E2): whose part is read next.
//!
//! Weighted fair queueing over bytes: each flow's time goes on by what it was granted divided by its share; of those who wait, the
//! one whose time is least goes first. Nobody waits for who does not ask.

use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_message::WaitQueue;
use gyre_object::ObjectLock;

/// A flow's time goes on by this for each byte, divided by its share.
const SCALE: u64 = 1 << 16;

struct Member {
    id: u32,
    share: u32,
    time: u64,
    waiting: usize,
}

#[derive(Default)]
struct State {
    members: Vec<Member>,
    in_flight: usize,
    next: u32,
}

/// The shares of a program.
#[derive(Default)]
pub struct Shares {
    state: ObjectLock<State>,
    changed: WaitQueue,
}

/// A flow's membership; ends when dropped.
pub struct Membership {
    shares: Arc<Shares>,
    id: u32,
}

/// The right to read so many bytes; given back when dropped.
pub struct Grant {
    shares: Arc<Shares>,
    bytes: usize,
}

impl Shares {
    /// One more flow with a share, relative to the others' (at least 1).
    pub fn join(self: &Arc<Self>, share: u32) -> Membership {
        let mut state = self.state.lock();
        let id = state.next;
        state.next = state.next.wrapping_add(1);
        // It has not been waiting: it begins where the others are.
        let time = state.members.iter().map(|member| member.time).min().unwrap_or(0);
        state.members.push(Member { id, share: share.max(1), time, waiting: 0 });
        Membership { shares: self.clone(), id }
    }

    /// Bytes that are being read now.
    pub fn in_flight(&self) -> usize {
        self.state.lock().in_flight
    }
}

impl State {
    fn member(&mut self, id: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    fn try_grant(&mut self, id: u32, bytes: usize) -> bool {
        let has_room = self.in_flight == 0 || self.in_flight.saturating_add(bytes) <= crate::SHARED_BYTES_MAX;
        let first =
            self.members.iter().filter(|member| member.waiting > 0).min_by_key(|member| (member.time, member.id));
        if !has_room || first.is_some_and(|first| first.id != id) {
            return false;
        }
        self.in_flight = self.in_flight.saturating_add(bytes);
        if let Some(member) = self.member(id) {
            let charge = (bytes as u64).saturating_mul(SCALE).checked_div(u64::from(member.share));
            member.time = member.time.saturating_add(charge.unwrap_or(0));
        }
        true
    }
}

impl Membership {
    /// Waits for the turn and the room for `bytes`.
    pub async fn grant(&self, bytes: usize) -> Grant {
        let _waiting = Waiting::new(self);
        self.shares.changed.until(|| self.shares.state.lock().try_grant(self.id, bytes).then_some(())).await;
        Grant { shares: self.shares.clone(), bytes }
    }
}

/// Counts a flow among those who wait, as long as it does.
struct Waiting<'a>(&'a Membership);

impl Waiting<'_> {
    fn new(of: &Membership) -> Waiting<'_> {
        let mut state = of.shares.state.lock();
        // Who comes back from not asking has no claim on what it did not want meanwhile.
        let least = state.members.iter().filter(|member| member.waiting > 0).map(|member| member.time).min();
        if let Some(member) = state.member(of.id) {
            if let (0, Some(least)) = (member.waiting, least) {
                member.time = member.time.max(least.saturating_sub(const { crate::PART_BYTES as u64 * SCALE }));
            }
            member.waiting = member.waiting.saturating_add(1);
        }
        Waiting(of)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(member) = self.0.shares.state.lock().member(self.0.id) {
            member.waiting = member.waiting.saturating_sub(1);
        }
        self.0.shares.changed.wake_all();
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shares.state.lock().members.retain(|member| member.id != self.id);
        self.shares.changed.wake_all();
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut state = self.shares.state.lock();
        state.in_flight = state.in_flight.saturating_sub(self.bytes);
        drop(state);
        self.shares.changed.wake_all();
    }
}
