//! `gyre start`, `gyre stop TENANT`, `gyre restart` and `gyre events`: the life of a tenant's program.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use gyre_contract::{
    monitor::{Activity, State},
    native::{Change, Life},
};
use serde::Serialize;

use crate::{
    agent::Agent,
    check::print_json,
    cli,
    failure::{Context as _, Failure, Result},
    instances::Instances,
    machines::{self, events, recorder},
    out,
    project::Project,
    ui,
    view::harmless::harmless,
};

/// How long is waited for a program beyond its grace time.
const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// The answer of `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    tenant: &'a str,
    state: String,
}

/// Runs `gyre start TENANT`.
///
/// # Errors
/// When there is no such tenant, or it runs.
pub fn start(arguments: &cli::Tenant) -> Result<ExitCode> {
    change(arguments, Life::Start)
}

/// Runs `gyre stop TENANT`: its programs end, its files and the machine stay.
///
/// # Errors
/// When there is no such tenant, or it does not run.
pub fn stop(arguments: &cli::Tenant) -> Result<ExitCode> {
    change(arguments, Life::Stop { grace_ms: grace(arguments) })
}

/// Runs `gyre restart TENANT`.
///
/// # Errors
/// When there is no such tenant.
pub fn restart(arguments: &cli::Tenant) -> Result<ExitCode> {
    change(arguments, Life::Restart { grace_ms: grace(arguments) })
}

fn grace(arguments: &cli::Tenant) -> u64 {
    u64::try_from(arguments.time.as_millis()).unwrap_or(u64::MAX)
}

/// Asks for the change and waits until it is done.
fn change(arguments: &cli::Tenant, life: Life) -> Result<ExitCode> {
    let project = Project::find()?;
    let instances = Instances::find(&project, arguments.select.machine.as_deref())?;
    let (agent, name) = instances.of_tenant(&arguments.tenant)?;
    let before = tenant(&agent, &name)?.restarts;
    let wish = Change::Life { name: name.clone(), life };
    agent.post("/set", &serde_json::to_string(&wish).context(|| "cannot write JSON".into())?)?;
    note(&project, arguments, life)?;
    let limit = Instant::now() + arguments.time + LIMIT;
    loop {
        let now = tenant(&agent, &name)?;
        if is_done(&now, before, life) {
            return told(arguments, &now);
        }
        if Instant::now() > limit {
            return Err(Failure::new(format!("tenant `{name}` is {} still", recorder::words(&now))));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Writes down whose wish it was; a machine of an experiment has no list of events.
fn note(project: &Project, arguments: &cli::Tenant, life: Life) -> Result<()> {
    let Ok(known) = machines::find(project, arguments.select.machine.as_deref()) else { return Ok(()) };
    let event = match life {
        Life::Start => "the owner starts it",
        Life::Stop { .. } => "the owner stops it",
        Life::Restart { .. } => "the owner starts it again",
        Life::Away { .. } => "the owner gives it another image",
        Life::Back => "it has its image",
    };
    events::add(&known.folder, &events::Event::now(Some(&arguments.tenant), event))
}

fn is_done(now: &Activity, restarts_before: u64, life: Life) -> bool {
    let has_begun = !matches!(now.state, State::Starting | State::Stopped | State::Away | State::Pausing { .. });
    match life {
        Life::Start => has_begun,
        Life::Stop { .. } => now.state == State::Stopped,
        Life::Restart { .. } => has_begun && now.restarts > restarts_before,
        Life::Away { .. } => now.state == State::Away,
        Life::Back => now.state != State::Away,
    }
}

fn told(arguments: &cli::Tenant, now: &Activity) -> Result<ExitCode> {
    let state = recorder::words(now);
    match arguments.json {
        true => print_json(&Answer { tenant: &arguments.tenant, state })?,
        false => ui::say(&format!("{} is {state}", arguments.tenant)),
    }
    Ok(ExitCode::SUCCESS)
}

fn tenant(agent: &Agent, name: &str) -> Result<Activity> {
    let all = agent.snapshot()?.activities;
    let found = all.into_iter().find(|one| one.name == name);
    found.ok_or_else(|| Failure::with_help(format!("there is no tenant `{name}`"), "gyre ls shows the tenants"))
}

/// Runs `gyre events`.
///
/// # Errors
/// When no machine runs or ran.
pub fn events(arguments: &cli::Events) -> Result<ExitCode> {
    let known = machines::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let mut shown = 0;
    loop {
        let all = events::read(&known.folder)?;
        let began =
            jiff::Timestamp::from_millisecond(known.info.started_unix_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let since = arguments.since.unwrap_or(began);
        for event in all.iter().skip(shown).filter(|event| event.at() >= since) {
            show(arguments, event)?;
        }
        shown = all.len();
        if !arguments.follow || !known.runs() || out::is_closed() {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(PAUSE);
    }
}

fn show(arguments: &cli::Events, event: &events::Event) -> Result<()> {
    if arguments.json {
        println!("{}", serde_json::to_string(event).context(|| "cannot write JSON".into())?);
    } else {
        println!("{}  {:<16}  {}", event.time, event.tenant.as_deref().unwrap_or("-"), harmless(&event.event));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_done_once_the_program_was_started_again() {
        let now = |state, restarts| Activity { state, restarts, ..Activity::default() };
        let restart = Life::Restart { grace_ms: 1 };
        assert!(!is_done(&now(State::Running, 2), 2, restart) && is_done(&now(State::Running, 3), 2, restart));
        let stop = Life::Stop { grace_ms: 1 };
        assert!(!is_done(&now(State::Running, 2), 2, stop) && is_done(&now(State::Stopped, 2), 2, stop));
        assert!(!is_done(&now(State::Stopped, 0), 0, Life::Start) && is_done(&now(State::Running, 0), 0, Life::Start));
    }
}
