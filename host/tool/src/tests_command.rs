//! `gyre test`: every test of the project, and one last line that says how many passed.

mod ahead;
mod attempt;
mod boot;
mod closing;
mod host;
mod known;
mod lanes;
mod models;
mod programs;
mod second_try;
mod steadiness;
mod tally;

use std::process::ExitCode;

use crate::{check::print_json, cli, failure::Result, project::Project, ui::Step};
use known::Known;
use lanes::Job;
use programs::Programs;
use tally::Tally;

/// Runs `gyre test [FILTER]`.
///
/// # Errors
/// When a test cannot even be started.
pub fn test(arguments: &cli::Test) -> Result<ExitCode> {
    let project = Project::find()?;
    project.needs_tree("a test")?;
    let known = Known::read(&project)?;
    let mut tally = Tally::default();
    let programs = host::build(&project, &mut tally)?;
    tally.add(on_the_host(&project, arguments, &programs)?);
    if !arguments.no_boot {
        boot::tests(&project, arguments, &known, &mut tally)?;
    }
    closing::tell(&tally, &known);
    match arguments.json {
        true => print_json(&tally)?,
        false => println!("{}", closing::count(&tally)),
    }
    Ok(ExitCode::from(u8::from(!tally.failed.is_empty())))
}

/// Everything that boots nothing, side by side: what takes longest is begun first.
fn on_the_host(project: &Project, arguments: &cli::Test, programs: &Programs) -> Result<Tally> {
    let step = Step::start("testing on the host");
    let mut jobs: Vec<Job> = vec![
        Box::new(|| {
            ahead::build(project, arguments);
            host::lints(project, arguments)
        }),
        Box::new(|| models::seeds(project, arguments, programs.tool("gyre-simulation"))),
    ];
    jobs.extend(programs.tests.iter().map(|program| Box::new(|| program.run(arguments, &step)) as Job));
    jobs.push(Box::new(|| models::loom(project, arguments)));
    jobs.push(Box::new(|| host::tidy(project, programs.tool("gyre-tidy"))));
    // No examples in comments (cargo test --doc): tidy refuses those that rustdoc would run.
    let tally = lanes::run("the tests on the host", jobs, lanes::enough())?;
    step.done_with(&format!("{} passed", tally.passed));
    Ok(tally)
}
