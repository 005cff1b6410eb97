//! The machine file as TOML has it: names and places, nothing checked but types.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// A value and where it stands.
pub(super) type At<T> = Spanned<T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Option<At<String>>,
    pub(super) cores: Option<At<i64>>,
    pub(super) memory: Option<At<String>>,
    pub(super) log: Option<At<String>>,
    #[serde(rename = "time-slice")]
    pub(super) time_slice: Option<At<String>>,
    pub(super) messages: Option<At<String>>,
    #[serde(default)]
    pub(super) link: Link,
    pub(super) disk: Option<Disk>,
    #[serde(default)]
    pub(super) system: System,
    #[serde(default)]
    pub(super) policy: BTreeMap<At<String>, Policy>,
    #[serde(default)]
    pub(super) activity: Vec<Activity>,
    #[serde(default)]
    pub(super) image: BTreeMap<At<String>, Image>,
    #[serde(default)]
    pub(super) tenant: Vec<Tenant>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub(super) rate: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Disk {
    pub(super) rate: Option<At<String>>,
    pub(super) requests: Option<At<String>>,
    pub(super) depth: Option<At<i64>>,
    pub(super) bus: Option<At<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct System {
    pub(super) share: Option<At<Share>>,
    pub(super) memory: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) policy: Option<At<String>>,
    pub(super) inner: Option<At<String>>,
    pub(super) metric: Option<At<String>>,
    pub(super) batch: Option<At<i64>>,
    pub(super) cores: Option<At<Vec<At<i64>>>>,
    pub(super) priority: Option<At<i64>>,
    #[serde(rename = "queue-depth")]
    pub(super) queue_depth: Option<At<i64>>,
    pub(super) rate: Option<At<String>>,
    pub(super) burst: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Activity {
    pub(super) name: At<String>,
    pub(super) parent: Option<At<String>>,
    pub(super) share: At<Share>,
    pub(super) memory: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tenant {
    pub(super) name: At<String>,
    pub(super) share: At<Share>,
    pub(super) activity: Option<At<String>>,
    pub(super) image: At<String>,
    pub(super) command: Option<At<Vec<String>>>,
    #[serde(default)]
    pub(super) environment: BTreeMap<At<String>, String>,
    pub(super) directory: Option<At<String>>,
    #[serde(default)]
    pub(super) ports: Vec<At<String>>,
    pub(super) address: Option<At<String>>,
    pub(super) memory: Option<At<String>>,
    #[serde(rename = "memory-reservation")]
    pub(super) memory_reservation: Option<At<String>>,
    #[serde(rename = "memory-share")]
    pub(super) memory_share: Option<At<i64>>,
    #[serde(rename = "process-memory")]
    pub(super) process_memory: Option<At<String>>,
    pub(super) processes: Option<At<i64>>,
    pub(super) files: Option<At<i64>>,
    #[serde(default)]
    pub(super) monitor: bool,
    pub(super) load: Option<Load>,
    #[serde(default)]
    pub(super) entitlement: BTreeMap<At<String>, Entitlement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entitlement {
    pub(super) share: Option<At<i64>>,
    pub(super) priority: Option<At<i64>>,
    pub(super) deadline: Option<At<String>>,
    pub(super) reservation: Option<At<String>>,
    pub(super) limit: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    pub(super) tool: At<String>,
    pub(super) connections: Option<At<i64>>,
    pub(super) path: Option<At<String>>,
    pub(super) port: Option<At<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    #[serde(default)]
    pub(super) packages: Vec<At<String>>,
    #[serde(default)]
    pub(super) exclude: Vec<String>,
    pub(super) directory: Option<At<String>>,
    pub(super) ready: Option<At<String>>,
    #[serde(default)]
    pub(super) files: BTreeMap<At<String>, At<String>>,
    #[serde(default)]
    pub(super) generate: BTreeMap<At<String>, At<String>>,
    pub(super) size: Option<At<String>>,
}

/// A weight, or a percentage.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a weight such as 3, or a percentage such as \"50 %\"")]
pub(super) enum Share {
    Weight(i64),
    Text(String),
}
