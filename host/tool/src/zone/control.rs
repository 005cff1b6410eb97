//! `gyre zone control`: cores move between a service zone and a batch zone so that the service's 99th percentile stays in its band (R11).
//!
//! ```text
//!   agent of the service's zone --answers by time--> window --> gyre_broker::threshold --> lend one core --> the supervisor
//! ```
//! * [`Law`]: the law of cores, which the broker of a zone that borrows follows too. It decides; nothing here does.
//! * Here: the windows, and the orders. The supervisor carries an order out as a whole or refuses it; the next window decides anew.
//!
//! Times are those that the kernel counts for each answer at TCP, or those of a program's heartbeats, of all tenants of the zone but its system tenant.
//! A service that is made again counts from then on.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use gyre_broker_program::cores::{Law, Move, Seen, Terms};
use gyre_contract::zones::{Command, Orderer, State, Zones};
use serde::Serialize;

use super::{wish::ms, words};
use crate::{
    agent::Agent,
    cli::Control,
    failure::{Context as _, Failure, Result},
    instances::{Instances, unknown},
    out::Form,
    stop::Stop,
};

/// One window, as `--json` writes it.
#[derive(Serialize)]
struct Report<'a> {
    /// Since the start, s.
    at_s: f64,
    /// Answers in the window.
    answers: u64,
    /// Their 99th percentile, ms; nothing without answers.
    p99_ms: Option<f64>,
    /// Cores of the service and of the batch zone.
    cores: [usize; 2],
    /// The zone that gets a core, if one moves.
    to: Option<&'a str>,
    /// Why.
    why: String,
    /// Nothing is moved, only said.
    is_dry_run: bool,
    /// Why the supervisor refused it.
    refused: Option<String>,
}

/// Runs `gyre zone control`.
///
/// # Errors
/// When there are no such zones, they do not run, or the machine ends.
pub fn control(instances: &Instances, wanted: &Control, form: Form) -> Result<ExitCode> {
    let supervisor = instances.supervisor();
    let cores = cores(&supervisor.zones()?, wanted)?;
    let service = instances.of_zone(&wanted.service)?;
    let Control { band, pause, answers, .. } = *wanted;
    let mut law = Law::new(&Terms { band, pause, answers, cores_least: 1 });
    if form == Form::People {
        let Control { service, batch, band, window, .. } = wanted;
        println!(
            "p99 of {service} in {}..{} ms: cores move between {service} ({}) and {batch} ({}), windows of {window:?}",
            band.lower_ms, band.upper_ms, cores[0], cores[1]
        );
    }
    let stop = Stop::on_signals()?;
    let begun = Instant::now();
    let is_over = || wanted.limit.is_some_and(|limit| begun.elapsed() >= limit);
    let mut before = service.goals()?.goals;
    while !is_over() && waits(&stop, wanted.window) == Pause::Whole {
        // a service that is made again is asked once it stands
        let Ok(after) = service.goals().map(|shown| shown.goals) else { continue };
        let seen = Seen::between(&before, &after);
        before = after;
        let round = Round { wanted, supervisor: &supervisor, at: begun.elapsed(), form };
        round.end(&mut law, &seen)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a pause was waited for.
#[derive(PartialEq, Eq)]
enum Pause {
    Whole,
    Stopped,
}

/// Waits for a window's end, or until the user ends it all.
fn waits(stop: &Stop, window: Duration) -> Pause {
    let end = Instant::now() + window;
    while Instant::now() < end {
        if stop.is_set() {
            return Pause::Stopped;
        }
        std::thread::sleep(Duration::from_millis(50).min(window));
    }
    Pause::Whole
}

/// Returns the cores of both zones, which run.
fn cores(zones: &Zones, wanted: &Control) -> Result<[usize; 2]> {
    let names: Vec<&str> = zones.zones.iter().map(|zone| zone.name.as_str()).collect();
    let of = |name: &str| {
        let view = zones.zones.iter().find(|zone| zone.name == name).ok_or_else(|| unknown("zone", name, &names))?;
        match view.state {
            State::Running => Ok(view.holds.cores.len()),
            _ => Err(Failure::new(format!("zone `{name}` does not run"))),
        }
    };
    if wanted.service == wanted.batch {
        return Err(Failure::new("a zone gets no cores from itself: name two zones"));
    }
    Ok([of(&wanted.service)?, of(&wanted.batch)?])
}

/// The end of a window.
struct Round<'a> {
    wanted: &'a Control,
    supervisor: &'a Agent,
    at: Duration,
    form: Form,
}

impl Round<'_> {
    /// Lets the law decide, has a core moved, and says why.
    fn end(&self, law: &mut Law, seen: &Seen) -> Result<()> {
        let zones = self.supervisor.zones()?;
        // one of both may be made again just now: then nothing moves
        let Ok(cores) = cores(&zones, self.wanted) else { return Ok(()) };
        let decision = law.decide(u64::try_from(self.at.as_nanos()).unwrap_or(u64::MAX), seen, cores);
        let Control { service, batch, .. } = self.wanted;
        let ends = decision.moves.map(|moves| match moves {
            Move::ToService => (batch, service),
            Move::ToBatch => (service, batch),
        });
        let refused = match ends {
            Some((from, to)) if !self.wanted.dry_run => self.lend(from, to, &zones)?,
            _ => None,
        };
        self.show(&Report {
            at_s: self.at.as_secs_f64(),
            answers: seen.answers,
            p99_ms: seen.p99_ms,
            cores,
            to: ends.map(|(_, to)| to.as_str()),
            why: decision.why,
            is_dry_run: self.wanted.dry_run,
            refused,
        })
    }

    /// Lends a core; answers why it was refused.
    fn lend(&self, from: &str, to: &str, zones: &Zones) -> Result<Option<String>> {
        let deadline_ms = ms(self.wanted.changing.deadline);
        let lend = Command::Lend { from: from.to_owned(), to: to.to_owned(), cores: 1, memory_bytes: 0, deadline_ms };
        Ok(self
            .supervisor
            .control_by(Orderer::Controller, &[lend])?
            .err()
            .map(|refusal| words::refusal(&refusal, zones).0))
    }

    fn show(&self, report: &Report<'_>) -> Result<()> {
        if self.form == Form::Programs {
            println!("{}", serde_json::to_string(report).context(|| "cannot write JSON".into())?);
            return Ok(());
        }
        let Report { at_s, answers, p99_ms, cores, to, why, is_dry_run, refused } = report;
        let time = p99_ms.map_or("no answer".to_owned(), |ms| format!("{ms:.1} ms"));
        let moved = match (to, refused) {
            (None, _) => "stays".to_owned(),
            (Some(to), None) if *is_dry_run => format!("a core would go to {to}"),
            (Some(to), None) => format!("a core goes to {to}"),
            (Some(to), Some(why)) => format!("no core goes to {to}, {why}"),
        };
        println!("{at_s:>7.1} s  p99 {time} of {answers} answers, cores {} and {}: {moved}; {why}", cores[0], cores[1]);
        Ok(())
    }
}
