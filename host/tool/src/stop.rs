//! Ctrl-C and termination: a flag that everything which waits looks at; and `gyre stop`, which sets that of another `gyre run`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::Serialize;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
    low_level,
};

use crate::{
    check::print_json,
    cli,
    failure::{Context as _, Failure, Kind, Result},
    held_file, life,
    project::Project,
    qemu::Span,
    terminal,
};

/// Set once; never cleared.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

/// The signals by which a user or the host ends the tool.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// The flag of this process, once it handles signals.
static OWN: OnceLock<Stop> = OnceLock::new();

/// Returns whether the user has interrupted what this process does.
pub fn is_interrupted() -> bool {
    OWN.get().is_some_and(Stop::is_set)
}

/// Goes on, or stops what takes a while because the user wants that.
///
/// # Errors
/// When the user has interrupted it.
pub fn check() -> Result<()> {
    if is_interrupted() { Err(Failure::interrupted()) } else { Ok(()) }
}

impl Stop {
    /// Sets the flag at Ctrl-C, hang-up and termination. A second Ctrl-C ends the tool at once, but for the terminal, which is given back.
    ///
    /// # Errors
    /// When the handlers cannot be set, or no thread can be had.
    pub fn on_signals() -> Result<Self> {
        if let Some(own) = OWN.get() {
            return Ok(own.clone());
        }
        let flag = Arc::new(AtomicBool::new(false));
        let cannot = || "cannot handle signals".to_owned();
        for signal in SIGNALS {
            signal_hook::flag::register(signal, flag.clone()).context(cannot)?;
        }
        let signals = Signals::new(SIGNALS).context(cannot)?;
        std::thread::Builder::new().name("signals".into()).spawn(|| end_at_second(signals)).context(cannot)?;
        Ok(OWN.get_or_init(|| Self(flag)).clone())
    }

    /// Returns whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends the tool at the second signal, whatever its other threads wait for.
fn end_at_second(mut signals: Signals) {
    if signals.forever().nth(1).is_some() {
        terminal::give_back();
        low_level::exit(Kind::Interrupted as i32);
    }
}

/// How long `gyre stop` waits for the other tool: as long as that may wait for its machine, and for the bill;
/// in time that QEMU had or left unused.
const LIMIT: Duration = Duration::from_secs(45);

/// Runs `gyre stop`: tells the `gyre run` of a machine to end it, and waits until it has.
///
/// # Errors
/// When no such machine runs, or it does not end in time.
pub fn stop(arguments: &cli::Stop) -> Result<ExitCode> {
    if let Some(tenant) = &arguments.tenant {
        let (select, tenant) = (arguments.select.clone(), tenant.clone());
        return life::stop(&cli::Tenant { select, tenant, time: arguments.time, json: arguments.json });
    }
    let folder = running(&Project::find()?, arguments.select.machine.as_deref())?;
    let path = folder.join("lock");
    let unknown = || Failure::new(format!("{} does not say who runs the machine", path.display()));
    let text = std::fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    let process: i32 = text.trim().parse().map_err(|_| unknown())?;
    kill(Pid::from_raw(process), Signal::SIGTERM).context(|| "cannot tell the machine's `gyre run`".into())?;
    let (started, mut span) = (Instant::now(), Span::of_machine(&folder));
    while span.passed() < LIMIT {
        if !is_taken(&folder) {
            return ended(&folder, started.elapsed(), arguments.json);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Failure::with_help("the machine has not ended", "a second Ctrl-C where it runs ends it at once"))
}

/// The part of `--json` about a machine's end.
#[derive(Serialize)]
struct Ended {
    machine: String,
    seconds: f64,
}

fn ended(folder: &Path, elapsed: Duration, json: bool) -> Result<ExitCode> {
    let machine = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if json {
        print_json(&Ended { machine, seconds: elapsed.as_secs_f64() })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder of the machine of this name, or of the only one that runs.
fn running(project: &Project, name: Option<&str>) -> Result<PathBuf> {
    let folder = project.cache("run")?;
    let all = std::fs::read_dir(&folder).context(|| format!("cannot read {}", folder.display()))?;
    let taken: Vec<PathBuf> = all.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_taken(path)).collect();
    let is_wanted = |path: &&PathBuf| name.is_none_or(|name| path.file_name().is_some_and(|own| own == name));
    match taken.iter().filter(is_wanted).collect::<Vec<_>>()[..] {
        [one] => Ok(one.clone()),
        [] => Err(match name {
            Some(name) if !taken.is_empty() => {
                let help = format!("running: {}", names(&taken));
                Failure::with_help(format!("no machine `{name}` is running"), help)
            }
            Some(name) => Failure::new(format!("no machine `{name}` is running")),
            None => Failure::new("no machine is running"),
        }),
        _ => {
            let help = format!("choose one with --machine NAME: {}", names(&taken));
            Err(Failure::with_help("several machines are running", help))
        }
    }
}

fn names(folders: &[PathBuf]) -> String {
    let names = folders.iter().filter_map(|folder| folder.file_name());
    names.map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ")
}

/// Returns whether a `gyre run` holds the machine's folder.
pub fn is_taken(folder: &Path) -> bool {
    held_file::is_held(&folder.join("lock"))
}
