//! The boot module: the machine file's meaning, with what only this run knows.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use gyre_config::{
    address,
    boot::{self, Machine},
};

use crate::failure::{Context as _, Failure, Result};

/// The file beside the module that holds the agent's key of the run.
pub const KEY_FILE: &str = "agent.key";

/// Writes the boot module of a machine with its agent, and beside it the key that the agent wants to see in this run. Both are for the owner only.
///
/// # Errors
/// When the agent cannot be read or the module not be written.
pub fn write(machine: &Machine, agent: &Path, to: &Path) -> Result<()> {
    let agent = std::fs::read(agent).context(|| format!("cannot read {}", agent.display()))?;
    let mut machine = machine.clone();
    machine.started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    machine.seed = entropy()?;
    let key: String = entropy()?.iter().map(|byte| format!("{byte:02x}")).collect();
    let files: [(&str, u16, &[u8]); 2] = [("/agent", 0o755, &agent), (address::AGENT_KEY_PATH, 0o600, key.as_bytes())];
    let bytes = boot::encode(&machine, &files).map_err(|error| Failure::new(error.to_string()))?;
    write_secret(to, &bytes)?;
    write_secret(&to.with_file_name(KEY_FILE), key.as_bytes())
}

/// Writes a file that only its owner reads.
fn write_secret(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    // One that was there keeps its rights otherwise.
    let _ = std::fs::remove_file(path);
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes)).context(cannot)
}

fn entropy() -> Result<[u8; 32]> {
    let mut seed = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed));
    read.context(|| "cannot read /dev/urandom".into())?;
    Ok(seed)
}
