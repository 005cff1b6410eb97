//! The nesting of a tenant's interest lists. A list may not be added to another if a ring, too deep a nest or too
//! many ways for a wake-up would follow (Linux: fs/eventpoll.c, ep_loop_check and reverse_path_check). So work that
//! follows nests has a bound.

use crate::Errno;
use alloc::collections::{BTreeMap, BTreeSet};
use gyre_object::TenantLock;

/// Lists one in another below a list, at most (Linux: EP_MAX_NESTS).
pub const NESTING_MAX: usize = 4;
/// Lists in lists of a tenant: so many steps bound every walk through them.
pub const NESTS_MAX: usize = 2048;
/// Ways from a list to lists that are in no other, by their length in lists (Linux: path_limits).
const WAYS_MAX: [u64; NESTING_MAX] = [500, 100, 50, 10];

/// Names a list among those of its tenant.
pub type ListId = u64;

#[derive(Default)]
struct Graph {
    /// How often a list, the second, is in another, the first.
    below: BTreeMap<(ListId, ListId), u32>,
    /// The lists that a list, the first, is in.
    above: BTreeSet<(ListId, ListId)>,
    last: ListId,
    count: usize,
}

/// The nests of a tenant.
#[derive(Default)]
pub struct Nests(TenantLock<Graph>);

impl Nests {
    /// Returns a name for a new list.
    pub fn name(&self) -> ListId {
        let mut graph = self.0.lock();
        graph.last = graph.last.wrapping_add(1);
        graph.last
    }

    /// Nests that there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().count
    }

    /// Notes that `inner` is in `outer` once more.
    ///
    /// # Errors
    /// ELOOP if a ring or more than [`NESTING_MAX`] nests would follow; EINVAL if a wake-up would have too many ways; ENOSPC
    /// beyond [`NESTS_MAX`].
    pub fn add(&self, outer: ListId, inner: ListId) -> Result<(), Errno> {
        let mut graph = self.0.lock();
        if graph.count >= NESTS_MAX {
            return Err(Errno::ENOSPC);
        }
        let below = graph.depth_below(inner, outer).ok_or(Errno::ELOOP)?;
        let above = graph.ways_above(outer).len();
        if below.saturating_add(above) > NESTING_MAX {
            return Err(Errno::ELOOP);
        }
        graph.insert(outer, inner);
        let ways = graph.ways_above(inner);
        if ways.iter().skip(1).zip(WAYS_MAX).any(|(ways, most)| *ways > most) {
            graph.remove(outer, inner);
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Notes that `inner` is in `outer` once less.
    pub fn remove(&self, outer: ListId, inner: ListId) {
        self.0.lock().remove(outer, inner);
    }
}

impl Graph {
    fn insert(&mut self, outer: ListId, inner: ListId) {
        let times = self.below.entry((outer, inner)).or_default();
        *times = times.saturating_add(1);
        self.above.insert((inner, outer));
        self.count = self.count.saturating_add(1);
    }

    fn remove(&mut self, outer: ListId, inner: ListId) {
        let Some(times) = self.below.get_mut(&(outer, inner)) else { return };
        *times = times.saturating_sub(1);
        if *times == 0 {
            self.below.remove(&(outer, inner));
            self.above.remove(&(inner, outer));
        }
        self.count = self.count.saturating_sub(1);
    }

    /// Returns the longest chain of lists below a list; `None` if `end` is among them, or more than may be.
    fn depth_below(&self, list: ListId, end: ListId) -> Option<usize> {
        let mut level = BTreeSet::from([list]);
        for depth in 0..=NESTING_MAX {
            if level.contains(&end) {
                return None;
            }
            let next = level.iter().flat_map(|list| self.below.range((*list, 0)..=(*list, ListId::MAX)));
            let next: BTreeSet<ListId> = next.map(|((_, inner), _)| *inner).collect();
            if next.is_empty() {
                return Some(depth);
            }
            level = next;
        }
        None
    }

    /// Returns the ways from a list to lists that are in no other, by their number of nests; the longest is the last.
    fn ways_above(&self, list: ListId) -> alloc::vec::Vec<u64> {
        let mut level = BTreeMap::from([(list, 1u64)]);
        let mut ways = alloc::vec::Vec::new();
        while !level.is_empty() && ways.len() <= NESTING_MAX {
            let mut next: BTreeMap<ListId, u64> = BTreeMap::new();
            let mut ended = 0u64;
            for (list, count) in &level {
                let mut above = self.above.range((*list, 0)..=(*list, ListId::MAX)).peekable();
                if above.peek().is_none() {
                    ended = ended.saturating_add(*count);
                }
                for (_, outer) in above {
                    let times = self.below.get(&(*outer, *list)).copied().unwrap_or(1);
                    let sum = next.entry(*outer).or_default();
                    *sum = sum.saturating_add(count.saturating_mul(u64::from(times)));
                }
            }
            ways.push(ended);
            level = next;
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn chain(nests: &Nests, lists: &[ListId]) -> Vec<Result<(), Errno>> {
        lists.windows(2).map(|pair| nests.add(pair[0], pair[1])).collect()
    }

    #[test]
    fn a_chain_is_as_deep_as_may_be_from_whichever_side_it_grows() {
        let most = [Ok(()), Ok(()), Ok(()), Ok(()), Err(Errno::ELOOP)];
        assert_eq!(chain(&Nests::default(), &[1, 2, 3, 4, 5, 6]), most);
        let nests = Nests::default();
        let upwards: Vec<_> = [5, 4, 3, 2, 1].iter().map(|list| nests.add(*list, list + 1)).collect();
        assert_eq!(upwards, most);
        let nests = Nests::default();
        chain(&nests, &[1, 2, 3]);
        chain(&nests, &[4, 5, 6]);
        assert_eq!(nests.add(3, 4), Err(Errno::ELOOP));
        nests.remove(1, 2);
        assert_eq!(nests.add(3, 4), Ok(()));
    }

    #[test]
    fn a_ring_is_refused_however_long() {
        for length in 2..=5 {
            let nests = Nests::default();
            let lists: Vec<_> = (1..=length).collect();
            assert!(chain(&nests, &lists).iter().all(Result::is_ok));
            assert_eq!(nests.add(length, 1), Err(Errno::ELOOP), "{length}");
        }
    }

    #[test]
    fn ways_of_a_wake_up_are_counted() {
        let nests = Nests::default();
        let added: Vec<_> = (2..600).map(|outer| nests.add(outer, 1)).collect();
        assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 500);
        assert_eq!(added[500], Err(Errno::EINVAL));
        assert_eq!(nests.count(), 500);
        // Each of these is one more way of one nest for the upper of two lists, and of two nests for the lower one.
        let nests = Nests::default();
        chain(&nests, &[1000, 1001]);
        let added = (2..200).filter(|outer| nests.add(*outer, 1000).is_ok()).count();
        assert_eq!(added, 198);
        assert_eq!(nests.add(1001, 1), Err(Errno::EINVAL));
        assert_eq!(nests.count(), 199);
    }

    #[test]
    fn nests_of_a_tenant_have_a_bound_and_come_back() {
        let nests = Nests::default();
        for at in 0..NESTS_MAX as u64 {
            assert_eq!(nests.add(1 + at * 2, 2 + at * 2), Ok(()));
        }
        assert_eq!(nests.add(100_000, 100_001), Err(Errno::ENOSPC));
        nests.remove(1, 2);
        nests.remove(1, 2);
        assert_eq!((nests.count(), nests.add(100_000, 100_001)), (NESTS_MAX - 1, Ok(())));
    }
}
