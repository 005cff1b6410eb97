//! Admission of promises at run time: whether what tenants would be promised can be kept, before anything is changed.
//!
//! A [`Table`] holds all promises and the policies that keep them. [`Table::admit`] returns the table that holds after a change, or why the
//! change is refused. Pure: the kernel hands a table that was admitted to the engine and keeps it.
//!
//! Sums that are checked: reservations at the processor (cores that run) and at the network card (the link's rate, if the owner has named
//! one), each up to [`RESERVABLE_PERCENT`]; budgets per period at the processor, on each core. The rate of a disk is not known, so nothing
//! there is summed up.

use crate::grid::{has_gate, per_second};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_contract::boot::Machine;
use gyre_contract::bounds::SHARE_MAX;
use gyre_contract::catalogue::Resource;
use gyre_contract::policy::{Budget, Choice, Entitlement, Metric, Policy, Rate};
use gyre_contract::promise::{Promise, RESERVABLE_PERCENT, Refusal, Refused, SumUnit, Wish};
use gyre_schedulers::list::Promise as Kept;

/// Thousandths of a core.
const CORE: u64 = 1000;

/// All promises, and the policies that keep them.
#[derive(Clone, Debug)]
pub struct Table {
    machine: &'static Machine,
    tenants: Vec<Vec<Entitlement>>,
    /// Those who came to places of the description, and the places.
    comers: Vec<(usize, String)>,
    policies: Vec<(Resource, Policy)>,
}

/// A part of a change: a promise and its position.
pub type Part<'a> = (u16, &'a Promise);

impl Table {
    /// Returns what the description promises.
    pub fn of(machine: &'static Machine) -> Table {
        Table {
            machine,
            tenants: machine.tenants.iter().map(|tenant| tenant.entitlements.clone()).collect(),
            comers: Vec::new(),
            policies: machine.resources.iter().map(|one| (one.resource, one.policy.clone())).collect(),
        }
    }

    /// Returns what a tenant (its index in the description) is promised at a resource.
    pub fn at(&self, tenant: usize, resource: Resource) -> Option<&Entitlement> {
        self.tenants.get(tenant)?.iter().find(|one| one.resource == resource)
    }

    /// Notes the policy that stands at a resource from now on.
    pub fn set_policy(&mut self, resource: Resource, policy: &Policy) {
        self.policies.retain(|(known, _)| *known != resource);
        self.policies.push((resource, policy.clone()));
    }

    /// Returns the policy at a resource.
    pub fn policy(&self, resource: Resource) -> Policy {
        self.policies
            .iter()
            .find(|(known, _)| *known == resource)
            .map_or_else(Policy::default, |(_, policy)| policy.clone())
    }

    /// Returns the index of a tenant.
    pub fn find(&self, name: &str) -> Option<usize> {
        let comer = self.comers.iter().find(|(_, comer)| comer == name).map(|(place, _)| *place);
        comer.or_else(|| self.machine.tenants.iter().position(|tenant| tenant.name == name))
    }

    /// Notes who has come to a place; nothing is promised to it yet.
    pub fn enter(&mut self, place: usize, name: &str) {
        self.leave(place);
        self.comers.push((place, name.to_owned()));
    }

    /// Notes that a tenant has gone: what was promised to it is free.
    pub fn leave(&mut self, tenant: usize) {
        self.comers.retain(|(place, _)| *place != tenant);
        if let Some(own) = self.tenants.get_mut(tenant) {
            own.clear();
        }
    }

    /// Returns the table after all of `parts`, on so many cores.
    ///
    /// # Errors
    /// [`Refused`] with the first part that cannot be kept; of a sum, the last part that adds to it.
    pub fn admit<'a>(&self, cores: u64, parts: impl Iterator<Item = Part<'a>> + Clone) -> Result<Table, Refused> {
        let mut after = self.clone();
        for (part, promise) in parts.clone() {
            let refused = |why| Refused { part, why };
            let tenant = self.find(&promise.tenant);
            let tenant = tenant.ok_or_else(|| refused(Refusal::NoTenant { name: promise.tenant.clone() }))?;
            self.has_a_keeper(tenant, promise).map_err(refused)?;
            let before = after.at(tenant, promise.resource).cloned();
            let wanted = promise.after(&before.unwrap_or_else(|| Entitlement::none(promise.resource)));
            self.makes_sense(promise, &wanted).map_err(refused)?;
            after.put(tenant, wanted);
        }
        for (part, promise) in parts {
            after.fits(cores, promise.resource).map_err(|why| Refused { part, why })?;
        }
        Ok(after)
    }

    fn put(&mut self, tenant: usize, entitlement: Entitlement) {
        if let Some(own) = self.tenants.get_mut(tenant) {
            own.retain(|one| one.resource != entitlement.resource);
            own.push(entitlement);
        }
    }

    /// The policy that orders a tenant among its siblings.
    fn keeper(&self, tenant: usize, resource: Resource) -> Choice {
        let policy = self.policy(resource);
        match self.machine.tenants.get(tenant).and_then(|tenant| tenant.parent) {
            None => policy.outer,
            Some(_) => policy.inner.unwrap_or_default(),
        }
    }

    fn has_a_keeper(&self, tenant: usize, promise: &Promise) -> Result<(), Refusal> {
        let resource = promise.resource;
        if resource != Resource::Cpu && !has_gate(self.machine, resource) {
            return Err(Refusal::NoScheduler { resource });
        }
        let policy = self.keeper(tenant, resource);
        let keeps = policy.listed().map_or(&[][..], |listed| listed.keeps);
        let asked = [
            (is_wanted(promise.priority), Kept::Priority, "priority"),
            (is_wanted(promise.deadline_ns), Kept::Deadline, "deadline"),
            (is_wanted(promise.reservation), Kept::Reservation, "reservation"),
            (is_wanted(promise.limit), Kept::Limit, "limit"),
            (is_wanted(promise.period_ns), Kept::Budget, "period"),
            (is_wanted(promise.budget), Kept::Budget, "budget"),
        ];
        match asked.into_iter().find(|(is_asked, kept, _)| *is_asked && !keeps.contains(kept)) {
            Some((_, _, key)) => Err(Refusal::NotKept { resource, promise: key.to_owned(), policy: policy.name }),
            None => Ok(()),
        }
    }

    fn metric(&self, resource: Resource) -> Metric {
        let asked = self.machine.resources.iter().find(|one| one.resource == resource);
        asked.map_or(resource.usual_metric(), |one| one.metric)
    }

    /// Checks the values of one tenant against each other.
    fn makes_sense(&self, promise: &Promise, wanted: &Entitlement) -> Result<(), Refusal> {
        let tenant = &promise.tenant;
        let wrong = |key: &str| Err(Refusal::Value { tenant: tenant.clone(), key: key.to_owned() });
        let is_cycles = self.metric(wanted.resource) == Metric::Cycles;
        let is_rate = |rate: Option<Rate>| match rate {
            None => true,
            Some(Rate::CoreThousandths(parts)) => is_cycles && parts > 0,
            Some(Rate::PerSecond(units)) => units > 0,
        };
        match wanted {
            _ if wanted.share.is_some_and(|share| !(1..=SHARE_MAX).contains(&share)) => wrong("share"),
            _ if wanted.deadline_ns == Some(0) => wrong("deadline"),
            _ if !is_rate(wanted.reservation) => wrong("reservation"),
            _ if !is_rate(wanted.limit) => wrong("limit"),
            _ if wanted.period_ns == Some(0) || (wanted.period_ns.is_none() && wanted.budget.is_some()) => {
                wrong("period")
            }
            _ if !is_budget(wanted, is_cycles) => wrong("budget"),
            _ if is_above(wanted.reservation, wanted.limit) => {
                Err(Refusal::AboveLimit { tenant: tenant.clone(), resource: wanted.resource })
            }
            _ => Ok(()),
        }
    }

    /// Checks the sums at a resource.
    fn fits(&self, cores: u64, resource: Resource) -> Result<(), Refusal> {
        let all = || self.tenants.iter().flatten().filter(|one| one.resource == resource);
        let sum = |part: fn(&Entitlement) -> u64| all().fold(0u64, |sum, one| sum.saturating_add(part(one)));
        let named = |wanted, most, unit| Err(Refusal::Sum { resource, wanted, most, unit });
        match resource {
            Resource::Cpu => {
                let (reserved, most) = (sum(core_thousandths), cores.saturating_mul(CORE * RESERVABLE_PERCENT / 100));
                let (budgets, most_of_core) = (sum(budget_thousandths), CORE * RESERVABLE_PERCENT / 100);
                match reserved > most {
                    true => named(reserved, most, SumUnit::CoreThousandths),
                    false if budgets > most_of_core => named(budgets, most_of_core, SumUnit::CoreThousandths),
                    false => Ok(()),
                }
            }
            Resource::NetworkWrite if self.metric(resource) == Metric::Bytes => {
                let Some(bits) = self.machine.link.rate_bits_per_second else { return Ok(()) };
                let reserved = sum(|one| one.reservation.map_or(0, per_second));
                let most = (bits / 8 / 100).saturating_mul(RESERVABLE_PERCENT);
                if reserved > most { named(reserved, most, SumUnit::BytesPerSecond) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

fn is_wanted<T>(wish: Wish<T>) -> bool {
    matches!(wish, Wish::Be(_))
}

fn is_budget(wanted: &Entitlement, is_cycles: bool) -> bool {
    match (wanted.budget, wanted.period_ns) {
        (None, _) => true,
        (Some(Budget::Time(ns)), Some(period)) => is_cycles && ns > 0 && ns <= period,
        (Some(Budget::Amount(units)), Some(_)) => units > 0,
        (Some(_), None) => false,
    }
}

fn is_above(low: Option<Rate>, high: Option<Rate>) -> bool {
    low.zip(high).is_some_and(|(low, high)| per_second(low) > per_second(high))
}

/// A reservation of the processor in thousandths of a core.
fn core_thousandths(promise: &Entitlement) -> u64 {
    match promise.reservation {
        None => 0,
        Some(Rate::CoreThousandths(parts)) => parts,
        Some(Rate::PerSecond(cycles)) => cycles.checked_div(gyre_machine::cycles_per_ms()).unwrap_or(cycles),
    }
}

/// A budget of the processor in thousandths of a core.
fn budget_thousandths(promise: &Entitlement) -> u64 {
    match (promise.budget, promise.period_ns) {
        (Some(Budget::Time(ns)), Some(period)) => {
            let parts = u128::from(ns).saturating_mul(u128::from(CORE)).checked_div(u128::from(period)).unwrap_or(0);
            u64::try_from(parts).unwrap_or(u64::MAX)
        }
        _ => 0,
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
