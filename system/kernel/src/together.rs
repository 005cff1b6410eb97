//! Several changes as one: all parts are checked against what would hold afterwards, then all are made; if one fails all the same, those
//! before it are taken back. Cells in time are made last, as one table: cores take it up later, so it is not taken back.

use crate::kernel::Kernel;
use crate::promises::Turn;
use crate::{cells_in_time, change, entitlements, moving};
use alloc::vec::Vec;
use gyre_assembly::admission::Table;
use gyre_assembly::grid;
use gyre_contract::catalogue::Resource;
use gyre_contract::cells::{Request, Why};
use gyre_contract::native::Change;
use gyre_contract::policy::Entitlement;
use gyre_contract::promise::{Answer, PARTS_MAX, Promise, Refusal, Refused, Together};
use gyre_linux::Errno;

/// Makes all changes, or none; records what was made.
///
/// # Errors
/// [`Refused`]: nothing was changed.
pub fn make(kernel: &'static Kernel, together: &Together) -> Answer {
    let all = || Refused { part: 0, why: Refusal::Parts };
    if together.changes.is_empty() || together.changes.len() > PARTS_MAX {
        return Err(all());
    }
    let turn = kernel.promises.begin().ok_or(Refused { part: 0, why: Refusal::Busy })?;
    for (part, change) in numbered(&together.changes) {
        change::check(kernel, change).map_err(|errno| failed(part, errno))?;
    }
    moving::check_adds(kernel, numbered(&together.changes)).map_err(|(part, errno)| failed(part, errno))?;
    let now = kernel.promises.table();
    let before = moved(kernel, &together.changes);
    let cores = kernel.base.engine.online().count() as u64;
    let after = before.admit(cores, promises(&together.changes))?;
    promise(kernel, &before, &after, &together.changes)?;
    turn.keep(after);
    let made = others(kernel, &turn, &together.changes);
    let made = made.and_then(|undo| cells(kernel, &together.changes).inspect_err(|_| take_back(kernel, &turn, &undo)));
    if let Err(refused) = made {
        put_back(kernel, &before, promises(&together.changes).map(|(_, promise)| promise));
        turn.keep(now);
        return Err(refused);
    }
    Ok(turn.record(together))
}

/// Returns the promises without those to tenants that go, and with the names of those that come.
fn moved(kernel: &'static Kernel, changes: &[Change]) -> Table {
    let (mut table, roll) = (kernel.promises.table(), &kernel.base.roll);
    let mut places = roll.vacancies();
    for change in changes {
        match change {
            Change::Add { tenant } => {
                places.next().into_iter().for_each(|(place, _)| table.enter(place, &tenant.name));
            }
            Change::Remove { name, .. } => roll.find(name).into_iter().for_each(|index| table.leave(index)),
            _ => {}
        }
    }
    table
}

/// Returns the error of the call `set` for a refusal.
pub fn errno(refused: &Refused) -> Errno {
    match &refused.why {
        Refusal::NoTenant { .. } => Errno::ENOENT,
        Refusal::NoScheduler { .. } | Refusal::NotKept { .. } => Errno::EOPNOTSUPP,
        Refusal::Sum { .. } => Errno::ENOSPC,
        Refusal::Busy => Errno::EAGAIN,
        Refusal::Cell(refusal) if refusal.why == Why::Busy => Errno::EAGAIN,
        Refusal::Change { errno } => Errno(*errno),
        Refusal::AboveLimit { .. } | Refusal::Value { .. } | Refusal::Parts | Refusal::Scheduler { .. } => {
            Errno::EINVAL
        }
        Refusal::Cell(_) => Errno::EINVAL,
    }
}

fn failed(part: u16, errno: Errno) -> Refused {
    Refused { part, why: Refusal::Change { errno: errno.0 } }
}

fn numbered(changes: &[Change]) -> impl Iterator<Item = (u16, &Change)> + Clone {
    (0u16..).zip(changes)
}

/// The parts that are promises.
fn promises(changes: &[Change]) -> impl Iterator<Item = (u16, &Promise)> + Clone {
    numbered(changes).filter_map(|(part, change)| match change {
        Change::Promise(promise) => Some((part, promise)),
        _ => None,
    })
}

/// Gives the engine what is promised; takes all back if a scheduler refuses.
fn promise(kernel: &'static Kernel, before: &Table, after: &Table, changes: &[Change]) -> Result<(), Refused> {
    for (part, promise) in promises(changes) {
        if give(kernel, after, promise).is_err() {
            put_back(kernel, before, promises(changes).map(|(_, promise)| promise));
            return Err(Refused { part, why: Refusal::Scheduler { resource: promise.resource } });
        }
    }
    Ok(())
}

fn give(kernel: &'static Kernel, table: &Table, promise: &Promise) -> Result<(), Errno> {
    let tenant = table.find(&promise.tenant).ok_or(Errno::ENOENT)?;
    let none = Entitlement::none(promise.resource);
    let wanted = entitlements::entitlement(table.at(tenant, promise.resource).unwrap_or(&none));
    let activity = *kernel.base.activities.get(tenant).ok_or(Errno::ENOENT)?;
    let given = kernel.base.engine.set_entitlement(activity, Some(grid::id(promise.resource)), wanted);
    given.map_err(|_| Errno::EINVAL)
}

fn put_back<'a>(kernel: &'static Kernel, before: &Table, promises: impl Iterator<Item = &'a Promise>) {
    for promise in promises {
        // A tenant that has ended meanwhile has nothing to be given back.
        let _ = give(kernel, before, promise);
    }
}

/// Makes the parts that are no promises and no cells; answers the changes that would take them back.
fn others(kernel: &'static Kernel, turn: &Turn<'_>, changes: &[Change]) -> Result<Vec<Change>, Refused> {
    let mut undo: Vec<Change> = Vec::new();
    for (part, change) in numbered(changes) {
        let inverse = change::inverse(kernel, change);
        if let Err(errno) = change::apply(kernel, change) {
            take_back(kernel, turn, &undo);
            return Err(failed(part, errno));
        }
        note(kernel, turn, change);
        undo.extend(inverse);
    }
    Ok(undo)
}

fn take_back(kernel: &'static Kernel, turn: &Turn<'_>, undo: &[Change]) {
    for inverse in undo.iter().rev() {
        // It held before, so it is possible.
        let _ = change::apply(kernel, inverse);
        note(kernel, turn, inverse);
    }
}

/// Makes the parts that are cells in time.
fn cells(kernel: &'static Kernel, changes: &[Change]) -> Result<(), Refused> {
    let parts = numbered(changes).filter_map(|(part, change)| match change {
        Change::Cell { tenant, cell } => Some((part, tenant, cell)),
        _ => None,
    });
    let wish: Request = parts.clone().map(|(_, tenant, cell)| (tenant.clone(), *cell)).collect();
    if wish.is_empty() {
        return Ok(());
    }
    cells_in_time::change(kernel.base, &wish).map_err(|refusal| {
        // One that stays may be to blame.
        let blamed = parts.clone().find(|(_, tenant, _)| **tenant == refusal.tenant).or_else(|| parts.clone().next());
        Refused { part: blamed.map_or(0, |(part, ..)| part), why: Refusal::Cell(refusal) }
    })
}

/// Notes a new policy, for the admission of promises to come.
fn note(kernel: &'static Kernel, turn: &Turn<'_>, change: &Change) {
    if let Change::Resource { name, policy: Some(policy), .. } = change
        && let Some(resource) = Resource::find(name)
    {
        let mut table = kernel.promises.table();
        table.set_policy(resource, policy);
        turn.keep(table);
    }
}
