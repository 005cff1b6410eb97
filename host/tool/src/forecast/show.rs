//! A forecast for people.

use gyre_broker_program::forecast::{Forecast, Outcome};

use crate::ui;

/// Returns the table and its conditions.
pub fn text(forecast: &Forecast) -> String {
    let Forecast { policy, seconds, seeds, changes, tenants } = forecast;
    let head =
        ["", "goal", "would meet it", "worst seed", "beats", "holds", "uses", "wants"].map(str::to_owned).to_vec();
    let mut text =
        format!("under policy {policy}, played for {seconds} s with {} seeds: {changes:.0} changes\n", seeds.len());
    text += &ui::table(&std::iter::once(head).chain(tenants.iter().map(row)).collect::<Vec<_>>());
    text += "figures of the second half; a model of demand, without caches and slices of time\n";
    text
}

fn row(outcome: &Outcome) -> Vec<String> {
    let percent = |part: Option<f64>| part.map_or(String::new(), |part| format!("{part:.0} %"));
    let meets = match outcome.is_met() {
        None if outcome.goal.is_empty() => String::new(),
        None => "no beats".to_owned(),
        Some(met) => format!("{}, {} of the time", if met { "yes" } else { "no" }, percent(outcome.met_percent)),
    };
    let time = outcome.percentile_ms.map_or(String::new(), |ms| format!(", {ms:.1} ms"));
    let beats = if outcome.rate_per_s > 0.0 { format!("{:.1}/s{time}", outcome.rate_per_s) } else { String::new() };
    vec![
        outcome.tenant.clone(),
        outcome.goal.clone(),
        meets,
        percent(outcome.worst_percent),
        beats,
        format!("{:.1} %", outcome.part * 100.0),
        format!("{:.1} %", outcome.used * 100.0),
        outcome.demand.clone(),
    ]
}
