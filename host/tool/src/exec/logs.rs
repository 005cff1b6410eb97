//! `gyre logs`: from the machine while it runs, else, and for times, from what `gyre run` wrote down.

use std::{
    io::{self, BufRead},
    process::ExitCode,
    time::Duration,
};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    cli,
    failure::{Context as _, Failure, Result},
    instances::{self, Instances},
    lifeline::Lifeline,
    machines::{
        self, Known,
        log::{Line, Reader},
    },
    out,
    project::Project,
};

/// How often a log that is followed is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// One line of a log, as `--json` writes it.
#[derive(Debug, PartialEq, Serialize)]
struct Document<'a> {
    tenant: &'a str,
    line: String,
    /// When the host received it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
}

/// Runs `gyre logs TENANT`.
///
/// # Errors
/// When no machine runs or ran, or there is no such tenant.
pub fn logs(arguments: &cli::Logs) -> Result<ExitCode> {
    let project = Project::find()?;
    let known = machines::find(&project, arguments.select.machine.as_deref());
    let is_plain = arguments.tail.is_none() && arguments.since.is_none() && !arguments.timestamps;
    match known {
        // A machine of an experiment, or its first moment, has nothing written down: it is asked itself.
        Ok(known) if !known.runs() || !is_plain => written(arguments, &known),
        _ => from_machine(arguments, &project),
    }
}

fn from_machine(arguments: &cli::Logs, project: &Project) -> Result<ExitCode> {
    let instances = Instances::find(project, arguments.select.machine.as_deref())?;
    let (agent, tenant) = instances.of_tenant(&arguments.tenant)?;
    let follow = if arguments.follow { "?follow=1" } else { "" };
    let life = instances.life_of(&arguments.tenant);
    let mut text = agent.stream(&format!("/logs/{tenant}{follow}"))?;
    let line = Lifeline::new(life, text.get_ref())?;
    if arguments.json {
        lines(text, &arguments.tenant)?;
    } else {
        match io::copy(&mut text, &mut io::stdout()) {
            // Standard output closed early (`gyre logs gold | head`) is a normal end.
            Err(error) if !out::is_end(&error) => return Err(error).context(|| "the log breaks off".into()),
            _ => {}
        }
    }
    line.heard(Ok(0)).map(|_| ExitCode::SUCCESS)
}

/// Writes a document for each line, when it comes.
fn lines(text: impl BufRead, tenant: &str) -> Result<()> {
    for bytes in text.split(b'\n') {
        let bytes = bytes.context(|| "the log breaks off".into())?;
        println!("{}", document(tenant, &bytes, None)?);
        if out::is_closed() {
            break;
        }
    }
    Ok(())
}

fn document(tenant: &str, bytes: &[u8], time: Option<Timestamp>) -> Result<String> {
    let line = String::from_utf8_lossy(bytes).trim_end_matches('\r').to_owned();
    let time = time.map(|time| format!("{time:.3}"));
    serde_json::to_string(&Document { tenant, line, time }).context(|| "cannot write JSON".into())
}

/// Shows what was written down of a tenant: of this run or the last one, unless an earlier time is asked for.
fn written(arguments: &cli::Logs, known: &Known) -> Result<ExitCode> {
    let name = arguments.tenant.as_str();
    if !known.info.tenants.iter().any(|tenant| tenant.name == name) {
        let names: Vec<&str> = known.info.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        return Err(instances::unknown("tenant", name, &names));
    }
    let mut reader = Reader::new(&known.folder, name);
    let mut lines = chosen(reader.all()?, began(known)?, arguments);
    loop {
        for line in &lines {
            show(arguments, line)?;
        }
        if !arguments.follow || !known.runs() || out::is_closed() {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK_AGAIN);
        lines = reader.more()?;
    }
}

fn began(known: &Known) -> Result<Timestamp> {
    Timestamp::from_millisecond(known.info.started_unix_ms)
        .map_err(|_| Failure::new(format!("{} holds no time", known.folder.display())))
}

/// Chooses the lines of this run, or since the time asked for, and of these the last ones.
fn chosen(lines: Vec<Line>, began: Timestamp, arguments: &cli::Logs) -> Vec<Line> {
    let since = arguments.since.unwrap_or(began);
    let mut lines: Vec<Line> = lines.into_iter().filter(|line| line.time >= since).collect();
    if let Some(tail) = arguments.tail {
        lines.drain(..lines.len().saturating_sub(tail));
    }
    lines
}

fn show(arguments: &cli::Logs, line: &Line) -> Result<()> {
    match (arguments.json, arguments.timestamps) {
        (true, _) => println!("{}", document(&arguments.tenant, &line.bytes, Some(line.time))?),
        // As they are, those that steer a terminal too: who asks for a log wants what the program wrote.
        (false, true) => out::bytes(&[format!("{:.3} ", line.time).as_bytes(), &line.bytes, b"\n"].concat()),
        (false, false) => out::bytes(&[&line.bytes, b"\n".as_slice()].concat()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_line_of_a_log_is_one_document_whatever_is_in_it() {
        assert_eq!(document("gold", b"a \"b\"\r", None).unwrap(), r#"{"tenant":"gold","line":"a \"b\""}"#);
        assert!(document("gold", b"\xff", None).unwrap().contains('\u{fffd}'));
        let with_time = document("gold", b"a", Some(Timestamp::UNIX_EPOCH)).unwrap();
        assert!(with_time.contains(r#""time":"1970-01-01T00:00:00.000Z""#), "{with_time}");
    }

    #[test]
    fn lines_are_of_this_run_or_since_a_time_and_the_last_ones() {
        let arguments = |words: &str| match cli::Cli::parse_from(words.split(' ')).command {
            cli::Command::Logs(arguments) => arguments,
            _ => panic!("logs"),
        };
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let all = || {
            (0..10).map(|second| Line { time: at(second), bytes: second.to_string().into_bytes() }).collect::<Vec<_>>()
        };
        let texts = |words: &str| {
            chosen(all(), at(5), &arguments(words)).into_iter().map(|line| line.text().into_owned()).collect::<String>()
        };
        assert_eq!(texts("gyre logs gold"), "56789");
        assert_eq!(texts("gyre logs gold --tail 2"), "89");
        assert_eq!(texts("gyre logs gold --since 1970-01-01T00:00:03Z --tail 100"), "3456789");
    }
}
