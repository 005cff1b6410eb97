//! `gyre run`: everything from a machine file to the bill.

mod end;
mod plain;
mod pulse;
mod result;
mod space;
mod start;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    check, cli,
    failure::{Failure, Kind, Result},
    namespace,
    project::Project,
    qemu,
    record::{self, Watch},
    stop::Stop,
    ui,
    view::{
        Sampler, page,
        sampler::Sources,
        terminal::{self, Leaving},
    },
};
use pulse::{Pulse, Silence};
pub use result::Outcome;
pub use start::{Running, start, start_with_clock};

/// `gyre run FILE`.
///
/// # Errors
/// When the file is wrong, the host lacks something, or the machine stops by itself.
pub fn run(arguments: &cli::Run) -> Result<ExitCode> {
    namespace::become_root_in_namespace()?;
    let project = Project::find()?;
    let description = check::read(&arguments.file)?;
    let stop = Stop::on_signals()?;
    let watch_of_host = Watch::start();
    let mut running = start::start(&project, description, arguments, &stop)?;
    let sampler = Sampler::start(sources(&running))?;
    if arguments.page != 0 {
        page::serve(arguments.page, sampler.clone())?;
        ui::say(&format!("  live page at http://127.0.0.1:{}/", arguments.page));
    }
    let watched = watch(&mut running, arguments, &stop, &sampler);
    let outcome = Outcome::of(&mut running, &sampler);
    drop(sampler);
    let is_silent = watched.as_ref().is_err_and(|failure| failure.kind == Kind::Silent);
    if arguments.on == cli::Kernel::Gyre && !is_silent {
        running.end();
    }
    if let Some(copying) = &running.copying {
        copying.catch_up();
    }
    match &watched {
        Err(_) if !arguments.json => outcome.show_what_there_is(),
        _ => outcome.show(arguments.json)?,
    }
    watched?;
    outcome.check()?;
    if arguments.record {
        record_bill(&project, &outcome, &watch_of_host, arguments)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Keeps the bill of a run, and shows it in the documents.
fn record_bill(project: &Project, outcome: &Outcome, watch: &Watch, arguments: &cli::Run) -> Result<()> {
    let conditions = watch.conditions(project, record::run_command(project, arguments))?;
    record::bill(project, &conditions, &outcome.plain_bill()?)?;
    record::documents(project)
}

/// What a sampler looks at.
pub fn sources(running: &Running) -> Sources {
    let machine = &running.description.machine;
    Sources {
        machine: machine.name.clone(),
        shares: machine.tenants.iter().map(|tenant| (tenant.name.clone(), tenant.share)).collect(),
        link_bits_per_second: machine.link.rate_bits_per_second,
        wire: Some(running.wire.counters.clone()),
        agent: running.agent.clone(),
    }
}

fn watch(running: &mut Running, arguments: &cli::Run, stop: &Stop, sampler: &Arc<Sampler>) -> Result<()> {
    let started = Instant::now();
    let name = running.description.machine.name.clone();
    let patience = Some(arguments.patience).filter(|patience| !patience.is_zero());
    let mut pulse = Pulse::new(patience);
    let mut over = || {
        let is_over = is_over(running, started, arguments.duration, stop)?;
        if !is_over {
            answers(running, &mut pulse, sampler)?;
        }
        Ok(is_over)
    };
    match () {
        () if arguments.console => plain::wait(sampler, &mut over),
        () if terminal::is_possible() && !arguments.json => terminal::watch(sampler, &name, Leaving::Machine, over),
        () => plain::watch(sampler, &mut over),
    }
}

/// Tells of a machine that does not answer.
///
/// # Errors
/// When it has not answered for longer than its owner waits.
fn answers(running: &Running, pulse: &mut Pulse, sampler: &Sampler) -> Result<()> {
    let silent = |time: Duration| format!("the machine has not answered for {} s", time.as_secs());
    match pulse.look(sampler.answers(), &running.qemu) {
        Silence::Nothing => {}
        Silence::Long(time) => sampler.tell(&format!("{}{}", silent(time), running.why_silent())),
        Silence::TooLong(time) => {
            let message = format!("{}, so QEMU is ended; its disks stay as they are", silent(time));
            let help = format!(
                "{}\nThe console's last lines:\n{}",
                running.why_silent().trim_start_matches(": "),
                running.last_words()
            );
            return Err(Failure::with_help(message, help).kind(Kind::Silent));
        }
    }
    Ok(())
}

/// Whether a run is to end: by signal, by time, or because the machine has ended.
///
/// # Errors
/// When the machine stopped by itself.
fn is_over(running: &mut Running, started: Instant, limit: Option<Duration>, stop: &Stop) -> Result<bool> {
    if let Some(status) = running.qemu.ended()? {
        if qemu::is_orderly(status) {
            return Ok(true);
        }
        return Err(running.qemu.unexpected_end(status));
    }
    Ok(stop.is_set() || limit.is_some_and(|limit| started.elapsed() >= limit))
}
