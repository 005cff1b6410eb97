//! Programs that people host, from Debian's packages as they are, each doing real work whose result is checked: here and on Linux in the same
//! emulator, in turn.
//!
//! * Each program is a file of this folder; the list below names it. `--only NAME` runs one, `--count N` makes N pairs of runs.
//! * A wrong result on Linux ends the experiment, because then the program is wrong; one here is a figure that is not met.
//! * `--without-linux` leaves the comparison out: the work is checked here alone, as `tests/boot/hosted` does with some of them.
//! * Each run is a machine of its own ([`trial`]): it boots, prepares, says `begins`, works, says `worked N`, checks, says `done`.
//!
//! The second experiment measures what scheduling costs the paper's programs; it needs no Linux.

mod apache;
mod git;
mod java;
mod make;
mod mariadb;
mod memcached;
mod node;
mod postgresql;
mod program;
mod python;
mod redis;
mod ssh;
mod trial;

use super::{
    company::median,
    experiment::Experiment,
    note,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Beside, Rig},
};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
};
use gyre_contract::bill::Bill;
use program::Program;
use trial::Trial;

/// Every program, in the order in which they run.
const PROGRAMS: &[&Program] = &[
    &redis::REDIS,
    &postgresql::POSTGRESQL,
    &java::JAVA,
    &apache::EVENT,
    &apache::PREFORK,
    &mariadb::MARIADB,
    &node::NODE,
    &python::PYTHON,
    &memcached::MEMCACHED,
    &make::MAKE,
    &git::GIT,
    &ssh::SSH,
];

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "programs",
    title: "Programs that people host, beside Linux",
    paper: "",
    shows: "Unmodified programs do checked work, and do about as much of it for a CPU second as on Linux.",
    run,
};

/// The programs of the paper's §VI-C, with its share of CPU time that is not message processing.
const PAPERS: [(&Program, &str); 2] = [(&mariadb::MARIADB, "0.6 %"), (&java::JAVA, "0.1 %")];

/// The experiment on the list.
pub const OVERHEAD: Experiment = Experiment {
    name: "overhead-programs",
    title: "Cost of scheduling everything, for Apache, MariaDB and a map-reduce",
    paper: "§VI",
    shows: "Scheduling each message costs programs that compute nearly nothing.",
    run: overhead,
};

/// Runs the programs on both kernels.
///
/// # Errors
/// When there is no such program, or a machine does not run, or Linux does not do the work.
fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut groups = vec![];
    for program in choose(rig.only.as_deref())? {
        let mut rates: [Vec<f64>; 2] = [vec![], vec![]];
        let mut failures = [0, 0];
        let mut wrong = None;
        for _ in 0..rig.count.unwrap_or(1).max(1) {
            if rig.beside == Beside::Linux {
                let linux = Trial::run(rig, program, Kernel::Linux)?;
                failures[1] = failures[1].max(linux.failures);
                rates[1].push(linux.per_second());
            }
            match Trial::run(rig, program, Kernel::Gyre) {
                Ok(here) => {
                    failures[0] = failures[0].max(here.failures);
                    rates[0].push(here.per_second());
                }
                Err(failure) if rig.stop.is_set() => return Err(failure),
                Err(failure) => wrong = Some(failure),
            }
        }
        if let Some(failure) = &wrong {
            let help = failure.report.help().map_or(String::new(), |help| help.to_string());
            report.notes.push(format!("{}: {} {help}", program.name, failure.report));
            note(&format!("{}: {} {help}", program.name, failure.report));
        }
        report.figures.extend(figures(program, &rates, failures, wrong.is_none()));
        if rig.beside == Beside::Linux {
            let values = vec![median(rates[0].clone()) / median(rates[1].clone())];
            groups.push(Group { name: program.name.into(), values });
        }
    }
    if groups.is_empty() {
        return Ok(report);
    }
    report.plot("programs.svg", plot::bars("Work per CPU second, of Linux': more is better", "", &["here"], &groups));
    report.notes.push(NOTE.into());
    Ok(report)
}

const NOTE: &str = "Two cores, 2 GiB, a tenant of 1.5 GiB; program and client are both in it, over 127.0.0.1. Work for each second of CPU time \
    that the host gave to the virtual processors between the work's begin and its end; preparation and checks are outside of it. Linux: Debian's \
    cloud kernel, same images, same emulator. Checked: redis' counts, before and after a kill; the balances of PostgreSQL's and the sums of \
    MariaDB's tables, before and after a kill under load; hashes of pages and of what git, ssh and node carry; sums of the map-reduce; each of \
    memcached's values; the built program's picture; Python's own tests.";

/// The figures of one program.
fn figures(program: &Program, rates: &[Vec<f64>; 2], failures: [u64; 2], is_right: bool) -> Vec<Figure> {
    let linux_rate = (!rates[1].is_empty()).then(|| median(rates[1].iter().copied()));
    let name = |what: &str| format!("{}: {what}", program.name);
    let wrong = Figure::new(name("wrong results"), f64::from(u8::from(!is_right)), 0, "");
    let mut figures = vec![wrong.goal("none", is_right)];
    if failures != [0, 0] {
        let [here, linux] = failures.map(|count| count as f64);
        let figure = Figure::new(name("own tests failed"), here, 0, "");
        figures.push(match linux_rate {
            Some(_) => figure.linux(linux).goal("<= Linux", here <= linux),
            None => figure,
        });
    }
    if is_right {
        let here = median(rates[0].iter().copied());
        let figure = Figure::new(name(&format!("{} per CPU second", program.unit)), here, 1, "");
        figures.push(linux_rate.map_or_else(|| figure.clone(), |linux| figure.clone().linux(linux)));
    }
    figures
}

fn choose(only: Option<&str>) -> Result<Vec<&'static Program>> {
    let Some(only) = only else { return Ok(PROGRAMS.to_vec()) };
    let found: Vec<&Program> = PROGRAMS.iter().filter(|program| program.name == only).copied().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    let help = format!("there is: {}", names.join(", "));
    Err(Failure::with_help(format!("there is no program `{only}`"), help))
}

/// Scheduling and interrupt entry in percent of what was consumed while programs worked.
///
/// # Errors
/// When a machine does not run or a result is wrong.
fn overhead(rig: &Rig) -> Result<Report> {
    let mut report = OVERHEAD.report();
    let mut groups = vec![];
    for page in apache::PAGES {
        let percents = parts(&page.measure(rig)?.bill());
        report.figures.push(not_messages(&format!("Apache, {}", page.name), page.paper, &percents, page.bound));
        groups.push(Group { name: page.name.into(), values: percents.to_vec() });
    }
    for (program, paper) in PAPERS {
        let trial = Trial::run(rig, program, Kernel::Gyre)?;
        let percents = trial.bill.as_ref().map(parts).ok_or_else(|| Failure::new("the machine makes no bill"))?;
        report.figures.push(not_messages(program.name, paper, &percents, None));
        groups.push(Group { name: program.name.into(), values: percents.to_vec() });
    }
    let series = ["scheduling", "interrupt", "infrastructure"];
    report.plot("overhead-programs.svg", plot::bars("Percent of consumed CPU time", " %", &series, &groups));
    report.notes.push(
        "Scheduling and interrupt entry, percent of what is consumed (idle time left out), as in `overhead`; messages are handed on as by default. \
         Apache: event, 16 connections of a client outside of the machine, link without limit. MariaDB: new orders and payments as in TPC-C by four \
         clients in the tenant. java: javac and a map-reduce of 2^20 lines. The paper: MySQL with TPC-C, Hadoop."
            .into(),
    );
    Ok(report)
}

fn not_messages(name: &str, paper: &str, [scheduling, interrupt, _]: &[f64; 3], bound: Option<f64>) -> Figure {
    let percent = scheduling + interrupt;
    let figure = Figure::new(format!("{name}: not message processing"), percent, 2, "%").paper(paper);
    match bound {
        Some(bound) => figure.goal(format!("<= {bound} %"), percent <= bound),
        None => figure,
    }
}

fn parts(bill: &Bill) -> [f64; 3] {
    let consumed = bill.machine_cycles.saturating_sub(bill.idle_cycles).max(1) as f64;
    [bill.scheduling_cycles, bill.interrupt_cycles, bill.infrastructure_cycles]
        .map(|cycles| cycles as f64 * 100.0 / consumed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_chosen_by_its_name() {
        assert_eq!(choose(None).unwrap().len(), PROGRAMS.len());
        assert_eq!(choose(Some("redis")).unwrap()[0].name, "redis");
        let failure = choose(Some("reddis")).err().unwrap();
        assert!(failure.report.help().unwrap().to_string().contains("postgresql, java"));
    }

    #[test]
    fn a_wrong_result_is_not_met_and_has_no_rate() {
        let figures = figures(&redis::REDIS, &[vec![], vec![10.0]], [0, 0], false);
        assert_eq!((figures.len(), figures[0].is_met), (1, Some(false)));
    }

    #[test]
    fn without_linux_work_is_checked_and_not_compared() {
        let figures = figures(&redis::REDIS, &[vec![10.0], vec![]], [3, 0], true);
        assert_eq!((figures.len(), figures[0].is_met), (3, Some(true)));
        assert!(figures[1..].iter().all(|figure| figure.linux.is_none() && figure.is_met.is_none()));
    }

    #[test]
    fn every_program_has_a_name_of_its_own_and_checks_what_it_did() {
        let names: std::collections::BTreeSet<_> = PROGRAMS.iter().map(|program| program.name).collect();
        assert_eq!(names.len(), PROGRAMS.len());
        for program in PROGRAMS {
            let has = |word: &str| program.script.lines().any(|line| line.trim_start().starts_with(word));
            assert!(has("begins") && has("worked ") && (has("same ") || has("for page")), "{}", program.name);
        }
    }
}
