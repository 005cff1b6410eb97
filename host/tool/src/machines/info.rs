//! A machine that ran, since when, and how it ended: `machine.json` in the folder of the run.

use std::path::Path;

use gyre_machine_file::{Description, Forward, HostTenant};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Context as _, Result},
    instances, whole_file,
};

const FILE: &str = "machine.json";

/// A machine that runs or ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// The machine file, or the image.
    pub file: String,
    /// The process of its `gyre run`.
    pub process: u32,
    /// When it was started, ms since 1970.
    pub started_unix_ms: i64,
    /// When it ended, ms since 1970; none while it runs, and if its `gyre run` was killed.
    pub ended_unix_ms: Option<i64>,
    /// How it ended, as the end of a sentence.
    pub end: Option<String>,
    /// Its tenants.
    pub tenants: Vec<Tenant>,
}

/// A tenant of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name, as commands take it.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Its ports: the host's and its own.
    pub ports: Vec<(u16, u16)>,
    /// Its ports as the machine file has them, with addresses and protocols.
    #[serde(default)]
    pub published: Vec<String>,
    /// Its volumes, with their paths.
    #[serde(default)]
    pub volumes: Vec<(String, String)>,
}

/// Returns the present time, ms since 1970.
pub fn now_unix_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn tenant(zone: Option<&str>, host: &HostTenant) -> Tenant {
    let port = |port: &Forward| (port.host, port.guest);
    Tenant {
        name: instances::full_name(zone, &host.name),
        image: host.image.clone(),
        ports: host.ports.iter().map(port).collect(),
        published: host.ports.iter().map(ToString::to_string).collect(),
        volumes: host.volumes.iter().map(|one| (one.name.clone(), one.path.clone())).collect(),
    }
}

impl Info {
    /// Describes a machine that starts now.
    pub fn of(description: &Description) -> Self {
        let tenants = description
            .instances()
            .flat_map(|instance| instance.tenants.iter().map(move |tenant| self::tenant(instance.zone, tenant)));
        let path = &description.path;
        Self {
            name: description.machine.name.clone(),
            file: std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string(),
            process: std::process::id(),
            started_unix_ms: now_unix_ms(),
            ended_unix_ms: None,
            end: None,
            tenants: tenants.collect(),
        }
    }

    /// Reads what stands in a folder, if anything does.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(folder.join(FILE)).ok()?).ok()
    }

    /// Writes it into a folder.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let text = serde_json::to_string(self).context(|| "cannot write JSON".into())?;
        whole_file::write(&path, &text)
    }

    /// Notes who came and who left while the machine runs.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn change(folder: &Path, comers: &[HostTenant], leavers: &[String]) -> Result<()> {
        let Some(mut info) = Self::read(folder) else { return Ok(()) };
        let has_come = |name: &str| comers.iter().any(|comer| comer.name == name);
        info.tenants.retain(|tenant| !leavers.contains(&tenant.name) && !has_come(&tenant.name));
        info.tenants.extend(comers.iter().map(|host| tenant(None, host)));
        info.write(folder)
    }

    /// Notes the ports of tenants that stay.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn publish<'a>(folder: &Path, all: impl Iterator<Item = &'a HostTenant>) -> Result<()> {
        let Some(mut info) = Self::read(folder) else { return Ok(()) };
        for host in all {
            if let Some(known) = info.tenants.iter_mut().find(|known| known.name == host.name) {
                *known = tenant(None, host);
            }
        }
        info.write(folder)
    }

    /// Notes the end of a machine.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn note_end(folder: &Path, end: &str) -> Result<()> {
        let Some(info) = Self::read(folder) else { return Ok(()) };
        Self { ended_unix_ms: Some(now_unix_ms()), end: Some(end.to_owned()), ..info }.write(folder)
    }
}
