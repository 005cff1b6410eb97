//! A victim that faults 128 MiB over and over beside a hog that streams through a file of twice the memory: one kernel, two zones, and Linux
//! without and with `memory.high`.
//!
//! Each has a core of its own. Calm is a neighbour that only computes, so that the host is as busy as beside the hog: the ratio is that of the
//! memory. Published for two Linux kernels on one machine: p99 35.6 s on one kernel, 91 ms with `memory.high`, and the hog starved, 232 ms on two
//! kernels.

use std::time::Duration;

use gyre_machine_file::Description;

use super::{
    company::{Company, Work, as_it_is, median},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, ui::Step};

const VICTIM: &str = "victim";
const HOG: &str = "hog";
const ROUNDS: u32 = 3;
const WINDOW: Duration = Duration::from_secs(6);
const TAIL_GOAL: f64 = 1.05;
const HOG_GOAL: f64 = 0.9;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "stutter",
    title: "A victim that faults beside a memory hog",
    paper: "",
    shows: "A hog of memory neither stops its neighbour nor is stopped itself.",
    run,
};

/// One machine's ratios, medians over rounds: beside the other, divided by beside one who computes.
#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Of the victim: slowest of 99 in 100 times that it faults 128 MiB; their median; their CPU time.
    tail: f64,
    usual: f64,
    cost: f64,
    /// The time itself beside the hog, ms.
    tail_ms: f64,
    /// Of the hog: its rate.
    hog: f64,
}

/// Measures four machines.
///
/// # Errors
/// When one does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let plain = measure(rig, "stutter.toml", Kernel::Linux, &without_limits)?;
    let high = measure(rig, "stutter.toml", Kernel::Linux, &as_it_is)?;
    let one = measure(rig, "stutter.toml", Kernel::Gyre, &as_it_is)?;
    let two = measure(rig, "stutter-zones.toml", Kernel::Gyre, &as_it_is)?;
    Ok(report([one, two], [plain, high]))
}

/// Takes the limits of memory away: the machine's memory is for all.
fn without_limits(description: &mut Description) {
    let all = description.machine.memory_bytes;
    for tenant in &mut description.machine.tenants {
        tenant.limits.memory_bytes = all;
        tenant.limits.memory_reservation_bytes = 0;
    }
}

fn measure(rig: &Rig, file: &str, on: Kernel, change: &dyn Fn(&mut Description)) -> Result<Outcome> {
    let mut company = Company::start(rig, file, on, change)?;
    let step = Step::start(format!("a victim beside a hog on {on:?} ({})", file.trim_end_matches(".toml")));
    let mut rounds = vec![];
    // The first round fills the cache.
    for number in 0..=rig.count.unwrap_or(ROUNDS) {
        step.detail(&format!("round {number}"));
        let round = round(rig, &mut company)?;
        rounds.extend((number > 0).then_some(round));
    }
    step.done();
    let of = |value: fn(&Outcome) -> f64| median(rounds.iter().map(value));
    Ok(Outcome {
        tail: of(|one| one.tail),
        usual: of(|one| one.usual),
        cost: of(|one| one.cost),
        tail_ms: of(|one| one.tail_ms),
        hog: of(|one| one.hog),
    })
}

fn round(rig: &Rig, company: &mut Company) -> Result<Outcome> {
    let mut works = |victim: &str, hog: &str| -> Result<[Work; 2]> {
        let works = company.work(rig, &[(VICTIM, victim), (HOG, hog)], WINDOW)?;
        Ok([works.first().copied().unwrap_or_default(), works.get(1).copied().unwrap_or_default()])
    };
    let [calm, _] = works("large", "compute")?;
    let [beside, hog] = works("large", "hog")?;
    let [_, hog_calm] = works("compute", "hog")?;
    Ok(Outcome {
        tail: beside.p99_ns / calm.p99_ns,
        usual: beside.p50_ns / calm.p50_ns,
        cost: beside.cost_us / calm.cost_us,
        tail_ms: beside.p99_ns / 1e6,
        hog: hog.done / hog_calm.done,
    })
}

fn report(ours: [Outcome; 2], linux: [Outcome; 2]) -> Report {
    let mut report = EXPERIMENT.report();
    let names = ["one kernel", "two zones"];
    let rivals = ["Linux plain", "Linux with memory.high"];
    for (name, one) in names.iter().zip(ours) {
        let [plain, high] = linux;
        report.figures.extend([
            Figure::new(format!("{name}: victim's p99, times that in calm"), one.tail, 2, "x")
                .linux(plain.tail)
                .goal(format!("<= {TAIL_GOAL}"), one.tail <= TAIL_GOAL),
            Figure::new(format!("{name}: victim's median, times that in calm"), one.usual, 2, "x").linux(plain.usual),
            Figure::new(format!("{name}: victim's CPU time, times that in calm"), one.cost, 2, "x").linux(plain.cost),
            Figure::new(format!("{name}: victim's p99 beside the hog"), one.tail_ms, 0, "ms").linux(plain.tail_ms),
            Figure::new(format!("{name}: hog's rate, times that in calm"), one.hog, 2, "x")
                .linux(high.hog)
                .goal(format!(">= {HOG_GOAL}"), one.hog >= HOG_GOAL),
        ]);
    }
    for (name, one) in rivals.iter().zip(linux) {
        report.figures.extend([
            Figure::new(format!("{name}: victim's p99, times that in calm"), f64::NAN, 2, "x").linux(one.tail),
            Figure::new(format!("{name}: hog's rate, times that in calm"), f64::NAN, 2, "x").linux(one.hog),
        ]);
    }
    let group = |name: &str, one: Outcome| Group { name: name.into(), values: vec![one.tail, one.hog] };
    let groups: Vec<Group> =
        names.iter().zip(ours).chain(rivals.iter().zip(linux)).map(|(name, one)| group(name, one)).collect();
    report.plot(
        "stutter.svg",
        plot::bars("Beside the other, times that in calm", " x", &["victim's p99", "hog's rate"], &groups),
    );
    report.notes.push(
        "The victim maps, touches and unmaps 128 MiB; the hog reads a file of 1 GiB (a hole: no disk is involved) through the cache of files. Each is \
         bound to a core; calm is a neighbour that computes. The host is shared, and a window holds some ten to thirty operations, so that p99 \
         is the slowest; CPU time does not feel the host. Linux beside the p99 is plain, beside the hog's rate with memory.high."
            .into(),
    );
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hog_has_a_right_too() {
        let one = Outcome { tail: 1.0, usual: 1.0, cost: 1.0, tail_ms: 300.0, hog: 0.5 };
        let report = report([one, one], [one, one]);
        assert!(!report.is_met());
        let failed: Vec<_> = report.figures.iter().filter(|figure| figure.is_met == Some(false)).collect();
        assert!(failed.len() == 2 && failed.iter().all(|figure| figure.name.contains("hog's rate")));
    }
}
