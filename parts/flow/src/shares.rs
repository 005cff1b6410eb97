//! Shares among the flows of one program (2003 paper, I/O shares): the choice of the part to read next.
//!
//! Weighted fair queueing over bytes: each flow's time goes on by its granted bytes divided by its share; of the
//! waiting flows, the one with the least time goes first. A flow that does not ask delays no other.
//!
//! Flows of one aggregate stand together as a *group*: its time goes on by the bytes of all of them, divided by the group's share. Groups and
//! the flows in none are compared first, then the flows of the group that won. A group is there as long as it has flows.
//!
//! Protocol of use: join, ask for a grant before each read, and hold the grant until the bytes are there. Any task of the program may.

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
    /// The number of its group.
    group: Option<u32>,
}

impl Member {
    fn charge(&mut self, bytes: usize) {
        self.time = self.time.saturating_add(charge(bytes, self.share));
    }
}

/// A group of flows, and its share beside other groups and flows in none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name, the same for all of its flows.
    pub number: u32,
    /// At least 1.
    pub share: u32,
}

/// A flow's part of what its program's flows may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its share beside the others of its group, or of those in none; at least 1.
    pub share: u32,
    /// Its group.
    pub group: Option<Group>,
}

impl From<u32> for Claim {
    fn from(share: u32) -> Claim {
        Claim { share, group: None }
    }
}

struct Grouped {
    of: Group,
    time: u64,
}

/// How far the time of a share goes on for so many bytes.
fn charge(bytes: usize, share: u32) -> u64 {
    (bytes as u64).saturating_mul(SCALE).checked_div(u64::from(share.max(1))).unwrap_or(0)
}

#[derive(Default)]
struct State {
    members: Vec<Member>,
    groups: Vec<Grouped>,
    in_flight: usize,
    next: u32,
    labels: u64,
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
    /// Adds a flow with a share, alone or in a group.
    pub fn join(self: &Arc<Self>, claim: impl Into<Claim>) -> Membership {
        let Claim { share, group } = claim.into();
        let mut state = self.state.lock();
        let id = state.next;
        state.next = state.next.wrapping_add(1);
        let top = state.top_time();
        if let Some(of) = group.filter(|of| !state.groups.iter().any(|known| known.of.number == of.number)) {
            state.groups.push(Grouped { of, time: top });
        }
        // It has not been waiting: it begins at the time of the others.
        let group = group.map(|group| group.number);
        let time = match group {
            None => top,
            Some(_) => state.times(group).min().unwrap_or(0),
        };
        state.members.push(Member { id, share: share.max(1), time, waiting: 0, group });
        Membership { shares: self.clone(), id }
    }

    /// Gives a group another share, if it has flows.
    pub fn set_group(&self, group: Group) {
        let mut state = self.state.lock();
        if let Some(known) = state.groups.iter_mut().find(|known| known.of.number == group.number) {
            known.of = group;
        }
    }

    /// Returns a dependency label for a new flow, which no other flow of the program has: all requests for it carry it (2013 paper, section
    /// IV-E), so they are started in the order in which they are made.
    pub fn label(&self) -> u64 {
        let mut state = self.state.lock();
        state.labels = state.labels.wrapping_add(1);
        state.labels
    }

    /// Returns the bytes that are being read now.
    pub fn in_flight(&self) -> usize {
        self.state.lock().in_flight
    }
}

impl State {
    fn member(&mut self, id: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    /// The times of the flows of a group, or of those in none.
    fn times(&self, group: Option<u32>) -> impl Iterator<Item = u64> + '_ {
        self.members.iter().filter(move |member| member.group == group).map(|member| member.time)
    }

    /// The least time of those that are compared first.
    fn top_time(&self) -> u64 {
        self.times(None).chain(self.groups.iter().map(|group| group.time)).min().unwrap_or(0)
    }

    /// The time with which a flow is compared first: its own, or its group's.
    fn top_time_of(&self, member: &Member) -> u64 {
        let group = self.groups.iter().find(|group| Some(group.of.number) == member.group);
        group.map_or(member.time, |group| group.time)
    }

    /// The waiting flow that goes first: by the time of its group or itself, then by its own within that.
    fn first(&self) -> Option<u32> {
        let waiting = self.members.iter().filter(|member| member.waiting > 0);
        let first = waiting.min_by_key(|member| (self.top_time_of(member), member.group, member.time, member.id));
        first.map(|first| first.id)
    }

    fn try_grant(&mut self, id: u32, bytes: usize) -> bool {
        let has_room = self.in_flight == 0 || self.in_flight.saturating_add(bytes) <= crate::SHARED_BYTES_MAX;
        if !has_room || self.first().is_some_and(|first| first != id) {
            return false;
        }
        self.in_flight = self.in_flight.saturating_add(bytes);
        let Some(member) = self.member(id) else { return true };
        member.charge(bytes);
        let group = member.group;
        if let Some(group) = self.groups.iter_mut().find(|known| Some(known.of.number) == group) {
            group.time = group.time.saturating_add(charge(bytes, group.of.share));
        }
        true
    }

    /// A flow that begins to wait again has no claim on bytes that it did not want meanwhile; nor has its group, if none of it waited.
    fn catch_up(&mut self, id: u32) {
        let Some(group) = self.member(id).filter(|member| member.waiting == 0).map(|member| member.group) else {
            return;
        };
        let credit = charge(crate::PART_BYTES, 1);
        let beside = self.members.iter().filter(|member| member.waiting > 0 && member.group == group);
        let (least, top) = (beside.map(|member| member.time).min(), self.waiting_top());
        if let Some(member) = self.member(id) {
            let floor = least.or(top.filter(|_| group.is_none()));
            member.time = member.time.max(floor.unwrap_or(0).saturating_sub(credit));
        }
        let is_first = least.is_none();
        if let Some(group) = self.groups.iter_mut().find(|known| is_first && Some(known.of.number) == group) {
            group.time = group.time.max(top.unwrap_or(0).saturating_sub(credit));
        }
    }

    /// The least time of those that wait, as they are compared first.
    fn waiting_top(&self) -> Option<u64> {
        self.members.iter().filter(|member| member.waiting > 0).map(|member| self.top_time_of(member)).min()
    }
}

impl Membership {
    /// Waits until the policy grants `bytes` and there is room for them.
    pub async fn grant(&self, bytes: usize) -> Grant {
        let _waiting = Waiting::new(self);
        self.shares.changed.until(|| self.shares.state.lock().try_grant(self.id, bytes).then_some(())).await;
        Grant { shares: self.shares.clone(), bytes }
    }
}

/// Counts a flow among those that wait, as long as it does.
struct Waiting<'a>(&'a Membership);

impl Waiting<'_> {
    fn new(of: &Membership) -> Waiting<'_> {
        let mut state = of.shares.state.lock();
        state.catch_up(of.id);
        if let Some(member) = state.member(of.id) {
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
        let mut state = self.shares.state.lock();
        state.members.retain(|member| member.id != self.id);
        let State { members, groups, .. } = &mut *state;
        groups.retain(|group| members.iter().any(|member| member.group == Some(group.of.number)));
        drop(state);
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
