//! `gyre zone console` and `gyre zone log`.

use std::{
    io::{self, BufRead as _},
    process::ExitCode,
    time::Duration,
};

use serde::Serialize;

use super::words;
use crate::{
    agent::Agent,
    failure::{Context as _, Result},
    instances::unknown,
    out::{self, Form},
};

/// The log is asked again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// How long something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Up to what there is now.
    End,
    /// Until the user stops it.
    Stopped,
}

impl From<bool> for Until {
    /// Reads the switch `--follow`.
    fn from(is_followed: bool) -> Self {
        if is_followed { Self::Stopped } else { Self::End }
    }
}

/// One line of a zone's console, as `--json` writes it.
#[derive(Serialize)]
struct Line<'a> {
    zone: &'a str,
    line: String,
}

/// Runs `gyre zone console NAME`.
///
/// # Errors
/// When there is no such zone, or the machine does not answer.
pub fn console(agent: &Agent, zone: &str, until: Until, form: Form) -> Result<ExitCode> {
    let zones = agent.zones()?;
    let names: Vec<&str> = zones.zones.iter().map(|zone| zone.name.as_str()).collect();
    if !names.contains(&zone) {
        return Err(unknown("zone", zone, &names));
    }
    let follow = if until == Until::Stopped { "?follow=1" } else { "" };
    let mut text = agent.stream(&format!("/zones/{zone}/console{follow}"))?;
    let broken = || "the console breaks off".to_owned();
    if form == Form::People {
        return match io::copy(&mut text, &mut io::stdout()) {
            Err(error) if !out::is_end(&error) => Err(error).context(broken),
            _ => Ok(ExitCode::SUCCESS),
        };
    }
    for bytes in text.split(b'\n') {
        let line = String::from_utf8_lossy(&bytes.context(broken)?).trim_end_matches('\r').to_owned();
        println!("{}", serde_json::to_string(&Line { zone, line }).context(|| "cannot write JSON".into())?);
        if out::is_closed() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `gyre zone log`: a line for each change, or a document.
///
/// # Errors
/// When the machine does not answer.
pub fn log(agent: &Agent, until: Until, form: Form) -> Result<ExitCode> {
    let mut next = 0;
    loop {
        let records = agent.zone_log(next)?;
        if records.is_empty() {
            if until == Until::End || out::is_closed() {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(LOOK_AGAIN);
            continue;
        }
        let zones = agent.zones()?;
        for record in &records {
            next = next.max(record.number.saturating_add(1));
            match form {
                Form::Programs => println!("{}", serde_json::to_string(record).context(|| "cannot write JSON".into())?),
                Form::People => println!("{}", words::record(record, &zones)),
            }
        }
    }
}
