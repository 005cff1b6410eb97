//! Health checks: a thread for each tenant tries what its check says (`gyre_contract::health`), again and again.
//!
//! ```text
//! unknown --well--> well <--well-- unhealthy
//!    |  (retries failures in a row, after the grace time)  ^
//!    +----------------------------------------------------+
//! ```
//! * Until the first success a tenant that runs is shown as starting; one that is unhealthy is shown as that.
//! * A tenant is tried only while its program runs; a program that was started again begins anew.
//! * One whose restart policy is another than `never` is started again once it is unhealthy.
//! * A try with a program is work of the tenant, on its bill; one by TCP is the system tenant's.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use gyre_contract::{
    health::{Check, Probe},
    monitor::{Activity, Snapshot, State},
    native::{Change, Life},
    session::ExecRequest,
};

use crate::source::{Source, Streams};

/// A thread's stack.
const STACK_BYTES: usize = 128 << 10;
/// An unhealthy tenant is shown as that for so long before it is started again, so that who looks each second sees it.
const SHOWN: Duration = Duration::from_millis(1500);
/// The time that the programs of an unhealthy tenant have to end by themselves, ms.
const END_GRACE_MS: u64 = 5000;
/// The longest pause between two tries until the first success: a start is seen soon.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The most that is shown of what a failed program said, bytes.
const WORDS_MAX: usize = 200;
/// SIGKILL (signal(7)).
const SIGKILL: i32 = 9;

/// The health of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Verdict {
    /// There was no success yet, and not enough failures.
    #[default]
    Unknown,
    /// The last try succeeded, or not enough have failed since.
    Well,
    /// Why it is not.
    Unhealthy(String),
}

/// All checks, and what came of them.
#[derive(Default)]
pub struct Health {
    verdicts: Mutex<BTreeMap<String, Verdict>>,
    /// Grows with each change of the checks: threads of older ones end.
    epoch: AtomicU64,
}

impl Health {
    /// Reads the checks of a file; there are none if it is not there.
    ///
    /// # Errors
    /// When it is no list of checks.
    pub fn read(path: &Path) -> io::Result<Vec<Check>> {
        match std::fs::read(path) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
            Err(error) => Err(error),
        }
    }

    /// Makes these checks from now on, in place of those before.
    pub fn begin(self: &Arc<Self>, checks: Vec<Check>, source: &Arc<dyn Source>) {
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        *self.lock() = checks.iter().map(|check| (check.tenant.clone(), Verdict::Unknown)).collect();
        for check in checks {
            let (health, source) = (self.clone(), source.clone());
            let run = move || Watch { check, health, source, epoch }.run();
            if let Err(error) = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run) {
                eprintln!("agent: a health check does not start: {error}");
            }
        }
    }

    /// Puts what is known of the tenants' health into a snapshot.
    pub fn overlay(&self, snapshot: &mut Snapshot) {
        let verdicts = self.lock();
        if verdicts.is_empty() {
            return;
        }
        for activity in &mut snapshot.activities {
            if activity.state == State::Running
                && let Some(verdict) = verdicts.get(&activity.name)
            {
                activity.state = match verdict {
                    Verdict::Unknown => State::Starting,
                    Verdict::Well => State::Running,
                    Verdict::Unhealthy(why) => State::Unhealthy { why: why.clone() },
                };
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Verdict>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a verdict, unless the checks are others by now.
    fn set(&self, tenant: &str, verdict: Verdict) {
        if let Some(place) = self.lock().get_mut(tenant) {
            *place = verdict;
        }
    }
}

/// The thread of one check.
struct Watch {
    check: Check,
    health: Arc<Health>,
    /// The machine as its kernel sees it, without what is put over it here.
    source: Arc<dyn Source>,
    epoch: u64,
}

/// A life of a program: how often it was started, and since when it is watched.
struct Seen {
    restarts: u64,
    since: Instant,
    failures: u32,
    verdict: Verdict,
}

impl Seen {
    fn new(restarts: u64) -> Self {
        Self { restarts, since: Instant::now(), failures: 0, verdict: Verdict::Unknown }
    }

    /// Takes the result of a try into account.
    fn take(&mut self, check: &Check, tried: Result<(), String>) {
        let Err(why) = tried else {
            (self.failures, self.verdict) = (0, Verdict::Well);
            return;
        };
        if self.verdict == Verdict::Unknown && self.since.elapsed() < Duration::from_millis(check.grace_ms) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= check.retries {
            self.verdict = Verdict::Unhealthy(why);
        }
    }
}

impl Watch {
    fn run(self) {
        let mut seen: Option<Seen> = None;
        while self.is_wanted() {
            seen = match self.own().filter(|own| own.state == State::Running) {
                None => {
                    self.health.set(&self.check.tenant, Verdict::Unknown);
                    None
                }
                Some(own) => {
                    let same = seen.filter(|seen| seen.restarts == own.restarts);
                    let mut now = same.unwrap_or_else(|| Seen::new(own.restarts));
                    self.look(&mut now);
                    Some(now)
                }
            };
            let pause = Duration::from_millis(self.check.interval_ms);
            let is_known = seen.as_ref().is_some_and(|seen| seen.verdict != Verdict::Unknown);
            std::thread::sleep(if is_known { pause } else { pause.min(FIRST_PAUSE) });
        }
    }

    fn is_wanted(&self) -> bool {
        self.health.epoch.load(Ordering::Acquire) == self.epoch
    }

    fn own(&self) -> Option<Activity> {
        let all = self.source.snapshot().ok()?.activities;
        all.into_iter().find(|one| one.name == self.check.tenant)
    }

    fn look(&self, now: &mut Seen) {
        let tried = try_once(&self.check, &*self.source);
        now.take(&self.check, tried);
        if !self.is_wanted() {
            return;
        }
        self.health.set(&self.check.tenant, now.verdict.clone());
        if self.check.restarts && matches!(now.verdict, Verdict::Unhealthy(_)) {
            std::thread::sleep(SHOWN);
            let name = self.check.tenant.clone();
            let again = Change::Life { name, life: Life::Restart { grace_ms: END_GRACE_MS } };
            if let Err(error) = self.source.set(&again) {
                eprintln!("agent: {} is unhealthy and is not started again: {error}", self.check.tenant);
            }
            // Another life begins now, also if it is not counted yet.
            *now = Seen::new(now.restarts);
            self.health.set(&self.check.tenant, Verdict::Unknown);
        }
    }
}

/// Tries once; says why that failed.
fn try_once(check: &Check, source: &dyn Source) -> Result<(), String> {
    let limit = Duration::from_millis(check.timeout_ms);
    match &check.probe {
        Probe::Command(argv) => command(check, argv, source, limit),
        Probe::Tcp(port) => connect(check, *port, limit).map(drop),
        Probe::Http { port, path } => page(check, *port, path, limit),
    }
}

fn connect(check: &Check, port: u16, limit: Duration) -> Result<TcpStream, String> {
    let to = SocketAddr::from((Ipv4Addr::from(check.address), port));
    TcpStream::connect_timeout(&to, limit).map_err(|error| format!("port {port}: {error}"))
}

fn page(check: &Check, port: u16, path: &str, limit: Duration) -> Result<(), String> {
    let mut stream = connect(check, port, limit)?;
    let failed = |error: io::Error| format!("{path} on port {port}: {error}");
    let _ = stream.set_read_timeout(Some(limit)).and_then(|()| stream.set_write_timeout(Some(limit)));
    let host = &check.tenant;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: gyre-health\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut line = [0; 64];
    let mut held = 0;
    while held < line.len() && !line.get(..held).unwrap_or_default().contains(&b'\n') {
        match stream.read(line.get_mut(held..).unwrap_or_default()).map_err(failed)? {
            0 => break,
            count => held += count,
        }
    }
    match status(line.get(..held).unwrap_or_default()) {
        Some(200..=399) => Ok(()),
        Some(other) => Err(format!("{path} on port {port} is answered with {other}")),
        None => Err(format!("{path} on port {port} is not answered in HTTP")),
    }
}

/// Reads the status of a first line.
fn status(line: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(line.split(|byte| *byte == b'\r').next()?).ok()?;
    text.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}

fn command(check: &Check, argv: &[String], source: &dyn Source, limit: Duration) -> Result<(), String> {
    let program = argv.first().map_or("", String::as_str);
    let failed = |error: io::Error| format!("{program}: {error}");
    let request = ExecRequest { tenant: check.tenant.clone(), argv: argv.to_vec(), ..ExecRequest::default() };
    let (stdin, input) = io::pipe().map_err(failed)?;
    let (mut output, stdout) = io::pipe().map_err(failed)?;
    let stderr = stdout.try_clone().map_err(failed)?;
    drop(input);
    let started = source.spawn(&request, Streams { stdin, stdout, stderr }).map_err(failed)?;
    let program_run: Arc<dyn crate::source::Program> = started.into();
    let (told, ended) = mpsc::channel();
    let waited = program_run.clone();
    let spawn = |run: Box<dyn FnOnce() + Send>| std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    let words = Arc::new(Mutex::new(vec![]));
    let heard = words.clone();
    let (silent, all_heard) = mpsc::channel::<()>();
    // Read all the while: a program whose output nobody takes would never end.
    let listen = move || {
        let mut part = [0; 512];
        while let Ok(count @ 1..) = output.read(&mut part) {
            let mut words = heard.lock().unwrap_or_else(PoisonError::into_inner);
            let room = WORDS_MAX.saturating_sub(words.len()).min(count);
            words.extend_from_slice(part.get(..room).unwrap_or_default());
        }
        drop(silent);
    };
    spawn(Box::new(listen)).map_err(failed)?;
    spawn(Box::new(move || drop(told.send(waited.wait())))).map_err(failed)?;
    let code = match ended.recv_timeout(limit) {
        Ok(code) => code.map_err(failed)?,
        Err(_) => {
            let _ = program_run.signal(SIGKILL);
            return Err(format!("{program} takes longer than {} ms", limit.as_millis()));
        }
    };
    if code == 0 {
        return Ok(());
    }
    // Its last words may still be on their way; who it left behind may hold the pipe for ever.
    let _ = all_heard.recv_timeout(limit);
    let words = String::from_utf8_lossy(&words.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    let said =
        words.lines().next().map(|line| format!(": {}", line.replace(char::is_control, "?"))).unwrap_or_default();
    Err(format!("{program} ended with code {code}{said}"))
}

#[cfg(test)]
mod tests {
    use std::{io::BufRead as _, net::TcpListener};

    use super::*;
    use crate::source::Program;

    fn check(probe: Probe) -> Check {
        let (interval_ms, timeout_ms, retries, grace_ms) = (10, 120_000, 2, 0);
        let (tenant, address) = ("gold".to_owned(), [127, 0, 0, 1]);
        Check { tenant, address, probe, interval_ms, timeout_ms, retries, grace_ms, restarts: false }
    }

    /// A machine with one tenant; programs end with the code that their name says, but for 99, which never ends.
    #[derive(Default)]
    struct Machine {
        lives: Mutex<Vec<Change>>,
    }

    struct Ended(i32);

    impl Program for Ended {
        fn wait(&self) -> io::Result<i32> {
            while self.0 == 99 {
                std::thread::park();
            }
            Ok(self.0)
        }
        fn signal(&self, _signal: i32) -> io::Result<()> {
            Ok(())
        }
    }

    impl Source for Machine {
        fn snapshot(&self) -> io::Result<Snapshot> {
            let restarts = self.lives.lock().unwrap().len() as u64;
            let gold = Activity { name: "gold".into(), restarts, ..Activity::default() };
            Ok(Snapshot { activities: vec![gold], ..Snapshot::default() })
        }
        fn log(&self, _tenant: &str, _offset: u64) -> io::Result<(u64, Vec<u8>)> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn set(&self, change: &Change) -> io::Result<()> {
            self.lives.lock().unwrap().push(change.clone());
            Ok(())
        }
        fn change(&self, _together: &gyre_contract::promise::Together) -> io::Result<u64> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn spawn(&self, request: &ExecRequest, mut streams: Streams) -> io::Result<Box<dyn Program>> {
            writeln!(streams.stdout, "no\nmore")?;
            Ok(Box::new(Ended(request.argv[0].parse().map_err(io::Error::other)?)))
        }
    }

    /// Answers each connection with these words.
    fn served(words: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut first = String::new();
                let _ = io::BufReader::new(&stream).read_line(&mut first);
                let _ = (&stream).write_all(words.as_bytes());
            }
        });
        port
    }

    #[test]
    fn a_try_says_why_it_failed() {
        let machine = Machine::default();
        let tried = |probe| try_once(&check(probe), &machine);
        let page = |port| tried(Probe::Http { port, path: "/health".into() });
        assert_eq!(page(served("HTTP/1.1 204 No Content\r\n\r\n")), Ok(()));
        assert!(page(served("HTTP/1.1 503 Busy\r\n\r\n")).unwrap_err().contains("503"));
        assert!(page(served("hello\r\n")).unwrap_err().contains("not answered in HTTP"));
        assert_eq!(tried(Probe::Tcp(served(""))), Ok(()));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!(tried(Probe::Tcp(closed)).unwrap_err().contains("refused"));
        assert_eq!(tried(Probe::Command(vec!["0".into()])), Ok(()));
        assert_eq!(tried(Probe::Command(vec!["3".into()])), Err("3 ended with code 3: no".into()));
        let short = Check { timeout_ms: 300, ..check(Probe::Command(vec!["99".into()])) };
        assert!(try_once(&short, &machine).unwrap_err().contains("longer"));
    }

    #[test]
    fn failures_count_in_a_row_and_after_the_grace_time() {
        let one = check(Probe::Tcp(1));
        let mut seen = Seen::new(0);
        let no = || Err("no".to_owned());
        seen.take(&one, no());
        assert_eq!(seen.verdict, Verdict::Unknown);
        seen.take(&one, Ok(()));
        seen.take(&one, no());
        assert_eq!(seen.verdict, Verdict::Well, "one failure is none");
        seen.take(&one, no());
        assert_eq!(seen.verdict, Verdict::Unhealthy("no".into()));
        seen.take(&one, Ok(()));
        assert_eq!(seen.verdict, Verdict::Well);
        let mut patient = Seen::new(0);
        (0..9).for_each(|_| patient.take(&Check { grace_ms: 60_000, ..one.clone() }, no()));
        assert_eq!(patient.verdict, Verdict::Unknown);
    }

    #[test]
    fn one_that_is_unhealthy_is_shown_and_started_again() {
        let machine = Arc::new(Machine::default());
        let source: Arc<dyn Source> = machine.clone();
        let health = Arc::new(Health::default());
        health.begin(vec![Check { restarts: true, ..check(Probe::Command(vec!["5".into()])) }], &source);
        let until = |what: &dyn Fn(&State) -> bool| {
            let begun = Instant::now();
            loop {
                let mut snapshot = machine.snapshot().unwrap();
                health.overlay(&mut snapshot);
                if what(&snapshot.activities[0].state) {
                    return;
                }
                assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", snapshot.activities[0].state);
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        until(&|state| *state == State::Starting);
        until(&|state| matches!(state, State::Unhealthy { why } if why.contains("code 5")));
        until(&|_| !machine.lives.lock().unwrap().is_empty());
        health.begin(vec![], &source);
        until(&|state| *state == State::Running);
    }
}
