//! `gyre trace TENANT PID`: the system calls of a running process, as strace shows them, with the cycles that each took by resource.
//!
//! * The agent keeps the trace for as long as the connection stands; one process has one trace at a time.
//! * [`names`] knows what arguments mean, [`call`] writes a call, [`summary`] counts.
//! * A ring in the kernel holds what has not been read: what it had no room for is counted and told.

mod call;
mod names;
mod summary;

use std::{
    io::{self, BufRead as _, BufReader},
    os::unix::net::UnixStream,
    process::ExitCode,
    time::{Duration, Instant},
};

use gyre_contract::trace::Batch;
use serde::Serialize;

use crate::{
    cli,
    failure::{Context as _, Failure, Result},
    instances::Instances,
    out,
    project::Project,
    stop::Stop,
};
use summary::Summary;

/// How often the user's wish to end is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Calls that were lost, as `--json` writes it.
#[derive(Serialize)]
struct Lost {
    lost: u64,
}

/// Runs `gyre trace`.
///
/// # Errors
/// When no machine runs, there is no such process, or another client traces it.
pub fn trace(arguments: &cli::Trace) -> Result<ExitCode> {
    let project = Project::find()?;
    let instances = Instances::find(&project, arguments.select.machine.as_deref())?;
    let (agent, tenant) = instances.of_tenant(&arguments.tenant)?;
    let stop = Stop::on_signals()?;
    let stream = agent.stream(&format!("/trace/{tenant}?process={}", arguments.process))?;
    stream.get_ref().set_read_timeout(Some(LOOK_AGAIN)).context(|| "cannot wait for the trace".into())?;
    let mut lines = Lines { stream, line: vec![] };
    let until = arguments.duration.map(|duration| Instant::now() + duration);
    let mut shown = Shown { arguments, summary: Summary::default() };
    while !stop.is_set() && !out::is_closed() && until.is_none_or(|until| Instant::now() < until) {
        match lines.next()? {
            Next::Batch(batch) if batch.is_over => break,
            Next::Batch(batch) => shown.add(&batch)?,
            Next::Nothing => {}
            Next::End => return Err(Failure::new("the trace breaks off: the machine or its agent has ended")),
        }
    }
    shown.finish()
}

/// The next thing that came.
enum Next {
    Batch(Batch),
    Nothing,
    End,
}

struct Lines {
    stream: BufReader<UnixStream>,
    /// The part of a line that has come.
    line: Vec<u8>,
}

impl Lines {
    fn next(&mut self) -> Result<Next> {
        match self.stream.read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.ends_with(b"\n") => {
                let batch = serde_json::from_slice(&self.line)
                    .context(|| "the trace cannot be read (tool and kernel from one source?)".into())?;
                self.line.clear();
                Ok(Next::Batch(batch))
            }
            Ok(_) => Ok(Next::End),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Next::Nothing)
            }
            Err(error) => Err(error).context(|| "the trace breaks off".into()),
        }
    }
}

struct Shown<'a> {
    arguments: &'a cli::Trace,
    summary: Summary,
}

impl Shown<'_> {
    fn add(&mut self, batch: &Batch) -> Result<()> {
        if self.arguments.summary {
            self.summary.add(batch);
            return Ok(());
        }
        for event in &batch.events {
            let call = call::Call::of(event, &batch.resources);
            match self.arguments.json {
                true => println!("{}", json(&call)?),
                false => println!("{call}"),
            }
        }
        match (batch.lost, self.arguments.json) {
            (0, _) => {}
            (lost, true) => println!("{}", json(&Lost { lost })?),
            (lost, false) => println!("[{lost} calls were lost: they came faster than they were read]"),
        }
        Ok(())
    }

    fn finish(self) -> Result<ExitCode> {
        match (self.arguments.summary, self.arguments.json) {
            (false, _) => {}
            (true, true) => println!("{}", json(&self.summary.document())?),
            (true, false) => print!("{}", self.summary),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn json(document: &impl Serialize) -> Result<String> {
    serde_json::to_string(document).context(|| "cannot write JSON".into())
}
