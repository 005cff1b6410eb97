//! Who gets what of a shared disk: bytes in proportion to shares, and syncs beside a neighbour that storms.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use gyre_config::{boot::Machine, file};

use super::{
    note,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is, nothing},
};
use crate::{
    cli::Kernel,
    failure::{Context as _, Failure, Result},
    namespace::Namespace,
    run::Running,
};

/// Figs 15 and 16.
///
/// # Errors
/// When the machine does not run.
pub fn shares(rig: &Rig) -> Result<Report> {
    const FILE: &str = "disk-shares.toml";
    let plan = Plan { file: FILE, on: Kernel::Gyre, warm_up: 8, seconds: 30, change: &as_it_is, besides: &nothing };
    let bill = rig.measure(&plan)?.bill();
    let description = file::read(&rig.project.root.join("experiments").join(FILE))?;
    let rate = description.disk.and_then(|disk| disk.rate_bytes_per_second).unwrap_or(u64::MAX);
    let mut report = Report::new("disk-shares", "Three readers of a throttled disk (Figs 15, 16)");
    let customers: Vec<_> = bill.tenants.iter().filter(|line| line.tenant != "system").collect();
    let total: u64 = customers.iter().map(|line| line.read_bytes).sum();
    let all: u32 = customers.iter().map(|line| line.share).sum();
    let mut worst: f64 = 0.0;
    for line in &customers {
        let entitled = f64::from(line.share) * 100.0 / f64::from(all.max(1));
        let own = line.read_bytes as f64 * 100.0 / total.max(1) as f64;
        worst = worst.max((own - entitled).abs());
        let figure =
            Figure::new(format!("bytes of {}", line.tenant), format!("{entitled:.0} %"), format!("{own:.2} %"));
        report.figures.push(figure);
    }
    let used = total as f64 * 100.0 / (rate as f64 * bill.period_ns as f64 / 1e9);
    report.figures.extend([
        Figure::new("largest deviation", "\"in strict accordance\"", format!("{worst:.2} points"))
            .goal("<= 1 point", worst <= 1.0 && total > 0),
        Figure::new("disk used", "close to its maximum", format!("{used:.1} %")).goal(">= 95 %", used >= 95.0),
    ]);
    let cycles = bill.machine_cycles.max(1) as f64 / 100.0;
    let parts = customers.iter().map(|line| (line.tenant.clone(), line.cycles));
    let others = [
        ("infrastructure", bill.infrastructure_cycles),
        ("scheduling", bill.scheduling_cycles),
        ("interrupts", bill.interrupt_cycles),
        ("idle", bill.idle_cycles),
    ];
    for (name, part) in parts.chain(others.map(|(name, part)| (name.to_owned(), part))) {
        report.figures.push(Figure::new(format!("CPU: {name}"), "", format!("{:.1} %", part as f64 / cycles)));
    }
    report.notes.push(format!(
        "One virtio disk of {:.1} MB/s (throttled by the emulator) with a partition for each tenant; eight readers each, files of 2 MiB, more than the cache holds; {:.0} s.",
        rate as f64 / 1e6,
        bill.period_ns as f64 / 1e9
    ));
    Ok(report)
}

const VICTIM: &str = "victim";
const STORM: &str = "storm";

/// Adversary nr. 3: a neighbour that syncs without pause.
///
/// # Errors
/// When a machine does not run.
pub fn storm(rig: &Rig) -> Result<Report> {
    let mut report = Report::new("fsync-storm", "Syncs beside a neighbour that storms the disk");
    let mut groups = vec![];
    let mut ratios = vec![];
    for (on, name) in [(Kernel::Gyre, "Gyre"), (Kernel::Linux, "Linux")] {
        let alone = latencies(rig, on, false)?;
        let beside = latencies(rig, on, true)?;
        for (case, times) in [("alone", &alone), ("beside", &beside)] {
            note(&format!(
                "{name} {case}: {} syncs, p50 {:.1} ms, p99 {:.1} ms",
                times.len(),
                at(times, 50),
                at(times, 99)
            ));
            groups.push(Group { name: format!("{name} {case}"), values: vec![at(times, 50), at(times, 99)] });
        }
        let ratio = |percent| at(&beside, percent) / at(&alone, percent).max(0.001);
        ratios.push((alone.len().min(beside.len()), ratio(50), ratio(99)));
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
    }
    let [(count, median, tail), (_, linux_median, linux_tail)] = ratios[..] else {
        return Err(Failure::new("there are not two kernels"));
    };
    report.figures.extend([
        Figure::new(
            "median of the victim's syncs, beside / alone",
            format!("{linux_median:.2}"),
            format!("{median:.2}"),
        ),
        Figure::new("p99 of the victim's syncs, beside / alone", format!("{linux_tail:.2}"), format!("{tail:.2}"))
            .goal("<= 1.1", tail <= 1.1 && count >= 50),
        Figure::new("syncs measured, at least", "", count.to_string()),
    ]);
    for group in &groups {
        let values = group.values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(" / ");
        report.figures.push(Figure::new(format!("{}: p50 / p99, ms", group.name), "", values));
    }
    report.plots.push((
        "fsync-storm.svg".into(),
        plot::bars("The victim's fsync of one appended page", " ms", &["p50", "p99"], &groups),
    ));
    report.notes.push("Both tenants' file systems are partitions of one virtio disk of 400 requests a second; the storm is limited to 150 of them by the machine file. Linux: Debian's cloud kernel, same images and disk, cpu.weight; no io.max.".into());
    Ok(report)
}

/// The victim's times, ms, in order.
fn latencies(rig: &Rig, on: Kernel, storms: bool) -> Result<Vec<f64>> {
    let change = |machine: &mut Machine| {
        for tenant in machine.tenants.iter_mut().filter(|tenant| storms && tenant.name == STORM) {
            let command = ["/bin/busybox", "sh", "/srv/storm.sh"];
            tenant.program.iter_mut().for_each(|program| program.argv = command.map(str::to_owned).to_vec());
        }
    };
    let found = std::sync::Arc::new(std::sync::Mutex::new((0, vec![])));
    let shared = found.clone();
    let watch = move |running: &Running| -> Result<Option<Box<dyn std::any::Any>>> {
        let victim = running.description.machine.tenants.iter().find(|tenant| tenant.name == VICTIM);
        let address = victim.ok_or_else(|| Failure::new("there is no victim"))?.address;
        Ok(Some(Box::new(Reader {
            namespace: running.namespace.clone(),
            to: SocketAddr::from((Ipv4Addr::from(address), 80)),
            found: shared.clone(),
        })))
    };
    let plan = Plan { file: "fsync-storm.toml", on, warm_up: 5, seconds: 60, change: &change, besides: &watch };
    rig.measure(&plan)?;
    let mut times = found.lock().map(|found| found.1.clone()).unwrap_or_default();
    if times.is_empty() {
        return Err(Failure::new(format!("the victim on {on:?} told nothing")));
    }
    // The first ones fall into the start of the machine.
    times.drain(..times.len().min(10));
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0)
}

/// Asks the victim at its end, while the machine still runs.
struct Reader {
    namespace: Namespace,
    to: SocketAddr,
    found: std::sync::Arc<std::sync::Mutex<(usize, Vec<f64>)>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let (namespace, to) = (self.namespace.clone(), self.to);
        let fetched = std::thread::spawn(move || fetch(&namespace, to)).join();
        if let (Ok(Ok(text)), Ok(mut found)) = (fetched, self.found.lock()) {
            found.1 = text.lines().filter_map(milliseconds).collect();
        }
    }
}

fn fetch(namespace: &Namespace, to: SocketAddr) -> Result<String> {
    let failed = || "cannot ask the victim".to_owned();
    namespace.enter().context(failed)?;
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(10)).context(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).context(failed)?;
    stream.write_all(b"GET /latencies HTTP/1.0\r\n\r\n").context(failed)?;
    let mut text = vec![];
    let _ = stream.read_to_end(&mut text);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// From dd's last line: "4096 bytes (4.0KB) copied, 0.004563 seconds, 876.6KB/s".
fn milliseconds(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("copied, ")?;
    let (seconds, _) = rest.split_once(" s")?;
    seconds.parse::<f64>().ok().map(|seconds| seconds * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_sync_is_read_from_what_dd_says() {
        assert_eq!(milliseconds("4096 bytes (4.0KB) copied, 0.004500 seconds, 876.6KB/s"), Some(4.5));
        assert_eq!(milliseconds("1+0 records in"), None);
    }

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!((at(&values, 50), at(&values, 99), at(&[], 99)), (49.0, 98.0, 0.0));
    }
}
