//! `gyre goals` and `gyre broker`: what tenants are to reach, what is measured, what the broker allocates, and why.

use std::{
    cmp::Ordering,
    process::ExitCode,
    time::{Duration, Instant},
};

use gyre_contract::goals::{BrokerPolicy, BrokerState, BrokerWish, Cores, Line, Report, Shown};

use crate::{
    agent::Agent,
    check::print_json,
    cli,
    failure::{Failure, Result},
    forecast::{self, Force},
    instances::Instances,
    project::Project,
    ui,
};

/// Time to wait for a window beyond the broker's own.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `gyre goals`.
///
/// # Errors
/// When no machine runs, or it measures no goals.
pub fn goals(arguments: &cli::Goals) -> Result<ExitCode> {
    let shown = agent(&arguments.select, arguments.zone.as_deref())?.goals()?;
    show(&shown, arguments.json)
}

/// Runs `gyre broker`.
///
/// # Errors
/// As [`goals`]; when a goal that is met now would be missed under a new policy; when no window ends in time.
pub fn broker(arguments: &cli::Broker) -> Result<ExitCode> {
    let agent = agent(&arguments.select, arguments.zone.as_deref())?;
    let before = agent.goals()?;
    let dry_run = arguments.dry_run.then_some(true).or(arguments.live.then_some(false));
    // A new policy is followed, unless it is to be only looked at.
    let dry_run = dry_run.or(arguments.policy.map(|_| false));
    let wish = BrokerWish { policy: arguments.policy, dry_run, kill: arguments.kill };
    let is_change = wish != BrokerWish::default();
    if let Some(policy) = arguments.policy.filter(|policy| *policy != BrokerPolicy::Off && dry_run == Some(false)) {
        forecast::ask(&agent, policy, if arguments.force { Force::Yes } else { Force::No })?;
    }
    if is_change {
        agent.broker(&wish)?;
    }
    let shown = match arguments.explain {
        true => next_window(&agent, &before, is_change)?,
        false => agent.goals()?,
    };
    show(&shown, arguments.json)
}

/// Returns the agent of a zone, or that of the machine or its supervisor.
fn agent(select: &cli::Select, zone: Option<&str>) -> Result<Agent> {
    let instances = Instances::find(&Project::find()?, select.machine.as_deref())?;
    zone.map_or_else(|| Ok(instances.supervisor()), |zone| instances.of_zone(zone))
}

/// Waits for a window that ends after now.
fn next_window(agent: &Agent, before: &Shown, is_change: bool) -> Result<Shown> {
    let seen = before.report.as_ref().map_or(0, |report| report.at_ns);
    let begun = Instant::now();
    loop {
        let shown = agent.goals()?;
        let report = shown
            .report
            .as_ref()
            .filter(|report| report.at_ns > seen && (!is_change || report.at_ns > before.goals.now_ns));
        if report.is_some() {
            return Ok(shown);
        }
        if shown.broker == BrokerState::Off {
            let help = "give a tenant a goal, or choose a policy: ./gyre broker --policy threshold";
            return Err(Failure::with_help("no broker runs", help));
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::new("the broker has ended no window in 30 s"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn show(shown: &Shown, json: bool) -> Result<ExitCode> {
    if json {
        print_json(shown)?;
    } else {
        print!("{}", text(shown));
    }
    Ok(ExitCode::SUCCESS)
}

/// Goals and the broker's last window, for people.
fn text(shown: &Shown) -> String {
    let state = match shown.broker {
        BrokerState::Off => "the broker is off: everything stays as it is".to_owned(),
        BrokerState::Runs => "the broker runs".to_owned(),
        BrokerState::Starts => "the broker starts: everything stays as it is meanwhile".to_owned(),
    };
    let again = if shown.restarts > 0 { format!(", started again {} times", shown.restarts) } else { String::new() };
    let hung =
        if shown.ended_for.is_empty() { String::new() } else { format!("; the agent ended it: {}", shown.ended_for) };
    let mut text = format!("{state}{again}{hung}\n");
    if shown.goals.unkept > 0 {
        text += &format!("{} promises were refused by a core's scheduler: it keeps those before\n", shown.goals.unkept);
    }
    match &shown.report {
        Some(report) => text += &window(report),
        None => text += "it has ended no window yet\n",
    }
    text
}

/// The cores of a zone that borrows, in words.
pub fn cores_words(cores: &Cores) -> String {
    let Cores { lender, had, wanted, why, refused } = cores;
    let moved = match (wanted.cmp(had), refused) {
        (Ordering::Equal, _) => "stay".to_owned(),
        (Ordering::Greater, None) => format!("one more comes from {lender}"),
        (Ordering::Less, None) => format!("one goes back to {lender}"),
        (Ordering::Greater, Some(refused)) => format!("none comes from {lender} ({refused})"),
        (Ordering::Less, Some(refused)) => format!("none goes back to {lender} ({refused})"),
    };
    format!("cores of the zone, {had}: {moved}; {why}")
}

fn window(report: &Report) -> String {
    let Report { policy, window_ms, windows, changes, .. } = report;
    let dry = if report.is_dry_run { ", a dry run that changes nothing" } else { "" };
    let mut text = format!("policy {policy}{dry}: windows of {window_ms} ms, {windows} so far, {changes} changes\n");
    let head = ["", "goal", "measured", "met", "uses", "holds", "gets"].map(str::to_owned).to_vec();
    text += &ui::table(&std::iter::once(head).chain(report.lines.iter().map(row)).collect::<Vec<_>>());
    for line in report.lines.iter().filter(|line| !line.why.is_empty()) {
        text += &format!("{}: {}\n", line.tenant, line.why);
    }
    for (line, link) in report.lines.iter().filter_map(|line| Some((line, line.link.as_ref()?))) {
        let [used, held, part] = [link.used, link.held, link.part].map(percent);
        text += &format!("{}: of the link it uses {used}, holds {held}, gets {part}: {}\n", line.tenant, link.why);
    }
    for (line, ms) in report.lines.iter().filter_map(|line| Some((line, line.delay_ms?))) {
        text += &format!("{}: its overload controller keeps a delay of {ms:.1} ms\n", line.tenant);
    }
    for line in report.lines.iter().filter(|line| !line.strange.is_empty()) {
        text += &format!("{}: {}\n", line.tenant, line.strange);
    }
    if let Some(refused) = &report.refused {
        text += &format!("the last change was refused: {refused}\n");
    }
    text += &report.cores.as_ref().map(|cores| format!("{}\n", cores_words(cores))).unwrap_or_default();
    text
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn row(line: &Line) -> Vec<String> {
    let time = line.percentile_ms.map_or(String::new(), |ms| format!(", {ms:.1} ms"));
    let met = line.is_met.map_or("", |met| if met { "yes" } else { "no" });
    vec![
        line.tenant.clone(),
        line.goal.clone(),
        format!("{:.1}/s{time}", line.rate_per_s),
        met.to_owned(),
        percent(line.used),
        percent(line.held),
        percent(line.part),
    ]
}

#[cfg(test)]
mod tests {
    use gyre_contract::goals::Held;

    use super::*;

    #[test]
    fn a_window_shows_goal_measure_allocation_and_reason() {
        let line = Line {
            tenant: "gold".into(),
            goal: "99 % in 200 ms".into(),
            rate_per_s: 120.0,
            percentile_ms: Some(250.0),
            is_met: Some(false),
            used: 0.3,
            held: 0.2,
            part: 0.25,
            why: "25.0 % by threshold: it is late".into(),
            strange: String::new(),
            delay_ms: Some(80.0),
            link: Some(Held { used: 0.1, held: 0.4, part: 0.5, why: "it waits for it".into() }),
        };
        let report = Report { policy: "threshold".into(), is_dry_run: true, lines: vec![line], ..Report::default() };
        let (restarts, ended_for) = (2, "it has said nothing for 31 s".into());
        let shown = Shown { broker: BrokerState::Runs, restarts, ended_for, report: Some(report), ..Shown::default() };
        let text = text(&shown);
        for part in [
            "99 % in 200 ms",
            "120.0/s, 250.0 ms",
            " no ",
            "20.0 %",
            "25.0 %",
            "it is late",
            "holds 40.0 %, gets 50.0 %: it waits",
            "a delay of 80.0 ms",
            "dry run",
            "runs, started again 2 times; the agent ended it: it has said nothing for 31 s",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn cores_of_a_zone_are_said_with_what_becomes_of_them() {
        let cores = |wanted, refused: Option<&str>| {
            let refused = refused.map(str::to_owned);
            cores_words(&Cores { lender: "batch".into(), had: 2, wanted, why: "so".into(), refused })
        };
        assert_eq!(cores(3, None), "cores of the zone, 2: one more comes from batch; so");
        assert_eq!(cores(1, None), "cores of the zone, 2: one goes back to batch; so");
        assert_eq!(cores(2, None), "cores of the zone, 2: stay; so");
        assert_eq!(cores(3, Some("no")), "cores of the zone, 2: none comes from batch (no); so");
        assert_eq!(cores(1, Some("no")), "cores of the zone, 2: none goes back to batch (no); so");
    }
}
