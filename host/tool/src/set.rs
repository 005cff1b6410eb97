//! `gyre set`: changes a machine while it runs.
//!
//! A call names a tenant, a group, a resource or a cell, and then keys with values. [`set`] takes these steps:
//!
//! * It finds the instance that has the thing: a tenant is looked for in all, a resource needs `--zone` if there are
//!   zones.
//! * It makes [`Change`]s of the pairs, and checks them against the snapshot. A value that cannot be is refused here
//!   with advice.
//! * `together` adds the changes that must follow, such as those of the others' percentages.
//! * The agent makes all of them as one ([`Together`]) or none, and answers the epoch.
//! * The values that hold then are shown, as a table or as JSON.
//!
//! A limit below the present holdings is refused unless `--force` is given. Shares have the unit of the machine file.
//! The modules below have one subject each: `bounds` of limits, `promise` of entitlements and goals, `percent` of
//! shares, `group`, `cell`.

mod bounds;
mod cell;
mod group;
mod percent;
pub mod promise;
mod together;

use std::process::ExitCode;

use bounds::Bounds;
use gyre_contract::{
    bounds::{BATCH_MAX, Floor, SHARE_MAX},
    monitor::{Activity, ActivityKind, Snapshot},
    native::Change,
    promise::Together,
};
use gyre_machine_file::{closest, parameters, policy_by_name, units};
use serde::Serialize;

use crate::{
    agent::Agent,
    bill,
    check::print_json,
    cli,
    failure::{Context as _, Failure, Result},
    instances::{Instances, SUPERVISOR},
    project::Project,
    ui,
};

const TENANT_KEYS: &[&str] = &["share", "memory", "process-memory", "processes"];
/// In place of a size: no limit.
const NONE: &str = "none";
/// Besides these a policy's parameters.
const RESOURCE_KEYS: &[&str] = &["policy", "inner", "batch", "cores", "weight", "priority"];

/// The change that was asked for, and the values that hold now.
#[derive(Serialize)]
struct Answer {
    /// The change's number in the record of changes.
    epoch: u64,
    changes: Vec<Change>,
    tenants: Vec<TenantNow>,
    groups: Vec<group::GroupNow>,
    resource: Option<gyre_contract::monitor::Resource>,
}

/// A tenant after the change.
#[derive(Serialize)]
struct TenantNow {
    name: String,
    weight: u32,
    share_percent: f64,
    memory_limit_bytes: u64,
    /// `None` if only the tenant's limit holds.
    process_memory_limit_bytes: Option<u64>,
}

/// Runs `gyre set`.
///
/// # Errors
/// When no machine runs, or the wish makes no sense; then nothing was changed.
pub fn set(arguments: &cli::Set) -> Result<ExitCode> {
    let instances = Instances::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let (agent, name) = meant(&instances, arguments)?;
    if arguments.what == cli::Subject::Cell {
        return cell::set(&agent, &name, arguments);
    }
    let snapshot = agent.snapshot()?;
    let floor = if arguments.force { Floor::Least } else { Floor::Held };
    let bounds = Bounds { snapshot: &snapshot, floor };
    let wishes = match arguments.what {
        cli::Subject::Tenant => tenant(&bounds, &name, &arguments.pairs)?,
        cli::Subject::Group => vec![group::change(&bounds, &name, &arguments.pairs)?],
        cli::Subject::Resource | cli::Subject::Cell => vec![resource(&snapshot, &name, &arguments.pairs)?],
    };
    let changes = together::with_followers(&snapshot, wishes)?;
    let wish = Together { by: "gyre set".into(), reason: arguments.reason.clone(), changes };
    let epoch = agent.change(&wish)?;
    let answer = answer(epoch, wish.changes, &agent.snapshot()?);
    if arguments.json {
        print_json(&answer)?
    } else {
        show(&answer)
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the agent of the instance that has what is to be changed, and its name there.
fn meant(instances: &Instances, arguments: &cli::Set) -> Result<(Agent, String)> {
    let name = &arguments.name;
    match (&arguments.zone, arguments.what) {
        (Some(zone), _) => Ok((instances.of_zone(zone)?, name.clone())),
        (None, cli::Subject::Tenant | cli::Subject::Cell) => instances.of_tenant(name),
        (None, cli::Subject::Group) => {
            let has = |agent: &Agent| {
                let is_group = |one: &Activity| one.kind == ActivityKind::Group && one.name == *name;
                agent.snapshot().is_ok_and(|snapshot| snapshot.activities.iter().any(is_group))
            };
            let found = instances.all.iter().map(|one| instances.agent(one)).find(has);
            Ok((found.unwrap_or_else(|| instances.supervisor()), name.clone()))
        }
        (None, cli::Subject::Resource) if instances.has_zones() => {
            let help = format!("say whose: --zone NAME, or --zone {SUPERVISOR}");
            Err(Failure::with_help(format!("each zone has a resource `{name}`"), help))
        }
        (None, cli::Subject::Resource) => Ok((instances.supervisor(), name.clone())),
    }
}

fn answer(epoch: u64, changes: Vec<Change>, now: &Snapshot) -> Answer {
    let resource = match changes.last() {
        Some(Change::Resource { name, .. }) => now.resources.iter().find(|one| one.name == kernel_name(name)).cloned(),
        _ => None,
    };
    let sum: u64 = customers(now).map(|tenant| u64::from(tenant.share)).sum();
    let tenant = |tenant: &Activity| TenantNow {
        name: tenant.name.clone(),
        weight: tenant.share,
        share_percent: bill::percent(u64::from(tenant.share), sum),
        memory_limit_bytes: tenant.memory_bytes_limit,
        process_memory_limit_bytes: Some(tenant.process_memory_bytes_limit).filter(|limit| *limit != u64::MAX),
    };
    Answer { epoch, changes, tenants: customers(now).map(tenant).collect(), groups: group::now(now), resource }
}

fn show(answer: &Answer) {
    if let Some(resource) = &answer.resource {
        let cores: Vec<String> =
            (0..64).filter(|core| resource.cores >> core & 1 == 1).map(|core: u32| core.to_string()).collect();
        let gyre_contract::monitor::Resource { name, policy, batch, weight, priority, .. } = resource;
        println!(
            "{name}: policy {policy}, batch {batch}, cores {}, weight {weight}, priority {priority}",
            cores.join(",")
        );
        return;
    }
    if let Some(Change::Group { .. }) = answer.changes.last() {
        return print!("{}", group::table(&answer.groups));
    }
    let mut rows = vec![["", "weight", "share", "memory limit", "each process"].map(str::to_owned).to_vec()];
    rows.extend(answer.tenants.iter().map(|tenant| {
        let share = format!("{:.1} %", tenant.share_percent);
        let each = tenant.process_memory_limit_bytes.map_or(NONE.into(), units::show_bytes);
        vec![tenant.name.clone(), tenant.weight.to_string(), share, units::show_bytes(tenant.memory_limit_bytes), each]
    }));
    print!("{}", ui::table(&rows));
    for promise in answer.changes.iter().filter_map(promise::words) {
        println!("{promise}");
    }
}

fn customers(snapshot: &Snapshot) -> impl Iterator<Item = &Activity> {
    snapshot.activities.iter().filter(|one| one.kind == ActivityKind::Tenant && !one.state.has_left())
}

/// Returns the keys and values as pairs.
fn pairs<'a>(words: &'a [String], known: &[&str]) -> Result<Vec<(&'a str, &'a str)>> {
    are_known(any_pairs(words)?, known)
}

fn any_pairs(words: &[String]) -> Result<Vec<(&str, &str)>> {
    let mut pairs = vec![];
    for pair in words.chunks(2) {
        let [key, value] = pair else {
            let key = pair.first().map_or("", String::as_str);
            return Err(Failure::with_help(format!("`{key}` has no value"), "give keys and values in turn: share 60"));
        };
        pairs.push((key.as_str(), value.as_str()));
    }
    Ok(pairs)
}

fn are_known<'a>(pairs: Vec<(&'a str, &'a str)>, known: &[&str]) -> Result<Vec<(&'a str, &'a str)>> {
    match pairs.iter().find(|(key, _)| !known.contains(key)) {
        Some((key, _)) => Err(unknown("key", key, known.iter().copied())),
        None => Ok(pairs),
    }
}

fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Failure {
    let help = match closest(word, known.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there is: {}", known.collect::<Vec<_>>().join(", ")),
    };
    Failure::with_help(format!("there is no {what} `{word}`"), help)
}

fn number(key: &str, value: &str, most: u64) -> Result<u64> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| wrong(key, value, &format!("expected a number of 1 to {most}")))
}

fn digit(key: &str, value: &str) -> Result<u8> {
    value.parse().map_err(|_| wrong(key, value, "expected a number of 0 (goes first) to 255"))
}

fn wrong(key: &str, value: &str, expected: &str) -> Failure {
    Failure::with_help(format!("`{value}` makes no sense as {key}"), expected)
}

/// Returns the change of the tenant itself, if there is one, and then those of its promises.
fn tenant(bounds: &Bounds, name: &str, words: &[String]) -> Result<Vec<Change>> {
    let (snapshot, floor) = (bounds.snapshot, bounds.floor);
    let is_tenant = |one: &&Activity| matches!(one.kind, ActivityKind::Tenant | ActivityKind::System);
    let tenants = || snapshot.activities.iter().filter(is_tenant);
    let own = tenants().find(|tenant| tenant.name == name);
    let own = own.ok_or_else(|| unknown("tenant", name, tenants().map(|tenant| tenant.name.as_str())))?;
    let (mut share, mut memory_bytes, mut each, mut processes) = (None, None, None, None);
    let (rest, goal) = promise::take_goal(name, any_pairs(words)?)?;
    let (rest, delay) = promise::take_delay(name, rest)?;
    let (own_pairs, promises) = promise::take(name, rest)?;
    let has_own = !own_pairs.is_empty();
    for (key, value) in are_known(own_pairs, TENANT_KEYS)? {
        match key {
            "share" => share = Some(weight(snapshot, own, value)?),
            "memory" => memory_bytes = Some(bounds.memory(own, value)?),
            "process-memory" => each = Some(value),
            _ => processes = Some(bounds.processes(own, value)?),
        }
    }
    let limit = memory_bytes.unwrap_or(own.memory_bytes_limit);
    let process_memory_bytes = match each {
        Some(NONE) => Some(u64::MAX),
        Some(value) => Some(bounds.process_memory(own, limit, value)?),
        None => None,
    };
    let own = Change::Tenant { name: name.into(), share, memory_bytes, process_memory_bytes, processes, floor };
    let promises = promises.into_iter().map(Change::Promise);
    Ok(has_own.then_some(own).into_iter().chain(promises).chain(goal).chain(delay).collect())
}

/// Returns the weight that a share means: a number is what it is in the machine file, a weight or a percentage.
fn weight(snapshot: &Snapshot, own: &Activity, value: &str) -> Result<u32> {
    let is_percent = value.contains('%');
    if !is_percent && !snapshot.has_percent_shares {
        return Ok(number("share", value, SHARE_MAX.into())? as u32);
    }
    let text = if is_percent { value.to_owned() } else { format!("{value} %") };
    let part = units::percent(&text).map_err(|expected| wrong("share", value, &expected))?;
    if part == 0 || part >= percent::WHOLE {
        return Err(wrong("share", value, "expected more than 0 and less than 100 %"));
    }
    if snapshot.has_percent_shares {
        return Ok(part as u32);
    }
    let siblings = customers(snapshot).filter(|other| other.parent_is(own) && other.id != own.id);
    let others: u64 = siblings.map(|other| u64::from(other.share)).sum();
    // The others keep their weights, and so their shares among each other.
    let weight = (others * part + (percent::WHOLE - part) / 2) / (percent::WHOLE - part);
    u32::try_from(weight.clamp(1, SHARE_MAX.into())).context(|| "a weight that does not fit".into())
}

/// Whether two activities hang below the same one.
trait Sibling {
    fn parent_is(&self, other: &Activity) -> bool;
}

impl Sibling for Activity {
    /// A top-level activity is its own parent.
    fn parent_is(&self, other: &Activity) -> bool {
        let parent = |one: &Activity| (one.parent != one.id).then_some(one.parent);
        parent(self) == parent(other)
    }
}

/// The machine file's `cpu` is the engine's `compute`.
fn kernel_name(name: &str) -> &str {
    if name == "cpu" { "compute" } else { name }
}

fn resource(snapshot: &Snapshot, name: &str, words: &[String]) -> Result<Change> {
    let name = name.replace('-', "_");
    if !snapshot.resources.iter().any(|resource| resource.name == kernel_name(&name)) {
        let own = ["runtime", "compute", "lease"];
        let known = snapshot.resources.iter().map(|one| one.name.as_str()).filter(|name| !own.contains(name));
        return Err(unknown("resource", &name, known.chain(["cpu"])));
    }
    let (mut outer, mut inner, mut given) = (None, None, vec![]);
    let (mut batch, mut cores, mut weight, mut priority) = (None, None, None, None);
    let keys = [RESOURCE_KEYS, &parameters()].concat();
    for (key, value) in pairs(words, &keys)? {
        match key {
            "policy" => outer = Some(value),
            "inner" => inner = Some(value),
            "batch" => batch = Some(number(key, value, BATCH_MAX.into())? as u16),
            "cores" => cores = Some(mask(snapshot, value)?),
            "priority" => priority = Some(digit(key, value)?),
            "weight" => weight = Some(number(key, value, SHARE_MAX.into())? as u32),
            parameter => given.push((parameter, value)),
        }
    }
    let policy = match outer {
        Some(outer) => Some(policy_by_name(outer, inner, &given).map_err(|(why, help)| Failure::with_help(why, help))?),
        None if inner.is_some() || !given.is_empty() => {
            let key = given.first().map_or("inner", |(key, _)| *key);
            return Err(Failure::with_help(
                format!("`{key}` belongs to a policy"),
                "say which, for example: policy token-bucket",
            ));
        }
        None => None,
    };
    Ok(Change::Resource { name, policy, batch, cores, weight, priority })
}

/// "0,2-3" as bits.
fn mask(snapshot: &Snapshot, value: &str) -> Result<u64> {
    let count = snapshot.cores.len() as u64;
    let bad = || {
        wrong("cores", value, &format!("expected cores of 0 to {}, such as 0 or 0,1 or 0-1", count.saturating_sub(1)))
    };
    let mut mask = 0;
    for part in value.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u64>(), last.trim().parse::<u64>()) else {
            return Err(bad());
        };
        if first > last || last >= count {
            return Err(bad());
        }
        (first..=last).for_each(|core| mask |= 1 << core);
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use gyre_contract::{monitor::CoreTime, policy::Policy};

    use super::*;

    /// Returns a machine with tenants of these shares, tenant-1 first.
    pub(super) fn machine(shares: &[u32]) -> Snapshot {
        let tenant = |(id, share): (u32, &u32)| Activity {
            id,
            parent: id,
            name: format!("tenant-{id}"),
            kind: ActivityKind::Tenant,
            share: *share,
            ..Activity::default()
        };
        let resource = |name: &str| gyre_contract::monitor::Resource { name: name.into(), ..Default::default() };
        Snapshot {
            activities: (1..).zip(shares).map(tenant).collect(),
            cores: vec![CoreTime::default(), CoreTime::default()],
            resources: ["runtime", "compute", "block", "network_write"].map(resource).to_vec(),
            ..Snapshot::default()
        }
    }

    /// Makes the bounds that hold without --force.
    pub(super) fn held(snapshot: &Snapshot) -> Bounds<'_> {
        Bounds { snapshot, floor: Floor::Held }
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn share_of(shares: &[u32], value: &str) -> u32 {
        let changes = tenant(&held(&machine(shares)), "tenant-1", &words(&format!("share {value}"))).unwrap();
        let [Change::Tenant { share, .. }] = &changes[..] else { panic!("a tenant was meant: {changes:?}") };
        share.unwrap()
    }

    #[test]
    fn a_share_is_a_weight_or_a_percentage_of_the_whole() {
        assert_eq!(share_of(&[3, 1, 1], "8"), 8);
        assert_eq!(share_of(&[3, 1, 1], "50%"), 2);
        assert_eq!(share_of(&[50_000, 33_000, 17_000], "60"), 60, "weights, whatever their sum");
    }

    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        format!("{:?}", result.unwrap_err().report)
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_advice() {
        let machine = machine(&[3, 1]);
        assert!(message(tenant(&held(&machine), "tennant-1", &words("share 1"))).contains("did you mean `tenant-1`?"));
        assert!(message(tenant(&held(&machine), "tenant-1", &words("shares 1"))).contains("did you mean `share`?"));
        assert!(message(tenant(&held(&machine), "tenant-1", &words("share"))).contains("has no value"));
        assert!(message(tenant(&held(&machine), "tenant-1", &words("share 0"))).contains("makes no sense"));
        assert!(message(tenant(&held(&machine), "tenant-1", &words("memory lots"))).contains("makes no sense"));
        let resource = |name, text| message(resource(&machine, name, &words(text)));
        assert!(resource("blok", "batch 2").contains("did you mean `block`?"));
        assert!(resource("block", "policy wieghted-fair").contains("did you mean `weighted-fair`?"));
        assert!(resource("block", "policy token-bucket").contains("rate"));
        assert!(resource("block", "inner wfq").contains("belongs to a policy"));
        assert!(resource("block", "cores 0,2").contains("cores of 0 to 1"));
    }

    #[test]
    fn a_resource_takes_short_names_of_policies_and_lists_of_cores() {
        let change =
            resource(&machine(&[1]), "network-write", &words("policy wfq batch 4 cores 0-1 priority 0")).unwrap();
        let wanted = Change::Resource {
            name: "network_write".into(),
            policy: Some(Policy::default()),
            batch: Some(4),
            cores: Some(3),
            weight: None,
            priority: Some(0),
        };
        assert_eq!(change, wanted);
    }
}
