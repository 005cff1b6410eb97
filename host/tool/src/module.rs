//! The boot module: the machine file's meaning, with what only this run knows.

use std::{
    io::Read as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use gyre_config::boot::{self, Machine};

use crate::failure::{Context as _, Failure, Result};

/// Writes the boot module of a machine with its agent.
///
/// # Errors
/// When the agent cannot be read or the module not be written.
pub fn write(machine: &Machine, agent: &Path, to: &Path) -> Result<()> {
    let agent = std::fs::read(agent).context(|| format!("cannot read {}", agent.display()))?;
    let mut machine = machine.clone();
    machine.started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    machine.seed = entropy()?;
    let bytes =
        boot::encode(&machine, &[("/agent", 0o755, &agent)]).map_err(|error| Failure::new(error.to_string()))?;
    std::fs::write(to, bytes).context(|| format!("cannot write {}", to.display()))
}

fn entropy() -> Result<[u8; 32]> {
    let mut seed = [0; 32];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed));
    read.context(|| "cannot read /dev/urandom".into())?;
    Ok(seed)
}
