//! A host with machines that exist in formulas only: their folders, and agents that answer with figures which grow.
//!
//! A `Host` is a temporary folder of state and the tool that uses it. A `Machine` there is a folder as `gyre run` makes it, with events
//! and logs that a test writes, and a thread that answers at the agent's socket until the machine ends. A `Page` is a `gyre page` that
//! runs and is ended when it is dropped.
//!
//! The figures of a snapshot follow from the time since the start, the tenant's share and its number, so that rates go up and down, sums
//! grow as real ones do, and a test knows what must be shown. Names, reasons and logs are as a test wants them, hostile ones too.
//!
//! No kernel runs: figures of a real machine, and how it makes them, are left out. The tests themselves are in the files beside this one.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use gyre_contract::{
    goals::{self, Answers, BUCKETS, Goals, Shown, TenantGoal},
    monitor::{self, Activity, ActivityKind, CoreTime, Handling, Record, Resource, Snapshot, State},
};
use serde_json::json;

/// The longest wait for anything: a loaded host takes its time.
pub const PATIENCE: Duration = Duration::from_secs(90);
const CORES: u16 = 4;
const CYCLES_PER_SECOND: f64 = 1e9;
/// Bits per second that each tenant sends.
pub const SENT: f64 = 3_200_000.0;

/// A folder of state, and the tool that uses it.
pub struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Returns the tool with this host's state.
    pub fn gyre(&self) -> Command {
        let mut gyre = Command::new(env!("CARGO_BIN_EXE_gyre"));
        gyre.env("GYRE_STATE", self.folder.path()).env("GYRE_ROOT", tree()).env_remove("NO_COLOR");
        gyre
    }

    /// Returns the same as a line for a shell.
    pub fn line(&self, words: &str) -> String {
        let (state, tree) = (self.folder.path().display(), tree());
        format!("env GYRE_STATE={state} GYRE_ROOT={} {} {words}", tree.display(), env!("CARGO_BIN_EXE_gyre"))
    }

    /// Starts a machine.
    pub fn machine(&self, name: &str, tenants: Vec<Tenant>) -> Machine {
        Machine::start(&self.folder.path().join("run").join(name), name, tenants)
    }

    /// Writes a day's bill with prices, so that the machine's page has them.
    pub fn prices(&self, machine: &str) {
        let folder = self.folder.path().join("bills").join(machine);
        fs::create_dir_all(&folder).unwrap();
        let prices = json!({"currency": "EUR", "prices": [3600.0, 0.0, 0.0, 0.0, 0.0, 0.0]});
        let run = json!({"started_unix_ms": 1, "from_unix_ms": 1, "until_unix_ms": 2, "version": "1", "core_seconds": 1.0, "tenants": {}, "prices": prices});
        let day = json!({"machine": machine, "day": "2026-01-01", "runs": [run]});
        fs::write(folder.join("2026-01-01.json"), day.to_string()).unwrap();
    }

    /// Starts `gyre page`, and waits until it answers. If somebody else takes the port meanwhile, it has another.
    pub fn page(&self) -> Page {
        // No other test of this program takes it.
        static TAKES_PORT: Mutex<()> = Mutex::new(());
        let _alone = TAKES_PORT.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut gyre = self.gyre();
            gyre.args(["page", "--port", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
            let mut page = Page { port, process: gyre.spawn().unwrap() };
            while page.process.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return page;
                }
                assert!(start.elapsed() < PATIENCE, "gyre page does not answer");
                std::thread::sleep(Duration::from_millis(50));
            }
            assert!(start.elapsed() < PATIENCE, "gyre page ends");
        }
    }
}

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A `gyre page` that runs.
pub struct Page {
    pub port: u16,
    process: Child,
}

impl Page {
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A tenant of such a machine.
#[derive(Clone)]
pub struct Tenant {
    pub name: String,
    pub share: u32,
    pub state: State,
    /// The names of its programs.
    pub programs: Vec<String>,
}

impl Tenant {
    pub fn new(name: &str, share: u32) -> Self {
        let programs = ["nginx", "worker"].map(str::to_owned).to_vec();
        Self { name: name.into(), share, state: State::Running, programs }
    }
}

/// Returns gold, silver and bronze; bronze's program has ended.
pub fn three() -> Vec<Tenant> {
    let bronze = Tenant { state: State::Ended { code: 7 }, ..Tenant::new("bronze", 17) };
    vec![Tenant::new("gold", 50), Tenant::new("silver", 33), bronze]
}

/// Returns sixty with names of different lengths.
pub fn sixty() -> Vec<Tenant> {
    (0..60)
        .map(|number| {
            Tenant::new(&format!("customer-{number:02}{}", "-of-berlin".repeat(number % 2)), 1 + number as u32 % 5)
        })
        .collect()
}

/// A machine that runs until it is ended or dropped.
pub struct Machine {
    pub folder: PathBuf,
    lock: Option<File>,
    is_over: Arc<AtomicBool>,
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

impl Machine {
    fn start(folder: &Path, name: &str, tenants: Vec<Tenant>) -> Self {
        fs::create_dir_all(folder.join("logs")).unwrap();
        let lock = File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        let known = |one: &Tenant| json!({"name": one.name, "image": "web", "ports": [], "published": ["127.0.0.1:8080:80"], "volumes": [["data", "/srv"]]});
        let info = json!({"name": name, "file": format!("/etc/gyre/{name}.toml"), "process": 1, "started_unix_ms": unix_ms(), "ended_unix_ms": null, "end": null, "tenants": tenants.iter().map(known).collect::<Vec<_>>()});
        fs::write(folder.join("machine.json"), info.to_string()).unwrap();
        let shares: Vec<(&str, u32)> =
            [("system", 5)].into_iter().chain(tenants.iter().map(|one| (one.name.as_str(), one.share))).collect();
        fs::write(folder.join("instances.json"), json!([{"zone": null, "tenants": shares}]).to_string()).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let listener = UnixListener::bind(folder.join("agent.sock")).unwrap();
        let (over, name) = (is_over.clone(), name.to_owned());
        std::thread::spawn(move || serve(&listener, &name, &tenants, &over));
        let machine = Self { folder: folder.to_owned(), lock: Some(lock), is_over };
        machine.event(None, "the machine runs");
        machine
    }

    /// Writes an event.
    pub fn event(&self, tenant: Option<&str>, event: &str) {
        let mut line = json!({"time": time(), "event": event});
        if let Some(tenant) = tenant {
            line["tenant"] = tenant.into();
        }
        append(&self.folder.join("events.jsonl"), &format!("{line}\n"));
    }

    /// Writes a line of a tenant's log.
    pub fn log(&self, tenant: &str, text: &str) {
        append(&self.folder.join("logs").join(format!("{tenant}.log")), &format!("{} {text}\n", time()));
    }

    /// Ends it, as `gyre run` does.
    pub fn end(&mut self, how: &str) {
        let path = self.folder.join("machine.json");
        let mut info: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (info["ended_unix_ms"], info["end"]) = (unix_ms().into(), how.into());
        fs::write(path, info.to_string()).unwrap();
        self.is_over.store(true, Ordering::Release);
        let _ = UnixStream::connect(self.folder.join("agent.sock"));
        let _ = fs::remove_file(self.folder.join("agent.sock"));
        self.lock = None;
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let _ = UnixStream::connect(self.folder.join("agent.sock"));
    }
}

fn time() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

fn append(path: &Path, text: &str) {
    File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn serve(listener: &UnixListener, name: &str, tenants: &[Tenant], over: &AtomicBool) {
    // Some time has passed already, so that the first difference is one.
    let start = Instant::now() - Duration::from_secs(1000);
    for stream in listener.incoming().map_while(Result::ok) {
        if over.load(Ordering::Acquire) {
            return;
        }
        let _ = answer(stream, name, tenants, start.elapsed().as_secs_f64());
    }
}

fn answer(mut stream: UnixStream, name: &str, tenants: &[Tenant], at: f64) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let (status, body) = match first.split(' ').nth(1) {
        Some("/snapshot") => ("200 OK", serde_json::to_string(&snapshot(name, tenants, at)).unwrap()),
        // None was made.
        Some("/changes?from=0") => ("200 OK", "[]".to_owned()),
        Some("/goals") => ("200 OK", serde_json::to_string(&goals(tenants, at)).unwrap()),
        _ => ("404 Not Found", "there is no such thing".to_owned()),
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns what has come together at a rate that goes up and down by half.
fn grown(rate: f64, at: f64, number: usize) -> u64 {
    let turn = 0.2 + 0.01 * number as f64;
    (rate * at + rate / 2.0 / turn * (1.0 - (turn * at).cos())) as u64
}

fn snapshot(name: &str, tenants: &[Tenant], at: f64) -> Snapshot {
    let activity = |id: u32, parent: u32, name: &str, kind| Activity {
        id,
        parent,
        name: name.into(),
        kind,
        alive: true,
        ..Activity::default()
    };
    let mut activities = vec![
        activity(0, 0, "machine", ActivityKind::Root),
        activity(1, 0, "infrastructure", ActivityKind::Infrastructure),
        Activity {
            share: 5,
            memory_bytes: 9 << 20,
            memory_bytes_limit: 64 << 20,
            ..activity(2, 0, "system", ActivityKind::System)
        },
    ];
    let elapsed = (at * CYCLES_PER_SECOND) as u64;
    let mut cores: Vec<CoreTime> =
        (0..CORES).map(|core| CoreTime { core, elapsed_cycles: elapsed, ..CoreTime::default() }).collect();
    let mut records = vec![];
    let sum: u32 = tenants.iter().map(|one| one.share).sum();
    for (number, tenant) in tenants.iter().enumerate() {
        let id = 10 + number as u32;
        activities.push(Activity {
            share: tenant.share,
            state: tenant.state.clone(),
            memory_bytes: (20 << 20) + grown(1e6, 3.0 + (at / 20.0).sin(), number),
            memory_bytes_max: 40 << 20,
            memory_bytes_limit: 64 << 20,
            process_memory_bytes_limit: u64::MAX,
            sent_bytes: grown(SENT / 8.0, at, 0),
            received_bytes: grown(1e5, at, number),
            read_bytes: grown(3e5, at, number),
            written_bytes: grown(1e5, at, number),
            processes: 3,
            processes_started: 9,
            ..activity(id, 0, &tenant.name, ActivityKind::Tenant)
        });
        for (place, program) in tenant.programs.iter().enumerate() {
            let process = 1000 + id * 10 + place as u32;
            activities.push(Activity {
                process_id: 2 + place as u32,
                share: 1024,
                processes: 1,
                memory_bytes: 7 << 20,
                ..activity(process, id, program, ActivityKind::Part)
            });
            let part = 0.8 * f64::from(tenant.share) / f64::from(sum) / if place == 0 { 1.5 } else { 3.0 }
                * if place < 2 { 1.0 } else { 0.0 };
            let mut cycles = 0;
            for core in &mut cores {
                let own = grown(part * CYCLES_PER_SECOND / 1.6, at, number + usize::from(core.core));
                core.handling.push(Handling { activity: process, cycles: own });
                cycles += own;
            }
            records.push(Record {
                activity: process,
                resource: 0,
                cycles,
                messages: grown(900.0, at, number),
                queued_ns: grown(900.0 * 12_236_300.0, at, number),
                ..Record::default()
            });
        }
    }
    for core in &mut cores {
        let used: u64 = core.handling.iter().map(|one| one.cycles).sum();
        core.scheduling_cycles = elapsed / 100;
        core.idle_cycles = elapsed.saturating_sub(used).saturating_sub(core.scheduling_cycles);
        core.elapsed_cycles = used + core.scheduling_cycles + core.idle_cycles;
    }
    Snapshot {
        version: monitor::VERSION,
        machine: name.into(),
        uptime_ns: (at * 1e9) as u64,
        cycles_per_second: CYCLES_PER_SECOND as u64,
        cores,
        activities,
        resources: vec![Resource { name: "cpu".into(), ..Resource::default() }],
        records,
        ..Snapshot::default()
    }
}

/// The first tenant has a goal, and answers; so does the second.
fn goals(tenants: &[Tenant], at: f64) -> Shown {
    let mut buckets = vec![0; BUCKETS];
    buckets[goals::bucket_of(2_000_000)] = (at * 100.0) as u64;
    buckets[goals::bucket_of(30_000_000)] = (at * 3.0) as u64;
    let of = |(number, one): (usize, &Tenant)| TenantGoal {
        name: one.name.clone(),
        share: one.share,
        answers: if number < 2 { Answers { sum_ns: 0, buckets: buckets.clone() } } else { Answers::default() },
        ..TenantGoal::default()
    };
    let line = |one: &Tenant| goals::Line {
        tenant: one.name.clone(),
        goal: "99 % in 50 ms".into(),
        rate_per_s: 103.0,
        percentile_ms: Some(30.0),
        is_met: Some(true),
        why: "it keeps its time <b>easily</b>".into(),
        link: Some(goals::Held { used: 0.1, held: 0.4, part: 0.5, why: "it waits for the link".into() }),
        delay_ms: Some(80.0),
        ..goals::Line::default()
    };
    let report = goals::Report {
        policy: "pacora".into(),
        lines: tenants.iter().take(1).map(line).collect(),
        ..goals::Report::default()
    };
    let goals = Goals {
        version: goals::VERSION,
        now_ns: (at * 1e9) as u64,
        tenants: tenants.iter().enumerate().map(of).collect(),
        ..Goals::default()
    };
    Shown { goals, broker: goals::BrokerState::Runs, report: Some(report), ..Shown::default() }
}
