//! Programs in zones, or in tenants of one Linux, that are told by HTTP to work beside each other (`experiments/zone_work/work.c`).
//!
//! * Each program is bound to a core of its own. A zone's core is a virtual processor of the emulator, and so is a core of Linux: the CPU time
//!   that the host gave to it, for each operation, is the cost of the operation; a host that is busy stretches the clock, not this.
//! * The answers of a worker are of the time since it was asked last.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use gyre_contract::zones::View;
use gyre_machine_file as file;
use gyre_machine_file::Description;

use super::{program, rig::Rig};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
    load,
    run::{self, Running},
};

/// Until a worker answers, or takes an order.
const START_LIMIT: Duration = Duration::from_secs(90);
const PORT: u16 = 80;

/// A machine with workers.
pub struct Company {
    running: Running,
    workers: Vec<Worker>,
}

struct Worker {
    name: String,
    to: SocketAddr,
    zone: Option<String>,
    core: u16,
}

/// The work of one program in a while.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Work {
    /// Operations.
    pub done: f64,
    /// Time of an operation in the machine, ns: the median, and 99 of 100.
    pub p50_ns: f64,
    pub p99_ns: f64,
    /// CPU time of the virtual processor for each operation, us.
    pub cost_us: f64,
    /// CPU time of all virtual processors for each operation, us.
    pub machine_us: f64,
}

/// CPU time of virtual processors so far, s.
#[derive(Clone, Copy)]
struct Taken {
    core: f64,
    machine: f64,
}

/// No change of a machine.
pub fn as_it_is(_: &mut Description) {}

impl Company {
    /// Boots `experiments/FILE`, with changes, on a kernel, and waits until its workers answer: all tenants whose command is `/work CORE`. In a zone
    /// of one core it is the zone's, as the supervisor says, whatever the command says.
    ///
    /// # Errors
    /// When the machine does not run, or a worker does not answer.
    pub fn start(rig: &Rig, file: &str, on: Kernel, change: &dyn Fn(&mut Description)) -> Result<Self> {
        let path = rig.project.root.join("experiments").join(file);
        let mut description = file::read(&path)?;
        let program = program::compile(&rig.project, "zone_work/work.c")?;
        if let Some(image) = description.images.get_mut("work") {
            image.files.insert("/work".into(), program);
        }
        change(&mut description);
        let mut arguments = rig.arguments(path, on);
        arguments.no_load = true;
        let running = run::start(&rig.project, description, &arguments, &rig.stop)?;
        let mut workers = workers(&running);
        for worker in &workers {
            load::first_page(&running.namespace, worker.to, "/idle", START_LIMIT, || rig.stop.is_set())?;
        }
        if !running.description.zones.is_empty() {
            let views = running.agent.zones()?.zones;
            workers.iter_mut().try_for_each(|worker| worker.find_core(&views))?;
        }
        Ok(Self { running, workers })
    }

    /// Has workers do kinds of work for so long, all others nothing, and tells what each of the former has done, in order.
    ///
    /// # Errors
    /// When one does not answer, or the user ends it.
    pub fn work(&mut self, rig: &Rig, orders: &[(&str, &str)], time: Duration) -> Result<Vec<Work>> {
        for worker in &self.workers {
            let kind = orders.iter().find(|(name, _)| *name == worker.name).map_or("idle", |(_, kind)| kind);
            // An order may be given twice: on a busy host its answer may be late.
            let path = format!("/{kind}");
            load::first_page(&self.running.namespace, worker.to, &path, START_LIMIT, || rig.stop.is_set())?;
        }
        self.pause(rig, time / 4)?;
        let before = self.take(orders)?;
        self.pause(rig, time)?;
        let after = self.take(orders)?;
        Ok(before.into_iter().zip(after).map(|((_, was), (work, is))| work.costs(was, is)).collect())
    }

    /// The work of each since the last time, and the CPU time so far.
    fn take(&self, orders: &[(&str, &str)]) -> Result<Vec<(Work, Taken)>> {
        let of = |(name, _): &(&str, &str)| {
            let worker = self.workers.iter().find(|worker| worker.name == *name);
            let worker = worker.ok_or_else(|| Failure::new(format!("the machine has no worker `{name}`")))?;
            let text = load::text(&self.running.namespace, worker.to, "/take")?;
            let work = Work::parse(&text).ok_or_else(|| Failure::new(format!("`{name}` said: {text}")))?;
            let qemu = &self.running.qemu;
            Ok((work, Taken { core: qemu.core_seconds(worker.core), machine: qemu.processor_seconds() }))
        };
        orders.iter().map(of).collect()
    }

    fn pause(&mut self, rig: &Rig, time: Duration) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            if rig.stop.is_set() {
                return Err(Failure::new("ended by the user"));
            }
            if let Some(status) = self.running.qemu.ended()? {
                return Err(self.running.qemu.unexpected_end(status));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn workers(running: &Running) -> Vec<Worker> {
    let zones = running.description.zones.iter().map(|zone| &zone.machine);
    let machines = std::iter::once(&running.description.machine).chain(zones);
    let tenants = machines.enumerate().flat_map(|(zone, machine)| machine.tenants.iter().map(move |one| (zone, one)));
    let of = |(place, tenant): (usize, &gyre_contract::boot::Tenant)| {
        let [program, core, ..] = tenant.program.as_ref()?.argv.as_slice() else { return None };
        let zone = place.checked_sub(1).and_then(|place| running.description.machine.zones.get(place));
        let zone = zone.map(|zone| zone.name.clone());
        let to = SocketAddr::from((Ipv4Addr::from(tenant.address), PORT));
        (program == "/work").then(|| Some(Worker { name: tenant.name.clone(), to, zone, core: core.parse().ok()? }))?
    };
    tenants.filter_map(of).collect()
}

impl Worker {
    /// Finds the core of its zone: zones that start together take the pool's cores in any order. A hardware id is the number of a virtual processor.
    fn find_core(&mut self, views: &[View]) -> Result<()> {
        let view = views.iter().find(|view| Some(&view.name) == self.zone.as_ref());
        let core = view.and_then(|view| u16::try_from(*view.holds.cores.first()?).ok());
        self.core = core.ok_or_else(|| Failure::new(format!("the zone of `{}` has no core", self.name)))?;
        Ok(())
    }
}

impl Work {
    fn parse(text: &str) -> Option<Self> {
        let words: Option<Vec<f64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let [done, p50_ns, p99_ns, _slowest] = words?[..] else { return None };
        Some(Self { done, p50_ns, p99_ns, ..Self::default() })
    }

    fn costs(self, was: Taken, is: Taken) -> Self {
        let each = |seconds: f64| seconds * 1e6 / self.done;
        Self { cost_us: each(is.core - was.core), machine_us: each(is.machine - was.machine), ..self }
    }
}

/// The value in the middle; not a number if there is none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_costs_its_part_of_the_cores_time() {
        let work = Work::parse("200 1000 3000 9000\n").unwrap();
        let work = work.costs(Taken { core: 1.0, machine: 2.0 }, Taken { core: 1.5, machine: 4.0 });
        assert_eq!((work.done, work.p50_ns, work.p99_ns), (200.0, 1000.0, 3000.0));
        assert_eq!((work.cost_us, work.machine_us), (2500.0, 10_000.0));
        assert!(Work::parse("200 1000").is_none() && Work::parse("a b c d").is_none());
    }

    #[test]
    fn the_median_leaves_out_nothing_but_what_was_not_measured() {
        assert_eq!(median([3.0, f64::NAN, 1.0, 2.0]), 2.0);
        assert!(median([]).is_nan());
    }
}
