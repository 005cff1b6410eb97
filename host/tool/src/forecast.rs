//! `gyre sim`, and the question that `gyre broker --policy` asks first: who would meet its goal under a policy?
//!
//! The answer is [`gyre_broker_program::forecast`]'s: the broker itself, on a machine of models. Demands come from `[tenant.model]` of the
//! machine file, else from two looks at a machine that runs, else those without a goal want all there is.

mod demand;
mod show;

use std::{process::ExitCode, time::Duration};

use gyre_broker_program::{
    chosen,
    forecast::{Demand, Forecast, Outcome, Question, forecast, measured},
};
use gyre_contract::{
    boot::{Machine, TenantKind},
    catalogue::Resource,
    goals::{BrokerPolicy, BrokerState, GOALS_VERSION, Goals, Shown, TenantGoal},
};
use gyre_machine_file::Description;

use crate::{
    agent::Agent,
    check::{self, print_json},
    cli,
    failure::{Failure, Result},
    instances::Instances,
    project::Project,
    ui::Step,
};

/// Time between the two looks at a running machine.
const LOOK: Duration = Duration::from_secs(3);
/// How long, and under how many seeds, a change of policy is played.
const CHANGE_S: u32 = 300;
const CHANGE_SEEDS: u32 = 2;

/// Runs `gyre sim FILE`.
///
/// # Errors
/// When the file is wrong, has no goal, or nothing is known of a tenant with one.
pub fn sim(arguments: &cli::Sim) -> Result<ExitCode> {
    let description = check::read(&arguments.file)?;
    let goals = goals_of(&description.machine);
    let policy = arguments.policy.unwrap_or_else(|| chosen(&goals));
    let measured = if arguments.no_machine { None } else { of_machine(&description.machine.name)? };
    let demands = demand::all(&description, &goals, measured.as_deref());
    if let Some(tenant) = demand::unknown(&goals, &demands) {
        let help =
            "add [tenant.model] to it with `work` and `rate` or `clients`, or start the machine: gyre sim measures it";
        return Err(Failure::with_help(format!("nothing is known of what tenant `{tenant}` wants"), help));
    }
    let seconds = u32::try_from(arguments.duration.as_secs()).unwrap_or(u32::MAX);
    let question = Question { policy, seconds, seed: arguments.seed, seeds: arguments.seeds };
    let answer = forecast(&goals, &demands, &question);
    match arguments.json {
        true => print_json(&answer)?,
        false => print!("{}", show::text(&answer)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks twice at the machine of a name, if it runs.
fn of_machine(name: &str) -> Result<Option<Vec<Demand>>> {
    let Ok(instances) = Instances::find(&Project::find()?, Some(name)) else { return Ok(None) };
    Ok(Some(look(&instances.supervisor())?.1))
}

/// Looks twice at a machine: what it is to reach now, and what its tenants want.
fn look(agent: &Agent) -> Result<(Shown, Vec<Demand>)> {
    let step = Step::start("measuring what tenants want");
    let before = agent.goals()?.goals;
    std::thread::sleep(LOOK);
    let shown = agent.goals()?;
    step.done();
    let demands = measured::demands(&before, &shown.goals);
    Ok((shown, demands))
}

/// Asks what a policy would do to a running machine: shows it, and refuses it if a goal that is met now would be missed.
///
/// # Errors
/// When a goal would be missed and `force` does not say that this is wanted; when the machine does not answer.
pub fn ask(agent: &Agent, policy: BrokerPolicy, force: Force) -> Result<()> {
    let (shown, demands) = look(agent)?;
    if shown.goals.tenants.iter().all(|tenant| gyre_broker_program::measure::aim(tenant).is_none()) {
        return Ok(());
    }
    let question = Question { policy, seconds: CHANGE_S, seed: 1, seeds: CHANGE_SEEDS };
    let next = forecast(&shown.goals, &demands, &question);
    eprint!("{}", show::text(&next));
    let present = present(&shown);
    let now = forecast(&shown.goals, &demands, &Question { policy: present, ..question });
    match lost(&shown, &now, &next) {
        Some(outcome) if force == Force::No => {
            let part = outcome.met_percent.unwrap_or_default();
            let message =
                format!("tenant `{}` meets its goal now and would in {part:.0} % of the time", outcome.tenant);
            Err(Failure::with_help(message, "gyre broker --policy NAME --force follows the policy nevertheless"))
        }
        _ => Ok(()),
    }
}

/// Whether a policy is followed although a goal would be missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// It is refused.
    No,
    /// It is followed.
    Yes,
}

/// The policy that divides the machine now.
fn present(shown: &Shown) -> BrokerPolicy {
    let report = shown.report.as_ref().filter(|report| shown.broker != BrokerState::Off && !report.is_dry_run);
    let named = report.and_then(|report| BrokerPolicy::ALL.iter().find(|(name, _)| *name == report.policy));
    named.map_or(BrokerPolicy::Off, |(_, policy)| *policy)
}

/// Returns who meets its goal now, by its last window, and would under the present policy, but not under the next one.
fn lost<'a>(shown: &Shown, now: &Forecast, next: &'a Forecast) -> Option<&'a Outcome> {
    let lines = || shown.report.iter().flat_map(|report| &report.lines);
    let seen = |name: &str| lines().find(|line| line.tenant == name).and_then(|line| line.is_met);
    let would = |name: &str| now.tenants.iter().find(|one| one.tenant == name).and_then(Outcome::is_met);
    let is_met = |name: &str| seen(name) != Some(false) && would(name) == Some(true);
    next.tenants.iter().find(|one| one.is_met() == Some(false) && is_met(&one.tenant))
}

/// Returns the goals of a machine that has done nothing yet.
pub fn goals_of(machine: &Machine) -> Goals {
    let tenant = |tenant: &gyre_contract::boot::Tenant| TenantGoal {
        name: tenant.name.clone(),
        is_system: tenant.kind == TenantKind::System,
        is_grouped: tenant.parent.is_some(),
        goal: tenant.goal,
        share: tenant.share,
        at_cpu: tenant.entitlements.iter().find(|one| one.resource == Resource::Cpu).cloned(),
        cell_thousandths: tenant.cell.map(|cell| cell.plan(0).core_thousandths()),
        ..TenantGoal::default()
    };
    Goals {
        version: GOALS_VERSION,
        cores: machine.cores,
        cycles_per_second: 1_000_000_000,
        broker: machine.broker.clone(),
        tenants: machine.tenants.iter().map(tenant).collect(),
        ..Goals::default()
    }
}

#[cfg(test)]
#[path = "forecast/tests.rs"]
mod tests;
