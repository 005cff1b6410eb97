//! `gyre set cell`: makes a tenant a cell in time, changes it, or ends that.
//!
//! * Keys that are not named keep their values; a new cell needs a timing and cores.
//! * `timing none` ends it.
//! * The kernel admits the whole table or says why not; its sentence is shown as it is.

use std::process::ExitCode;

use gyre_contract::{
    cells::{Cell, Request, TIMINGS, Timing, View},
    native::Change,
    promise::Together,
};
use gyre_machine_file::units;

use super::{pairs, wrong};
use crate::{
    agent::Agent,
    cells,
    check::print_json,
    cli,
    failure::{Failure, Result},
};

const KEYS: &[&str] = &["timing", "cores", "period", "active", "phase", "lends"];
/// In place of a timing: no cell any more.
const NONE: &str = "none";
/// Cores that a cell can name.
const CORES_MAX: u32 = u8::BITS;

/// Changes the cell of a tenant, and shows all.
///
/// # Errors
/// When the wish makes no sense, or the machine refuses; then nothing was changed.
pub(super) fn set(agent: &Agent, name: &str, arguments: &cli::Set) -> Result<ExitCode> {
    let view = look(agent)?;
    let known = view.cells.iter().find(|cell| cell.tenant.as_deref() == Some(name)).map(|view| view.cell);
    let wish = wished(known, &arguments.pairs)?;
    if wish.is_none() && known.is_none() {
        return Err(Failure::new(format!("`{name}` is no cell")));
    }
    let change = Change::Cell { tenant: name.to_owned(), cell: wish };
    let wish = Together { by: "gyre set".into(), reason: arguments.reason.clone(), changes: vec![change] };
    agent.change(&wish)?;
    let view = look(agent)?;
    if arguments.json {
        print_json(&view)?;
    } else {
        print!("{}", cells::table(&view, None));
    }
    Ok(ExitCode::SUCCESS)
}

fn look(agent: &Agent) -> Result<View> {
    agent.cells(&Request::new())?.map_err(|refusal| Failure::new(refusal.to_string()))
}

/// The cell that the words make of the one that is there.
fn wished(known: Option<Cell>, words: &[String]) -> Result<Option<Cell>> {
    let given = pairs(words, KEYS)?;
    if given.iter().any(|(key, value)| *key == "timing" && *value == NONE) {
        return Ok(None);
    }
    let fresh = Cell {
        timing: Timing::BestEffort,
        cores: 0,
        period_ns: Cell::PERIOD_NS,
        active_ns: Cell::ACTIVE_NS,
        phase_ns: 0,
        lends: false,
    };
    let has = |wanted: &str| given.iter().any(|(key, _)| *key == wanted);
    if known.is_none() && !(has("timing") && has("cores")) {
        let help = "for example: timing time-triggered cores 0,1 period \"40 ms\" active \"10 ms\"";
        return Err(Failure::with_help("a new cell needs a timing and cores", help));
    }
    let mut cell = known.unwrap_or(fresh);
    for (key, value) in given {
        let time = || units::nanoseconds(value).map_err(|expected| wrong(key, value, &expected));
        match key {
            "timing" => cell.timing = timing(value)?,
            "cores" => cell.cores = cores(value)?,
            "period" => cell.period_ns = time()?,
            "active" => cell.active_ns = time()?,
            "phase" => cell.phase_ns = time()?,
            _ => cell.lends = value.parse().map_err(|_| wrong(key, value, "expected true or false"))?,
        }
    }
    Ok(Some(cell))
}

fn timing(value: &str) -> Result<Timing> {
    let found = TIMINGS.iter().find(|(name, _)| *name == value).map(|(_, timing)| *timing);
    let names: Vec<&str> = TIMINGS.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| wrong("timing", value, &format!("expected {} or {NONE}", names.join(", "))))
}

/// "0,1" or "0-1" as bits.
fn cores(value: &str) -> Result<u8> {
    let bad = || wrong("cores", value, "expected cores of 0 to 7, such as 0 or 0,1 or 0-1");
    let mut mask = 0;
    for part in value.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) else {
            return Err(bad());
        };
        if first > last || last >= CORES_MAX {
            return Err(bad());
        }
        (first..=last).for_each(|core| mask |= 1 << core);
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_new_cell_is_read_and_a_known_one_keeps_what_is_not_named() {
        let cell = wished(None, &words("timing time-triggered cores 0-1 period 40ms active 10ms lends true")).unwrap();
        let made = Cell {
            timing: Timing::TimeTriggered,
            cores: 3,
            period_ns: 40_000_000,
            active_ns: 10_000_000,
            phase_ns: 0,
            lends: true,
        };
        assert_eq!(cell, Some(made));
        let changed = wished(cell, &words("active 5ms")).unwrap().unwrap();
        assert_eq!(changed, Cell { active_ns: 5_000_000, ..made });
        assert_eq!(wished(cell, &words("timing none")).unwrap(), None);
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        for text in ["cores 0", "timing now cores 0", "timing dedicated cores 8", "timing dedicated cores 0 lends yes"]
        {
            assert!(wished(None, &words(text)).is_err(), "{text}");
        }
    }
}
