//! A packet flood at one tenant: what its neighbours keep, here and on Linux with control groups.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gyre_config::boot::Machine;

use super::{
    note,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is, nothing},
    shares::mean,
};
use crate::{
    cli::Kernel,
    failure::{Context as _, Failure, Result},
    namespace::Namespace,
    run::Running,
};

const PACKETS_PER_SECOND: u32 = 10_000;
/// 18 bytes of UDP make the smallest Ethernet frame: 64 bytes with its checksum.
const PAYLOAD: [u8; 18] = [0; 18];
/// The discard port: closed in every tenant.
const PORT: u16 = 9;
const VICTIM: &str = "bronze";

/// A thread that floods until it is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    started: Instant,
}

impl Flood {
    fn start(namespace: &Namespace, to: SocketAddr) -> Result<Self> {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, count, namespace) = (stop.clone(), sent.clone(), namespace.clone());
        let run = move || {
            let Ok(socket) = namespace.enter().and_then(|()| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))) else {
                return;
            };
            let mut due = Instant::now();
            while !ended.load(Ordering::Relaxed) {
                // The answer "port unreachable" comes back as an error of a later send: not our concern.
                let _ = socket.send_to(&PAYLOAD, to);
                count.fetch_add(1, Ordering::Relaxed);
                due += Duration::from_secs(1) / PACKETS_PER_SECOND;
                let ahead = due.saturating_duration_since(Instant::now());
                if ahead > Duration::from_millis(1) {
                    std::thread::sleep(ahead);
                }
            }
        };
        std::thread::Builder::new().name("flood".into()).spawn(run).context(|| "cannot start the flood".into())?;
        Ok(Self { stop, sent, started: Instant::now() })
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let rate = self.sent.load(Ordering::Relaxed) as f64 / self.started.elapsed().as_secs_f64();
        note(&format!("the flood had {rate:.0} packets a second"));
    }
}

/// Adversary nr. 1: UDP at a closed port of bronze.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = Report::new("flood", "A packet flood at a neighbour, beside Linux with control groups");
    let mut groups = vec![];
    let mut gold = vec![];
    for (on, name) in [(Kernel::Linux, "Linux"), (Kernel::Gyre, "Gyre")] {
        for flooded in [false, true] {
            let shares = match measure(rig, on, flooded) {
                Ok(shares) => shares,
                // Linux's side stands alone while our kernel cannot run the web servers.
                Err(failure) if on == Kernel::Gyre && !rig.stop.is_set() => {
                    report.failure = Some(format!("on Gyre: {}", failure.report));
                    break;
                }
                Err(failure) => return Err(failure),
            };
            let case = if flooded { "flooded" } else { "alone" };
            gold.push((on, flooded, shares.first().map_or(0.0, |(_, share)| *share)));
            groups.push(Group {
                name: format!("{name} {case}"),
                values: shares.iter().map(|(_, share)| *share).collect(),
            });
        }
    }
    let of = |on, flooded| {
        gold.iter().find(|(kernel, case, _)| *kernel == on && *case == flooded).map(|(_, _, share)| *share)
    };
    let part = |what: &str, flooded| {
        let [gyre, linux] = [Kernel::Gyre, Kernel::Linux].map(|on| of(on, flooded).unwrap_or(f64::NAN));
        Figure::new(what, gyre, 1, "%").linux(linux)
    };
    let alone = part("gold's bytes, nobody flooded", false);
    let flooded = part("gold's bytes, bronze flooded", true);
    let kept = of(Kernel::Gyre, true).is_some_and(|share| share >= 48.0);
    report.figures.extend([alone, flooded.goal(">= 48 %", kept)]);
    let title = "Part of the bytes served, entitled 50 / 33 / 17";
    report.plot("flood.svg", plot::bars(title, " %", &["gold", "silver", "bronze"], &groups));
    report.notes.push(format!("{PACKETS_PER_SECOND} UDP packets of 64 bytes a second to a closed port of bronze; one core, 4 KiB pages, 16 connections each; Linux: Debian's cloud kernel, cpu.weight by share, same images, same emulator."));
    Ok(report)
}

/// Mean parts of the bytes served, in the order of the tenants.
fn measure(rig: &Rig, on: Kernel, flooded: bool) -> Result<Vec<(String, f64)>> {
    let start = |running: &Running| -> Result<Option<Box<dyn std::any::Any>>> {
        let flood = Flood::start(&running.namespace, victim(&running.description.machine)?)?;
        Ok(Some(Box::new(flood)))
    };
    let besides: &dyn Fn(&Running) -> Result<Option<Box<dyn std::any::Any>>> = if flooded { &start } else { &nothing };
    let plan = Plan { file: "flood.toml", on, warm_up: 3, seconds: 15, change: &as_it_is, besides };
    let shares = rig.measure(&plan)?.shares(|tenant| tenant.sent_bits_per_second);
    Ok(shares.into_iter().map(|(name, _, percents)| (name, mean(&percents))).collect())
}

fn victim(machine: &Machine) -> Result<SocketAddr> {
    let tenant = machine.tenants.iter().find(|tenant| tenant.name == VICTIM);
    let tenant = tenant.ok_or_else(|| Failure::new(format!("the machine has no tenant `{VICTIM}`")))?;
    Ok(SocketAddr::from((Ipv4Addr::from(tenant.address), PORT)))
}
