//! `gyre run`: everything from a machine file to the bill.
//!
//! * [`start`] makes what is missing and starts QEMU.
//! * A machine is up once its agent has answered (`up`): from then on each end has a bill, and `--for` counts.
//! * While it runs it is watched (`pulse`): one that does not answer is told, and ended after its owner's patience.
//! * [`Outcome`] takes stock before the end, which is in order if the machine answers (`end`).
//!
//! The other parts prepare or serve one thing each: disks, consoles, names, ports, programs.

mod boot;
pub mod consoles;
pub mod control;
mod detached;
pub mod disks;
mod end;
mod image_file;
pub mod kept;
pub mod names;
mod plain;
pub mod programs;
mod pulse;
pub mod renewed;
mod result;
pub mod space;
mod start;
mod up;
mod wish;

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use crate::{
    cli,
    failure::{Failure, Kind, Result},
    ledger::{day::Tariff, keeper::Keeper},
    machines::{info::Info, recorder::Recorder},
    namespace,
    project::Project,
    qemu,
    record::{self, Watch},
    stop::Stop,
    ui::{self, Step},
    view::{
        Sampler, metrics, page,
        sampler::Sources,
        terminal::{self, Leaving},
    },
};
use pulse::{Pulse, Silence};
pub use result::Outcome;
pub use start::{Running, customers, start, start_with_clock};
use up::Up;
use wish::ReportWish;

/// Runs `gyre run FILE`.
///
/// # Errors
/// When the file is wrong, the host lacks something, or the machine stops by itself.
pub fn run(arguments: &cli::Run) -> Result<ExitCode> {
    let project = Project::find()?;
    let description = image_file::describe(arguments)?;
    if arguments.detach && !detached::is_inside() {
        return detached::start(&project, &description.machine.name);
    }
    if arguments.detach {
        detached::leave_terminal()?;
    }
    namespace::become_root_in_namespace()?;
    let stop = Stop::on_signals()?;
    let watch_of_host = Watch::start();
    let mut running = start::start(&project, description, arguments, &stop)?;
    let sampler = Sampler::start(sources(&running))?;
    let folder = project.run_folder(&running.description.machine.name)?;
    if arguments.page != 0 {
        let prices = running.description.prices.as_ref().map(Tariff::from);
        let (sampler, folder) = (sampler.clone(), folder.clone());
        page::serve(arguments.page, page::Watched { sampler, folder, prices, ended: None })?;
        ui::say(&format!("  live page at http://127.0.0.1:{}/", arguments.page));
    }
    serve_metrics(&running, arguments)?;
    let recorder = Recorder::start(&folder, &running.instances, &sampler)?;
    let name = &running.description.machine.name;
    let prices = running.description.prices.as_ref();
    let keeper = Keeper::start(&project.cache("bills")?, name, &running.instances, &sampler, prices)?;
    let watched = watch(&mut running, arguments, (&stop, &folder), &sampler);
    let outcome = Outcome::of(&mut running, &sampler);
    let asked = running.instances.snapshots().into_iter();
    keeper.end(&asked.zip(sampler.last()).map(|(asked, last)| asked.or(last)).collect::<Vec<_>>());
    drop(sampler);
    let is_silent = watched.as_ref().is_err_and(|failure| failure.kind == Kind::Silent);
    if arguments.on == cli::Kernel::Gyre && !is_silent {
        running.end();
    }
    if let Some(copying) = &running.copying {
        copying.catch_up();
    }
    let end =
        watched.as_ref().map_or_else(|failure| format!("ended: {}", failure.report), |()| "ended in order".into());
    recorder.end(&end);
    Info::note_end(&folder, &end)?;
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

/// Serves figures for Prometheus, if that is wanted.
fn serve_metrics(running: &Running, arguments: &cli::Run) -> Result<()> {
    let Some(at) = arguments.metrics else { return Ok(()) };
    let agents = running.instances.all.iter().map(|one| (one.zone.clone(), running.instances.agent(one)));
    let token = arguments.metrics_token.as_deref().map(metrics::token).transpose()?;
    metrics::serve(at, metrics::Source { agents: agents.collect(), router: running.router.clone(), token })?;
    ui::say(&format!("  figures for Prometheus at http://{at}/metrics"));
    Ok(())
}

/// Keeps the bill of a run, and shows it in the documents.
fn record_bill(project: &Project, outcome: &Outcome, watch: &Watch, arguments: &cli::Run) -> Result<()> {
    let conditions = watch.conditions(project, record::run_command(project, arguments))?;
    record::bill(project, &conditions, &outcome.plain_bill()?)?;
    record::documents(project)
}

/// Returns the sources of a sampler. The link's rate is that of all cards that have customers.
pub fn sources(running: &Running) -> Sources {
    let machine = &running.description.machine;
    let cards = running.description.instances().filter(|instance| !instance.tenants.is_empty()).count();
    Sources {
        link_bits_per_second: machine.link.rate_bits_per_second.map(|rate| rate.saturating_mul(cards.max(1) as u64)),
        wire: Some(running.wire.counters.clone()),
        lines: running.lines.clone(),
        ..Sources::of(&machine.name, &running.instances)
    }
}

/// Waits until the machine is up, and then until its run is to end.
///
/// # Errors
/// When the machine stops by itself, or does not answer for longer than its owner waits.
fn watch(
    running: &mut Running,
    arguments: &cli::Run,
    (stop, folder): (&Stop, &Path),
    sampler: &Arc<Sampler>,
) -> Result<()> {
    let name = running.description.machine.name.clone();
    let patience = Some(arguments.patience).filter(|patience| !patience.is_zero());
    let mut pulse = Pulse::new(patience, &running.qemu);
    let wish = ReportWish::on_signal()?;
    let up = Up::new(folder, arguments.duration);
    let mut up = if patience.is_some() { up } else { up.with_boot() };
    let mut is_over = |up: &Up| {
        let is_over = is_over(running, up, stop)?;
        if !is_over {
            answers(running, &mut pulse, sampler)?;
            if wish.take() {
                running.qemu.ask_for_report()?;
            }
        }
        Ok(is_over)
    };
    let step = Step::start("waiting for the first answer");
    plain::wait(sampler, &mut || Ok(sampler.answers() > 0 || is_over(&up)?))?;
    if sampler.answers() > 0 {
        up.tell()?;
        step.done_with("the machine is up");
    }
    let mut over = || is_over(&up);
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
    match pulse.look(sampler.answers()) {
        Silence::Nothing => {}
        Silence::Long(time) => {
            sampler.tell(&format!("{}{}", silent(time), running.why_silent()));
            // It stands in the console's log; a run that ends because of the silence shows a later one.
            running.qemu.ask_for_report()?;
        }
        Silence::TooLong(time) => {
            let message = format!("{}, so QEMU is ended; its disks stay as they are", silent(time));
            let help = format!(
                "{}\nThe console's last lines:\n{}\nIts cores say:\n{}",
                running.why_silent().trim_start_matches(": "),
                running.last_words(),
                running.qemu.report(),
            );
            return Err(Failure::with_help(message, help).kind(Kind::Silent));
        }
    }
    Ok(())
}

/// Returns whether a run is to end: by signal, by time, or because the machine has ended.
///
/// # Errors
/// When the machine stopped by itself.
fn is_over(running: &mut Running, up: &Up, stop: &Stop) -> Result<bool> {
    if let Some(status) = running.qemu.ended()? {
        if qemu::is_orderly(status) {
            return Ok(true);
        }
        return Err(running.qemu.unexpected_end(status));
    }
    Ok(stop.is_set() || up.is_over())
}
