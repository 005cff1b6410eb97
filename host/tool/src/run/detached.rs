//! `gyre run -d`: the machine runs in the background. A `gyre run` of its own session keeps it; this one waits until it serves.

use std::{
    fs::File,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use super::up;
use crate::{
    command::last_lines,
    failure::{Context as _, Failure, Result},
    project::Project,
    ui,
};

/// Set for the `gyre run` in the background.
const INSIDE: &str = "GYRE_DETACHED";
const PAUSE: Duration = Duration::from_millis(100);

/// Returns whether this is the one in the background.
pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Makes this process the leader of a session: the terminal's end is not its own.
///
/// # Errors
/// When the host refuses.
pub(super) fn leave_terminal() -> Result<()> {
    match nix::unistd::setsid() {
        // Started anew as root of a namespace, it leads its session already.
        Ok(_) | Err(nix::errno::Errno::EPERM) => Ok(()),
        Err(error) => Err(error).context(|| "cannot leave the terminal".into()),
    }
}

/// Starts the machine in the background and returns once it is up.
///
/// # Errors
/// When it ends before that, with its last words.
pub(super) fn start(project: &Project, name: &str) -> Result<ExitCode> {
    let folder = project.run_folder(name)?;
    let said = folder.join("run.log");
    let mut child = spawn(&said)?;
    loop {
        if let Some(status) = child.try_wait().context(|| "cannot wait for the machine".into())? {
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            let failure = Failure::with_help("the machine did not start", last_lines(&text, 20));
            return Err(failure.kind(crate::failure::Kind::of_code(status.code().unwrap_or(1))));
        }
        if up::is_up(&folder, child.id()) {
            println!("{name}");
            ui::say(&format!("  what it says: {}; gyre stop ends it", said.display()));
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(PAUSE);
    }
}

fn spawn(said: &Path) -> Result<Child> {
    let this = std::env::current_exe().context(|| "cannot tell the path of this program".into())?;
    let cannot = || format!("cannot write {}", said.display());
    let output = File::create(said).context(cannot)?;
    let errors = output.try_clone().context(cannot)?;
    let mut again = Command::new(this);
    again.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    again.stdin(Stdio::null()).stdout(output).stderr(errors);
    again.spawn().context(|| "cannot start the machine".into())
}
