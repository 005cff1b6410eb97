//! `gyre test`: every test of the project, and one last line that says how many passed.
//!
//! [`plan`] says what a call tests. `--repeat` does it several times, and `load` and `pauses` make the host worse
//! meanwhile.

mod ahead;
mod attempt;
mod boot;
mod bound;
mod closing;
mod counts;
mod draws;
mod groups;
mod host;
mod known;
mod lanes;
mod load;
mod models;
mod pauses;
mod plan;
mod processes;
mod programs;
mod quick;
mod repeat;
mod second_try;
mod steadiness;
mod tally;

use std::{process::ExitCode, time::Instant};

use crate::{build, check::print_json, cli, failure::Result, project::Project, ui::Step};
use attempt::Try;
use closing::Goal;
use counts::{Counts, Seen};
use known::Known;
use lanes::Job;
use plan::Plan;
use programs::Programs;
use repeat::Rounds;
use tally::Tally;

/// Runs `gyre test [FILTER]`.
///
/// # Errors
/// When a test cannot even be started.
pub fn test(arguments: &cli::Test) -> Result<ExitCode> {
    let (project, began) = (Project::find()?, Instant::now());
    project.needs_tree("a test")?;
    groups::end_on_signals()?;
    let (known, counts) = (Known::read(&project)?, Counts::read(&project)?);
    let names: Vec<String> = boot::scripts(&project).into_iter().map(|script| script.name).collect();
    let plan = Plan::of(&project, arguments, &names)?;
    let goal = Goal::of(&project, &plan);
    let mut tally = Tally::default();
    let programs = if plan.has_host { host::build(&project, &plan, &mut tally)? } else { Programs::default() };
    let load = Load::start(&project, arguments);
    if let Some(count) = arguments.repeat {
        let rounds = repeated(&project, &plan, &programs, tally, count)?;
        drop(load);
        return rounds.tell(arguments);
    }
    let host = on_the_host(&project, &plan, &programs)?;
    let all_of_host = plan.has_host && plan.filter.is_none() && plan.packages.is_none() && tally.failed.is_empty();
    let host_checks = all_of_host.then(|| host.checks());
    tally.add(host);
    let ended = boot::run(&project, &plan, Try::First, &mut tally)?;
    tally.add(second_try::judge(&project, &plan, ended, &known)?);
    drop(load);
    let seen = Seen::of_suites(host_checks, &tally);
    if arguments.count {
        counts.renew(&project, seen, &tally)?;
    } else {
        tally.failed.extend(counts.missing(&plan, &seen));
    }
    closing::tell(&tally, &known);
    goal.tell(began.elapsed());
    match arguments.json {
        true => print_json(&tally)?,
        false => println!("{}", closing::count(&tally)),
    }
    Ok(ExitCode::from(u8::from(!tally.failed.is_empty())))
}

/// Everything that makes the host worse, as long as it is kept.
struct Load {
    _hogs: Option<load::Hogs>,
    _pauses: Option<pauses::Pauses>,
}

impl Load {
    /// Begins what a call asks for, once the kernel is built: a compiler has nothing to show on a busy host.
    fn start(project: &Project, arguments: &cli::Test) -> Self {
        if (arguments.busy || arguments.pauses) && !arguments.no_boot {
            // The suites tell of whatever does not build.
            let _ = build::ahead(project);
        }
        let (_hogs, _pauses) = (arguments.busy.then(load::Hogs::start), arguments.pauses.then(pauses::Pauses::start));
        Self { _hogs, _pauses }
    }
}

/// Runs what is chosen several times.
fn repeated(project: &Project, plan: &Plan, programs: &Programs, built: Tally, count: u32) -> Result<Rounds> {
    let mut rounds = Rounds::default();
    for round in 1..=count {
        let step = Step::start(format!("round {round} of {count}"));
        let mut tally = Tally { failed: built.failed.clone(), ..Tally::default() };
        tally.add(on_the_host(project, plan, programs)?);
        for (_, attempt) in boot::run(project, plan, Try::Round(round), &mut tally)? {
            tally.add(attempt.tally);
        }
        closing::tell_stories(&tally);
        rounds.add(&tally);
        step.done_with(&closing::count(&tally));
    }
    Ok(rounds)
}

/// Everything that boots nothing, side by side: what takes longest is begun first.
fn on_the_host(project: &Project, plan: &Plan, programs: &Programs) -> Result<Tally> {
    if !plan.has_host {
        return Ok(Tally::default());
    }
    let step = Step::start("testing on the host");
    let mut jobs: Vec<Job> = vec![
        Box::new(|| {
            ahead::build(project, plan);
            host::lints(project, plan)
        }),
        Box::new(|| models::seeds(project, plan, programs.tool("gyre-simulation"))),
    ];
    jobs.extend(programs.tests.iter().map(|program| Box::new(|| program.run(plan, &step)) as Job));
    jobs.push(Box::new(|| models::loom(project, plan)));
    jobs.push(Box::new(|| host::tidy(project, programs.tool("gyre-tidy"))));
    // No examples in comments (cargo test --doc): tidy refuses those that rustdoc would run.
    let tally = lanes::run("the tests on the host", jobs, lanes::enough())?;
    step.done_with(&format!("{} passed", tally.passed));
    Ok(tally)
}
