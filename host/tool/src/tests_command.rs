//! `gyre test`: every test of the project, and one last line that says how many passed.

mod boot;
mod host;
mod models;
mod tally;

use std::process::ExitCode;

use crate::{
    check::print_json,
    cli,
    failure::Result,
    project::Project,
    ui::{Paint, paint, say},
};
use tally::Tally;

/// `gyre test [FILTER]`.
///
/// # Errors
/// When a test cannot even be started.
pub fn test(arguments: &cli::Test) -> Result<ExitCode> {
    let project = Project::find()?;
    let mut tally = Tally::default();
    host::tests(&project, arguments, &mut tally)?;
    models::loom(&project, arguments, &mut tally)?;
    models::seeds(&project, arguments, &mut tally)?;
    host::tidy(&project, &mut tally)?;
    host::lints(&project, arguments, &mut tally)?;
    if !arguments.no_boot {
        boot::tests(&project, arguments, &mut tally)?;
    }
    for name in &tally.failed {
        say(&format!("{} {name}", paint(Paint::Bad, "failed:")));
    }
    match arguments.json {
        true => print_json(&tally)?,
        false => println!("{} passed, {} failed", tally.passed, tally.failed.len()),
    }
    Ok(ExitCode::from(u8::from(!tally.failed.is_empty())))
}
