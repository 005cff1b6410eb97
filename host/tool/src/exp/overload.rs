//! A web server for far more visitors than it can serve: how many of them get their page in time, with the overload controller, without it, and on
//! Linux, whose servers have a backlog.
//!
//! * The rate that the server can serve is measured on each machine, by visitors that take turns. All goodputs are parts of that.
//! * Visitors come at 1, 2, 5 and 10 times that rate; then at twice the rate for pages that nobody has read since the machine began; then at
//!   twice the rate while the shares of the web server and of the batch work beside it are exchanged. After that the server can serve less,
//!   which is measured again.
//! * Each load has some seconds in which the controller finds its limit: they are not judged. All visitors are patient for [`PATIENCE`].
//!
//! The machine's time is an instruction each 8 ns, held to the host's time, so that what it can serve does not move with the host's load.

use std::time::{Duration, Instant};

use gyre_contract::{bounds::Floor, native::Change, promise::Together};
use gyre_machine_file as file;
use gyre_machine_file::Description;

use super::{
    experiment::Experiment,
    packets,
    plot::{self, Line},
    report::{Figure, Report},
    rig::Rig,
    visitors::{Visit, Visitors, middle_s, served_per_s},
};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
    qemu::Clock,
    run::{self, Running},
    ui::Step,
};

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "overload",
    title: "A web server under ten times its load, beside Linux with a backlog",
    paper: "Vortex 2003, Fig. 2",
    shows: "However many come, as many are served in time as the server can serve.",
    run,
};
const WEB: &str = "web";
const BATCH: &str = "batch";
const PORT: u16 = 80;
/// Loads by capacity.
const LOADS: [u32; 4] = [1, 2, 5, 10];
/// The load by capacity when the cache is cold or shares change.
const TWICE: f64 = 2.0;
/// The server's answers are of no use after it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Seconds of a load, and those before they are judged.
const SECONDS: u32 = 12;
const SETTLES_S: f64 = 4.0;
/// Visitors at a time when capacity is measured, and for how long.
const AT_A_TIME: u32 = 8;
const CAPACITY_S: u32 = 8;
/// Time in which a server has come up, or has served those who have left.
const LIMIT: Duration = Duration::from_secs(240);
/// The part of capacity that is to be served, percent.
const GOODPUT_LEAST: f64 = 95.0;
const PAGE_BYTES: u64 = 16 << 10;
/// Pages that all loads but the cold one ask for.
const WARM_PAGES: u64 = 8;
/// Pages that are read for the first time: more than a cold load has visitors that are let in.
const COLD_PAGES: u64 = 2000;

/// The means by which too many are kept out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Control {
    Controller,
    Backlog,
}

/// The figures of one machine. Goodputs are percent of capacity.
struct Seen {
    capacity: f64,
    goodputs: [f64; 4],
    /// The delay in the middle of those served at the highest load, s.
    delay_s: f64,
    cold: f64,
    /// After the shares were exchanged, of what can be served then.
    turned: f64,
    /// Pages in each second of the load in which shares are exchanged.
    course: Vec<f64>,
}

fn run(rig: &Rig) -> Result<Report> {
    let ours = measure(rig, Kernel::Gyre, Control::Controller)?;
    let without = measure(rig, Kernel::Gyre, Control::Backlog)?;
    let linux = measure(rig, Kernel::Linux, Control::Backlog)?;
    let mut report = EXPERIMENT.report();
    report.figures = figures(&ours, &without, &linux);
    let all = [("Gyre, controller", &ours), ("Gyre, backlog", &without), ("Linux, backlog", &linux)];
    let goodput = |seen: &Seen| LOADS.iter().zip(seen.goodputs).map(|(load, part)| (f64::from(*load), part)).collect();
    report.plot("overload.svg", plot_all("Served in time, percent of capacity, by load", "x", &all, goodput));
    let course = |seen: &Seen| (1..).zip(&seen.course).map(|(second, pages)| (f64::from(second), *pages)).collect();
    report.plot("overload-shares.svg", plot_all("Pages in time, each second, shares exchanged", "s", &all, course));
    report.notes.push(format!(
        "One core, an instruction each 8 ns (-icount shift=3,align=on); nginx with one worker compresses pages of {} KiB; a connection for each \
         page; visitors come whether or not others were served, and leave after {} s; shares 3:1 beside batch work, then 1:3. Controller: delay \
         200 ms, refusal by silence. Backlog: listen's 511, nginx' 1,024 connections. Linux: Debian's cloud kernel, same images, same emulator.",
        PAGE_BYTES >> 10,
        PATIENCE.as_secs(),
    ));
    Ok(report)
}

fn figures(ours: &Seen, without: &Seen, linux: &Seen) -> Vec<Figure> {
    let is_met = |part: f64| part >= GOODPUT_LEAST;
    let goodput = |name: String, ours: f64, linux: f64| {
        Figure::new(name, ours, 1, "% of capacity").linux(linux).goal(">= 95", is_met(ours))
    };
    let levels = (0..).zip(LOADS);
    let mut all = vec![Figure::new("pages that can be served", ours.capacity, 1, "/s").linux(linux.capacity)];
    all.extend(levels.clone().map(|(at, load): (usize, u32)| {
        goodput(format!("controller, {load} x: served in time"), ours.goodputs[at], linux.goodputs[at])
    }));
    all.push(goodput("controller, cold cache, 2 x: served in time".into(), ours.cold, linux.cold));
    all.push(goodput("controller, shares exchanged, 2 x: served in time".into(), ours.turned, linux.turned));
    all.push(Figure::new("controller, 10 x: delay of those served, median", ours.delay_s * 1e3, 0, "ms"));
    all.extend(levels.map(|(at, load): (usize, u32)| {
        Figure::new(format!("no controller, {load} x: served in time"), without.goodputs[at], 1, "% of capacity")
    }));
    all
}

fn plot_all(title: &str, unit: &str, all: &[(&str, &Seen)], points: impl Fn(&Seen) -> Vec<(f64, f64)>) -> String {
    let line = |(name, seen): &(&str, &Seen)| Line { name: (*name).into(), points: points(seen), level: None };
    plot::lines(title, [unit, ""], &all.iter().map(line).collect::<Vec<_>>())
}

fn measure(rig: &Rig, on: Kernel, control: Control) -> Result<Seen> {
    let path = rig.project.root.join("experiments/overload.toml");
    let mut description = file::read(&path)?;
    prepare(&mut description, control);
    let arguments = rig.arguments(path, on);
    let running = run::start_with_clock(&rig.project, description, &arguments, &rig.stop, Clock::Held)?;
    let step = Step::start(format!("visitors on {on:?}, {control:?}"));
    let to = packets::address(&running.description.machine, WEB, PORT)?;
    let visitors = Visitors { namespace: running.namespace.clone(), to, patience: PATIENCE, page: warm };
    let site = Site { rig, running: &running, visitors, step: &step };
    let seen = site.watch()?;
    step.done();
    Ok(seen)
}

/// Puts the pages into the web server's image, and takes the controller away if it is not wanted.
fn prepare(description: &mut Description, control: Control) {
    if let Some(image) = description.images.get_mut(WEB) {
        let pages = (0..WARM_PAGES).map(warm).chain((0..COLD_PAGES).map(cold));
        image.generate.extend(pages.map(|page| (format!("/srv/www{page}"), PAGE_BYTES)));
    }
    if control == Control::Backlog {
        description.machine.tenants.iter_mut().for_each(|tenant| tenant.overload = None);
    }
}

fn warm(number: u64) -> String {
    format!("/{}.html", number % WARM_PAGES)
}

fn cold(number: u64) -> String {
    format!("/cold-{}.html", number % COLD_PAGES)
}

/// A machine with its visitors.
struct Site<'a> {
    rig: &'a Rig,
    running: &'a Running,
    visitors: Visitors,
    step: &'a Step,
}

impl Site<'_> {
    fn watch(&self) -> Result<Seen> {
        self.settle()?;
        let capacity = self.capacity()?;
        let mut goodputs = [0.0; 4];
        let mut delay_s = 0.0;
        for (goodput, load) in goodputs.iter_mut().zip(LOADS) {
            let visits = self.load(&self.visitors, capacity * f64::from(load), SECONDS)?;
            *goodput = percent(served_per_s(&visits, SETTLES_S, SECONDS.into()), capacity);
            delay_s = middle_s(&visits, SETTLES_S, SECONDS.into());
        }
        let visitors = Visitors { page: cold, namespace: self.visitors.namespace.clone(), ..self.visitors };
        let visits = self.load(&visitors, TWICE * capacity, SECONDS)?;
        let cold = percent(served_per_s(&visits, SETTLES_S, SECONDS.into()), capacity);
        let (visits, begun_s) = self.turn(TWICE * capacity)?;
        let end_s = f64::from(2 * SECONDS);
        let turned = percent(served_per_s(&visits, begun_s + SETTLES_S, end_s), self.capacity()?);
        let course = (0..2 * SECONDS).map(f64::from).map(|at| served_per_s(&visits, at, at + 1.0)).collect();
        Ok(Seen { capacity, goodputs, delay_s, cold, turned, course })
    }

    fn capacity(&self) -> Result<f64> {
        self.step.detail("what can be served");
        let capacity = self.visitors.take_turns(AT_A_TIME, CAPACITY_S)?;
        if capacity == 0.0 {
            return Err(Failure::new("the web server serves nobody"));
        }
        Ok(capacity)
    }

    /// A load of the server, and what follows until it has served those who have left.
    fn load(&self, visitors: &Visitors, per_s: f64, seconds: u32) -> Result<Vec<Visit>> {
        self.step.detail(&format!("{per_s:.0} visitors a second"));
        let visits = visitors.come(per_s, seconds)?;
        let limit = self.limit();
        super::note(&format!(
            "{per_s:.0} visitors a second: {:.1} served, median {:.0} ms{limit}",
            served_per_s(&visits, SETTLES_S, seconds.into()),
            1e3 * middle_s(&visits, SETTLES_S, seconds.into()),
        ));
        self.settle()?;
        Ok(visits)
    }

    /// Exchanges the shares in the middle of a load; answers the visits, and when the shares had changed.
    fn turn(&self, per_s: f64) -> Result<(Vec<Visit>, f64)> {
        let goals = self.running.agent.goals()?.goals;
        let share = |name: &str| goals.tenants.iter().find(|one| one.name == name).map_or(1, |one| one.share);
        let changes = vec![weight(WEB, share(BATCH)), weight(BATCH, share(WEB))];
        let change = Together { by: EXPERIMENT.name.into(), reason: "an experiment".into(), changes };
        let (agent, begun) = (self.running.agent.clone(), Instant::now());
        let turn = move || {
            std::thread::sleep(Duration::from_secs(SECONDS.into()));
            agent.change(&change).map(|_| begun.elapsed().as_secs_f64())
        };
        let turning = std::thread::spawn(turn);
        let visits = self.load(&self.visitors, per_s, 2 * SECONDS)?;
        let turned_s = turning.join().map_err(|_| Failure::new("the thread that changes the shares died"))??;
        Ok((visits, turned_s))
    }

    /// The controller's limit, in words.
    fn limit(&self) -> String {
        let Ok(snapshot) = self.running.agent.snapshot() else { return String::new() };
        let web = snapshot.activities.iter().find(|one| one.name == WEB && one.connections_limit > 0);
        let words = |one: &gyre_contract::monitor::Activity| {
            let (limit, level, refused) = (one.connections_limit, one.load_level, one.connections_refused);
            format!(", limit {limit}, level {level}, {refused} refused")
        };
        web.map_or(String::new(), words)
    }

    /// Waits until a visitor is served soon.
    fn settle(&self) -> Result<()> {
        let begun = Instant::now();
        while self.visitors.take_turns(1, 1)? < 2.0 {
            if begun.elapsed() > LIMIT || self.rig.stop.is_set() {
                return Err(Failure::new("the web server does not serve"));
            }
        }
        Ok(())
    }
}

fn weight(name: &str, share: u32) -> Change {
    let (name, share) = (name.into(), Some(share));
    Change::Tenant { name, share, memory_bytes: None, process_memory_bytes: None, processes: None, floor: Floor::Held }
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(goodputs: [f64; 4]) -> Seen {
        Seen { capacity: 80.0, goodputs, delay_s: 0.2, cold: 96.0, turned: 96.0, course: vec![1.0] }
    }

    #[test]
    fn each_load_has_its_goal() {
        let met = |goodputs| {
            let all = figures(&seen(goodputs), &seen([0.0; 4]), &seen([0.0; 4]));
            all.iter().filter(|figure| figure.is_met == Some(false)).count()
        };
        assert_eq!(met([95.0; 4]), 0);
        assert_eq!(met([95.0, 94.9, 95.0, 94.0]), 2);
    }

    #[test]
    fn pages_of_the_cold_load_are_not_the_warm_ones() {
        assert_eq!((warm(9), cold(9), cold(2001)), ("/1.html".into(), "/cold-9.html".into(), "/cold-1.html".into()));
    }
}
