//! `gyre add` and `gyre remove`: tenants that come to a machine while it runs, and that leave it; `gyre apply` does both with other changes.
//!
//! All of a change is made by the kernel as one, or nothing is. In order:
//!
//! 1. It is refused if something does not fit: places, memory, keys that a comer cannot have.
//! 2. Images are made, disks copied into places ([`places`]), ports opened. Until here nobody sees anything of it.
//! 3. It is written down who moves ([`Moves`]), then the kernel makes the change. If it refuses, ports are closed again.
//! 4. Disks get their names; who leaves is waited for; the machine's list of tenants is written.
//!
//! A tool that is killed before step 3 leaves the machine as it was, one that is killed behind it as it is wanted; the next command says
//! which ([`places::settle`]), and writes the lists ([`moves::settle`]).

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use gyre_contract::{
    boot::{Neighbours, Tenant},
    bounds::Floor,
    monitor::{Activity, ActivityKind, Snapshot, State},
    native::{Change, Life},
    policy::Entitlement,
    promise::{Promise, Together, Wish},
};
use gyre_machine_file::{Description, HostTenant, units::show_bytes};
use serde::Serialize;

use crate::{
    agent::Agent,
    apply,
    check::{self, print_json},
    cli,
    failure::{Context as _, Failure, Result},
    held_file::HeldFile,
    instances::Instances,
    machines::{
        self, Known,
        events::{self, Event},
        info, recorder,
    },
    members,
    moves::{self, Moves},
    places,
    project::Project,
    registry::{self, Pull},
    run::{
        control::{self, Request},
        disks, programs, renewed, space,
    },
    stop::Stop,
    ui,
};

/// The part of a machine's memory that can be reserved, in percent, as the machine file has it.
const RESERVED_PERCENT_MAX: u64 = 80;
/// How long is waited for a tenant beyond its grace time.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
/// All shares of a machine whose shares are percentages.
const WHOLE: u64 = 100_000;

/// The wishes for one change.
#[derive(Default)]
pub struct Wishes {
    /// Tenants that come.
    pub comers: Vec<(Tenant, HostTenant)>,
    /// Names of tenants that leave.
    pub leavers: Vec<String>,
    /// The time that their programs have to end by themselves.
    pub grace: Duration,
    /// Other changes, made before.
    pub changes: Vec<Change>,
    /// Tenants that stay and have other ports.
    pub ports: Vec<Ports>,
    /// Names of tenants that stay and whose programs start again, as the last parts of the change.
    pub again: Vec<String>,
    /// Names of tenants that stay and go away for another image, with those.
    pub away: Vec<String>,
    /// The command.
    pub by: &'static str,
    /// The file, or the name.
    pub reason: String,
}

/// Ports of a tenant that stays.
pub struct Ports {
    /// As it has them.
    pub before: HostTenant,
    /// As it is to have them.
    pub wanted: HostTenant,
}

/// The machine that is changed.
pub struct Target {
    project: Project,
    known: Known,
    agent: Agent,
    /// Holds back all other changes of who is there.
    _lock: HeldFile,
}

/// The answer of `--json`.
#[derive(Serialize)]
struct Answer {
    tenant: String,
    state: String,
}

impl Target {
    /// Finds a running machine, and ends what an earlier command has begun there.
    ///
    /// # Errors
    /// When none runs, it has zones, or another command changes it.
    pub fn find(machine: Option<&str>) -> Result<Self> {
        Stop::on_signals()?;
        let project = Project::find()?;
        let instances = Instances::find(&project, machine)?;
        if instances.has_zones() {
            let help = "change the machine file and run it again";
            return Err(Failure::with_help("tenants of a machine with zones do not come and go", help));
        }
        let known = machines::find(&project, machine)?;
        let _lock = lock(&known.folder)?;
        let agent = instances.supervisor();
        let snapshot = agent.snapshot()?;
        places::settle(&known.folder, Some(&snapshot))?;
        let absent = moves::settle(&known.folder, &snapshot)?;
        let target = Self { project, known, agent, _lock };
        if let Some(absent) = absent {
            target.close_ports(&absent);
            target.check_health(&target.running()?)?;
        }
        Ok(target)
    }

    /// Makes all that is wished for, or nothing; returns the tenants that came, as they are then.
    ///
    /// # Errors
    /// When it cannot be done: nothing was changed.
    pub fn make(&self, mut described: Description, wishes: Wishes) -> Result<Vec<Activity>> {
        let folder = &self.known.folder;
        let snapshot = self.agent.snapshot()?;
        let comers = self.prepare(&mut described, &wishes, &snapshot)?;
        let opened = self.open_ports(&comers)?;
        if let Err(failure) = self.publish(&wishes.ports) {
            self.close_ports(&opened);
            places::forget(folder)?;
            return Err(failure);
        }
        let adds = comers.iter().flat_map(|(tenant, _)| parts(tenant));
        let removals =
            wishes.leavers.iter().map(|name| Change::Remove { name: name.clone(), grace_ms: ms(wishes.grace) });
        let grace_ms = ms(wishes.grace);
        let restarts = wishes.again.iter().map(|name| lives(name, Life::Restart { grace_ms }));
        let away = wishes.away.iter().map(|name| lives(name, Life::Away { grace_ms }));
        let first = wishes.changes.iter().cloned().chain(adds);
        let changes: Vec<Change> = first.chain(removals).chain(restarts).chain(away).collect();
        let together = Together { by: wishes.by.into(), reason: wishes.reason.clone(), changes };
        let moves = moves(&described, &comers, &wishes);
        moves.write(folder)?;
        // The kernel knows nothing of ports.
        let changed = if together.changes.is_empty() { Ok(0) } else { self.agent.change(&together) };
        if let Err(failure) = changed {
            self.close_ports(&opened);
            self.take_back(&wishes.ports);
            // A machine that does not answer may have made the change: the next command sees.
            if let Ok(snapshot) = self.agent.snapshot() {
                places::settle(folder, Some(&snapshot))?;
                moves::settle(folder, &snapshot)?;
            }
            return Err(failure);
        }
        places::adopt_all(folder)?;
        moves.have_happened(folder)?;
        info::Info::publish(folder, wishes.ports.iter().map(|one| &one.wanted))?;
        self.check_health(&self.running()?)?;
        wishes.leavers.iter().try_for_each(|name| self.wait_gone(name, wishes.grace))?;
        self.close_ports(&wishes.leavers);
        wishes.again.iter().try_for_each(|name| self.wait_again(&snapshot, name, wishes.grace))?;
        comers.iter().map(|(tenant, _)| self.wait_begun(&tenant.name)).collect()
    }

    /// Returns the comers with the disks and addresses of their places; their disks are filled.
    fn prepare(
        &self,
        described: &mut Description,
        wishes: &Wishes,
        snapshot: &Snapshot,
    ) -> Result<Vec<(Tenant, HostTenant)>> {
        if wishes.comers.is_empty() {
            return Ok(vec![]);
        }
        let folder = &self.known.folder;
        let vacant = places::vacant(folder, snapshot)?;
        if vacant.len() < wishes.comers.len() {
            return Err(places::too_few(wishes.comers.len(), vacant.len()));
        }
        wishes.comers.iter().try_for_each(|(tenant, host)| fits(tenant, host))?;
        let staying = self.running()?;
        admit(&staying, &wishes.comers, &wishes.leavers)?;
        registry::provide(&self.project, described, Pull::Missing)?;
        programs::complete(&self.project, described)?;
        let mut comers = vec![];
        for ((tenant, _), (number, place)) in wishes.comers.iter().zip(vacant) {
            let Some((tenant, host)) = members::find(described, &tenant.name) else { continue };
            disks::of_comer(&self.project, described, folder, &host)?;
            space::check(&[places::disk_of(folder, &tenant.name)], false)?;
            places::fill(folder, number, &tenant.name)?;
            comers.push((Tenant { root: place.root, address: place.address, ..tenant }, host));
        }
        Ok(comers)
    }

    fn open_ports(&self, comers: &[(Tenant, HostTenant)]) -> Result<Vec<String>> {
        let mut opened = vec![];
        for (tenant, host) in comers {
            let ports = host.ports.iter().map(ToString::to_string).collect();
            let request = Request::Open { tenant: tenant.name.clone(), address: tenant.address, ports };
            if let Err(failure) = control::ask(&self.known.folder, &request) {
                self.close_ports(&opened);
                places::forget(&self.known.folder)?;
                return Err(failure);
            }
            opened.push(tenant.name.clone());
        }
        Ok(opened)
    }

    /// Gives tenants other ports, or none of them.
    fn publish(&self, all: &[Ports]) -> Result<()> {
        for (index, one) in all.iter().enumerate() {
            if let Err(failure) = control::ask(&self.known.folder, &request(&one.wanted)) {
                self.take_back(all.get(..index).unwrap_or_default());
                return Err(failure);
            }
        }
        Ok(())
    }

    fn take_back(&self, all: &[Ports]) {
        for one in all {
            // They were open before; if somebody was faster, the next `gyre apply` says so.
            let _ = control::ask(&self.known.folder, &request(&one.before));
        }
    }

    fn close_ports(&self, tenants: &[String]) {
        for tenant in tenants {
            // A gyre run that has ended has closed them.
            let _ = control::ask(&self.known.folder, &Request::Close { tenant: tenant.clone() });
        }
    }

    /// Returns the description of what runs.
    ///
    /// # Errors
    /// When the machine was not started from a machine file.
    pub fn running(&self) -> Result<Description> {
        apply::running(&self.known)
    }

    /// Returns the machine's figures now.
    ///
    /// # Errors
    /// When its agent does not answer.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.agent.snapshot()
    }

    /// Returns the project.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Returns the machine's folder.
    pub fn folder(&self) -> &Path {
        &self.known.folder
    }

    /// Gives the agent other health checks.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn check_health(&self, description: &Description) -> Result<()> {
        let checks = serde_json::to_string(&members::checks(description)).context(|| "cannot write JSON".into())?;
        self.agent.post("/health", &checks).map(drop)
    }

    /// Has a tenant come back that is away, once it is, with the disk that it gets then.
    ///
    /// # Errors
    /// When it does not go, its disk cannot be written, or it does not come back. Then it stays away, and the next `gyre apply` goes on.
    pub fn renew(&self, name: &str, grace: Duration, disk: Option<renewed::Renewed>) -> Result<()> {
        let limit = Instant::now() + grace + LIMIT;
        loop {
            let all = self.agent.snapshot()?.activities;
            let own = all.into_iter().find(|one| one.name == name && !one.state.has_left());
            let how = match own.map(|own| own.state) {
                Some(State::Away) => break,
                Some(State::Failed { why }) => return Err(Failure::new(format!("tenant `{name}`: {why}"))),
                Some(state) => state.to_string(),
                None => "it is not there".into(),
            };
            if Instant::now() > limit {
                let help = "nothing was written to its disk. Once it is away, gyre apply goes on";
                let message = format!("tenant `{name}` has not gone away for its image: {how}");
                return Err(Failure::with_help(message, help));
            }
            std::thread::sleep(PAUSE);
        }
        disk.map_or(Ok(()), renewed::Renewed::put)?;
        let changes = vec![lives(name, Life::Back)];
        self.agent.change(&Together { by: "gyre apply".into(), reason: "it has its image".into(), changes })?;
        events::add(&self.known.folder, &Event::now(Some(name), "the owner gives it another image"))
    }

    /// Waits until a tenant that comes back has begun.
    ///
    /// # Errors
    /// When it does not run.
    pub fn wait_well_begun(&self, name: &str) -> Result<()> {
        match self.wait_begun(name)?.state {
            State::Failed { why } => {
                let help = "gyre apply --fresh gives it another one";
                Err(Failure::with_help(format!("tenant `{name}` has its image, and does not run: {why}"), help))
            }
            _ => Ok(()),
        }
    }

    fn wait_gone(&self, name: &str, grace: Duration) -> Result<()> {
        let limit = Instant::now() + grace + LIMIT;
        let is_leaving = |one: &Activity| one.name == name && one.state == State::Leaving;
        while self.agent.snapshot()?.activities.iter().any(is_leaving) {
            if Instant::now() > limit {
                return Err(Failure::new(format!(
                    "tenant `{name}` is leaving still: its ports are open, and nobody else gets its disk, until it has left"
                )));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits until a tenant's program has started again since a moment.
    fn wait_again(&self, then: &Snapshot, name: &str, grace: Duration) -> Result<()> {
        let restarts =
            |all: &Snapshot| all.activities.iter().find(|one| one.name == name).map_or(0, |one| one.restarts);
        let (before, limit) = (restarts(then), Instant::now() + grace + LIMIT);
        events::add(&self.known.folder, &Event::now(Some(name), "the owner starts it again, with another program"))?;
        while restarts(&self.agent.snapshot()?) == before {
            if Instant::now() > limit {
                return Err(Failure::new(format!(
                    "the program of tenant `{name}` has not ended yet; the next one is another one"
                )));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Returns a description with the programs that its images name.
    ///
    /// # Errors
    /// When an image cannot be made, or names no program.
    pub fn complete(&self, description: &Description) -> Result<Description> {
        let mut complete = description.clone();
        registry::provide(&self.project, &mut complete, Pull::Missing)?;
        programs::complete(&self.project, &mut complete)?;
        Ok(complete)
    }

    /// Waits until a tenant that came has begun or has failed.
    fn wait_begun(&self, name: &str) -> Result<Activity> {
        let limit = Instant::now() + LIMIT;
        loop {
            let all = self.agent.snapshot()?.activities;
            let own = all.into_iter().find(|one| one.name == name && !one.state.has_left());
            let own = own.ok_or_else(|| Failure::new(format!("tenant `{name}` came and has left already")))?;
            if own.state != State::Starting || Instant::now() > limit {
                return Ok(own);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Returns the moves of a change.
fn moves(described: &Description, comers: &[(Tenant, HostTenant)], wishes: &Wishes) -> Moves {
    Moves {
        file: std::path::absolute(&described.path).unwrap_or_else(|_| described.path.clone()),
        text: described.text.clone(),
        comers: comers.iter().map(|(tenant, _)| tenant.name.clone()).collect(),
        leavers: wishes.leavers.clone(),
    }
}

fn lives(name: &str, life: Life) -> Change {
    Change::Life { name: name.to_owned(), life }
}

fn request(tenant: &HostTenant) -> Request {
    Request::Publish { tenant: tenant.name.clone(), ports: tenant.ports.iter().map(ToString::to_string).collect() }
}

/// Takes the right to change who is there.
///
/// # Errors
/// When another command has it.
pub fn lock(folder: &Path) -> Result<HeldFile> {
    let path = folder.join("change.lock");
    let file = File::create(&path).context(|| format!("cannot write {}", path.display()))?;
    HeldFile::take(file)
        .ok_or_else(|| Failure::with_help("another command changes this machine", "wait until it has ended"))
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the parts of a change by which a tenant comes: itself, then its promises.
fn parts(tenant: &Tenant) -> impl Iterator<Item = Change> {
    let plain = Tenant { entitlements: vec![], ..tenant.clone() };
    let promises: Vec<Change> =
        tenant.entitlements.iter().map(|one| Change::Promise(promise(&tenant.name, one))).collect();
    [Change::Add { tenant: Box::new(plain) }].into_iter().chain(promises)
}

fn promise(tenant: &str, one: &Entitlement) -> Promise {
    fn wish<T>(value: Option<T>) -> Wish<T> {
        value.map_or(Wish::Keep, Wish::Be)
    }
    Promise {
        share: wish(one.share),
        priority: wish(one.priority),
        deadline_ns: wish(one.deadline_ns),
        reservation: wish(one.reservation),
        limit: wish(one.limit),
        period_ns: wish(one.period_ns),
        budget: wish(one.budget),
        ..Promise::none(tenant, one.resource)
    }
}

/// Refuses what a tenant cannot have that comes while the machine runs.
///
/// # Errors
/// The key, and what to do.
pub fn fits(tenant: &Tenant, host: &HostTenant) -> Result<()> {
    let key = match () {
        () if tenant.parent.is_some() => "activity",
        () if !host.volumes.is_empty() => "volume",
        () if tenant.overload.is_some() => "overload",
        () if tenant.cell.is_some() => "cell",
        () if host.load.is_some() => "load",
        () if host.outbound.is_some() => "outbound",
        () if !host.talks_to.is_empty() => "talks-to",
        () if tenant.neighbours != Neighbours::All => "neighbours",
        () => return Ok(()),
    };
    let message = format!("tenant `{}` cannot come with `{key}` while the machine runs", tenant.name);
    Err(Failure::with_help(message, "take it out, or put the tenant into the machine's file for its next run"))
}

/// Checks that what all tenants reserve fits into the machine, and warns if their limits exceed it together.
fn admit(running: &Description, comers: &[(Tenant, HostTenant)], leavers: &[String]) -> Result<()> {
    let whole = running.machine.memory_bytes;
    let places = running.places().len();
    let stays = |tenant: &&Tenant| !leavers.contains(&tenant.name);
    let now = running.machine.tenants.iter().rev().skip(places).filter(stays);
    let all: Vec<&Tenant> = now.chain(comers.iter().map(|(tenant, _)| tenant)).collect();
    let sum = |part: fn(&Tenant) -> u64| all.iter().fold(0u64, |sum, tenant| sum.saturating_add(part(tenant)));
    let (reserved, room) = (sum(|one| one.limits.memory_reservation_bytes), whole / 100 * RESERVED_PERCENT_MAX);
    if reserved > room {
        let (reserved, room) = (show_bytes(reserved), show_bytes(room));
        let message = format!("all reservations would come to {reserved}, and at most {room} can be reserved");
        return Err(Failure::with_help(
            message,
            "let it reserve less memory, or give the machine more for its next run",
        ));
    }
    if let Some((tenant, _)) = comers.iter().find(|(tenant, _)| tenant.limits.memory_bytes > whole) {
        let (wanted, has) = (show_bytes(tenant.limits.memory_bytes), show_bytes(whole));
        let message = format!("tenant `{}` may hold {wanted}, and the machine has {has}", tenant.name);
        return Err(Failure::with_help(message, "give it a lower `memory`"));
    }
    let limits = sum(|one| one.limits.memory_bytes);
    if limits > whole {
        let (limits, whole) = (show_bytes(limits), show_bytes(whole));
        ui::warn(&format!("the tenants may hold {limits} together, the machine has {whole}"));
    }
    Ok(())
}

/// Runs `gyre add FILE`.
///
/// # Errors
/// When the file is wrong, or one of its tenants cannot come: none has come then.
pub fn add(arguments: &cli::Add) -> Result<ExitCode> {
    let described = check::read(&arguments.file)?;
    let target = Target::find(arguments.select.machine.as_deref())?;
    let snapshot = target.snapshot()?;
    if snapshot.has_percent_shares {
        let help = "write all shares into the machine's file, and gyre apply it";
        return Err(Failure::with_help(
            "the machine's shares are percentages: another tenant needs some of each",
            help,
        ));
    }
    let comers: Vec<_> = described.tenants.iter().filter_map(|host| members::find(&described, &host.name)).collect();
    if let Some((tenant, _)) = comers.iter().find(|(tenant, _)| is_here(&snapshot, &tenant.name)) {
        let help = "take another name, or gyre apply the machine's file to change the one that is there";
        return Err(Failure::with_help(format!("the machine has a tenant `{}`", tenant.name), help));
    }
    let reason = arguments.file.display().to_string();
    let came = target.make(described, Wishes { comers, by: "gyre add", reason, ..Wishes::default() })?;
    told(came.iter().map(|one| (one.name.clone(), recorder::words(one))), arguments.json)?;
    if !arguments.json {
        ui::say("  the machine's file does not have it: write it there too, so that the next run does");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `gyre remove TENANT`.
///
/// # Errors
/// When there is no such tenant.
pub fn remove(arguments: &cli::Tenant) -> Result<ExitCode> {
    let target = Target::find(arguments.select.machine.as_deref())?;
    let (snapshot, name) = (target.snapshot()?, arguments.tenant.clone());
    if !is_here(&snapshot, &name) {
        let here = customers(&snapshot).map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Failure::with_help(format!("there is no tenant `{name}`"), format!("there is: {here}")));
    }
    let changes = if snapshot.has_percent_shares { widened(&snapshot, &name) } else { vec![] };
    let wishes = Wishes {
        leavers: vec![name.clone()],
        grace: arguments.time,
        changes,
        by: "gyre remove",
        reason: name.clone(),
        ..Wishes::default()
    };
    let disk: PathBuf = places::disk_of(target.folder(), &name);
    target.make(target.running()?, wishes)?;
    told([(name, State::Gone.to_string())].into_iter(), arguments.json)?;
    if !arguments.json {
        ui::say(&format!("  its disk stays: {}; its part of the bill, too", disk.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn told(all: impl Iterator<Item = (String, String)>, json: bool) -> Result<()> {
    if json {
        return print_json(&all.map(|(tenant, state)| Answer { tenant, state }).collect::<Vec<_>>());
    }
    all.for_each(|(tenant, state)| ui::say(&format!("{tenant} is {state}")));
    Ok(())
}

fn customers(snapshot: &Snapshot) -> impl Iterator<Item = &Activity> {
    snapshot.activities.iter().filter(|one| one.kind == ActivityKind::Tenant && !one.state.has_left())
}

fn is_here(snapshot: &Snapshot, name: &str) -> bool {
    customers(snapshot).any(|one| one.name == name)
}

/// Returns the shares of those who stay, in the same proportions and 100 % together.
fn widened(snapshot: &Snapshot, leaver: &str) -> Vec<Change> {
    let staying: Vec<&Activity> = customers(snapshot).filter(|one| one.name != leaver).collect();
    let sum: u64 = staying.iter().map(|one| u64::from(one.share)).sum();
    let mut left = WHOLE;
    let shares = staying.iter().enumerate().map(|(index, one)| {
        let is_last = index + 1 == staying.len();
        let share = if is_last { left } else { u64::from(one.share) * WHOLE / sum.max(1) };
        left = left.saturating_sub(share);
        // One that is alone has all of it: less than that is the most that a share can be.
        (one.name.clone(), u32::try_from(share.min(WHOLE - 1)).unwrap_or(1))
    });
    let change = |(name, share)| Change::Tenant {
        name,
        share: Some(share),
        memory_bytes: None,
        process_memory_bytes: None,
        processes: None,
        floor: Floor::Held,
    };
    shares.map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(head: &str, tenants: &[(&str, &str)]) -> Description {
        let tenant = |(name, words): &(&str, &str)| {
            format!("[[tenant]]\nname = \"{name}\"\nshare = 1\nimage = \"a\"\n{words}\n")
        };
        let text = format!("{head}\n[image.a]\n{}", tenants.iter().map(tenant).collect::<String>());
        gyre_machine_file::parse(Path::new("m.toml"), &text).unwrap()
    }

    fn comer(words: &str) -> (Tenant, HostTenant) {
        let all = described("", &[("late", words)]);
        members::find(&all, "late").unwrap()
    }

    #[test]
    fn a_sum_that_does_not_fit_is_named() {
        let running = described("memory = \"100 MiB\"", &[("gold", "memory-reservation = \"40 MiB\"")]);
        let late = comer("memory-reservation = \"60 MiB\"");
        let message = admit(&running, std::slice::from_ref(&late), &[]).unwrap_err().report.to_string();
        assert!(message.contains("104 MiB") && message.contains("80.0 MiB"), "{message}");
        assert!(admit(&running, &[late], &["gold".into()]).is_ok(), "who leaves gives its own back");
        let large = comer("memory = \"200 MiB\"");
        assert!(admit(&running, &[large], &[]).unwrap_err().report.to_string().contains("may hold"));
    }

    #[test]
    fn what_needs_a_new_run_is_refused_and_promises_follow() {
        let refused = |words: &str| {
            let (tenant, host) = comer(words);
            fits(&tenant, &host).unwrap_err().report.to_string()
        };
        assert!(refused("[tenant.overload]\ndelay = \"50 ms\"").contains("`overload`"));
        assert!(refused("[[tenant.volume]]\nname = \"v\"\npath = \"/v\"").contains("`volume`"));
        let (tenant, host) = comer("[tenant.entitlement.cpu]\nshare = 5");
        assert!(fits(&tenant, &host).is_ok());
        let all: Vec<Change> = parts(&tenant).collect();
        assert!(matches!(&all[..], [Change::Add { tenant }, Change::Promise(one)]
            if tenant.entitlements.is_empty() && one.share == Wish::Be(5)));
    }

    #[test]
    fn percentages_stay_a_whole_when_somebody_leaves() {
        let one = |name: &str, share| Activity { name: name.into(), share, ..Activity::default() };
        let snapshot =
            Snapshot { activities: vec![one("a", 50_000), one("b", 30_000), one("c", 20_000)], ..Snapshot::default() };
        let shares: Vec<u32> = widened(&snapshot, "c")
            .iter()
            .filter_map(|change| match change {
                Change::Tenant { share, .. } => *share,
                _ => None,
            })
            .collect();
        assert_eq!(shares, [62_500, 37_500]);
    }
}
