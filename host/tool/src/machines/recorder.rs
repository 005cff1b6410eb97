//! The threads of `gyre run` that write down what tenants write and what happens to them.
//!
//! * One thread for each kernel instance follows `GET /output` of its agent: one connection for all tenants. If it breaks off, it is opened
//!   again, and what is told twice is written once.
//! * One thread compares the states that the sampler has, each second. A state that is over within a second may not be seen; a program that
//!   was started again meanwhile is, because that is counted.
//! * [`Recorder::end`] writes the end down, after the streams have ended. A machine that ends in order has told the last words of its
//!   programs then; of one that is killed the last quarter of a second may be missing.

use std::{
    collections::BTreeMap,
    io::BufRead as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use gyre_contract::{
    monitor::{Activity, ActivityKind, State},
    session::Output,
};

use super::{
    events::{self, Event},
    log::Writer,
};
use crate::{
    agent::Agent,
    failure::{Context as _, Result},
    instances::{Instances, full_name},
    ui,
    view::Sampler,
};

/// Pause before a stream is asked for again that broke off.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the last words of tenants are waited for once the machine has ended: they have left it, and its streams end.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// A pause between two looks at that.
const LOOK: Duration = Duration::from_millis(10);
/// How often the states are looked at: as often as there are new ones.
const PERIOD: Duration = Duration::from_secs(1);

/// Writes down what happens, until it is dropped.
pub struct Recorder {
    folder: PathBuf,
    is_over: Arc<AtomicBool>,
    logs: Vec<Arc<Mutex<Logs>>>,
    /// The threads that follow output.
    followers: Vec<JoinHandle<()>>,
}

impl Recorder {
    /// Begins to write, with the beginning of the machine.
    ///
    /// # Errors
    /// When nothing can be written, or no thread can be had.
    pub fn start(folder: &Path, instances: &Instances, sampler: &Arc<Sampler>) -> Result<Self> {
        events::add(folder, &Event::now(None, "the machine runs"))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut logs, mut followers) = (vec![], vec![]);
        for instance in &instances.all {
            let own = Arc::new(Mutex::new(Logs::new(folder, instance.zone.as_deref())));
            logs.push(own.clone());
            let (agent, over) = (instances.agent(instance), is_over.clone());
            followers.push(spawn("logs", move || follow(&agent, &own, &over))?);
        }
        let names: Vec<Option<String>> = instances.all.iter().map(|instance| instance.zone.clone()).collect();
        let (sampler, over, place) = (sampler.clone(), is_over.clone(), folder.to_owned());
        spawn("events", move || watch(&sampler, &names, &place, &over))?;
        Ok(Self { folder: folder.to_owned(), is_over, logs, followers })
    }

    /// Writes the end of the machine down; it has ended.
    pub fn end(self, how: &str) {
        self.is_over.store(true, Ordering::Release);
        let limit = Instant::now() + LAST_WORDS;
        while self.followers.iter().any(|thread| !thread.is_finished()) && Instant::now() < limit {
            std::thread::sleep(LOOK);
        }
        if let Err(failure) = events::add(&self.folder, &Event::now(None, &format!("the machine {how}"))) {
            ui::warn(&failure.report.to_string());
        }
        for logs in &self.logs {
            logs.lock().into_iter().for_each(|mut logs| logs.writers.clear());
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(run).context(|| "cannot start a thread".into())
}

/// The logs of one instance's tenants.
struct Logs {
    folder: PathBuf,
    zone: Option<String>,
    writers: BTreeMap<String, Writer>,
    /// Bytes of each tenant that have come so far.
    seen: BTreeMap<String, u64>,
}

impl Logs {
    fn new(folder: &Path, zone: Option<&str>) -> Self {
        Self {
            folder: folder.to_owned(),
            zone: zone.map(str::to_owned),
            writers: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    fn take(&mut self, output: &Output) -> Result<()> {
        let seen = self.seen.entry(output.tenant.clone()).or_default();
        // A stream that broke off tells all again.
        if output.end <= *seen {
            return Ok(());
        }
        *seen = output.end;
        if !self.writers.contains_key(&output.tenant) {
            let name = full_name(self.zone.as_deref(), &output.tenant);
            self.writers.insert(output.tenant.clone(), Writer::open(&self.folder, &name)?);
        }
        let Some(writer) = self.writers.get_mut(&output.tenant) else { return Ok(()) };
        if output.lost > 0 {
            writer.take(format!("[{} bytes were not kept]\n", output.lost).as_bytes())?;
        }
        writer.take(output.written())
    }
}

/// Follows the output of an instance's tenants; a stream that breaks off goes on.
fn follow(agent: &Agent, logs: &Mutex<Logs>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        if let Ok(stream) = agent.stream("/output") {
            for line in stream.split(b'\n').map_while(std::result::Result::ok) {
                let Ok(output) = serde_json::from_slice::<Output>(&line) else { continue };
                let taken = logs.lock().map_or(Ok(()), |mut logs| logs.take(&output));
                if let Err(failure) = taken {
                    ui::warn(&format!("{}; the logs end here", failure.report));
                    return;
                }
            }
        }
        if !is_over.load(Ordering::Acquire) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Writes each change of a tenant's state down.
fn watch(sampler: &Sampler, zones: &[Option<String>], folder: &Path, is_over: &AtomicBool) {
    let mut before: BTreeMap<(Option<String>, u32), (State, u64)> = BTreeMap::new();
    while !is_over.load(Ordering::Acquire) {
        for (snapshot, zone) in sampler.last().iter().zip(zones) {
            let all = snapshot.iter().flat_map(|snapshot| &snapshot.activities);
            for tenant in all.filter(|one| one.kind == ActivityKind::Tenant) {
                let name = full_name(zone.as_deref(), &tenant.name);
                let now = (tenant.state.clone(), tenant.restarts);
                let was = before.insert((zone.clone(), tenant.id), now.clone());
                // A full disk ends the list of events, not the run.
                let _ = news(was.as_ref(), &now, tenant)
                    .into_iter()
                    .try_for_each(|text| events::add(folder, &Event::now(Some(&name), &text)));
            }
        }
        std::thread::sleep(PERIOD);
    }
}

/// Says what has changed.
fn news(was: Option<&(State, u64)>, now: &(State, u64), tenant: &Activity) -> Vec<String> {
    let restarts = now.1.saturating_sub(was.map_or(0, |was| was.1));
    let again = (restarts > 0).then(|| format!("started again ({} times so far)", now.1));
    let changed = was.is_none_or(|was| was.0 != now.0).then(|| words(tenant));
    again.into_iter().chain(changed).collect()
}

/// Returns a tenant's state in words; one that had no memory left says so.
pub fn words(tenant: &Activity) -> String {
    match tenant.state {
        State::Killed { signal: 9 } if tenant.memory_failures > 0 => "out of memory (ended by SIGKILL)".into(),
        ref state => state.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_changes_of_state_and_starts() {
        let tenant = |state: State| Activity { state, ..Activity::default() };
        let runs = (State::Running, 0);
        assert_eq!(news(None, &runs, &tenant(State::Running)), ["running"]);
        assert!(news(Some(&runs), &runs, &tenant(State::Running)).is_empty());
        assert_eq!(
            news(Some(&runs), &(State::Running, 2), &tenant(State::Running)),
            ["started again (2 times so far)"]
        );
        let killed = Activity { memory_failures: 3, ..tenant(State::Killed { signal: 9 }) };
        assert_eq!(news(Some(&runs), &(killed.state.clone(), 0), &killed), ["out of memory (ended by SIGKILL)"]);
    }

    #[test]
    fn what_a_program_writes_is_kept_byte_by_byte() {
        let folder = tempfile::tempdir().unwrap();
        let mut logs = Logs::new(folder.path(), None);
        let mut written = [(0..=255).collect::<Vec<u8>>(), "ä".repeat(1 << 19).into_bytes()].concat();
        written.push(b'\n');
        // Pieces end within letters, as the agent's do; each goes through JSON.
        for (piece, end) in written.chunks(4095).scan(0, |end, piece| {
            Some((piece, {
                *end += piece.len() as u64;
                *end
            }))
        }) {
            let json = serde_json::to_vec(&Output::new("gold", [0, end], piece.to_vec())).unwrap();
            logs.take(&serde_json::from_slice(&json).unwrap()).unwrap();
        }
        let lines = super::super::log::Reader::new(folder.path(), "gold").all().unwrap();
        let kept = lines.iter().map(|line| line.bytes.clone()).collect::<Vec<_>>();
        assert_eq!(kept.first().unwrap(), &(0..10).collect::<Vec<u8>>());
        assert_eq!(
            kept.iter().skip(1).flatten().collect::<Vec<_>>(),
            written.iter().skip(11).take(written.len() - 12).collect::<Vec<_>>()
        );
        assert!(
            lines.iter().skip(2).all(|line| matches!(line.text(), std::borrow::Cow::Borrowed(_))),
            "cut between letters"
        );
    }

    #[test]
    fn what_is_told_twice_is_kept_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut logs = Logs::new(folder.path(), None);
        let output = |end, text: &str| Output::new("gold", [0, end], text.into());
        logs.take(&output(4, "one\n")).unwrap();
        logs.take(&output(4, "one\n")).unwrap();
        logs.take(&output(8, "two\n")).unwrap();
        let lines = super::super::log::Reader::new(folder.path(), "gold").all().unwrap();
        assert_eq!(lines.iter().map(|line| line.text()).collect::<Vec<_>>(), ["one", "two"]);
    }
}
