//! The boot module: the machine file's meaning, with what only this run knows.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use gyre_contract::{
    address,
    boot::{self, Machine},
    health,
};

use gyre_machine_file::{Description, HostTenant};

use crate::failure::{Context as _, Failure, Result};

/// Ending of the file with the agent's key of the run, beside the agent's socket of the same name.
pub const KEY_ENDING: &str = "key";
/// The agent's socket, and with [`KEY_ENDING`] its key.
pub const SOCKET_FILE: &str = "agent.sock";

/// Returns the name of the socket of a zone's agent.
pub fn zone_socket(zone: &str) -> String {
    format!("zone-{zone}.sock")
}

/// Writes the boot module of a machine with its agent, and beside it the key that the agent wants to see in this run. Both are for the owner only.
///
/// # Errors
/// When the agent cannot be read or the module not be written.
pub fn write(machine: &Machine, agent: &Path, to: &Path) -> Result<()> {
    write_with(machine, &[], agent, to)
}

/// Writes the boot module of a supervisor: it holds those of its zones. Each zone has a key of its own, beside the supervisor's.
///
/// # Errors
/// As [`write`].
pub fn write_split(description: &Description, agent: &Path, to: &Path) -> Result<()> {
    let mut zones = vec![];
    for (zone, part) in description.machine.zones.iter().zip(&description.zones) {
        let key = to.with_file_name(zone_socket(&zone.name)).with_extension(KEY_ENDING);
        if zone.is_place {
            // That of a zone that came in another run opens nothing.
            let _ = std::fs::remove_file(&key);
            continue;
        }
        zones.push((zone.module.clone(), encode(&part.machine, &[checks(&part.tenants)?], agent, &new_key(&key)?)?));
    }
    zones.push(checks(&description.tenants)?);
    write_with(&description.machine, &zones, agent, to)
}

/// Makes the module of a zone that comes to a place of a machine in `folder`. Its key is that of the place: a zone that is described anew and is refused
/// keeps the one that it knows.
///
/// # Errors
/// As [`write`].
pub fn of_zone(machine: &Machine, tenants: &[HostTenant], agent: &Path, socket: &Path) -> Result<Vec<u8>> {
    let file = socket.with_extension(KEY_ENDING);
    let known = std::fs::read_to_string(&file).ok().filter(|key| !key.is_empty());
    let key = known.map_or_else(|| new_key(&file), Ok)?;
    encode(machine, &[checks(tenants)?], agent, &key)
}

/// Returns the file with the health checks of an instance's tenants.
fn checks(tenants: &[HostTenant]) -> Result<(String, Vec<u8>)> {
    let all: Vec<_> = tenants.iter().filter_map(|tenant| tenant.health.as_ref()).collect();
    Ok((health::PATH.into(), serde_json::to_vec(&all).context(|| "cannot write JSON".into())?))
}

/// Files beside agent and key: checks, and modules of zones by the names that the descriptions of the zones have for them.
type Files = [(String, Vec<u8>)];

fn write_with(machine: &Machine, zones: &Files, agent: &Path, to: &Path) -> Result<()> {
    let key = to.with_file_name(SOCKET_FILE).with_extension(KEY_ENDING);
    write_secret(to, &encode(machine, zones, agent, &new_key(&key)?)?)
}

/// Makes a key and the file that holds it.
fn new_key(file: &Path) -> Result<String> {
    let key: String = entropy()?.iter().map(|byte| format!("{byte:02x}")).collect();
    write_secret(file, key.as_bytes())?;
    Ok(key)
}

/// Makes a module with a key in it.
fn encode(machine: &Machine, zones: &Files, agent: &Path, key: &str) -> Result<Vec<u8>> {
    let agent = std::fs::read(agent).context(|| format!("cannot read {}", agent.display()))?;
    let mut machine = machine.clone();
    machine.started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    machine.seed = entropy()?;
    let mut files: Vec<(&str, u16, &[u8])> =
        vec![("/agent", 0o755, &agent), (address::AGENT_KEY_PATH, 0o600, key.as_bytes())];
    files.extend(zones.iter().map(|(path, bytes)| (path.as_str(), 0o400, bytes.as_slice())));
    boot::encode(&machine, &files).map_err(|error| Failure::new(error.to_string()))
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

#[cfg(test)]
mod tests {
    use gyre_contract::boot::Module;

    use super::*;

    #[test]
    fn the_module_of_a_supervisor_holds_one_for_each_zone_with_a_key_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (agent, to) = (folder.path().join("agent"), folder.path().join("module.bin"));
        std::fs::write(&agent, b"an agent").unwrap();
        let text = "[image.a]\n[[zone]]\nname = \"search\"\nmemory = \"64 MiB\"\n\
            [[tenant]]\nname = \"gold\"\nzone = \"search\"\nshare = 1\nimage = \"a\"\n";
        let description = gyre_machine_file::parse(Path::new("m.toml"), text).unwrap();
        write_split(&description, &agent, &to).unwrap();
        let bytes = std::fs::read(&to).unwrap();
        let supervisor = Module::decode(&bytes).unwrap();
        let inner = Module::decode(supervisor.file(&supervisor.machine.zones[0].module).unwrap()).unwrap();
        assert_eq!(inner.machine.tenants[1].name, "gold");
        let key = |module: &Module| module.file(address::AGENT_KEY_PATH).map(<[u8]>::to_vec);
        let file = |name: &str| std::fs::read(folder.path().join(name)).ok();
        assert_eq!(key(&supervisor), file("agent.key"));
        assert_eq!(key(&inner), file("zone-search.key"));
        assert!(key(&inner).is_some() && key(&inner) != key(&supervisor));
    }
}
