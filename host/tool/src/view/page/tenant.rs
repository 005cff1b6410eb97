//! One tenant: how it is and why, what it may have and has, its processes, its bill, its log.
//!
//! The tenant is named by the path, as commands name it: that of a zone with the zone before it if that is needed.
//!
//! * [`figures`] answers all but charts and log. Of a machine that has ended it has only what the host knows.
//! * [`log()`] answers the end of the log, then what came since: never more than an excerpt holds.
//!
//! Names of programs, reasons and lines are the tenant's own words: they are cut and made harmless here, and pages show them as texts.

use std::{path::Path, sync::Arc};

use axum::{
    Extension, Json,
    extract::{Path as Place, Query},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use gyre_contract::{
    bill::{self, Bill, ProcessLine},
    goals,
    monitor::{Activity, ActivityKind, Snapshot},
};
use serde::{Deserialize, Serialize};

use super::{
    super::{
        harmless::{cut, harmless},
        sampler::Look,
    },
    Watched, failed,
};
use crate::{
    instances::full_name,
    ledger::day::{Sku, Use},
    machines::{info::Info, log::Excerpt, recorder},
};

/// Processes that an answer holds at most, the busiest first.
const PROCESSES_MAX: usize = 200;
/// Characters of a line that are shown.
const LINE_MAX: usize = 2000;

/// The tenant that a path names.
#[derive(Deserialize)]
pub struct Named {
    tenant: String,
}

/// All that the page shows beside charts and log.
#[derive(Debug, Default, Serialize)]
struct Figures {
    tenant: String,
    /// Its state with the reason, in words; empty if the machine has not said.
    state: String,
    image: String,
    ports: Vec<String>,
    volumes: Vec<String>,
    troubles: Vec<String>,
    /// Its rights and its use; none if the machine has not answered.
    has: Option<Has>,
    processes: Vec<Process>,
    /// Processes that are left out.
    more_processes: usize,
    /// Its line in the broker's last window.
    goal: Option<goals::Line>,
    /// The broker's doing, in words.
    broker: Option<String>,
    bill: Option<Charges>,
}

/// The tenant itself.
#[derive(Debug, Default, Serialize)]
struct Has {
    share: u32,
    /// The sum of the customers' shares.
    shares: u64,
    memory_bytes: u64,
    memory_bytes_max: u64,
    memory_bytes_limit: u64,
    /// The memory that it could hold if everybody wanted all; 0 if it has no budget of its own.
    memory_entitled_bytes: u64,
    /// The limit of each process; none if only the tenant has one.
    process_memory_bytes_limit: Option<u64>,
    memory_reclaimed_bytes: u64,
    memory_failures: u64,
    cache_bytes: u64,
    threads: u32,
    processes_started: u64,
    restarts: u64,
    dropped_frames: u64,
    /// Connections that its overload controller lets in; 0 without one.
    connections_limit: u32,
    connections_refused: u64,
}

/// A process.
#[derive(Debug, PartialEq, Serialize)]
struct Process {
    /// Its number; 0 of the tables of the file system.
    process: u32,
    name: String,
    threads: u32,
    /// "computes" or "waits", in the last second.
    state: &'static str,
    /// Of one core, in the last second.
    cpu_percent: f64,
    cycles: u64,
    cpu_seconds: f64,
    user_seconds: f64,
    memory_bytes: u64,
    messages: u64,
    /// Mean wait of its messages since its start, us.
    queued_us: f64,
}

/// The bill so far.
#[derive(Debug, Default, Serialize)]
struct Charges {
    period_s: f64,
    cycles: u64,
    of_machine_percent: f64,
    line: bill::Line,
    cpu_seconds: f64,
    /// Services and the seconds that they spent of it.
    on_behalf: Vec<(String, f64)>,
    /// ISO 4217, with what it comes to; none without prices.
    currency: Option<String>,
    cost: f64,
    costs: Vec<(&'static str, f64)>,
}

/// Answers what the page shows.
pub async fn figures(Extension(watched): Extension<Arc<Watched>>, Place(named): Place<Named>) -> Response {
    let info = Info::read(&watched.folder);
    let looks = watched.sampler.looks();
    let found = looks.iter().find_map(|look| Some((look, find(look, &named.tenant)?)));
    let known = info.as_ref().and_then(|info| info.tenants.iter().find(|one| one.name == named.tenant));
    if found.is_none() && known.is_none() {
        let text = format!("there is no tenant `{}`\n", harmless(&cut(&named.tenant, 100)));
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let mut figures = Figures { tenant: named.tenant.clone(), ..Figures::default() };
    if let Some(known) = known {
        figures.image = known.image.clone();
        figures.ports = known.published.clone();
        figures.volumes = known.volumes.iter().map(|(name, path)| format!("{name} at {path}")).collect();
    }
    if let Some((look, activity)) = found {
        fill(&mut figures, &watched, look, &activity);
    }
    if let Some(ended) = &watched.ended {
        figures.state = format!("the machine has {}", ended.trim_start_matches("has "));
    }
    Json(figures).into_response()
}

fn find(look: &Look, name: &str) -> Option<Activity> {
    let is_it = |one: &&Activity| {
        matches!(one.kind, ActivityKind::System | ActivityKind::Tenant)
            && full_name(look.zone.as_deref(), &one.name) == name
            && !one.state.has_left()
    };
    look.last.as_ref()?.activities.iter().find(is_it).cloned()
}

fn fill(figures: &mut Figures, watched: &Watched, look: &Look, activity: &Activity) {
    let Some(last) = &look.last else { return };
    figures.state = harmless(&recorder::words(activity));
    figures.troubles = activity.troubles().iter().map(|text| harmless(text)).collect();
    figures.has = Some(has(activity, last));
    let mut processes = processes(look, &activity.name);
    figures.more_processes = processes.len().saturating_sub(PROCESSES_MAX);
    processes.truncate(PROCESSES_MAX);
    figures.processes = processes;
    if let Some(goals) =
        watched.sampler.history().last().and_then(|last| last.goals.clone()).filter(|_| look.zone.is_none())
    {
        figures.goal = goals.lines.iter().find(|line| line.tenant == activity.name).cloned();
        figures.broker = Some(goals.state);
    }
    figures.bill = charges(watched, last, &activity.name);
}

fn has(one: &Activity, last: &Snapshot) -> Has {
    let is_customer = |other: &&Activity| other.kind == ActivityKind::Tenant && !other.state.has_left();
    Has {
        share: one.share,
        shares: last.activities.iter().filter(is_customer).map(|other| u64::from(other.share)).sum(),
        memory_bytes: one.memory_bytes,
        memory_bytes_max: one.memory_bytes_max,
        memory_bytes_limit: one.memory_bytes_limit,
        memory_entitled_bytes: one.memory_entitled_bytes,
        process_memory_bytes_limit: Some(one.process_memory_bytes_limit).filter(|limit| *limit != u64::MAX),
        memory_reclaimed_bytes: one.memory_reclaimed_bytes,
        memory_failures: one.memory_failures,
        cache_bytes: one.cache_bytes,
        threads: one.processes,
        processes_started: one.processes_started,
        restarts: one.restarts,
        dropped_frames: one.dropped_frames,
        connections_limit: one.connections_limit,
        connections_refused: one.connections_refused,
    }
}

/// Returns the processes of a tenant, those first that computed most in the last second, then since their start.
fn processes(look: &Look, tenant: &str) -> Vec<Process> {
    let Some(last) = &look.last else { return vec![] };
    let before = look.before.as_ref().map(bill::processes).unwrap_or_default();
    let span = look.before.as_ref().map_or(last.uptime_ns, |before| last.uptime_ns.saturating_sub(before.uptime_ns));
    let rate = last.cycles_per_second.max(1) as f64;
    let of = |line: ProcessLine| {
        let is_it = |was: &&ProcessLine| was.tenant == line.tenant && was.process == line.process;
        let was = before.iter().find(is_it).map_or(0, |was| was.cycles);
        let seconds = line.cycles.saturating_sub(was) as f64 / rate;
        let cpu_percent = seconds * 100.0 / (span as f64 / 1e9).max(1e-9);
        Process {
            process: line.process,
            name: harmless(&cut(&line.name, 100)),
            threads: line.threads,
            state: if cpu_percent >= 0.1 { "computes" } else { "waits" },
            cpu_percent,
            cycles: line.cycles,
            cpu_seconds: line.cycles as f64 / rate,
            user_seconds: line.user_cycles as f64 / rate,
            memory_bytes: line.memory_bytes,
            messages: line.messages,
            queued_us: line.queued_ns as f64 / 1e3 / line.messages.max(1) as f64,
        }
    };
    let own = bill::processes(last).into_iter().filter(|line| line.tenant == tenant);
    let mut all: Vec<Process> = own.map(of).collect();
    all.sort_by(|a, b| b.cpu_percent.total_cmp(&a.cpu_percent).then(b.cycles.cmp(&a.cycles)));
    all
}

fn charges(watched: &Watched, last: &Snapshot, tenant: &str) -> Option<Charges> {
    let bill = Bill::of(last);
    let line = bill.tenants.iter().find(|line| line.tenant == tenant)?.clone();
    let seconds = |cycles: u64| cycles as f64 / bill.cycles_per_second.max(1) as f64;
    let of = Use {
        core_seconds: seconds(line.cycles),
        byte_seconds: line.memory_byte_seconds as f64,
        sent_bytes: line.sent_bytes,
        received_bytes: line.received_bytes,
        read_bytes: line.read_bytes,
        written_bytes: line.written_bytes,
    };
    let behalf = bill.on_behalf.iter().filter(|one| one.tenant == tenant);
    let prices = watched.prices.as_ref();
    let costs = |sku: Sku| Some((sku.name(), prices?.price(sku) * sku.units(&of)));
    Some(Charges {
        period_s: bill.period_ns as f64 / 1e9,
        cycles: line.cycles,
        of_machine_percent: crate::bill::percent(line.cycles, bill.machine_cycles),
        cpu_seconds: of.core_seconds,
        on_behalf: behalf.map(|one| (harmless(&one.service), seconds(one.cycles))).collect(),
        currency: prices.map(|prices| prices.currency.clone()),
        cost: prices.map_or(0.0, |prices| prices.cost(&of)),
        costs: Sku::ALL.into_iter().filter_map(costs).collect(),
        line,
    })
}

/// The place in a log to go on from.
#[derive(Deserialize)]
pub struct From {
    from: Option<u64>,
}

/// Lines of a log.
#[derive(Debug, PartialEq, Serialize)]
struct Lines {
    /// Time and text of each.
    lines: Vec<(String, String)>,
    next: u64,
    is_cut: bool,
}

/// Answers the end of the log, or what came since a place.
pub async fn log(
    Extension(watched): Extension<Arc<Watched>>,
    Place(named): Place<Named>,
    Query(from): Query<From>,
) -> Response {
    match lines(&watched.folder, &named.tenant, from.from) {
        Ok(lines) => Json(lines).into_response(),
        Err(failure) => failed(&failure),
    }
}

/// A name with a path in it is nobody's log.
fn lines(folder: &Path, tenant: &str, from: Option<u64>) -> crate::failure::Result<Lines> {
    let is_name = !tenant.contains(['/', '\0']) && !tenant.starts_with('.');
    let excerpt = if is_name { Excerpt::read(folder, tenant, from)? } else { Excerpt::default() };
    let shown = excerpt.lines.iter().map(|line| (format!("{:.3}", line.time), harmless(&cut(&line.text(), LINE_MAX))));
    Ok(Lines { lines: shown.collect(), next: excerpt.next, is_cut: excerpt.is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::log::Writer;

    #[test]
    fn lines_are_cut_and_harmless_and_no_name_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(folder.path(), "gold").unwrap();
        writer.take(&format!("\x1b[31m<script>alert(1)</script>\x07\n{}\n", "y".repeat(5000)).as_bytes()).unwrap();
        let found = lines(folder.path(), "gold", None).unwrap();
        assert_eq!(found.lines[0].1, "<script>alert(1)</script>␇");
        assert!(found.lines[1].1.ends_with("y … (3000 bytes more)"), "{}", found.lines[1].1.len());
        assert!(lines(&folder.path().join("logs"), "../logs/gold", None).unwrap().lines.is_empty());
        assert!(lines(folder.path(), "..", None).unwrap().lines.is_empty());
    }

    #[test]
    fn processes_have_their_last_second() {
        let snapshot = |uptime_ns, cycles| {
            let activity = |id, parent, name: &str, kind, process_id| Activity {
                id,
                parent,
                name: name.into(),
                kind,
                process_id,
                ..Activity::default()
            };
            let record = |activity, cycles| gyre_contract::monitor::Record { activity, cycles, ..Default::default() };
            Snapshot {
                uptime_ns,
                cycles_per_second: 1000,
                activities: vec![
                    activity(1, 0, "gold", ActivityKind::Tenant, 0),
                    activity(2, 1, "busy\x1b[H", ActivityKind::Part, 7),
                    activity(3, 1, "idle", ActivityKind::Part, 8),
                ],
                records: vec![record(2, cycles), record(3, 900_000)],
                ..Snapshot::default()
            }
        };
        let look =
            Look { zone: None, before: Some(snapshot(1_000_000_000, 500)), last: Some(snapshot(2_000_000_000, 1000)) };
        let all = processes(&look, "gold");
        assert_eq!((all[0].name.as_str(), all[0].cpu_percent, all[0].state), ("busy␛[H", 50.0, "computes"));
        assert_eq!((all[1].process, all[1].cpu_percent, all[1].state), (8, 0.0, "waits"));
    }
}
