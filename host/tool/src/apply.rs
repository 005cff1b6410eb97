//! `gyre apply FILE`: makes a machine that runs as its file says now.
//!
//! * The difference is shown first, then made as one change of the kernel or not at all; the health checks follow.
//! * It is taken from what runs: what `gyre set` changed meanwhile goes back to the file's.
//! * Tenants come and go with it ([`crate::arrival`]): those that are new in the file, and those that it has no more.
//! * Ports of tenants that stay change with it: new ones are opened before, old ones are closed; connections go on.
//! * Programs of tenants that stay ([`programs`]): one that is another one starts again with the change.
//! * Images of tenants that stay ([`images`]): their disks are made anew if the owner says so.
//! * The rest is compared with the file that the machine was started with, of which the run keeps a copy. If something differs there that
//!   only a new run can change (a volume), all of the file is refused, with the reasons.
//! * A machine of an image has no file: `gyre set` changes it.
//! * The copy is replaced after the change: if this is interrupted between, the same difference is found again.

mod images;
mod programs;

use std::{path::Path, process::ExitCode, time::Duration};

use gyre_contract::{
    boot::Tenant,
    bounds::Floor,
    health::Check,
    monitor::{Activity, Snapshot},
    native::Change,
};
use gyre_machine_file::{Description, HostTenant, units::show_bytes};
use serde::Serialize;

use crate::{
    arrival::{self, Ports, Target, Wishes},
    check::{self, print_json},
    cli,
    failure::{Failure, Result},
    machines::{Known, events},
    members::Members,
    ui, whole_file,
};

/// The copy of the file that a machine was started with, in the folder of its run.
const COPY: &str = "applied.toml";
/// The time that programs have to end, of a tenant that the file has no more or to which it gives another one.
const GRACE: Duration = Duration::from_secs(10);

/// One thing that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Item {
    tenant: String,
    key: &'static str,
    now: String,
    wanted: String,
}

/// The answer of `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    changes: &'a [Item],
    is_done: bool,
}

/// A difference that can be made.
#[derive(Default)]
struct Difference {
    items: Vec<Item>,
    changes: Vec<Change>,
    /// Tenants whose ports differ.
    ports: Vec<Ports>,
    /// Checks differ.
    has_checks: bool,
}

/// Keeps a machine's file for later, as it was when it was read: it may be another one by now. A machine of an image has none.
///
/// # Errors
/// When the host's disk is full.
pub fn keep(folder: &Path, read: &Description) -> Result<()> {
    let copy = folder.join(COPY);
    if read.text.is_empty() {
        let _ = std::fs::remove_file(&copy);
        return Ok(());
    }
    whole_file::write(&copy, &read.text)
}

/// Runs `gyre apply FILE`.
///
/// # Errors
/// When the file is wrong or is that of another machine, something in it needs a new run, or the machine refuses.
pub fn apply(arguments: &cli::Apply) -> Result<ExitCode> {
    let wanted = check::read(&arguments.file)?;
    let target = Target::find(Some(&wanted.machine.name))?;
    let before = target.running()?;
    let snapshot = target.snapshot()?;
    let wish = images::Wish::of(arguments);
    let provided = images::provided(target.project(), &wanted, wish)?;
    let compared = images::Compared {
        project: target.project(),
        folder: target.folder(),
        before: &before,
        wanted: &wanted,
        provided: &provided,
        wish,
    };
    let mut images = images::difference(compared, &snapshot);
    let mut reasons = needs_new_run(&before, &wanted);
    reasons.append(&mut images.refusals);
    if !reasons.is_empty() {
        let help = format!("nothing was changed. It needs a new run:\n{}", reasons.join("\n"));
        return Err(Failure::with_help("not all of the file can be applied while the machine runs", help));
    }
    let mut difference = difference(&before, &wanted, &snapshot);
    let mut programs = programs::difference(&before, &wanted, &snapshot);
    difference.items.append(&mut programs.items);
    difference.items.append(&mut images.items);
    let comers = new_in(&wanted, &before);
    let leavers: Vec<String> = new_in(&before, &wanted).into_iter().map(|(tenant, _)| tenant.name).collect();
    difference.items.extend(moves(&comers, &leavers));
    let is_done = !arguments.dry_run && !difference.items.is_empty();
    if !arguments.json {
        show(&difference.items);
    }
    if is_done {
        let (mut changes, ports) = (std::mem::take(&mut difference.changes), std::mem::take(&mut difference.ports));
        let mut renewals = vec![];
        if !programs.is_empty() || !images.is_empty() {
            let complete = target.complete(&wanted)?;
            renewals = images.make(&target, &complete)?;
            programs.renew(renewals.iter().map(images::Renewal::name));
            changes.extend(programs::changes(&programs, &complete));
        }
        let away: Vec<String> = renewals.iter().map(|one| one.name().to_owned()).collect();
        if !changes.is_empty() || !ports.is_empty() || !comers.is_empty() || !leavers.is_empty() || !away.is_empty() {
            let (reason, again) = (arguments.file.display().to_string(), programs.again);
            let wishes =
                Wishes { comers, leavers, grace: GRACE, changes, ports, again, away, by: "gyre apply", reason };
            target.make(wanted.clone(), wishes)?;
        }
        images::finish(renewals, &target)?;
        if difference.has_checks {
            target.check_health(&wanted)?;
        }
        keep(target.folder(), &wanted)?;
        Members::forget(target.folder());
        events::add(target.folder(), &events::Event::now(None, &format!("{} was applied", arguments.file.display())))?;
    }
    match (arguments.json, is_done) {
        (true, _) => print_json(&Answer { changes: &difference.items, is_done })?,
        (false, true) => ui::say("applied"),
        (false, false) if difference.items.is_empty() => ui::say("the machine is as the file says"),
        (false, false) => ui::say("nothing was changed (--dry-run)"),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(items: &[Item]) {
    let row = |item: &Item| vec![item.tenant.clone(), item.key.into(), item.now.clone(), item.wanted.clone()];
    let head = ["tenant", "", "now", "in the file"].map(str::to_owned).to_vec();
    if !items.is_empty() {
        println!("{}", ui::table(&[head].into_iter().chain(items.iter().map(row)).collect::<Vec<_>>()));
    }
}

/// Returns the tenants of a description that another one does not have.
fn new_in(all: &Description, other: &Description) -> Vec<(Tenant, HostTenant)> {
    let is_new = |(tenant, _): &(&Tenant, &HostTenant)| !other.tenants.iter().any(|one| one.name == tenant.name);
    customers(all).filter(is_new).map(|(tenant, host)| (tenant.clone(), host.clone())).collect()
}

/// Returns who comes and goes, for people.
fn moves(comers: &[(Tenant, HostTenant)], leavers: &[String]) -> Vec<Item> {
    let comes = |(tenant, _): &(Tenant, HostTenant)| {
        let wanted = format!("comes: share {}, memory {}", tenant.share, show_bytes(tenant.limits.memory_bytes));
        Item { tenant: tenant.name.clone(), key: "tenant", now: "-".into(), wanted }
    };
    let goes =
        |name: &String| Item { tenant: name.clone(), key: "tenant", now: "is here".into(), wanted: "leaves".into() };
    comers.iter().map(comes).chain(leavers.iter().map(goes)).collect()
}

/// Describes what a machine runs: the file that it was started with, with who came and without who left since.
///
/// # Errors
/// When it was not started from a machine file.
pub fn running(known: &Known) -> Result<Description> {
    let mut description = started_with(known)?;
    Members::read(&known.folder).change(&mut description);
    Ok(description)
}

/// Reads the file that a machine was started with.
fn started_with(known: &Known) -> Result<Description> {
    let copy = known.folder.join(COPY);
    let text = std::fs::read_to_string(&copy).map_err(|_| {
        let message = format!("machine {} was not started from a machine file", known.info.name);
        Failure::with_help(message, "gyre set changes shares and limits of a machine that runs")
    })?;
    Ok(gyre_machine_file::parse(Path::new(&known.info.file), &text)?)
}

/// Says what only a new run can change, a line for each.
fn needs_new_run(before: &Description, wanted: &Description) -> Vec<String> {
    let mut reasons = vec![];
    for (tenant, host) in new_in(wanted, before) {
        reasons.extend(arrival::fits(&tenant, &host).err().map(|failure| format!("  {}", failure.report)));
    }
    for (tenant, host) in customers(wanted) {
        let Some((old, old_host)) = customers(before).find(|(old, _)| old.name == tenant.name) else { continue };
        let fixed = |keys: &str| format!("  tenant {}: {keys}", tenant.name);
        let ways = |host: &HostTenant| (host.outbound.clone(), host.talks_to.clone());
        reasons.extend((ways(old_host) != ways(host)).then(|| fixed("another way out or other `talks-to`")));
        reasons.extend((old.neighbours != tenant.neighbours).then(|| fixed("other neighbours")));
        reasons.extend((old_host.volumes != host.volumes).then(|| fixed("other volumes")));
        reasons.extend(programs::refusal((before, old, old_host), (wanted, tenant, host)).map(fixed));
        let same = Tenant {
            share: old.share,
            limits: gyre_contract::boot::Limits {
                memory_bytes: old.limits.memory_bytes,
                process_memory_bytes: old.limits.process_memory_bytes,
                processes: old.limits.processes,
                ..tenant.limits
            },
            goal: old.goal,
            program: old.program.clone(),
            restart: old.restart,
            ports: old.ports.clone(),
            volumes: old.volumes.clone(),
            root: old.root,
            neighbours: old.neighbours.clone(),
            // The places of those who stay do not change.
            address: old.address,
            ..tenant.clone()
        };
        reasons.extend((same != *old).then(|| fixed("other keys than shares, limits, goal, health and program")));
    }
    let of_machine = |all: &Description| {
        let machine = gyre_contract::boot::Machine { tenants: vec![], ..all.machine.clone() };
        (machine, all.disk, all.whole)
    };
    let is_other = of_machine(before) != of_machine(wanted) || !wanted.zones.is_empty();
    reasons.extend(is_other.then(|| "  the machine itself, its groups, policies or zones".to_owned()));
    reasons
}

/// Returns the customers that the first instance runs.
fn customers(all: &Description) -> impl Iterator<Item = (&Tenant, &HostTenant)> {
    all.machine.tenants.iter().skip(1).zip(&all.tenants)
}

/// Compares a file with what runs.
fn difference(before: &Description, wanted: &Description, snapshot: &Snapshot) -> Difference {
    let mut found = Difference::default();
    for (tenant, host) in customers(wanted) {
        let now = snapshot.activities.iter().find(|one| one.name == tenant.name);
        let old = customers(before).find(|(old, _)| old.name == tenant.name);
        if let (Some(now), Some((old, old_host))) = (now, old) {
            limits(&mut found, tenant, old, now);
            goal(&mut found, tenant, old);
            ports(&mut found, old_host, host);
            if old_host.health != host.health {
                let words =
                    |check: &Option<Check>| check.as_ref().map_or("none".into(), |check| format!("{:?}", check.probe));
                let (was, will) = (words(&old_host.health), words(&host.health));
                found.has_checks = true;
                found.items.push(Item { tenant: tenant.name.clone(), key: "health", now: was, wanted: will });
            }
        }
    }
    found
}

fn limits(found: &mut Difference, tenant: &Tenant, old: &Tenant, now: &Activity) {
    let mut item = |key, now: String, wanted: String| {
        let is_other = now != wanted;
        found.items.extend(is_other.then(|| Item { tenant: tenant.name.clone(), key, now, wanted }));
        is_other
    };
    let most = |bytes: u64| if bytes == u64::MAX { "no limit".to_owned() } else { show_bytes(bytes) };
    let of_process = tenant.limits.process_memory_bytes.unwrap_or(u64::MAX);
    let share = item("share", now.share.to_string(), tenant.share.to_string());
    let memory = item("memory", most(now.memory_bytes_limit), most(tenant.limits.memory_bytes));
    let process = item("process-memory", most(now.process_memory_bytes_limit), most(of_process));
    let count = item("processes", old.limits.processes.to_string(), tenant.limits.processes.to_string());
    if share || memory || process || count {
        found.changes.push(Change::Tenant {
            name: tenant.name.clone(),
            share: share.then_some(tenant.share),
            memory_bytes: memory.then_some(tenant.limits.memory_bytes),
            process_memory_bytes: process.then_some(of_process),
            processes: count.then_some(tenant.limits.processes),
            floor: Floor::Held,
        });
    }
}

fn ports(found: &mut Difference, old: &HostTenant, host: &HostTenant) {
    if old.ports == host.ports {
        return;
    }
    let words = |host: &HostTenant| match host.ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none".to_owned(),
        some => some,
    };
    found.items.push(Item { tenant: host.name.clone(), key: "ports", now: words(old), wanted: words(host) });
    found.ports.push(Ports { before: old.clone(), wanted: host.clone() });
}

fn goal(found: &mut Difference, tenant: &Tenant, old: &Tenant) {
    if old.goal != tenant.goal {
        let words = |goal: &Option<gyre_contract::goals::Goal>| {
            goal.as_ref().map_or("none".into(), |goal| format!("{:?}", goal.aim))
        };
        let (now, wanted) = (words(&old.goal), words(&tenant.goal));
        found.items.push(Item { tenant: tenant.name.clone(), key: "goal", now, wanted });
        found.changes.push(Change::Goal { tenant: tenant.name.clone(), goal: tenant.goal });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(words: &str) -> Description {
        let text = format!(
            "[image.a]\n[[tenant]]\nname = \"gold\"\nimage = \"a\"\n{words}\n[[tenant]]\nname = \"iron\"\nshare = 1\nimage = \"a\"\n"
        );
        gyre_machine_file::parse(Path::new("m.toml"), &text).unwrap()
    }

    fn running(of: &Description) -> Snapshot {
        let one = |(tenant, _): (&Tenant, &HostTenant)| Activity {
            name: tenant.name.clone(),
            share: tenant.share,
            memory_bytes_limit: tenant.limits.memory_bytes,
            process_memory_bytes_limit: u64::MAX,
            ..Activity::default()
        };
        Snapshot { activities: customers(of).map(one).collect(), ..Snapshot::default() }
    }

    #[test]
    fn the_file_is_kept_as_it_was_read_and_a_machine_of_an_image_keeps_none() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("m.toml"), folder.path().join(COPY));
        let text = "[image.a]\n[[tenant]]\nname = \"gold\"\nshare = 1\nimage = \"a\"\n";
        std::fs::write(&path, text).unwrap();
        let read = gyre_machine_file::read(&path).unwrap();
        std::fs::write(&path, text.replace("share = 1", "share = 2")).unwrap();
        keep(folder.path(), &read).unwrap();
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), text, "somebody writes it meanwhile");
        keep(folder.path(), &file("share = 1")).unwrap();
        assert!(!copy.exists());
    }

    #[test]
    fn shares_limits_and_checks_are_one_change() {
        let before = file("share = 1");
        let wanted = file("share = 3\nmemory = \"96 MiB\"\n[tenant.health]\ntcp = 80");
        assert!(needs_new_run(&before, &wanted).is_empty(), "{:?}", needs_new_run(&before, &wanted));
        let found = difference(&before, &wanted, &running(&before));
        let keys: Vec<&str> = found.items.iter().map(|item| item.key).collect();
        assert_eq!(keys, ["share", "memory", "health"]);
        assert!(found.has_checks && found.changes.len() == 1);
        let again = difference(&wanted, &wanted, &running(&wanted));
        assert!(again.items.is_empty() && again.changes.is_empty());
        let set_by_hand = difference(&wanted, &wanted, &running(&before));
        assert_eq!(set_by_hand.items[0].wanted, "3", "what was set by hand goes back");
    }

    #[test]
    fn what_needs_a_new_run_is_named() {
        let before = file("share = 1");
        let other = |words: &str| needs_new_run(&before, &file(words)).join(";");
        assert!(other("share = 1\nports = [\"8080:80\"]").is_empty(), "ports change while it runs");
        let opened = file("share = 1\nports = [\"8080:80\"]");
        let found = difference(&before, &opened, &running(&before));
        assert_eq!(
            (found.items[0].now.as_str(), found.items[0].wanted.as_str(), found.ports.len()),
            ("none", "8080:80", 1)
        );
        assert!(other("share = 1\ncommand = [\"/bin/sh\"]").contains("a command where there was none"));
        assert!(other("share = 1\nmonitor = true").contains("other keys"));
        let volume = "\n[[tenant.volume]]\nname = \"v\"\npath = \"/v\"";
        let more =
            |words: &str| file(&format!("share = 1\n[[tenant]]\nname = \"tin\"\nshare = 1\nimage = \"a\"{words}"));
        assert!(needs_new_run(&before, &more(volume)).join(";").contains("cannot come with `volume`"));
        assert!(needs_new_run(&before, &more("")).is_empty() && needs_new_run(&more(""), &before).is_empty());
        let names = |moves: Vec<Item>| moves.iter().map(|item| item.wanted.clone()).collect::<Vec<_>>().join(";");
        assert!(names(moves(&new_in(&more(""), &before), &["old".into()])).ends_with("leaves"));
    }
}
