//! The thread of `gyre run` that keeps the day's bill: every few seconds it adds what was used since, and writes the day's file.
//!
//! If machine or tool are killed, the last few seconds are missing and nothing else. An entry is found again by the machine's start, so
//! that a day holds each run once.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gyre_contract::{bill::Bill, monitor::Snapshot};
use gyre_machine_file::Prices;

use super::day::{Day, ENDING, Run, Tariff, Use};
use crate::{
    failure::{Context as _, Result},
    instances::{Instances, full_name},
    machines::info,
    package, ui,
    view::Sampler,
};

/// The time between two writes.
const PERIOD: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(500);

/// Keeps the bill until it is ended.
pub struct Keeper {
    book: Arc<Mutex<Book>>,
    is_over: Arc<AtomicBool>,
}

/// The counts so far.
struct Book {
    folder: PathBuf,
    machine: String,
    /// Each instance's zone.
    zones: Vec<Option<String>>,
    started_unix_ms: i64,
    version: String,
    prices: Option<Tariff>,
    before: Figures,
    /// The day that is counted, and the run's entry on it.
    today: Option<(String, Run)>,
}

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
struct Figures {
    core_seconds: f64,
    tenants: BTreeMap<String, Use>,
}

impl Keeper {
    /// Begins to keep the bill of a machine that has just started.
    ///
    /// # Errors
    /// When the folder cannot be made, or no thread be had.
    pub fn start(
        folder: &Path,
        machine: &str,
        instances: &Instances,
        sampler: &Arc<Sampler>,
        prices: Option<&Prices>,
    ) -> Result<Self> {
        let folder = folder.join(machine);
        std::fs::create_dir_all(&folder).context(|| format!("cannot make the folder {}", folder.display()))?;
        let book = Arc::new(Mutex::new(Book {
            folder,
            machine: machine.to_owned(),
            zones: instances.all.iter().map(|one| one.zone.clone()).collect(),
            started_unix_ms: info::now_unix_ms(),
            version: package::words(),
            prices: prices.map(Tariff::from),
            before: Figures::default(),
            today: None,
        }));
        let is_over = Arc::new(AtomicBool::new(false));
        let (own, over, sampler) = (book.clone(), is_over.clone(), sampler.clone());
        let run = move || keep(&own, &sampler, &over);
        std::thread::Builder::new().name("ledger".into()).spawn(run).context(|| "cannot start a thread".into())?;
        Ok(Self { book, is_over })
    }

    /// Takes the machine's last figures.
    pub fn end(self, last: &[Option<Snapshot>]) {
        self.is_over.store(true, Ordering::Release);
        take(&self.book, last);
    }
}

fn keep(book: &Mutex<Book>, sampler: &Sampler, is_over: &AtomicBool) {
    let mut next = Instant::now();
    while !is_over.load(Ordering::Acquire) {
        if Instant::now() >= next {
            next = Instant::now() + PERIOD;
            take(book, &sampler.last());
        }
        std::thread::sleep(STEP);
    }
}

fn take(book: &Mutex<Book>, snapshots: &[Option<Snapshot>]) {
    let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
    let now = figures(snapshots, &book.zones);
    if let Err(failure) = book.count(now, info::now_unix_ms()) {
        ui::warn(&format!("the bill of the day is not kept: {}", failure.report));
    }
}

/// Sums up what all instances have counted. The supervisor's lines of zones are left out: their tenants have lines of their own.
fn figures(snapshots: &[Option<Snapshot>], zones: &[Option<String>]) -> Figures {
    let mut all = Figures::default();
    for (snapshot, zone) in snapshots.iter().zip(zones) {
        let Some(snapshot) = snapshot else { continue };
        let bill = Bill::of(snapshot);
        let seconds = |cycles: u64| cycles as f64 / bill.cycles_per_second.max(1) as f64;
        if zone.is_none() {
            all.core_seconds = seconds(bill.machine_cycles);
        }
        let is_zone = |name: &String| zone.is_none() && zones.iter().flatten().any(|zone| zone == name);
        for line in bill.tenants.iter().filter(|line| !is_zone(&line.tenant)) {
            all.tenants.entry(full_name(zone.as_deref(), &line.tenant)).or_default().add(&Use {
                core_seconds: seconds(line.cycles),
                byte_seconds: line.memory_byte_seconds as f64,
                sent_bytes: line.sent_bytes,
                received_bytes: line.received_bytes,
                read_bytes: line.read_bytes,
                written_bytes: line.written_bytes,
            });
        }
    }
    all
}

impl Book {
    /// Adds what was used since the last time to the day of now, and writes it.
    fn count(&mut self, now: Figures, now_unix_ms: i64) -> Result<()> {
        if now.tenants.is_empty() {
            return Ok(());
        }
        let day = day_of(now_unix_ms);
        let (today, mut run) = self.today.take().unwrap_or_else(|| (day.clone(), self.entry(now_unix_ms)));
        if today != day {
            run = self.entry(run.until_unix_ms);
        }
        run.until_unix_ms = now_unix_ms;
        run.core_seconds += (now.core_seconds - self.before.core_seconds).max(0.0);
        for (name, used) in &now.tenants {
            let before = self.before.tenants.get(name).copied().unwrap_or_default();
            run.tenants.entry(name.clone()).or_default().add(&used.since(&before));
        }
        self.before = now;
        let path = self.folder.join(format!("{day}{ENDING}"));
        let mut file =
            Day::read(&path).unwrap_or_else(|_| Day { machine: self.machine.clone(), day: day.clone(), runs: vec![] });
        file.put(&run);
        self.today = Some((day, run));
        file.write(&path)
    }

    fn entry(&self, from_unix_ms: i64) -> Run {
        Run {
            started_unix_ms: self.started_unix_ms,
            from_unix_ms,
            version: self.version.clone(),
            prices: self.prices.clone(),
            ..Run::default()
        }
    }
}

/// Returns the day of a moment, YYYY-MM-DD of UTC.
fn day_of(unix_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn book(folder: &Path, started_unix_ms: i64) -> Book {
        Book {
            folder: folder.into(),
            machine: "m".into(),
            zones: vec![None],
            started_unix_ms,
            version: "1".into(),
            prices: None,
            before: Figures::default(),
            today: None,
        }
    }

    fn used(seconds: f64) -> Figures {
        let of = Use { core_seconds: seconds, sent_bytes: seconds as u64, ..Use::default() };
        Figures { core_seconds: seconds * 2.0, tenants: [("gold".to_owned(), of)].into() }
    }

    #[test]
    fn each_second_is_on_one_day_and_a_killed_run_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = book(folder.path(), 1);
        first.count(used(1.0), DAY_MS - 2000).unwrap();
        first.count(used(3.0), DAY_MS - 1000).unwrap();
        first.count(used(10.0), DAY_MS + 1000).unwrap();
        // The first is killed here; another run follows on the same day.
        drop(first);
        book(folder.path(), 2).count(used(5.0), DAY_MS + 9000).unwrap();
        let day = |name: &str| Day::read(&folder.path().join(name)).unwrap();
        let (one, two) = (day("1970-01-01.json"), day("1970-01-02.json"));
        assert_eq!((one.runs.len(), one.runs[0].tenants["gold"].core_seconds, one.runs[0].core_seconds), (1, 3.0, 6.0));
        let seconds: Vec<f64> = two.runs.iter().map(|run| run.tenants["gold"].core_seconds).collect();
        assert_eq!(seconds, [7.0, 5.0]);
        assert_eq!(two.runs[0].from_unix_ms, DAY_MS - 1000);
    }

    #[test]
    fn counters_that_begin_anew_count_from_zero() {
        let folder = tempfile::tempdir().unwrap();
        let mut book = book(folder.path(), 1);
        book.count(used(4.0), 1000).unwrap();
        book.count(used(1.0), 2000).unwrap();
        let day = Day::read(&folder.path().join("1970-01-01.json")).unwrap();
        assert_eq!(day.runs[0].tenants["gold"].core_seconds, 5.0);
    }
}
