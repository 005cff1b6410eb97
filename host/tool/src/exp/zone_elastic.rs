//! A zone that is made and ended over and over beside one that serves pages and changes its size (R2 of the Horizontal OS' paper).
//!
//! * The times are those of the supervisor's log: from the order until the zone stands, or until its parts are free.
//! * The neighbour is a zone of its own that must answer each page.
//! * A round: the guest zone is made and ended; the service's zone gets and gives a core and 512 MiB.
//! * In the last round the guest, once it stands, gives its card and gets it back as often.
//! * Linux beside ([`hotplug`]): a core, 512 MiB and a card by hotplug, in the same emulator right before. It serves nobody meanwhile.
//! * Its changes are slow, so that they are made less often than ours.
//!
//! A record of the log tells by its parts and its zone which change it is of. A refused change is not timed; it ends the experiment.
//!
//! The goal for a core is a part of Linux' time, that for memory a part of the paper's, and less than Linux.

mod hotplug;

use std::time::Duration;

use gyre_contract::zones::{Command, Deed, DeviceAddress, Part, Record, State};
use gyre_machine_file as file;
use hotplug::Hotplug;

use super::{
    experiment::Experiment,
    neighbour::Neighbour,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    agent::Agent,
    cli::Kernel,
    failure::{Failure, Result},
    run,
    ui::Step,
};

/// So often the zone is made and ended, unless the user chose another number.
const ROUNDS: u32 = 100;
const ZONE: &str = "guest";
const SERVICE: &str = "service";
/// Until the service's zone stands.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The guest's programs stand after this.
const CALM: Duration = Duration::from_secs(3);
/// Between two changes of its card, as on Linux.
const BETWEEN: Duration = Duration::from_millis(20);
/// A part that is in use may take so long to be given, ms.
const DEADLINE_MS: u32 = 5000;
/// The paper's times to make and to end a kernel, ms (its Table 2).
const PAPER_CREATE_MS: f64 = 6100.0;
/// The goal for the median, ms.
const CREATE_GOAL_MS: f64 = 150.0;
/// Memory of the service's zone, and what it gets and gives.
const SERVICE_BYTES: u64 = 128 << 20;
const MORE_BYTES: u64 = 512 << 20;
/// At most so many rounds on Linux, whose changes are slow.
const LINUX_ROUNDS: u32 = 30;
/// A part of Linux' time in the same emulator is the goal for a core.
const CORE_PART: f64 = 0.1;
/// The parts that a running zone gets and gives: the paper's times in ms (its Table 2), and the goals for memory. Linux' words are those of
/// `experiments/zone_elastic/hotplug.c`.
const SIZES: [Size; 6] = [
    Size {
        name: "a core given",
        deed: Deed::Give,
        part: Part::Core,
        paper_ms: Some(66.0),
        goal: Goal::OfLinux,
        on_linux: "core-on",
    },
    Size {
        name: "a core taken",
        deed: Deed::Take,
        part: Part::Core,
        paper_ms: Some(54.0),
        goal: Goal::OfLinux,
        on_linux: "core-off",
    },
    Size {
        name: "512 MiB given",
        deed: Deed::Give,
        part: Part::Memory,
        paper_ms: Some(20.0),
        goal: Goal::Ms(2.0),
        on_linux: "memory-on",
    },
    Size {
        name: "512 MiB taken",
        deed: Deed::Take,
        part: Part::Memory,
        paper_ms: Some(60.0),
        goal: Goal::Ms(6.0),
        on_linux: "memory-off",
    },
    Size {
        name: "a card given",
        deed: Deed::Give,
        part: Part::Device,
        paper_ms: None,
        goal: Goal::LessThanLinux,
        on_linux: "card-on",
    },
    Size {
        name: "a card taken",
        deed: Deed::Take,
        part: Part::Device,
        paper_ms: None,
        goal: Goal::LessThanLinux,
        on_linux: "card-off",
    },
];

/// The goal for the median of a change.
#[derive(Clone, Copy)]
enum Goal {
    /// [`CORE_PART`] of Linux' time.
    OfLinux,
    /// So many ms, and less than Linux.
    Ms(f64),
    /// Less than Linux: the paper has no time.
    LessThanLinux,
}

/// A change of the size of a zone that runs.
struct Size {
    name: &'static str,
    deed: Deed,
    part: Part,
    paper_ms: Option<f64>,
    goal: Goal,
    on_linux: &'static str,
}

impl Size {
    /// The median and nine of ten, ours beside Linux'.
    fn figures(&self, times: &[f64], linux: &Hotplug) -> Vec<Figure> {
        let (median, linux) = (part(times, 50), linux.times(self.on_linux));
        let beside = linux.map_or(f64::NAN, |linux| linux.median_ms);
        let (words, is_met) = match self.goal {
            Goal::OfLinux => (format!("<= {CORE_PART} of Linux"), median <= CORE_PART * beside),
            Goal::Ms(goal) => (format!("<= {goal} ms, < Linux"), median <= goal && median < beside),
            Goal::LessThanLinux => ("< Linux".to_owned(), median < beside),
        };
        let paper = self.paper_ms.map_or_else(String::new, |ms| format!(" (paper {ms} ms)"));
        let first = Figure::new(format!("{}: median{paper}", self.name), median, 1, "ms");
        let second = Figure::new(format!("{}: nine of ten within", self.name), part(times, 90), 1, "ms");
        vec![first.linux(beside).goal(words, is_met), second.linux(linux.map_or(f64::NAN, |linux| linux.most_ms))]
    }
}

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zone-elastic",
    title: "A kernel that is made and ended beside one that serves",
    paper: "",
    shows: "A zone comes and goes in a fraction of a second, and its neighbour does not notice.",
    run,
};

/// Makes and ends a zone.
///
/// # Errors
/// When the machine does not boot.
pub fn run(rig: &Rig) -> Result<Report> {
    let path = rig.project.root.join("experiments/zone-elastic.toml");
    let description = file::read(&path)?;
    let guest = description.zones.iter().find(|zone| zone.machine.name == ZONE);
    let device = guest.and_then(|zone| zone.devices.card).ok_or_else(|| Failure::new("the guest has no card"))?;
    let mut arguments = rig.arguments(path.clone(), Kernel::Gyre);
    arguments.no_load = true;
    let rounds = rig.count.unwrap_or(ROUNDS);
    let linux = Hotplug::measure(rig, rounds.min(LINUX_ROUNDS))?;
    let running = run::start(&rig.project, description, &arguments, &rig.stop)?;
    await_service(&running.agent)?;
    let neighbour = Neighbour::start(&running)?;
    let first = running.agent.zones()?.changes;
    let step = Step::start(format!("making and ending a zone {rounds} times"));
    for round in 0..rounds {
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        step.detail(&format!("{round} of {rounds}"));
        order(&running.agent, Command::Create { zone: ZONE.into(), cores: None, memory_bytes: None })?;
        if round + 1 == rounds {
            move_card(&running.agent, device, rounds)?;
        }
        order(&running.agent, Command::Destroy { zone: ZONE.into(), grace_ms: 3000 })?;
        for cores in [2, 1] {
            order(&running.agent, size(Some(cores), None))?;
        }
        for memory_bytes in [SERVICE_BYTES + MORE_BYTES, SERVICE_BYTES] {
            order(&running.agent, size(None, Some(memory_bytes)))?;
        }
    }
    step.done();
    Ok(report(&log(&running.agent, first)?, &neighbour, &linux, rounds))
}

/// Takes the guest's card and gives it back, over and over, once the guest's programs stand: Linux is calm then, too.
fn move_card(agent: &Agent, device: DeviceAddress, rounds: u32) -> Result<()> {
    std::thread::sleep(CALM);
    for _ in 0..rounds {
        order(agent, Command::Detach { zone: ZONE.into(), device, deadline_ms: DEADLINE_MS })?;
        std::thread::sleep(BETWEEN);
        order(agent, Command::Attach { zone: ZONE.into(), device })?;
        std::thread::sleep(BETWEEN);
    }
    Ok(())
}

fn await_service(agent: &Agent) -> Result<()> {
    let begun = std::time::Instant::now();
    while begun.elapsed() < START_LIMIT {
        let stands = |state: &State| *state == State::Running;
        // No answer yet is no failure: the agent boots with the machine.
        let is_it = |zone: &gyre_contract::zones::View| zone.name == SERVICE && stands(&zone.state);
        if agent.zones().is_ok_and(|zones| zones.zones.iter().any(is_it)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(Failure::new(format!("zone `{SERVICE}` does not stand after {} s", START_LIMIT.as_secs())))
}

fn order(agent: &Agent, command: Command) -> Result<()> {
    agent.control(&[command])?.map_err(|refusal| Failure::new(format!("the supervisor refused: {refusal:?}")))
}

/// Reads the log from a record on, to its end.
fn log(agent: &Agent, from: u64) -> Result<Vec<Record>> {
    let mut all: Vec<Record> = vec![];
    loop {
        let next = all.last().map_or(from, |record| record.number + 1);
        match agent.zone_log(next)? {
            more if more.is_empty() => return Ok(all),
            more => all.extend(more),
        }
    }
}

fn size(cores: Option<u16>, memory_bytes: Option<u64>) -> Command {
    Command::Set { zone: SERVICE.into(), share: None, cores, memory_bytes, deadline_ms: DEADLINE_MS }
}

/// Times of a change of size, ms, in order of size. The card is the guest's.
fn size_times_ms(log: &[Record], size: &Size) -> Vec<f64> {
    let (zone, is_of): (&str, fn(&Record) -> bool) = match size.part {
        Part::Core => (SERVICE, |record| !record.cores.is_empty()),
        Part::Memory => (SERVICE, |record| record.memory_bytes > 0),
        Part::Device => (ZONE, |record| !record.devices.is_empty()),
    };
    let is_meant = |record: &&Record| (record.from == zone || record.to == zone) && is_of(record);
    let meant: Vec<Record> = log.iter().filter(is_meant).cloned().collect();
    times_ms(&meant, size.deed)
}

fn report(log: &[Record], neighbour: &Neighbour, linux: &Hotplug, rounds: u32) -> Report {
    let mut report = EXPERIMENT.report();
    let (create, destroy) = (times_ms(log, Deed::Create), times_ms(log, Deed::Destroy));
    let made = Figure::new("a zone made: median", part(&create, 50), 1, "ms").paper(format!("{PAPER_CREATE_MS} ms"));
    let is_met = part(&create, 50) <= CREATE_GOAL_MS;
    report.figures.extend([
        Figure::count("zones made", create.len() as u64).goal(format!("{rounds}"), create.len() == rounds as usize),
        made.goal(format!("<= {CREATE_GOAL_MS} ms"), is_met),
        Figure::new("a zone made: nine of ten within", part(&create, 90), 1, "ms"),
        Figure::new("a zone ended in order: median", part(&destroy, 50), 1, "ms"),
        Figure::new("a zone ended in order: nine of ten within", part(&destroy, 90), 1, "ms"),
    ]);
    for size in &SIZES {
        report.figures.extend(size.figures(&size_times_ms(log, size), linux));
    }
    let (answers, wrong) = (neighbour.answers(), neighbour.wrong());
    report.figures.extend([
        Figure::count("pages that the neighbour served", answers.count).goal("> 0", answers.count > 0),
        Figure::new("its slowest answer", answers.slowest.as_secs_f64() * 1000.0, 0, "ms"),
        Figure::count("pages that it did not serve", u64::from(wrong.is_some())).goal("0", wrong.is_none()),
    ]);
    let bar = |name: &str, times: &[f64]| Group { name: name.into(), values: vec![part(times, 50), part(times, 90)] };
    let mut bars = vec![bar("made", &create), bar("ended", &destroy)];
    bars.extend(SIZES.iter().map(|size| bar(size.name, &size_times_ms(log, size))));
    report.plot("zone-elastic.svg", plot::bars("A zone's coming and going", " ms", &["median", "nine of ten"], &bars));
    report.notes.push(
        "From the order to the zone's own word that it stands, with nginx in it; ended in order, its disks written back. One core and 128 MiB. \
         The zone that serves gets and gives a core and 512 MiB meanwhile, the other one its card. The paper's times are of its own hardware. \
         Linux: Debian's cloud kernel on two cores and 2 GiB in the same emulator right before, without load: `online` of a core, and of four \
         blocks of 128 MiB that only hold what can be moved, and `remove` and `rescan` of a card, written to sysfs by a program."
            .into(),
    );
    report
}

/// Times of the changes of a kind that were done, ms, in order of size.
fn times_ms(log: &[Record], deed: Deed) -> Vec<f64> {
    let done = log.iter().filter(|record| record.deed == deed && record.result.is_ok());
    let mut times: Vec<f64> = done.map(|record| record.took_ns as f64 / 1e6).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The time within which so many percent of the changes were done.
fn part(times: &[f64], percent: usize) -> f64 {
    let last = times.len().saturating_sub(1);
    times.get(last * percent / 100).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, deed: Deed, took_ns: u64) -> Record {
        Record {
            number,
            at_ns: 0,
            deed,
            cores: vec![],
            memory_bytes: 0,
            devices: vec![],
            from: String::new(),
            to: String::new(),
            by: String::new(),
            took_ns,
            result: Ok(()),
            last_words: None,
        }
    }

    #[test]
    fn times_are_of_one_kind_of_change_and_only_if_it_was_done() {
        let refused = Record {
            result: Err(gyre_contract::zones::Refusal::Invalid { why: String::new() }),
            ..record(3, Deed::Create, 1)
        };
        let log = [
            record(0, Deed::Create, 7_000_000),
            record(1, Deed::Destroy, 1),
            record(2, Deed::Create, 5_000_000),
            refused,
        ];
        assert_eq!(times_ms(&log, Deed::Create), [5.0, 7.0]);
    }

    #[test]
    fn a_change_of_size_is_told_by_its_parts_and_its_zone() {
        let device = DeviceAddress::default();
        let log = [
            Record { to: SERVICE.into(), cores: vec![3], ..record(0, Deed::Give, 1_000_000) },
            Record { to: SERVICE.into(), memory_bytes: 1, ..record(1, Deed::Give, 2_000_000) },
            Record { to: ZONE.into(), devices: vec![device], ..record(2, Deed::Give, 3_000_000) },
            Record { from: ZONE.into(), devices: vec![device], ..record(3, Deed::Take, 4_000_000) },
        ];
        let times = SIZES.each_ref().map(|size| size_times_ms(&log, size));
        assert_eq!(times, [vec![1.0], vec![], vec![2.0], vec![], vec![3.0], vec![4.0]]);
    }

    #[test]
    fn a_part_of_nothing_is_not_measured() {
        assert!(part(&[], 50).is_nan());
        assert_eq!((part(&[1.0, 2.0, 3.0], 50), part(&[1.0, 2.0, 3.0], 90)), (2.0, 2.0));
    }
}
