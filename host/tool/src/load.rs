//! Clients at the far end of the wire that keep a tenant busy.
//!
//! * [`Clients`] keeps a program of the host (wrk, ab) running for a tenant until it is stopped, and answers what it said last.
//! * [`first_page`], [`one_page`] and [`text`] ask a tenant once. Limits of pages count time that the machine had: what is waited for is
//!   looked for in short steps, so that a pause of the host is one step.
//!
//! The program begins when the tenant answers for the first time; one that gives up is started again. It ends with the tool, however that
//! ends.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use gyre_machine_file::{Load, LoadTool};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    command,
    failure::{Context as _, Failure, Result},
    namespace::Namespace,
    qemu::Span,
};

/// A machine that shares its host may take a while to take a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A page comes within this time that the machine had, or it counts as not served.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long one look for an answer takes: longer ones are pauses of the host.
const LOOK: Duration = Duration::from_millis(500);
/// A text is waited for as long as a busy host may need: who asks for one asks once.
const TEXT_LIMIT: Duration = Duration::from_secs(60);
/// Longer than any run: it ends when we end it.
const FOREVER_S: u32 = 30 * 24 * 3600;

/// Clients of one tenant, in a thread that keeps them alive.
pub struct Clients {
    stop: Arc<AtomicBool>,
    child: Arc<Mutex<Option<u32>>>,
    thread: JoinHandle<String>,
}

impl Clients {
    /// Starts the clients; they begin when the tenant answers for the first time.
    ///
    /// # Errors
    /// When the program is not installed.
    pub fn start(namespace: &Namespace, address: Ipv4Addr, load: &Load) -> Result<Self> {
        let path = command::program(name(load.tool))?.get_program().to_owned();
        let (namespace, load) = (namespace.clone(), load.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let child = Arc::new(Mutex::new(None));
        let (stopped, current) = (stop.clone(), child.clone());
        let run = move || {
            if namespace.enter().is_err() {
                return String::new();
            }
            let mut last = String::new();
            while !stopped.load(Ordering::Relaxed) {
                match spawn(&path, address, &load) {
                    Ok(child) => last = watch(child, &current),
                    Err(_) => return last,
                }
                // A tool that gives up (connection refused) is started again, but not in a spin.
                std::thread::sleep(Duration::from_millis(200));
            }
            last
        };
        let thread = std::thread::Builder::new().name(format!("load {address}")).spawn(run);
        let thread = thread.context(|| "cannot start a thread".into())?;
        Ok(Self { stop, child, thread })
    }

    /// Ends the clients and returns what the tool said last: requests per second, latency.
    pub fn stop(self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        let running = self.child.lock().ok().and_then(|child| *child);
        if let Some(pid) = running.and_then(|pid| i32::try_from(pid).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
        self.thread.join().unwrap_or_default()
    }
}

fn name(tool: LoadTool) -> &'static str {
    match tool {
        LoadTool::Wrk => "wrk",
        LoadTool::Ab => "ab",
    }
}

fn spawn(path: &std::ffi::OsStr, address: Ipv4Addr, load: &Load) -> Result<Child> {
    let url = format!("http://{address}:{}{}", load.port, load.path);
    let connections = load.connections.to_string();
    let mut tool = command::program("setpriv")?;
    tool.args(["--pdeathsig", "KILL", "--"]).arg(path);
    match load.tool {
        LoadTool::Wrk => tool
            .args(["--threads", "1", "--latency", "--timeout", "60s", "--connections", &connections])
            .arg("--duration")
            .arg(FOREVER_S.to_string())
            .args(load.script.iter().flat_map(|script| [std::ffi::OsStr::new("--script"), script.as_os_str()])),
        LoadTool::Ab => tool
            .args(["-q", "-k", "-r", "-s", "60", "-n", "1000000000", "-c", &connections])
            .arg("-t")
            .arg(FOREVER_S.to_string()),
    };
    tool.arg(url).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    tool.spawn().context(|| "cannot start the clients".into())
}

fn watch(mut child: Child, current: &Mutex<Option<u32>>) -> String {
    let set = |pid| {
        if let Ok(mut current) = current.lock() {
            *current = pid;
        }
    };
    set(Some(child.id()));
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        let _ = stdout.read_to_string(&mut said);
    }
    let _ = child.wait();
    set(None);
    said
}

/// Waits until a tenant answers a request for a page, and returns how long that took. The limit counts time that the machine had.
///
/// # Errors
/// When it does not answer in time, or `gone` says that the machine has ended.
pub fn first_page(
    namespace: &Namespace,
    to: SocketAddr,
    path: &str,
    limit: Duration,
    gone: impl Fn() -> bool,
) -> Result<Duration> {
    let (started, mut span) = (Instant::now(), Span::of_own());
    while span.passed() < limit && !gone() {
        if page(namespace, to, path).is_ok() {
            return Ok(started.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Failure::new(format!("{to} did not serve {path} within {} s", limit.as_secs())))
}

/// Asks a tenant for a page once, and returns how long the answer took.
///
/// # Errors
/// When it does not answer, or answers otherwise.
pub fn one_page(namespace: &Namespace, to: SocketAddr, path: &str) -> Result<Duration> {
    let started = Instant::now();
    page(namespace, to, path).context(|| format!("{to} did not serve {path}"))?;
    Ok(started.elapsed())
}

fn page(namespace: &Namespace, to: SocketAddr, path: &str) -> std::io::Result<()> {
    let (mut status, mut span) = ([0; 12], Span::of_own());
    let mut answer = request(namespace, to, path, LOOK)?;
    let mut came = 0;
    while let Some(rest) = status.get_mut(came..).filter(|rest| !rest.is_empty()) {
        match answer.read(rest) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => came += bytes,
            Err(error) if is_early(&error) && span.passed() < ANSWER_LIMIT => {}
            Err(error) => return Err(error),
        }
    }
    is_good(&status)
}

/// True if nothing has come within one look, or a signal came.
fn is_early(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Asks a tenant once, and returns the text of its answer.
///
/// # Errors
/// When it does not answer, or answers otherwise.
pub fn text(namespace: &Namespace, to: SocketAddr, path: &str) -> Result<String> {
    let ask = || {
        let mut answer = String::new();
        request(namespace, to, path, TEXT_LIMIT)?.read_to_string(&mut answer)?;
        is_good(answer.as_bytes())?;
        Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    };
    std::io::Result::<String>::context(ask(), || format!("{to} did not answer {path}"))
}

/// Sends a request in one piece: small servers read once.
fn request(namespace: &Namespace, to: SocketAddr, path: &str, limit: Duration) -> std::io::Result<TcpStream> {
    let mut stream = namespace.connect(to, CONNECT_LIMIT)?;
    stream.set_read_timeout(Some(limit))?;
    let words = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", to.ip());
    stream.write_all(words.as_bytes())?;
    Ok(stream)
}

fn is_good(answer: &[u8]) -> std::io::Result<()> {
    if answer.get(8..12) == Some(b" 200") { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

/// Describes how a tool would be called, for `gyre check`.
pub fn describe(load: &Load) -> String {
    format!("{} with {} connections to {}", name(load.tool), load.connections, load.path)
}
