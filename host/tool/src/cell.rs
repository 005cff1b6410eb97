//! `gyre cell`: programs of tenants on cores and memory of their own.
//!
//! * [`list`]: the list of cells, their log, and orders to give back.
//!
//! The launcher `gyre-cell` (`user/cell`) does it, in the tenant; this puts it into images and calls it.

mod list;

use std::process::ExitCode;

use gyre_machine_file::Description;
use sha2::{Digest as _, Sha256};

use crate::{
    agent::Agent,
    build,
    cli::{self, CellCommand, CellRun},
    exec,
    failure::{Context as _, Failure, Kind, Result},
    instances::Instances,
    out::Form,
    project::Project,
};

/// The launcher in an image.
const LAUNCHER: &str = "/usr/bin/gyre-cell";

/// Runs `gyre cell`.
///
/// # Errors
/// As `gyre exec`; the launcher's own errors are on its error stream, with code 126 or 127.
pub fn cell(arguments: &cli::Cell) -> Result<ExitCode> {
    match &arguments.command {
        CellCommand::Run(wanted) => run(wanted),
        CellCommand::List(wanted) => list::list(&agent(&wanted.select)?, Form::from(wanted.json)),
        CellCommand::Revoke(wanted) => list::revoke(&agent(&wanted.select)?, &wanted.order, Form::from(wanted.json)),
        CellCommand::Offer(wanted) => list::offer(&agent(&wanted.select)?, &wanted.offer, Form::from(wanted.json)),
        CellCommand::Pool(wanted) => list::pool(&agent(&wanted.select)?, &wanted.size, Form::from(wanted.json)),
        CellCommand::Log(wanted) => list::log(&agent(&wanted.select)?, &wanted.log, Form::from(wanted.json)),
    }
}

/// The agent of the instance that keeps memory for cells: never a zone.
fn agent(select: &cli::Select) -> Result<Agent> {
    Ok(Instances::find(&Project::find()?, select.machine.as_deref())?.supervisor())
}

/// Puts the launcher into the images of a machine that has memory for cells, and its hash among the runtimes if the file names it.
///
/// # Errors
/// When it does not compile.
pub fn provide(project: &Project, description: &mut Description) -> Result<()> {
    if description.machine.cells_bytes == 0 {
        return Ok(());
    }
    let launcher = build::cell(project)?;
    let runtimes = &mut description.machine.cells_runtimes;
    if runtimes.contains(&gyre_machine_file::LAUNCHER) {
        let bytes = std::fs::read(&launcher).context(|| format!("cannot read {}", launcher.display()))?;
        let hash: [u8; 32] = Sha256::digest(bytes).into();
        runtimes.iter_mut().filter(|one| **one == gyre_machine_file::LAUNCHER).for_each(|one| *one = hash);
    }
    for image in description.images.values_mut().filter(|image| image.ready.is_none()) {
        image.files.entry(LAUNCHER.into()).or_insert_with(|| launcher.clone());
    }
    Ok(())
}

/// Runs a program as a cell, if the instance that its tenant is in keeps memory for cells, or it needs none.
fn run(wanted: &CellRun) -> Result<ExitCode> {
    if !wanted.unleased {
        let instances = Instances::find(&Project::find()?, wanted.select.machine.as_deref())?;
        let (agent, _) = instances.of_tenant(&wanted.tenant)?;
        agent.seats()?;
    }
    exec::exec(&launch(wanted)).map_err(|failure| of_launcher(failure, &wanted.tenant))
}

/// Says what to do if the launcher is not there.
fn of_launcher(failure: Failure, tenant: &str) -> Failure {
    if failure.kind != Kind::NotFound {
        return failure;
    }
    let help = "`gyre run` puts it into images that are not `ready`, if the machine file has `[cells]`. Build it for \
        others (cargo build --release --package gyre-cell --target x86_64-unknown-linux-musl) and put it there.";
    Failure::with_help(format!("there is no launcher `{LAUNCHER}` in tenant `{tenant}`"), help).kind(Kind::NotFound)
}

/// The launcher's call in the tenant.
fn launch(run: &CellRun) -> cli::Exec {
    let cores = run.cores.to_string();
    let mut command: Vec<String> = [LAUNCHER, "--cores", &cores, "--memory", &run.memory].map(str::to_owned).to_vec();
    let options = [
        ("--pager", &run.pager),
        ("--frames", &run.frames),
        ("--fibers", &run.fibers),
        ("--io", &run.io),
        ("--disk", &run.disk),
        ("--device", &run.device),
        ("--card", &run.card),
        ("--card-device", &run.card_device),
    ];
    for (option, name) in options {
        command.extend(name.iter().flat_map(|name| [option.to_owned(), name.clone()]));
    }
    command.extend(run.restart.then(|| "--restart".to_owned()));
    command.extend(run.plain.then(|| "--plain".to_owned()));
    command.extend(run.unleased.then(|| "--unleased".to_owned()));
    command.push("--".into());
    command.extend(run.command.iter().cloned());
    let (select, tenant) = (run.select.clone(), run.tenant.clone());
    let (interactive, terminal) = (true, run.terminal);
    cli::Exec { select, tenant, command, env: run.env.clone(), interactive, terminal, json: run.json }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn command(words: &[&str]) -> Vec<String> {
        let cli = cli::Cli::try_parse_from([&["gyre", "cell", "run"], words].concat()).unwrap();
        let cli::Command::Cell(cli::Cell { command: CellCommand::Run(run) }) = cli.command else { panic!("another") };
        launch(&run).command
    }

    #[test]
    fn a_launcher_that_is_not_there_is_a_sentence_with_advice() {
        let told = |kind| of_launcher(Failure::new("cannot start it").kind(kind), "gold");
        let missing = told(Kind::NotFound);
        assert_eq!(missing.kind, Kind::NotFound);
        assert_eq!(missing.report.to_string(), "there is no launcher `/usr/bin/gyre-cell` in tenant `gold`");
        assert!(missing.json().contains("`ready`"), "{}", missing.json());
        assert_eq!(told(Kind::NotExecutable).report.to_string(), "cannot start it");
    }

    #[test]
    fn the_launcher_gets_its_options_and_the_program_its_own() {
        assert_eq!(
            command(&["gold", "--memory", "128 MiB", "--pager", "keep", "--", "/bin/sort", "--memory", "x"]),
            [LAUNCHER, "--cores", "1", "--memory", "128 MiB", "--pager", "keep", "--", "/bin/sort", "--memory", "x"]
        );
        assert!(command(&["gold", "--restart", "--", "x"]).contains(&"--restart".to_owned()));
        assert!(command(&["gold", "--plain", "--", "x"]).contains(&"--plain".to_owned()));
        assert!(command(&["gold", "--plain", "--unleased", "--", "x"]).contains(&"--unleased".to_owned()));
        assert_eq!(
            command(&["gold", "--disk", "/dev/x", "--device", "1", "--", "/bin/dd"]),
            [LAUNCHER, "--cores", "1", "--memory", "64 MiB", "--disk", "/dev/x", "--device", "1", "--", "/bin/dd"]
        );
        assert_eq!(
            command(&["gold", "--card", "/dev/net0", "--card-device", "1", "--", "x"])[5..],
            ["--card", "/dev/net0", "--card-device", "1", "--", "x"]
        );
        assert!(cli::Cli::try_parse_from(["gyre", "cell", "run", "gold"]).is_err());
    }
}
