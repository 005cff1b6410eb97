//! `gyre attach`: a tenant's console. Its program's output is shown, lines that are typed are its input.

use std::{
    io::{self, BufRead as _, Read as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use crate::{
    agent::Agent,
    cli,
    failure::{Context as _, Result},
    instances::Instances,
    lifeline::Lifeline,
    out,
    project::Project,
    ui,
};

/// The most that the agent takes at once, bytes.
const TYPED_BYTES_MAX: usize = 4096;
/// Pause before what nobody has read yet is typed again.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs `gyre attach TENANT`: from now on, or with what was written before. Ctrl-C leaves; the program stays.
///
/// # Errors
/// When no machine runs, or there is no such tenant.
pub fn attach(arguments: &cli::Attach) -> Result<ExitCode> {
    let instances = Instances::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let (agent, tenant) = instances.of_tenant(&arguments.tenant)?;
    let life = instances.life_of(&arguments.tenant);
    let mut output = agent.stream(&format!("/logs/{tenant}?follow=1{}", if arguments.all { "" } else { "&new=1" }))?;
    std::thread::spawn(move || {
        if let Err(failure) = pass_lines(&agent, &tenant) {
            ui::warn(&failure.report.to_string());
        }
    });
    let line = Lifeline::new(life, output.get_ref())?;
    let mut bytes = vec![0; 16 << 10];
    loop {
        let count = line.heard(output.read(&mut bytes))?;
        let written =
            io::stdout().write_all(bytes.get(..count).unwrap_or_default()).and_then(|()| io::stdout().flush());
        match written {
            Err(error) if !out::is_end(&error) => {
                return Err(error).context(|| "cannot write to standard output".into());
            }
            Err(_) => return Ok(ExitCode::SUCCESS),
            Ok(()) if count == 0 => return Ok(ExitCode::SUCCESS),
            Ok(()) => {}
        }
    }
}

/// Types each line of standard input on the tenant's console.
fn pass_lines(agent: &Agent, tenant: &str) -> Result<()> {
    let mut input = io::stdin().lock();
    let mut line = vec![];
    loop {
        line.clear();
        let bytes = input.read_until(b'\n', &mut line).context(|| "cannot read standard input".into())?;
        if bytes == 0 {
            return Ok(());
        }
        type_in(agent, tenant, &line)?;
    }
}

fn type_in(agent: &Agent, tenant: &str, mut rest: &[u8]) -> Result<()> {
    while !rest.is_empty() {
        let piece = String::from_utf8_lossy(rest.get(..rest.len().min(TYPED_BYTES_MAX)).unwrap_or(rest)).into_owned();
        let taken: usize = agent.post(&format!("/console/{tenant}"), &piece)?.trim().parse().unwrap_or(0);
        rest = rest.get(taken..).unwrap_or_default();
        if taken == 0 {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}
