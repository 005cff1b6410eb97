//! A tenant that streams through ten times the memory: what its neighbours' caches and answers are like, here and on Linux.

use std::{
    any::Any,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gyre_config::boot::Machine;

use super::{
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is},
};
use crate::{
    cli::Kernel,
    failure::{Context as _, Result},
    namespace::Namespace,
    run::Running,
};

const NEIGHBOURS: [&str; 2] = ["gold", "silver"];
const CONNECTIONS: u32 = 2;
/// Bytes of the file that each neighbour serves, and of one request.
const SET_BYTES: u64 = 12 << 20;
const REQUEST_BYTES: u64 = 32 << 10;
/// Between an answer and the next request.
const PAUSE: Duration = Duration::from_millis(3);
const STREAM: &str = "dd if=/dev/zero of=/srv/stream bs=1M count=1 seek=2560 2>/dev/null; \
    while :; do dd if=/srv/stream of=/dev/null bs=64k 2>/dev/null; done";
const WARM_UP_SECONDS: u32 = 20;
const SECONDS: u32 = 15;
const RATIO_MAX: f64 = 1.05;

/// When a request was sent, and how long its answer took.
type Answer = (Instant, Duration);

/// Clients of the neighbours; they end when dropped.
struct Clients {
    stop: Arc<AtomicBool>,
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What the neighbours had in one run.
#[derive(Clone, Copy)]
struct Outcome {
    p99_ms: f64,
    hit_percent: f64,
    answers: usize,
}

/// Adversary nr. 6: a stream beside working sets.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report =
        Report::new("memory", "A stream through ten times the memory, beside Linux with memory.low and memory.high");
    let mut outcomes = vec![];
    for on in [Kernel::Linux, Kernel::Gyre] {
        for streams in [false, true] {
            outcomes.push(measure(rig, on, streams)?);
        }
    }
    let [linux, linux_streamed, gyre, gyre_streamed] = outcomes[..] else { return Ok(report) };
    let ms = |outcome: Outcome| format!("{:.2} ms", outcome.p99_ms);
    let hits = |outcome: Outcome| format!("{:.2} %", outcome.hit_percent);
    let ratio = |before: Outcome, after: Outcome| after.p99_ms / before.p99_ms.max(0.001);
    let ours = ratio(gyre, gyre_streamed);
    let lost = gyre.hit_percent - gyre_streamed.hit_percent;
    report.figures.extend([
        Figure::new("neighbours' hits, bronze reads a small file", hits(linux), hits(gyre)),
        Figure::new("neighbours' hits, bronze streams", hits(linux_streamed), hits(gyre_streamed))
            .goal("no fewer (0.1 points)", lost <= 0.1),
        Figure::new("neighbours' p99, bronze reads a small file", ms(linux), ms(gyre)),
        Figure::new("neighbours' p99, bronze streams", ms(linux_streamed), ms(gyre_streamed)),
        Figure::new("p99, times", format!("{:.2}", ratio(linux, linux_streamed)), format!("{ours:.2}"))
            .goal(format!("<= {RATIO_MAX}"), ours <= RATIO_MAX),
    ]);
    let group = |name: &str, before: Outcome, after: Outcome| Group {
        name: name.into(),
        values: vec![before.p99_ms, after.p99_ms],
    };
    let groups = [group("Linux", linux, linux_streamed), group("Gyre", gyre, gyre_streamed)];
    report.plots.push((
        "memory.svg".into(),
        plot::bars("p99 of the neighbours' answers", " ms", &["bronze reads a small file", "bronze streams"], &groups),
    ));
    report.notes.push(format!(
        "One core, 256 MiB; gold and silver serve random 32 KiB of 12 MiB each to {CONNECTIONS} connections with pauses of {} ms; bronze reads 4 MiB over and \
         over, or 2.5 GiB (a hole: no disk is involved); Linux: Debian's cloud kernel, memory.low by reservation, memory.high a sixteenth below \
         memory.max; answers measured: {}, {}, {}, {}.",
        PAUSE.as_millis(),
        linux.answers, linux_streamed.answers, gyre.answers, gyre_streamed.answers
    ));
    Ok(report)
}

fn measure(rig: &Rig, on: Kernel, streams: bool) -> Result<Outcome> {
    let answers: Arc<Mutex<Vec<Answer>>> = Arc::default();
    let besides = |running: &Running| -> Result<Option<Box<dyn Any>>> {
        Ok(Some(Box::new(start(&running.namespace, &running.description.machine, &answers)?)))
    };
    let change = |machine: &mut Machine| {
        let program = machine.tenants.iter_mut().find(|tenant| tenant.name == "bronze");
        if let Some(command) = program.and_then(|tenant| tenant.program.as_mut()).filter(|_| streams) {
            command.argv = ["/bin/busybox", "sh", "-c", STREAM].map(String::from).into();
        }
    };
    let change: &dyn Fn(&mut Machine) = if streams { &change } else { &as_it_is };
    let plan = Plan { file: "memory.toml", on, warm_up: WARM_UP_SECONDS, seconds: SECONDS, change, besides: &besides };
    let begun = Instant::now();
    let measured = rig.measure(&plan)?;
    let window = Duration::from_nanos(measured.window.uptime_ns);
    let end = Instant::now();
    let from = end.checked_sub(window).unwrap_or(begun);
    let answers = answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut times: Vec<Duration> = answers.iter().filter(|(at, _)| *at >= from).map(|(_, took)| *took).collect();
    times.sort();
    let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    let read: u64 = measured
        .window
        .activities
        .iter()
        .filter(|activity| NEIGHBOURS.contains(&activity.name.as_str()))
        .map(|activity| activity.read_bytes)
        .sum();
    let served = times.len() as u64 * REQUEST_BYTES;
    let hit_percent = 100.0 - read as f64 * 100.0 / served.max(1) as f64;
    Ok(Outcome { p99_ms: p99.as_secs_f64() * 1e3, hit_percent, answers: times.len() })
}

/// Starts the clients; each reads its part of the file once first, so that it is in the cache.
fn start(namespace: &Namespace, machine: &Machine, answers: &Arc<Mutex<Vec<Answer>>>) -> Result<Clients> {
    let stop = Arc::new(AtomicBool::new(false));
    let neighbours = machine.tenants.iter().filter(|tenant| NEIGHBOURS.contains(&tenant.name.as_str()));
    for (seed, (tenant, _)) in
        neighbours.flat_map(|tenant| (0..CONNECTIONS).map(move |index| (tenant, index))).enumerate()
    {
        let to = SocketAddr::from((Ipv4Addr::from(tenant.address), 80));
        let (namespace, stop, answers) = (namespace.clone(), stop.clone(), answers.clone());
        let client = move || {
            // Who is refused while the server starts tries again; the measurement begins later.
            while !stop.load(Ordering::Relaxed) {
                let _ = namespace
                    .connect(to, Duration::from_secs(5))
                    .and_then(|stream| ask(stream, seed as u64 + 1, &stop, &answers));
                std::thread::sleep(Duration::from_millis(200));
            }
        };
        std::thread::Builder::new().name("client".into()).spawn(client).context(|| "cannot start a client".into())?;
    }
    Ok(Clients { stop })
}

fn ask(mut stream: TcpStream, seed: u64, stop: &AtomicBool, answers: &Mutex<Vec<Answer>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let parts = SET_BYTES / REQUEST_BYTES;
    for part in (seed % u64::from(CONNECTIONS)..parts).step_by(CONNECTIONS as usize) {
        request(&mut stream, part)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    let mut random = seed;
    while !stop.load(Ordering::Relaxed) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sent = Instant::now();
        request(&mut stream, (random >> 33) % parts)?;
        let took = sent.elapsed();
        answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((sent, took));
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Asks for one part of the file and reads the whole answer.
fn request(stream: &mut TcpStream, part: u64) -> std::io::Result<()> {
    let (first, last) = (part * REQUEST_BYTES, (part + 1) * REQUEST_BYTES - 1);
    write!(stream, "GET /set HTTP/1.1\r\nHost: x\r\nRange: bytes={first}-{last}\r\n\r\n")?;
    let mut buffer = vec![0; 64 << 10];
    let mut filled = 0;
    let head = loop {
        let count = stream.read(buffer.get_mut(filled..).unwrap_or_default())?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
        let so_far = buffer.get(..filled).unwrap_or_default();
        if let Some(at) = so_far.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    if !buffer.starts_with(b"HTTP/1.1 206") {
        return Err(std::io::Error::other("no part of the file was answered"));
    }
    let mut left = REQUEST_BYTES.saturating_sub((filled - head) as u64);
    while left > 0 {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(count as u64);
    }
    Ok(())
}
