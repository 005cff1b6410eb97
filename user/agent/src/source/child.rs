//! Programs of the host, as processes.

use std::{
    io,
    process::{Child, Command},
    sync::Mutex,
};

use super::{Program, Streams};

/// Starts a command of the host with the given streams.
///
/// # Errors
/// If it cannot be started.
pub fn start(mut command: Command, streams: Streams) -> io::Result<Box<dyn Program>> {
    let child = command.stdin(streams.stdin).stdout(streams.stdout).stderr(streams.stderr).spawn()?;
    Ok(Box::new(Running { pid: child.id(), child: Mutex::new(child) }))
}

struct Running {
    pid: u32,
    child: Mutex<Child>,
}

impl Program for Running {
    fn wait(&self) -> io::Result<i32> {
        use std::os::unix::process::ExitStatusExt as _;
        let mut child = self.child.lock().map_err(|_| io::Error::other("poisoned"))?;
        let status = child.wait()?;
        Ok(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255))
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(self.pid.to_string()).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other("kill failed")) }
    }
}
