//! `gyre exp NAME`: a paper's experiment, its figure beside ours, and a plot.
//!
//! * Each experiment is a file of this folder, and describes itself by an [`experiment::Experiment`]; the list below names it.
//! * It runs on a [`rig::Rig`], which has the project and the user's choices, and answers a [`report::Report`].
//! * `counted`, `beside`, `cell_grounds`, `company` and `marks` are what several of them share.
//! * A report is kept in the report's folder, so that the page has those of earlier runs too; `--record` keeps its figures in `results/`,
//!   from which the documents' tables are made.
//! * With `all`, one that cannot run is a failed report and costs the others nothing.

mod accuracy;
mod attacks;
mod attribution;
mod beside;
mod breakdown;
mod calls;
mod cell_calls;
mod cell_grounds;
mod cell_memory;
mod cell_programs;
mod cell_scale;
mod cell_tail;
mod company;
mod conference;
mod cores_alone;
mod counted;
mod cpu_shares;
mod crash;
mod disk;
mod encoder;
mod experiment;
mod file_shares;
mod files;
mod film;
mod filters;
mod flood;
mod fuzz;
mod gangs;
mod hop;
mod html;
mod idle;
mod mapped;
mod marks;
mod memory;
mod names;
mod neighbour;
mod objects;
mod overhead;
mod overload;
mod packets;
mod plot;
mod program;
mod programs;
mod promises;
pub mod report;
mod rig;
mod shares;
mod simulator;
mod speed;
mod storm;
mod storm_of_changes;
mod streams;
mod stutter;
mod ticks;
mod two_servers;
mod visitors;
mod wakeups;
mod web_shares;
mod zone_crash;
mod zone_elastic;
mod zone_lines;
mod zone_matrix;
mod zone_net;
mod zone_scale;
mod zone_tail;

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
use experiment::Experiment;
use gyre_results::FOLDER;
use report::Report;
use rig::{Beside, Rig};

/// Every experiment, in the order in which they are shown and run.
const EXPERIMENTS: &[&Experiment] = &[
    &cpu_shares::EXPERIMENT,
    &promises::EXPERIMENT,
    &file_shares::EXPERIMENT,
    &streams::EXPERIMENT,
    &web_shares::EXPERIMENT,
    &two_servers::EXPERIMENT,
    &overload::EXPERIMENT,
    &overhead::EXPERIMENT,
    &cores_alone::EXPERIMENT,
    &programs::OVERHEAD,
    &flood::EXPERIMENT,
    &attacks::EXPERIMENT,
    &storm_of_changes::EXPERIMENT,
    &attribution::EXPERIMENT,
    &fuzz::EXPERIMENT,
    &disk::EXPERIMENT,
    &storm::EXPERIMENT,
    &crash::EXPERIMENT,
    &simulator::EXPERIMENT,
    &memory::EXPERIMENT,
    &mapped::EXPERIMENT,
    &names::EXPERIMENT,
    &objects::EXPERIMENT,
    &accuracy::EXPERIMENT,
    &speed::EXPERIMENT,
    &programs::EXPERIMENT,
    &calls::EXPERIMENT,
    &encoder::EXPERIMENT,
    &conference::EXPERIMENT,
    &wakeups::EXPERIMENT,
    &ticks::TICKS,
    &ticks::DEADLINES,
    &filters::EXPERIMENT,
    &files::EXPERIMENT,
    &idle::EXPERIMENT,
    &hop::EXPERIMENT,
    &zone_elastic::EXPERIMENT,
    &gangs::EXPERIMENT,
    &zone_crash::EXPERIMENT,
    &zone_net::EXPERIMENT,
    &zone_matrix::EXPERIMENT,
    &zone_scale::EXPERIMENT,
    &zone_lines::EXPERIMENT,
    &zone_tail::EXPERIMENT,
    &stutter::EXPERIMENT,
    &cell_calls::EXPERIMENT,
    &cell_memory::EXPERIMENT,
    &cell_programs::EXPERIMENT,
    &cell_scale::EXPERIMENT,
    &cell_tail::EXPERIMENT,
];

/// Runs `gyre exp [NAME | all]`.
///
/// # Errors
/// When there is no such experiment, or a machine does not run.
pub fn exp(arguments: &cli::Exp) -> Result<ExitCode> {
    match &arguments.name {
        Some(name) => run(name, arguments),
        None if arguments.document => record::documents(&Project::find()?).map(|()| ExitCode::SUCCESS),
        None if arguments.report => {
            let project = Project::find()?;
            project.needs_tree("the report")?;
            write_page(&project).map(|()| ExitCode::SUCCESS)
        }
        None => list(),
    }
}

fn list() -> Result<ExitCode> {
    EXPERIMENTS.iter().for_each(|one| println!("{:<15} {}\n{:<15} {}", one.name, one.full_title(), "", one.shows));
    println!("\n./gyre exp NAME runs one, ./gyre exp all runs all and makes report/index.html");
    Ok(ExitCode::SUCCESS)
}

fn run(name: &str, arguments: &cli::Exp) -> Result<ExitCode> {
    let chosen = choose(name)?;
    namespace::become_root_in_namespace()?;
    let project = Project::find()?;
    project.needs_tree("an experiment")?;
    let folder = project.report_folder()?;
    let rig = Rig {
        project,
        stop: Stop::on_signals()?,
        seconds: arguments.seconds.or(arguments.minutes.map(|minutes| minutes.saturating_mul(60))),
        seed: arguments.seed,
        count: arguments.count,
        only: arguments.only.clone(),
        beside: if arguments.without_linux { Beside::Nothing } else { Beside::Linux },
        kernel: arguments.kernel.clone(),
    };
    let is_all = name == "all";
    let mut reports = vec![];
    for experiment in chosen {
        let watch = Watch::start();
        let report = match (experiment.run)(&rig) {
            // One experiment that cannot run must not cost the others of `all` their results.
            Err(failure) if is_all => Report::failed(experiment.name, &experiment.full_title(), &failure),
            outcome => outcome?,
        };
        // A copy of the source without git has no commit: the report says then that this was not kept.
        let conditions = watch.conditions(&rig.project, record::exp_command(&report.name, arguments)).ok();
        let report = Report { conditions, ..report };
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
    write_page(&rig.project)?;
    Ok(ExitCode::from(u8::from(reports.iter().any(|report| !report.is_met()))))
}

/// Writes the page, with what other experiments found before.
fn write_page(project: &Project) -> Result<()> {
    let folder = project.report_folder()?;
    let page = folder.join("index.html");
    let reports = saved(&folder, &project.root.join(FOLDER));
    std::fs::write(&page, html::page(&reports)).context(|| format!("cannot write {}", page.display()))?;
    say(&format!("{} {}", paint(Paint::Dim, "plots and report:"), page.display()));
    Ok(())
}

/// Returns the last results of all experiments, in their order; of one that has not run here those that are recorded.
fn saved(folder: &Path, recorded: &Path) -> Vec<Report> {
    let of = |one: &&Experiment| Report::load(folder, one.name).or_else(|| Report::recorded(recorded, one.name));
    EXPERIMENTS.iter().filter_map(of).collect()
}

/// Keeps the figures of an experiment if that is wanted and it was not cut short.
fn keep(rig: &Rig, report: &Report, watch: &Watch, arguments: &cli::Exp) -> Result<()> {
    if !arguments.record || rig.stop.is_set() {
        return Ok(());
    }
    let conditions = watch.conditions(&rig.project, record::exp_command(&report.name, arguments))?;
    match &rig.only {
        None => record::experiment(&rig.project, report, conditions)?,
        Some(_) => {
            let earlier = Report::recorded(&rig.project.root.join(FOLDER), &report.name);
            let (figures, notes) = (report.beside(earlier), report.notes.clone());
            let both = Report { figures, notes, ..Report::new(&report.name, &report.title) };
            record::experiment(&rig.project, &both, conditions)?;
        }
    }
    record::documents(&rig.project)
}

fn choose(name: &str) -> Result<Vec<&'static Experiment>> {
    let wanted = |one: &&&Experiment| name == "all" || one.name == name;
    let found: Vec<&Experiment> = EXPERIMENTS.iter().filter(wanted).copied().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names = || EXPERIMENTS.iter().map(|one| one.name).chain(["all"]);
    let help = match gyre_machine_file::closest(name, names()) {
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
        let page = html::page(&saved(folder.path(), folder.path()));
        let place = |word: &str| page.find(word).unwrap_or(usize::MAX);
        assert!(place("A flood") < place("nginx, again") && place("nginx, again") < page.len(), "{page}");
    }

    #[test]
    fn a_misspelled_experiment_is_told_from_the_others() {
        let failure = choose("web-share").err().unwrap();
        assert!(failure.report.help().unwrap().to_string().contains("web-shares"));
        assert_eq!(choose("all").unwrap().len(), EXPERIMENTS.len());
    }

    #[test]
    fn each_experiment_of_a_name_says_what_it_shows_and_reports_under_its_title() {
        let names: std::collections::BTreeSet<_> = EXPERIMENTS.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
        for one in EXPERIMENTS {
            assert!(one.shows.ends_with('.') && !one.title.is_empty(), "{}", one.name);
            assert_eq!(one.report().title, one.full_title());
        }
    }
}
