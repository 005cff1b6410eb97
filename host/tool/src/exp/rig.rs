//! Machines for experiments: booted, warmed up, measured second by second.
//!
//! Protocol of use: an experiment's `run` gets a [`Rig`], describes one machine by a [`Plan`], and calls
//! [`Rig::measure`]. That boots the file in `experiments/`, starts the clients, waits for the warm-up, samples each
//! second, and answers [`Measured`]. The machine ends when that returns.
//!
//! * The user's choices (seconds, seed, count, kernel) are in the rig and go before the experiment's own.
//! * Figures of the machine are the difference of two snapshots, so warm-up is in none of them.
//! * `host_cpu_percent` is QEMU's use of the host as a whole, `processors` that of its virtual processors alone.
//! * An agent that is silent is asked again each second; after [`AGENT_TRIES`] the experiment fails and says why.
//! * Ctrl-C, and a QEMU that ends, end each wait at once.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use gyre_contract::{bill::Bill, boot::Machine, monitor::Snapshot};
use gyre_machine_file as file;
use gyre_machine_file::Description;

use crate::{
    cli,
    failure::{Failure, Kind, Result},
    project::Project,
    run::{self, Running},
    stop::Stop,
    ui::Step,
    view::{Sample, Sampler, sample::Tenant},
};

/// How often the agent is asked before an experiment gives up, a second apart.
const AGENT_TRIES: u32 = 20;

/// The place of experiments: folders, and the user's choices.
pub struct Rig {
    /// The source tree.
    pub project: Project,
    /// Ctrl-C.
    pub stop: Stop,
    /// Seconds of measurement, if the user chose them.
    pub seconds: Option<u32>,
    /// The random generator's first number, if the user chose it.
    pub seed: Option<u64>,
    /// Crashes and the like, if the user chose their number.
    pub count: Option<u32>,
    /// The only one of an experiment's programs, if the user chose it.
    pub only: Option<String>,
    /// The other kernel, for experiments that can do without it.
    pub beside: Beside,
    /// The kernel, if the user chose one.
    pub kernel: Option<PathBuf>,
}

/// The kernel beside this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// Linux in the same emulator.
    Linux,
    /// None: work is checked, not compared.
    Nothing,
}

/// The results of a measurement.
pub struct Measured {
    /// One sample for each second, warm-up left out.
    pub samples: Vec<Sample>,
    /// The events in the machine between the first and the last sample.
    pub window: Snapshot,
    /// From QEMU's start to the first page.
    pub first_page: Option<Duration>,
    /// The words of each tenant's load tool at its end, by tenant.
    pub clients: Vec<(String, String)>,
    /// QEMU's use of one host core, in percent.
    pub host_cpu_percent: f64,
    /// The part of it that QEMU's virtual processors used, seconds of host CPU time in each second.
    pub processors: f64,
}

impl Measured {
    /// Returns the bill of the measured time only.
    pub fn bill(&self) -> Bill {
        Bill::of(&self.window)
    }

    /// Returns each customer's share in each second: (name, entitled percent, percents). Seconds without any figure are left out: they
    /// say that the agent did not answer, not that no tenant got anything.
    pub fn shares(&self, value: impl Fn(&Tenant) -> f64) -> Vec<(String, f64, Vec<f64>)> {
        let Some(last) = self.samples.last() else { return vec![] };
        let own = |sample: &Sample, name: &str| {
            let customers = || sample.tenants.iter().filter(|tenant| tenant.entitled_percent > 0.0);
            let sum: f64 = customers().map(&value).sum();
            let own = customers().find(|tenant| tenant.name == name).map_or(0.0, &value);
            (sum > 0.0).then(|| own * 100.0 / sum)
        };
        let customers = last.tenants.iter().filter(|tenant| tenant.entitled_percent > 0.0);
        let percents = |name: &str| self.samples.iter().filter_map(|sample| own(sample, name)).collect();
        customers.map(|tenant| (tenant.name.clone(), tenant.entitled_percent, percents(&tenant.name))).collect()
    }
}

/// One machine to measure.
pub struct Plan<'a> {
    /// The machine file in `experiments/`.
    pub file: &'a str,
    /// The kernel under the tenants.
    pub on: cli::Kernel,
    /// Seconds that are not measured.
    pub warm_up: u32,
    /// Seconds that are measured, unless the user chose others.
    pub seconds: u32,
    /// Changes to the machine.
    pub change: &'a dyn Fn(&mut Machine),
    /// The work that goes on beside the measurement; it ends when dropped.
    pub besides: &'a dyn Fn(&Running) -> Result<Option<Box<dyn std::any::Any>>>,
}

/// No change.
pub fn as_it_is(_: &mut Machine) {}

/// Nothing besides.
pub fn nothing(_: &Running) -> Result<Option<Box<dyn std::any::Any>>> {
    Ok(None)
}

impl Rig {
    /// How a machine file is run for an experiment.
    pub fn arguments(&self, file: PathBuf, on: cli::Kernel) -> cli::Run {
        cli::Run { kernel: self.kernel.clone(), ..arguments(file, on) }
    }

    /// Boots a machine, lets it warm up, and measures it.
    ///
    /// # Errors
    /// When it does not boot, its agent does not answer, or the user ends it.
    pub fn measure(&self, plan: &Plan) -> Result<Measured> {
        self.measure_prepared(plan, &|_| {})
    }

    /// Measures like [`Rig::measure`], with changes to the host's work for the tenants.
    ///
    /// # Errors
    /// As [`Rig::measure`].
    pub fn measure_prepared(&self, plan: &Plan, prepare: &dyn Fn(&mut Description)) -> Result<Measured> {
        let path: PathBuf = self.project.root.join("experiments").join(plan.file);
        let mut description = file::read(&path)?;
        (plan.change)(&mut description.machine);
        prepare(&mut description);
        let arguments = self.arguments(path, plan.on);
        let mut running = run::start(&self.project, description, &arguments, &self.stop)?;
        let _besides = (plan.besides)(&running)?;
        let seconds = self.seconds.unwrap_or(plan.seconds);
        let step = Step::start(format!("measuring {} on {:?}", plan.file.trim_end_matches(".toml"), plan.on));
        self.wait(&mut running, plan.warm_up, &step)?;
        let before = self.snapshot(&mut running, &step)?;
        let sampler = Sampler::start(run::sources(&running))?;
        let (started, cpu) = (Instant::now(), running.qemu.cpu_seconds());
        let processors = running.qemu.processor_seconds();
        self.wait(&mut running, seconds, &step)?;
        let host_cpu_percent = (running.qemu.cpu_seconds() - cpu) * 100.0 / started.elapsed().as_secs_f64();
        let processors = (running.qemu.processor_seconds() - processors) / started.elapsed().as_secs_f64();
        let after = self.snapshot(&mut running, &step)?;
        step.done();
        Ok(Measured {
            samples: sampler.history(),
            window: after.since(&before),
            first_page: running.first_page,
            clients: running.stop_clients(),
            host_cpu_percent,
            processors,
        })
    }

    /// Waits for the agent: on a machine that computes on every core it may take a while to come up, or to answer.
    fn snapshot(&self, running: &mut Running, step: &Step) -> Result<Snapshot> {
        for _ in 0..AGENT_TRIES {
            if let Ok(snapshot) = running.agent.snapshot() {
                return Ok(snapshot);
            }
            self.wait(running, 1, step)?;
        }
        running.agent.snapshot().map_err(|failure| silent(&failure, &running.qemu.report()))
    }

    fn wait(&self, running: &mut Running, seconds: u32, step: &Step) -> Result<()> {
        let started = Instant::now();
        let limit = Duration::from_secs(seconds.into());
        while started.elapsed() < limit {
            if self.stop.is_set() {
                return Err(Failure::new("ended by the user"));
            }
            if let Some(status) = running.qemu.ended()? {
                return Err(running.qemu.unexpected_end(status));
            }
            step.detail(&format!("{} of {seconds} s", started.elapsed().as_secs()));
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Says that a machine's agent is silent, and in the machine's own words what it does meanwhile.
fn silent(failure: &Failure, report: &str) -> Failure {
    let help = "without the agent's figures there is nothing to measure; the console's log is in .gyre/run";
    let help = format!("{help}\n{report}");
    Failure::with_help(format!("the machine runs, but {}", failure.report), help).kind(Kind::Machine)
}

fn arguments(file: PathBuf, on: cli::Kernel) -> cli::Run {
    cli::Run {
        file,
        duration: None,
        on,
        kernel: None,
        cores: None,
        pcap: None,
        no_load: false,
        console: false,
        page: 0,
        metrics: None,
        metrics_token: None,
        qemu: vec![],
        append: String::new(),
        json: false,
        record: false,
        patience: Duration::ZERO,
        small_disk: false,
        fresh: true,
        pull: false,
        keep: false,
        ports: vec![],
        detach: false,
    }
}
