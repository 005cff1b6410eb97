//! Places of the tenants in the machine's description, by their names: the calls for logs and consoles want them.
//!
//! * [`Places`] keeps those that the newest snapshot tells for [`RECENT`], because a snapshot is dear and logs are looked at several times a
//!   second. It answers from them, or looks afresh.
//! * [`Places::read`] verifies by a fresh look whose the bytes are before it hands them out: what a tenant wrote is never shown under the name
//!   of another one. That a log has nothing new needs no proof, so a quiet machine costs a look each second at most.
//!
//! Called by the agent's threads, each for its own connection. The lock is held for moments, never during a look.

use std::{
    io,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use gyre_contract::monitor::{ActivityKind, Snapshot};

use super::no_tenant_of;

/// For so long places are believed.
const RECENT: Duration = Duration::from_secs(1);

/// So often bytes are read anew that turn out to be of another place.
const READS_MAX: usize = 3;

/// A tenant's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Its index in the machine.
    index: u32,
    /// The tenant's activity: nobody else ever has the same.
    activity: u32,
}

/// The tenants at one time, those that are here before those that have left.
#[derive(Clone)]
struct Seen {
    /// Before the look, so that a place is never believed for longer.
    at: Instant,
    tenants: Vec<Tenant>,
}

#[derive(Clone)]
struct Tenant {
    name: String,
    is_here: bool,
    place: Place,
}

/// See the module.
#[derive(Default)]
pub(super) struct Places(Mutex<Option<Seen>>);

impl Places {
    /// Keeps what a snapshot tells that was asked for at a time, unless something newer is kept.
    pub(super) fn keep(&self, snapshot: &Snapshot, at: Instant) {
        let seen = Seen::of(snapshot, at);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.at <= at) {
            *kept = Some(seen);
        }
    }

    /// Reads bytes of a tenant by its index, and hands them out if they are that tenant's.
    ///
    /// # Errors
    /// `NotFound` when there is no such tenant; those of `look` and `read`.
    pub(super) fn read(
        &self,
        tenant: &str,
        look: impl Fn() -> io::Result<Snapshot>,
        read: impl Fn(u32) -> io::Result<(u64, Vec<u8>)>,
    ) -> io::Result<(u64, Vec<u8>)> {
        let mut place = match self.recent(tenant, Instant::now()) {
            Some(place) => place,
            None => self.fresh(tenant, &look)?,
        };
        for _ in 0..READS_MAX {
            let (first, bytes) = read(place.index)?;
            if bytes.is_empty() {
                return Ok((first, bytes));
            }
            let now = self.fresh(tenant, &look)?;
            if now == place {
                return Ok((first, bytes));
            }
            place = now;
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("the place of tenant `{tenant}` changes all the time")))
    }

    /// Returns where a tenant was a short while ago.
    fn recent(&self, tenant: &str, now: Instant) -> Option<Place> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|seen| now.saturating_duration_since(seen.at) < RECENT)?.find(tenant)
    }

    /// Looks where a tenant is now.
    fn fresh(&self, tenant: &str, look: &impl Fn() -> io::Result<Snapshot>) -> io::Result<Place> {
        let at = Instant::now();
        let snapshot = look()?;
        self.keep(&snapshot, at);
        let seen = Seen::of(&snapshot, at);
        seen.find(tenant).ok_or_else(|| no_tenant_of(tenant, &seen.here()))
    }
}

/// Finds a tenant's index in a snapshot.
///
/// # Errors
/// `NotFound` when there is no such tenant.
pub(super) fn index(snapshot: &Snapshot, tenant: &str) -> io::Result<u32> {
    let seen = Seen::of(snapshot, Instant::now());
    seen.find(tenant).map(|place| place.index).ok_or_else(|| no_tenant_of(tenant, &seen.here()))
}

impl Seen {
    /// Takes the tenants of a snapshot. The kernel makes their activities at its start, one after the other in the order of the machine and the
    /// system tenant's first; it does not tell of places that nobody has had, so an id says the index and the order in the list does not.
    fn of(snapshot: &Snapshot, at: Instant) -> Self {
        let is_tenant = |kind| matches!(kind, ActivityKind::System | ActivityKind::Tenant);
        let mut all: Vec<_> = snapshot.activities.iter().filter(|activity| is_tenant(activity.kind)).collect();
        all.sort_by_key(|one| one.id);
        let first = all.first().map_or(0, |system| system.id);
        let tenants = all.into_iter().map(|one| Tenant {
            name: one.name.clone(),
            is_here: !one.state.has_left(),
            place: Place { index: one.id.saturating_sub(first), activity: one.id },
        });
        Self { at, tenants: tenants.collect() }
    }

    /// Finds a tenant. One that has left may have the name of one that is here; what it wrote is read under its name if nobody else has it.
    fn find(&self, tenant: &str) -> Option<Place> {
        let named = |is_here: bool| self.tenants.iter().find(|one| one.name == tenant && one.is_here == is_here);
        named(true).or_else(|| named(false)).map(|one| one.place)
    }

    /// Returns the names of those that are here.
    fn here(&self) -> Vec<&str> {
        self.tenants.iter().filter(|one| one.is_here).map(|one| one.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use gyre_contract::monitor::{Activity, State};

    use super::*;

    /// A machine of these tenants behind its own; one whose name has a dash before it has left.
    fn machine(names: &[&str]) -> Snapshot {
        let system = Activity { id: 7, name: "system".into(), kind: ActivityKind::System, ..Activity::default() };
        let tenant = |(id, name): (u32, &&str)| Activity {
            id,
            name: name.trim_start_matches('-').into(),
            kind: ActivityKind::Tenant,
            state: if name.starts_with('-') { State::Gone } else { State::Running },
            ..Activity::default()
        };
        let tenants = (8..).zip(names).map(tenant);
        Snapshot { activities: [system].into_iter().chain(tenants).collect(), ..Snapshot::default() }
    }

    /// Reads what is written at a place, at which that place's number stands.
    fn number(index: u32) -> io::Result<(u64, Vec<u8>)> {
        Ok((0, vec![index as u8]))
    }

    fn nothing(_: u32) -> io::Result<(u64, Vec<u8>)> {
        Ok((5, vec![]))
    }

    #[test]
    fn quiet_logs_of_three_tenants_cost_one_look_in_a_second() {
        let (places, looks) = (Places::default(), Cell::new(0));
        let look = || {
            looks.set(looks.get() + 1);
            Ok(machine(&["gold", "silver"]))
        };
        for tenant in ["system", "gold", "silver", "gold", "silver"] {
            assert_eq!(places.read(tenant, look, nothing).unwrap(), (5, vec![]));
        }
        assert_eq!(looks.get(), 1);
    }

    #[test]
    fn what_is_kept_is_believed_for_a_second_and_nothing_older_takes_its_place() {
        let (places, at) = (Places::default(), Instant::now());
        places.keep(&machine(&["gold"]), at);
        places.keep(&machine(&[]), at.checked_sub(RECENT).unwrap());
        assert_eq!(places.recent("gold", at).map(|place| place.index), Some(1));
        assert_eq!(places.recent("gold", at + RECENT), None);
    }

    #[test]
    fn bytes_are_handed_out_once_a_fresh_look_says_whose_they_are() {
        let (places, looks) = (Places::default(), Cell::new(0));
        places.keep(&machine(&["gold", "silver"]), Instant::now());
        let look = || {
            looks.set(looks.get() + 1);
            Ok(machine(&["-gold", "silver", "gold"]))
        };
        assert_eq!(places.read("gold", look, number).unwrap(), (0, vec![3]), "not those of the one that has left");
        assert_eq!(looks.get(), 2);
    }

    #[test]
    fn bytes_of_a_tenant_that_is_nowhere_are_not_handed_out() {
        let places = Places::default();
        places.keep(&machine(&["gold", "silver"]), Instant::now());
        let read = places.read("gold", || Ok(machine(&["iron", "silver"])), number);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_place_that_never_stays_is_an_error_and_no_loop() {
        let (places, looks) = (Places::default(), Cell::new(0));
        let look = || {
            looks.set(looks.get() + 1);
            Ok(machine(if looks.get() % 2 == 0 { &["gold"] } else { &["-gold", "gold"] }))
        };
        assert_eq!(places.read("gold", look, number).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(looks.get(), 1 + READS_MAX);
    }

    #[test]
    fn a_place_that_nobody_has_had_counts_though_the_kernel_does_not_tell_of_it() {
        let mut machine = machine(&["-gold", "vacant", "gold"]);
        machine.activities.retain(|one| one.name != "vacant");
        // Those that have left stand last.
        machine.activities.sort_by_key(|one| one.state.has_left());
        assert_eq!(index(&machine, "gold").unwrap(), 3);
    }

    #[test]
    fn a_tenant_that_has_just_come_is_looked_for_before_it_is_unknown() {
        let places = Places::default();
        places.keep(&machine(&["gold"]), Instant::now());
        assert_eq!(places.read("silver", || Ok(machine(&["gold", "silver"])), number).unwrap(), (0, vec![2]));
        let unknown = places.read("iron", || Ok(machine(&["gold", "-silver"])), number).unwrap_err();
        assert!(unknown.to_string().ends_with("there is: system, gold"), "{unknown}");
    }
}
