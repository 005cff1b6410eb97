//! `gyre exp NAME`: a paper's experiment, its figure beside ours, and a plot.

mod accuracy;
mod beside;
mod breakdown;
mod calls;
mod counted;
mod crash;
mod disk;
mod files;
mod flood;
mod fuzz;
mod hop;
mod html;
mod marks;
mod memory;
mod names;
mod overhead;
mod plot;
mod program;
mod promises;
pub mod report;
mod rig;
mod shares;
mod simulator;
mod speed;
mod storm;
mod streams;
mod wakeups;

use std::{path::Path, process::ExitCode};

use crate::{
    check::print_json,
    cli,
    failure::{Context as _, Failure, Result},
    namespace,
    project::Project,
    record::{self, Watch},
    stop::Stop,
    ui::{self, Paint, paint, say},
};
use report::Report;
use rig::Rig;

/// One experiment.
struct Experiment {
    name: &'static str,
    title: &'static str,
    run: fn(&Rig) -> Result<Report>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: "cpu-shares", title: "Three CPU hogs on every core (Fig. 8)", run: shares::cpu },
    Experiment { name: "promises", title: "Reservations and limits of the processor", run: promises::run },
    Experiment { name: "file-shares", title: "Three readers of cached files (Figs 9-11)", run: shares::files },
    Experiment { name: "stream-shares", title: "Three readers of cached files, divided by bytes", run: streams::run },
    Experiment { name: "web-shares", title: "Three web servers on a saturated link (Figs 12-14)", run: shares::web },
    Experiment {
        name: "overhead",
        title: "Cost of scheduling everything, batching 1, 4, 8 (Figs 17-19)",
        run: overhead::run,
    },
    Experiment {
        name: "flood",
        title: "A packet flood at a neighbour, beside Linux with control groups",
        run: flood::run,
    },
    Experiment { name: "fuzz", title: "Calls at random beside a neighbour", run: fuzz::run },
    Experiment { name: "disk-shares", title: "Three readers of a throttled disk (Figs 15, 16)", run: disk::shares },
    Experiment { name: "fsync-storm", title: "Syncs beside a neighbour that storms the disk", run: storm::run },
    Experiment { name: "crash", title: "The running machine stopped at random moments", run: crash::run },
    Experiment {
        name: "crash-simulator",
        title: "File systems stopped at random moments in the simulator",
        run: simulator::run,
    },
    Experiment {
        name: "memory",
        title: "A stream through ten times the memory, beside Linux with control groups",
        run: memory::run,
    },
    Experiment {
        name: "names",
        title: "Looks at names beside names without end and beside dirty pages",
        run: names::run,
    },
    Experiment { name: "accuracy", title: "Cycles of the machine that nobody is billed for", run: accuracy::run },
    Experiment { name: "speed", title: "nginx beside Linux in the same emulator", run: speed::run },
    Experiment { name: "calls", title: "Instructions per call, beside Linux", run: calls::run },
    Experiment { name: "wakeups", title: "Woken in time, beside Linux", run: wakeups::run },
    Experiment { name: "files", title: "Files and memory beside Linux: SQLite, tar, fio and calls", run: files::run },
    Experiment { name: "idle", title: "What an idle machine costs its host, beside Linux", run: speed::idle },
    Experiment { name: "hop", title: "What a message costs on this host", run: hop::run },
];

/// `gyre exp [NAME | all]`.
///
/// # Errors
/// When there is no such experiment, or a machine does not run.
pub fn exp(arguments: &cli::Exp) -> Result<ExitCode> {
    match &arguments.name {
        Some(name) => run(name, arguments),
        None if arguments.document => record::documents(&Project::find()?).map(|()| ExitCode::SUCCESS),
        None => list(),
    }
}

fn list() -> Result<ExitCode> {
    EXPERIMENTS.iter().for_each(|one| println!("{:<15} {}", one.name, one.title));
    println!("\n./gyre exp NAME runs one, ./gyre exp all runs all and makes report/index.html");
    Ok(ExitCode::SUCCESS)
}

fn run(name: &str, arguments: &cli::Exp) -> Result<ExitCode> {
    let chosen = choose(name)?;
    namespace::become_root_in_namespace()?;
    let project = Project::find()?;
    let folder = project.report_folder()?;
    let rig = Rig {
        project,
        stop: Stop::on_signals()?,
        seconds: arguments.seconds.or(arguments.minutes.map(|minutes| minutes.saturating_mul(60))),
        seed: arguments.seed,
        count: arguments.count,
        kernel: arguments.kernel.clone(),
    };
    let is_all = name == "all";
    let mut reports = vec![];
    for experiment in chosen {
        let watch = Watch::start();
        let report = match (experiment.run)(&rig) {
            // One experiment that cannot run must not cost the others of `all` their results.
            Err(failure) if is_all => Report::failed(experiment.name, experiment.title, &failure),
            outcome => outcome?,
        };
        report.save(&folder)?;
        if !arguments.json {
            print!("{}", report.text());
        }
        match keep(&rig, &report, &watch, arguments) {
            Err(failure) if is_all => ui::warn(&failure.report.to_string()),
            outcome => outcome?,
        }
        reports.push(report);
        if rig.stop.is_set() {
            break;
        }
    }
    if arguments.json {
        print_json(&reports)?;
    }
    let page = folder.join("index.html");
    // With what other experiments found before.
    std::fs::write(&page, html::page(&saved(&folder))).context(|| format!("cannot write {}", page.display()))?;
    say(&format!("{} {}", paint(Paint::Dim, "plots and report:"), page.display()));
    Ok(ExitCode::from(u8::from(reports.iter().any(|report| !report.is_met()))))
}

/// What all experiments found last, in their order.
fn saved(folder: &Path) -> Vec<Report> {
    EXPERIMENTS.iter().filter_map(|one| Report::load(folder, one.name)).collect()
}

/// Keeps the figures of an experiment where that is wanted and nobody has cut it short.
fn keep(rig: &Rig, report: &Report, watch: &Watch, arguments: &cli::Exp) -> Result<()> {
    if !arguments.record || rig.stop.is_set() {
        return Ok(());
    }
    let conditions = watch.conditions(&rig.project, record::exp_command(&report.name, arguments))?;
    record::experiment(&rig.project, report, conditions)?;
    record::documents(&rig.project)
}

fn choose(name: &str) -> Result<Vec<&'static Experiment>> {
    let found: Vec<&Experiment> = EXPERIMENTS.iter().filter(|one| name == "all" || one.name == name).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names = || EXPERIMENTS.iter().map(|one| one.name).chain(["all"]);
    let help = match gyre_config::file::closest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there is: {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::with_help(format!("there is no experiment `{name}`"), help))
}

/// Says a line of an experiment's progress.
fn note(text: &str) {
    ui::say(&paint(Paint::Dim, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_keeps_what_other_experiments_found_before() {
        let folder = tempfile::tempdir().unwrap();
        Report::new("speed", "nginx").save(folder.path()).unwrap();
        Report::new("flood", "A flood").save(folder.path()).unwrap();
        Report::new("speed", "nginx, again").save(folder.path()).unwrap();
        std::fs::write(folder.path().join("calls.json"), "{\"theirs\": 1}").unwrap();
        let page = html::page(&saved(folder.path()));
        let place = |word: &str| page.find(word).unwrap_or(usize::MAX);
        assert!(place("A flood") < place("nginx, again") && place("nginx, again") < page.len(), "{page}");
    }

    #[test]
    fn a_misspelled_experiment_is_told_from_the_others() {
        let failure = choose("web-share").err().unwrap();
        assert!(failure.report.help().unwrap().to_string().contains("web-shares"));
        assert_eq!(choose("all").unwrap().len(), EXPERIMENTS.len());
    }
}
