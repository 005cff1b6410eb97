//! `gyre page`: the machines of this host on one page, and below it the pages of each.
//!
//! * A thread looks each second which machines run. One that has come gets a sampler, one that has ended stays, with the way it ended.
//! * The page asks for the list each second; it needs nothing of the machines themselves.
//! * A machine that does not answer costs the others nothing: its own sampler waits for it.
//!
//! The list holds all machines that run, and those that ended last. Pages of a machine that has ended have its events and logs,
//! no figures: `gyre bill` has what it used.

use std::{
    collections::{BTreeMap, HashMap},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde::Serialize;

use super::{
    super::{
        Sample, Sampler,
        sample::{self, settled},
        sampler::Sources,
    },
    Watched, assets, listen, routes,
};
use crate::{
    cli,
    failure::Result,
    instances::Instances,
    ledger,
    machines::{self, Known, info},
    project::Project,
    stop::Stop,
    ui,
};

const PERIOD: Duration = Duration::from_secs(1);
/// Machines that have ended and are listed, the last ones first.
const ENDED_MAX: usize = 20;
/// Seconds of a machine's little chart.
const CHART_SECONDS: usize = 60;

/// Runs `gyre page`.
///
/// # Errors
/// When the port is taken.
pub fn page(arguments: &cli::Page) -> Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let machines = Arc::new(Machines { project: Project::find()?, known: Mutex::default() });
    machines.look();
    listen(arguments.port, all_routes(machines.clone()))?;
    ui::say(&format!(
        "machines of this host at http://127.0.0.1:{}/ (Ctrl-C ends the page, no machine)",
        arguments.port
    ));
    while !stop.is_set() {
        std::thread::sleep(PERIOD);
        machines.look();
    }
    Ok(ExitCode::SUCCESS)
}

fn all_routes(machines: Arc<Machines>) -> Router {
    let own = routes("/machine/{machine}").route_layer(middleware::from_fn_with_state(machines.clone(), find));
    Router::new()
        .route("/", get(|| async { assets::page(assets::MACHINES) }))
        .route("/machines.json", get(list))
        .with_state(machines)
        .merge(own)
}

/// Gives a request the machine that its path names.
async fn find(
    State(machines): State<Arc<Machines>>,
    Path(names): Path<HashMap<String, String>>,
    mut request: Request,
    next: Next,
) -> Response {
    let found = names.get("machine").and_then(|name| machines.get(name));
    let Some(watched) = found else {
        return (StatusCode::NOT_FOUND, "no machine of this name has run on this host\n").into_response();
    };
    request.extensions_mut().insert(watched);
    next.run(request).await
}

async fn list(State(machines): State<Arc<Machines>>) -> Json<List> {
    Json(machines.list())
}

/// The machines, as far as they were looked at.
struct Machines {
    project: Project,
    known: Mutex<BTreeMap<String, Entry>>,
}

/// A machine.
#[derive(Clone)]
struct Entry {
    started_unix_ms: i64,
    ended_unix_ms: Option<i64>,
    file: String,
    watched: Arc<Watched>,
}

#[derive(Serialize)]
struct List {
    now_unix_ms: i64,
    machines: Vec<Row>,
    /// Machines that ended before those that are listed.
    older: usize,
}

/// A machine, as the page shows it.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Row {
    name: String,
    file: String,
    started_unix_ms: i64,
    ended_unix_ms: Option<i64>,
    /// How it ended; none while it runs.
    ended: Option<String>,
    /// False for one that runs and does not answer.
    answers: bool,
    tenants: usize,
    /// Tenants whose first program runs.
    running: usize,
    cores: usize,
    /// Cores in use: 2.5 of 4.
    busy_cores: f64,
    memory_bytes: u64,
    sent_bits_per_second: f64,
    received_bits_per_second: f64,
    troubles: Vec<String>,
    /// The part of its cores that was in use in each of the last seconds, percent.
    chart: Vec<f64>,
}

impl Machines {
    fn get(&self, name: &str) -> Option<Arc<Watched>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).map(|entry| entry.watched.clone())
    }

    /// Looks which machines there are. A folder that cannot be read leaves the list as it is.
    fn look(&self) {
        for known in machines::all(&self.project).unwrap_or_default() {
            let name = known.info.name.clone();
            let was = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
            if let Some(entry) = self.news(known, was.as_ref()) {
                if let Some(was) = was {
                    was.watched.sampler.end();
                }
                self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(name, entry);
            }
        }
    }

    /// Returns the entry of a machine that has come, ended or come again.
    fn news(&self, known: Known, was: Option<&Entry>) -> Option<Entry> {
        let runs = known.runs();
        let is_same =
            |was: &Entry| was.started_unix_ms == known.info.started_unix_ms && was.watched.ended.is_none() == runs;
        if was.is_some_and(is_same) {
            return None;
        }
        let name = &known.info.name;
        let sampler = match runs {
            // Until its agent answers nothing is known of it: it is looked at again in a second.
            true => Instances::find(&self.project, Some(name))
                .and_then(|all| Sampler::start(Sources::of(name, &all)))
                .ok()?,
            false => Sampler::of_the_past(name),
        };
        let ended = (!runs).then(|| known.info.end.clone().unwrap_or_else(|| "was killed".into()));
        let prices = ledger::prices_of(&self.project, name);
        Some(Entry {
            started_unix_ms: known.info.started_unix_ms,
            ended_unix_ms: known.info.ended_unix_ms,
            watched: Arc::new(Watched { sampler, folder: known.folder, prices, ended }),
            file: known.info.file,
        })
    }

    fn list(&self) -> List {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut machines: Vec<Row> = known.iter().map(|(name, entry)| row(name, entry)).collect();
        machines.sort_by_key(|row| (row.ended.is_some(), std::cmp::Reverse(row.ended_unix_ms)));
        let running = machines.iter().filter(|row| row.ended.is_none()).count();
        let older = machines.len().saturating_sub(running).saturating_sub(ENDED_MAX);
        machines.truncate(running.saturating_add(ENDED_MAX));
        List { now_unix_ms: info::now_unix_ms(), machines, older }
    }
}

fn row(name: &str, entry: &Entry) -> Row {
    let history = entry.watched.sampler.history();
    let history = settled(&history);
    let first = history.len().saturating_sub(CHART_SECONDS);
    let mut row = Row {
        name: name.to_owned(),
        file: entry.file.clone(),
        started_unix_ms: entry.started_unix_ms,
        ended_unix_ms: entry.ended_unix_ms,
        ended: entry.watched.ended.clone(),
        chart: history
            .iter()
            .skip(first)
            .filter(|sample| sample.uptime_s.is_some())
            .map(|sample| busy(sample) * 100.0 / sample.cores.len().max(1) as f64)
            .collect(),
        ..Row::default()
    };
    if let Some(last) = history.last() {
        row.answers = last.uptime_s.is_some();
        let is_customer = |tenant: &&sample::Tenant| tenant.entitled_percent > 0.0;
        row.tenants = last.tenants.iter().filter(is_customer).count();
        row.running = last.tenants.iter().filter(is_customer).filter(|tenant| tenant.state == "running").count();
        row.cores = last.cores.len();
        row.busy_cores = busy(last);
        row.memory_bytes = last.tenants.iter().fold(0, |sum, tenant| sum.saturating_add(tenant.memory_bytes));
        row.sent_bits_per_second = last.sent_bits_per_second;
        row.received_bits_per_second = last.received_bits_per_second;
        row.troubles = last.troubles.clone();
    }
    row
}

/// Returns how many cores were in use.
fn busy(sample: &Sample) -> f64 {
    let idle =
        |core: &sample::Core| core.parts.iter().find(|(name, _)| name == "idle").map_or(0.0, |(_, percent)| *percent);
    sample.cores.iter().map(|core| (100.0 - idle(core)).max(0.0) / 100.0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::info::Info;

    #[test]
    fn a_machine_that_was_killed_is_listed_and_the_newest_end_is_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::of_tree(folder.path());
        for (name, ended_unix_ms) in [("a", Some(1000)), ("b", Some(2000)), ("c", None)] {
            let folder = project.run_folder(name).unwrap();
            let end = ended_unix_ms.map(|_| "ended in order".to_owned());
            let info = Info {
                name: name.into(),
                file: "m.toml".into(),
                process: 1,
                started_unix_ms: 1,
                ended_unix_ms,
                end,
                tenants: vec![],
            };
            info.write(&folder).unwrap();
        }
        let machines = Machines { project, known: Mutex::default() };
        machines.look();
        machines.look();
        let list = machines.list();
        let names: Vec<&str> = list.machines.iter().map(|row| row.name.as_str()).collect();
        assert_eq!((names, list.older), (vec!["b", "a", "c"], 0));
        assert_eq!(list.machines[2].ended.as_deref(), Some("was killed"));
        assert!(machines.get("a").is_some() && machines.get("../a").is_none());
    }
}
