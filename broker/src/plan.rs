//! A plan: what each tenant is to hold of each resource, who decided it, and why.
//!
//! A plan keeps four promises with any policy, so no policy has to be trusted:
//! * every part is a number from 0 to the tenant's limit;
//! * the parts of one resource sum up to 1 at most, exactly: parts are whole multiples of [`QUANTUM`], whose sums do not round;
//! * a knob, which is one resource of one tenant, has one owner: two policies on one knob would fight;
//! * a tenant without a decision keeps its parts.
//!
//! Policies write it, one after the other; the broker's program reads it once they are done and asks the kernel for the change.

use crate::number::within;
use crate::reason::Reason;
use crate::resource::{Parts, RESOURCES, Resource};
use crate::window::{TenantId, Window};

/// Most tenants of a plan.
pub const TENANTS_MAX: usize = 64;

/// Parts are whole multiples of this: 2^-32 of the machine.
pub const QUANTUM: f64 = 1.0 / (1u64 << 32) as f64;

/// The policies, each as the owner of knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// [`crate::static_shares`].
    StaticShares,
    /// [`crate::threshold`].
    Threshold,
    /// [`crate::pressure`].
    Pressure,
    /// [`crate::pota`].
    Pota,
    /// [`crate::pacora`].
    Pacora,
}

impl Owner {
    /// All policies.
    pub const ALL: [Owner; 5] = [Owner::StaticShares, Owner::Threshold, Owner::Pressure, Owner::Pota, Owner::Pacora];

    /// Returns the name for people and machine files.
    pub const fn name(self) -> &'static str {
        match self {
            Owner::StaticShares => "static",
            Owner::Threshold => "threshold",
            Owner::Pressure => "pressure",
            Owner::Pota => "pota",
            Owner::Pacora => "pacora",
        }
    }
}

/// One resource of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// The tenant.
    pub tenant: TenantId,
    /// The resource.
    pub resource: Resource,
}

/// Says whether a plan gave what its policy asked for.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Cut {
    /// It did.
    #[default]
    None,
    /// The tenant's limit is below it.
    Limit {
        /// The part that was asked for.
        asked: f64,
    },
    /// The others leave less than it.
    Rest {
        /// The part that was asked for.
        asked: f64,
    },
}

/// An entry of a plan: one knob.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Decision {
    /// The part of the machine.
    pub part: f64,
    /// The policy that decided; nobody yet if `None`.
    pub owner: Option<Owner>,
    /// Why.
    pub reason: Reason,
    /// Whether it is less than asked for.
    pub cut: Cut,
}

/// Why a plan does not take a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The window had no such tenant.
    UnknownTenant,
    /// Another policy owns the knob.
    Owned(Owner),
    /// The part is infinite or not a number.
    NotANumber,
}

/// Why a window has no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// More than [`TENANTS_MAX`] tenants.
    TooManyTenants,
    /// A tenant stands in it twice.
    Twice(TenantId),
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    id: TenantId,
    share: Parts,
    limit: Parts,
    decisions: [Decision; RESOURCES],
}

/// The parts that each tenant is to hold.
#[derive(Clone, Debug)]
pub struct Plan {
    rows: [Row; TENANTS_MAX],
    count: usize,
}

impl Plan {
    /// Returns the plan in which everybody keeps what it holds, within its limit and the machine.
    ///
    /// # Errors
    /// [`WindowError`] if the window has too many tenants or one of them twice.
    pub fn new(window: &Window<'_>) -> Result<Plan, WindowError> {
        let mut plan = Plan { rows: [Row::default(); TENANTS_MAX], count: 0 };
        for tenant in window.tenants {
            if plan.row(tenant.id).is_some() {
                return Err(WindowError::Twice(tenant.id));
            }
            let row = plan.rows.get_mut(plan.count).ok_or(WindowError::TooManyTenants)?;
            row.id = tenant.id;
            for at in 0..RESOURCES {
                row.limit[at] = within(tenant.limit[at], 0.0, 1.0);
                row.share[at] = within(tenant.share[at], 0.0, row.limit[at]);
                row.decisions[at].part = within(tenant.granted[at], 0.0, row.limit[at]);
            }
            plan.count += 1;
        }
        plan.fit_into_machine();
        Ok(plan)
    }

    /// Scales shares and parts of each resource that sum up to more than the machine, and rounds them down to whole quanta.
    fn fit_into_machine(&mut self) {
        for at in 0..RESOURCES {
            let shares: f64 = self.rows().iter().map(|row| row.share[at]).sum();
            let parts: f64 = self.rows().iter().map(|row| row.decisions[at].part).sum();
            for row in &mut self.rows[..self.count] {
                row.share[at] = whole_quanta(row.share[at] / shares.max(1.0));
                row.decisions[at].part = whole_quanta(row.decisions[at].part / parts.max(1.0));
            }
        }
    }

    /// Decides about a knob; returns the part that the tenant gets, which may be less than `part`.
    ///
    /// # Errors
    /// [`Refused`] if the knob is another policy's, the tenant unknown, or the part no number. The plan stays as it was.
    pub fn set(&mut self, owner: Owner, knob: Knob, part: f64, reason: Reason) -> Result<f64, Refused> {
        let at = knob.resource.index();
        let rest = 1.0 - self.sum_without(knob);
        let row = self.rows[..self.count].iter_mut().find(|row| row.id == knob.tenant);
        let row = row.ok_or(Refused::UnknownTenant)?;
        match row.decisions[at].owner {
            Some(other) if other != owner => return Err(Refused::Owned(other)),
            _ if !part.is_finite() => return Err(Refused::NotANumber),
            _ => {}
        }
        let (given, cut) = fit(part, row.limit[at], rest);
        row.decisions[at] = Decision { part: given, owner: Some(owner), reason, cut };
        Ok(given)
    }

    /// Returns what the plan holds for a knob.
    pub fn decision(&self, knob: Knob) -> Option<&Decision> {
        self.row(knob.tenant).map(|row| &row.decisions[knob.resource.index()])
    }

    /// Returns the part that a tenant is to hold; 0 for an unknown one.
    pub fn part(&self, id: TenantId, resource: Resource) -> f64 {
        self.row(id).map_or(0.0, |row| row.decisions[resource.index()].part)
    }

    /// Returns the part that a tenant has without a broker; shares are scaled so that they sum up to 1 at most.
    pub fn share(&self, id: TenantId, resource: Resource) -> f64 {
        self.row(id).map_or(0.0, |row| row.share[resource.index()])
    }

    /// Returns the most that a tenant may get.
    pub fn limit(&self, id: TenantId, resource: Resource) -> f64 {
        self.row(id).map_or(0.0, |row| row.limit[resource.index()])
    }

    /// Returns the sum of the parts of a resource, at most 1.
    pub fn sum(&self, resource: Resource) -> f64 {
        self.rows().iter().map(|row| row.decisions[resource.index()].part).sum()
    }

    /// Visits every knob with its decision.
    pub fn iter(&self) -> impl Iterator<Item = (Knob, &Decision)> {
        self.rows().iter().flat_map(|row| {
            let knob = |resource| Knob { tenant: row.id, resource };
            Resource::ALL.into_iter().map(move |resource| (knob(resource), &row.decisions[resource.index()]))
        })
    }

    fn rows(&self) -> &[Row] {
        &self.rows[..self.count]
    }

    fn row(&self, id: TenantId) -> Option<&Row> {
        self.rows().iter().find(|row| row.id == id)
    }

    fn sum_without(&self, knob: Knob) -> f64 {
        let others = self.rows().iter().filter(|row| row.id != knob.tenant);
        others.map(|row| row.decisions[knob.resource.index()].part).sum()
    }
}

/// Puts what is asked for below the limit and the rest of the machine.
fn fit(asked: f64, limit: f64, rest: f64) -> (f64, Cut) {
    let given = whole_quanta(within(asked, 0.0, limit.min(rest)));
    let cut = match asked {
        _ if asked > limit && limit <= rest => Cut::Limit { asked },
        _ if asked > rest + QUANTUM => Cut::Rest { asked },
        _ => Cut::None,
    };
    (given, cut)
}

/// Rounds a part from 0 to 1 down to whole quanta.
fn whole_quanta(part: f64) -> f64 {
    (part / QUANTUM) as u64 as f64 * QUANTUM
}
