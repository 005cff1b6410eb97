//! `gyre logs`.

use std::{
    io::{self, BufRead},
    process::ExitCode,
};

use serde::Serialize;

use crate::{
    agent::Agent,
    cli,
    failure::{Context as _, Result},
    out,
    project::Project,
};

/// One line of a log, as `--json` writes it.
#[derive(Debug, PartialEq, Serialize)]
struct Line<'a> {
    tenant: &'a str,
    line: String,
}

/// `gyre logs TENANT`.
///
/// # Errors
/// When no machine runs, or there is no such tenant.
pub fn logs(arguments: &cli::Logs) -> Result<ExitCode> {
    let agent = Agent::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let follow = if arguments.follow { "?follow=1" } else { "" };
    let mut text = agent.stream(&format!("/logs/{}{follow}", arguments.tenant))?;
    if arguments.json {
        return lines(text, &arguments.tenant);
    }
    match io::copy(&mut text, &mut io::stdout()) {
        // Standard output closed early (`gyre logs gold | head`) is a normal end.
        Err(error) if !out::is_end(&error) => Err(error).context(|| "the log breaks off".into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Writes a document for each line, when it comes.
fn lines(text: impl BufRead, tenant: &str) -> Result<ExitCode> {
    for bytes in text.split(b'\n') {
        let bytes = bytes.context(|| "the log breaks off".into())?;
        println!("{}", document(tenant, &bytes)?);
        if out::is_closed() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn document(tenant: &str, bytes: &[u8]) -> Result<String> {
    let line = String::from_utf8_lossy(bytes).trim_end_matches('\r').to_owned();
    serde_json::to_string(&Line { tenant, line }).context(|| "cannot write JSON".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_log_is_one_document_whatever_is_in_it() {
        assert_eq!(document("gold", b"a \"b\"\r").unwrap(), r#"{"tenant":"gold","line":"a \"b\""}"#);
        assert!(document("gold", b"\xff").unwrap().contains('\u{fffd}'));
    }
}
