//! `gyre top --cells`: the cells in time, what each had in the last second, and the times of the last change.
//!
//! * A line is a cell on one of its cores. Active, served and stolen are of the last second; late is the mean of its slots.
//! * The figures are the kernel's (`gyre_contract::cells`). Those of a new table begin anew.
//! * Skew is the median over all slots: how far apart the cores of a gang saw a slot begin.

use std::{process::ExitCode, time::Duration};

use gyre_contract::cells::{CellView, CoreFigures, Request, Spread, View};

use crate::{
    agent::Agent,
    check::print_json,
    cli,
    failure::{Failure, Result},
    stop::Stop,
    ui,
    view::terminal,
};

/// Shows the cells each second; once, if standard output is no terminal.
///
/// # Errors
/// When the machine does not answer.
pub fn show(agent: &Agent, arguments: &cli::Top) -> Result<ExitCode> {
    let mut before = read(agent)?;
    if arguments.json {
        print_json(&before)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Stop::on_signals()?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = read(agent)?;
        let text = table(&now, Some(&before));
        if !terminal::is_possible() {
            print!("{text}");
            return Ok(ExitCode::SUCCESS);
        }
        print!("\x1b[H\x1b[2Jcells, the last second\n{text}");
        if stop.is_set() {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

fn read(agent: &Agent) -> Result<View> {
    agent.cells(&Request::new())?.map_err(|refusal| Failure::new(refusal.to_string()))
}

/// Writes a line for each cell on each of its cores, and the last change. With a view from before, figures are those since then.
pub fn table(view: &View, before: Option<&View>) -> String {
    if view.cells.is_empty() {
        return "no tenant is a cell\n".to_owned();
    }
    let head = ["", "timing", "core", "period", "budget", "active", "served", "stolen", "slots", "late", "skew"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    // A table that is another one counts anew.
    let before = before.filter(|before| before.number == view.number);
    for cell in &view.cells {
        let old = before.and_then(|before| before.cells.iter().find(|old| old.tenant == cell.tenant));
        rows.extend(cell.cores.iter().map(|core| {
            let then = old.and_then(|old| old.cores.iter().find(|old| old.core == core.core)).copied();
            row(cell, core, then.unwrap_or_default())
        }));
    }
    ui::table(&rows) + &change(view)
}

fn row(cell: &CellView, now: &CoreFigures, then: CoreFigures) -> Vec<String> {
    let slots = now.slots.saturating_sub(then.slots);
    let late = now.late_ns.saturating_sub(then.late_ns).checked_div(slots).unwrap_or(0);
    vec![
        cell.tenant.clone().unwrap_or_else(|| "(others)".into()),
        cell.cell.timing.name().into(),
        now.core.to_string(),
        ms(cell.cell.period_ns),
        ms(cell.cell.active_ns),
        ms(now.active_ns.saturating_sub(then.active_ns)),
        ms(now.served_ns.saturating_sub(then.served_ns)),
        ms(now.stolen_ns.saturating_sub(then.stolen_ns)),
        slots.to_string(),
        us(late),
        if cell.skew.count == 0 { "-".into() } else { us(cell.skew.median_ns) },
    ]
}

fn change(view: &View) -> String {
    let change = &view.change;
    let after = |at: &[u64]| at.iter().map(|at| at.saturating_sub(change.asked_ns)).max().unwrap_or(0);
    let complete = match change.swapped_ns.contains(&0) {
        true => "not complete yet".to_owned(),
        false => format!("complete after {}", us(after(&change.swapped_ns))),
    };
    format!(
        "table {}: asked, admitted and sent in {}, known to all after {}, in force after {}, {complete}\ninterrupts: {}\n",
        view.number,
        us(change.returned_ns.saturating_sub(change.asked_ns)),
        us(after(&change.ready_ns)),
        us(change.from_ns.saturating_sub(change.asked_ns)),
        spread(view.interrupts),
    )
}

fn spread(spread: Spread) -> String {
    match spread.count {
        0 => "none yet".into(),
        count => format!("{count}, median {}, 9 of 10 within {}", us(spread.median_ns), us(spread.ninth_ns)),
    }
}

fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

fn us(ns: u64) -> String {
    format!("{:.1} us", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gyre_contract::cells::{Cell, Timing};

    fn view(active_ns: u64) -> View {
        let cell = Cell {
            timing: Timing::TimeTriggered,
            cores: 1,
            period_ns: 40_000_000,
            active_ns: 10_000_000,
            phase_ns: 0,
            lends: false,
        };
        let core = CoreFigures { active_ns, slots: active_ns / 10_000_000, ..CoreFigures::default() };
        let gold = CellView { tenant: Some("gold".into()), cell, skew: Spread::default(), cores: vec![core] };
        View { number: 1, cells: vec![gold], ..View::default() }
    }

    #[test]
    fn figures_are_those_since_the_view_before_unless_the_table_is_another() {
        let text = table(&view(300_000_000), Some(&view(50_000_000)));
        assert!(text.contains("250.0 ms") && text.contains(" 25 "), "{text}");
        let other = View { number: 2, ..view(50_000_000) };
        assert!(table(&view(300_000_000), Some(&other)).contains("300.0 ms"));
        assert_eq!(table(&View::default(), None), "no tenant is a cell\n");
    }
}
