//! Bills by day and month: `bills/MACHINE/YYYY-MM-DD.json` in the state folder, and `gyre bill --day` and `--month`.
//!
//! * [`day`]: the file of one day, with an entry for each run of the machine on it.
//! * [`keeper`]: the thread of `gyre run` that keeps it up to date.
//! * [`period`]: what a day or a month comes to, for people and as JSON.
//! * [`focus`]: charges in the columns of FOCUS, for programs that read bills of other providers.
//!
//! Days are those of UTC. A tenant that has left and one of its name that came later are one account.

pub mod day;
pub mod focus;
pub mod keeper;
pub mod period;

use std::{path::PathBuf, process::ExitCode};

use crate::{
    bill::Document,
    cli::{self, BillFormat},
    failure::{Context as _, Failure, Result},
    project::Project,
};
use day::{Day, Tariff};
use period::Period;

/// Runs `gyre bill --day` and `gyre bill --month`.
///
/// # Errors
/// When no bills are kept for the machine or the time.
pub fn bill(arguments: &cli::Bill, span: &cli::Span) -> Result<ExitCode> {
    let folder = folder(arguments.select.machine.as_deref())?;
    let days = read(&folder, &span.0)?;
    let period = Period::of(&span.0, &days);
    match arguments.form() {
        BillFormat::Table => print!("{}", period.table()),
        BillFormat::Json => Document::of(&period).print()?,
        BillFormat::Csv => print!("{}", focus::csv(&days)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder with the bills of a machine, or of the only one that has any.
fn folder(machine: Option<&str>) -> Result<PathBuf> {
    let all = Project::find()?.cache("bills")?;
    let entries = std::fs::read_dir(&all).context(|| format!("cannot read {}", all.display()))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let there =
        if names.is_empty() { "no machine has run yet".into() } else { format!("there is: {}", names.join(", ")) };
    match (machine, &names[..]) {
        (Some(name), _) if names.iter().any(|known| known == name) => Ok(all.join(name)),
        (Some(name), _) => Err(Failure::with_help(format!("there are no bills of a machine `{name}`"), there)),
        (None, [only]) => Ok(all.join(only)),
        (None, []) => Err(Failure::with_help("there are no bills", there)),
        (None, _) => Err(Failure::with_help(
            "there are bills of several machines",
            format!("choose one with --machine: {}", names.join(", ")),
        )),
    }
}

/// Returns the prices of a machine's last run, if it had any.
pub fn prices_of(project: &Project, machine: &str) -> Option<Tariff> {
    let folder = project.cache("bills").ok()?.join(machine);
    let days = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let last = days.filter(|path| path.to_string_lossy().ends_with(day::ENDING)).max()?;
    Day::read(&last).ok()?.runs.pop()?.prices
}

/// Reads the days of a month, or one day: those whose name begins so.
fn read(folder: &std::path::Path, span: &str) -> Result<Vec<Day>> {
    let entries = std::fs::read_dir(folder).context(|| format!("cannot read {}", folder.display()))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(day::ENDING));
    names.sort();
    let wanted = names.iter().filter(|name| name.starts_with(span));
    let days = wanted.map(|name| Day::read(&folder.join(name))).collect::<Result<Vec<_>>>()?;
    if days.is_empty() {
        let first = names.first().map_or_else(
            || "no day is kept yet".to_owned(),
            |name| format!("the first day is {}", name.trim_end_matches(day::ENDING)),
        );
        return Err(Failure::with_help(format!("there is no bill of {span}"), first));
    }
    Ok(days)
}
