//! `gyre exec`, `gyre attach` and `gyre logs`.

mod attach;
mod logs;
mod streams;

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    process::ExitCode,
};

use gyre_contract::session::{self, ExecRequest};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH},
    iterator::Signals,
};

use crate::{
    cli,
    failure::{Context as _, Failure, Kind, Result},
    instances::Instances,
    project::Project,
    terminal::{self, Held, Screen},
};
pub use attach::attach;
pub use logs::logs;
use streams::Streams;

/// Runs `gyre exec TENANT COMMAND`: its streams are ours, its exit code is ours.
///
/// # Errors
/// When no machine runs, or the program cannot be started there.
pub fn exec(arguments: &cli::Exec) -> Result<ExitCode> {
    let instances = Instances::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let (agent, tenant) = instances.of_tenant(&arguments.tenant)?;
    let life = instances.life_of(&arguments.tenant);
    if arguments.terminal {
        terminal::check()?;
    }
    let request = request(arguments, tenant);
    let body = serde_json::to_string(&request).context(|| "cannot write JSON".into())?;
    let (mut frames, line) = agent.upgrade("/exec", &body, life)?;
    let cut = || "the machine closed the connection".to_owned();
    let stream = frames.get_ref().try_clone().context(cut)?;
    pass_signals(stream.try_clone().context(cut)?, arguments.terminal)?;
    // From now on no signal ends the tool; dropped, this gives the terminal back, also after a failure.
    let _held = arguments.terminal.then(|| Held::take(Screen::Users)).transpose()?;
    std::thread::spawn(move || pass_input(stream));
    let mut streams = Streams::new(arguments.json);
    loop {
        let mut header = [0; session::HEADER_BYTES];
        line.heard(frames.read_exact(&mut header).map(|()| header.len()))?;
        let (kind, length) =
            session::parse(header).ok_or_else(|| Failure::new("the agent sent a frame of impossible length"))?;
        let mut bytes = vec![0; length];
        line.heard(frames.read_exact(&mut bytes).map(|()| length))?;
        if kind == session::FAILED {
            return Err(not_started(arguments, &String::from_utf8_lossy(&bytes)));
        }
        if let Some(code) = take(kind, &bytes, &mut streams)? {
            return Ok(code);
        }
    }
}

/// Says what is to be started: with our terminal's kind and size if the program is to have one.
fn request(arguments: &cli::Exec, tenant: String) -> ExecRequest {
    let kind = std::env::var("TERM").ok().filter(|_| arguments.terminal).map(|kind| format!("TERM={kind}"));
    let env = kind.into_iter().chain(arguments.env.iter().cloned()).collect();
    let terminal = arguments.terminal.then(terminal::size);
    ExecRequest { tenant, argv: arguments.command.clone(), env, terminal }
}

/// Handles one frame; the last one holds the exit code.
fn take(kind: u8, bytes: &[u8], streams: &mut Streams) -> Result<Option<ExitCode>> {
    match kind {
        session::STDOUT => streams.stdout(bytes),
        session::STDERR => {
            streams.stderr(bytes);
            Ok(None)
        }
        session::EXIT => streams.end(bytes.last().copied().unwrap_or(255)).map(Some),
        _ => Ok(None),
    }
}

/// Says which program did not start in which tenant, with the exit code that a shell would answer.
fn not_started(arguments: &cli::Exec, why: &str) -> Failure {
    let program = arguments.command.first().map_or("", String::as_str);
    let kind = match why {
        _ if why.contains("(os error 2)") => Kind::NotFound,
        _ if why.contains("(os error 13)") || why.contains("(os error 8)") => Kind::NotExecutable,
        _ => Kind::Failed,
    };
    Failure::new(format!("cannot start `{program}` in tenant `{}`: {why}", arguments.tenant)).kind(kind)
}

fn pass_input(mut stream: UnixStream) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let bytes = io::stdin().read(&mut buffer).unwrap_or(0);
        let frame = frame(session::STDIN, buffer.get(..bytes).unwrap_or_default());
        if stream.write_all(&frame).is_err() || bytes == 0 {
            return;
        }
    }
}

/// Ctrl-C is for the program in the tenant, as if it ran here; so is a new size of the terminal.
fn pass_signals(mut stream: UnixStream, has_terminal: bool) -> Result<()> {
    let resized = has_terminal.then_some(SIGWINCH);
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().chain(resized);
    let mut signals = Signals::new(wanted).context(|| "cannot handle signals".into())?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let frame = match signal {
                SIGWINCH => frame(session::WINDOW, &session::window(terminal::size())),
                signal => frame(session::SIGNAL, &[u8::try_from(signal).unwrap_or(15)]),
            };
            let _ = stream.write_all(&frame);
        }
    });
    Ok(())
}

fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&session::header(kind, bytes.len())[..], bytes].concat()
}
