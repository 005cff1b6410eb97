//! The machine file as TOML has it: names and places, nothing checked but types.
//!
//! * A key of the file is a field of the same name, with `-` as `_`; the guide names each of them.
//! * A value that may be refused later is an [`At`]: with its place in the text.
//! * A table that is there once is a struct, or an option of one; a table that repeats is a list.
//! * A key that there is not is an error of the reader, which [`super::suggest`] explains.
//!
//! [`super::raw_policy`] reads policies: their parameters are those of the list of policies.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// A value and its place.
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
    pub(super) spare: Option<At<i64>>,
    pub(super) prices: Option<Prices>,
    #[serde(default)]
    pub(super) system: System,
    #[serde(default)]
    pub(super) policy: BTreeMap<At<String>, Policy>,
    #[serde(default)]
    pub(super) alone: BTreeMap<At<String>, At<Vec<At<i64>>>>,
    #[serde(default)]
    pub(super) activity: Vec<Activity>,
    #[serde(default)]
    pub(super) image: BTreeMap<At<String>, Image>,
    #[serde(default)]
    pub(super) tenant: Vec<Tenant>,
    #[serde(default)]
    pub(super) broker: Broker,
    pub(super) supervisor: Option<At<Supervisor>>,
    #[serde(default)]
    pub(super) zone: Vec<Zone>,
    pub(super) cells: Option<Cells>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cells {
    pub(super) pool: At<String>,
    #[serde(default)]
    pub(super) runtimes: Vec<At<String>>,
    #[serde(default)]
    pub(super) devices: Vec<At<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Supervisor {
    pub(super) cores: Option<At<i64>>,
    pub(super) memory: Option<At<String>>,
    #[serde(rename = "spare-zones")]
    pub(super) spare_zones: Option<At<i64>>,
    #[serde(rename = "spare-zone-tenants")]
    pub(super) spare_zone_tenants: Option<At<i64>>,
    #[serde(rename = "spare-zone-volumes")]
    pub(super) spare_zone_volumes: Option<At<i64>>,
    #[serde(rename = "spare-zone-disks")]
    pub(super) spare_zone_disks: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Zone {
    /// A place that the supervisor keeps for a zone that comes; no file says so here.
    #[serde(skip)]
    pub(crate) is_place: bool,
    pub(super) name: At<String>,
    pub(super) cores: Option<At<i64>>,
    #[serde(rename = "cores-max")]
    pub(super) cores_max: Option<At<i64>>,
    pub(super) memory: At<String>,
    pub(super) protection: Option<At<String>>,
    pub(super) restart: Option<At<String>>,
    #[serde(default = "yes")]
    pub(super) starts: bool,
    #[serde(default, rename = "may-create")]
    pub(super) may_create: bool,
    #[serde(default, rename = "lends-to")]
    pub(super) lends_to: Vec<At<String>>,
    #[serde(rename = "borrows-from")]
    pub(super) borrows_from: Option<At<String>>,
    pub(super) patience: Option<At<String>>,
    pub(super) share: Option<At<Share>>,
    pub(super) links: Option<Vec<At<String>>>,
    pub(super) disks: Option<At<String>>,
    pub(super) network: Option<At<String>>,
    #[serde(default)]
    pub(super) devices: Vec<At<String>>,
    #[serde(default)]
    pub(super) policy: BTreeMap<At<String>, Policy>,
}

/// The value of a key that is true unless the file says otherwise.
fn yes() -> bool {
    true
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
pub(super) struct Prices {
    pub(super) currency: Option<At<String>>,
    #[serde(rename = "core-hour")]
    pub(super) core_hour: Option<At<f64>>,
    #[serde(rename = "gib-hour")]
    pub(super) gib_hour: Option<At<f64>>,
    #[serde(rename = "gib-sent")]
    pub(super) gib_sent: Option<At<f64>>,
    #[serde(rename = "gib-received")]
    pub(super) gib_received: Option<At<f64>>,
    #[serde(rename = "gib-read")]
    pub(super) gib_read: Option<At<f64>>,
    #[serde(rename = "gib-written")]
    pub(super) gib_written: Option<At<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct System {
    pub(super) share: Option<At<Share>>,
    pub(super) memory: Option<At<String>>,
}

#[derive(Default)]
pub(super) struct Policy {
    pub(super) policy: Option<At<String>>,
    pub(super) inner: Option<At<String>>,
    pub(super) metric: Option<At<String>>,
    pub(super) batch: Option<At<i64>>,
    pub(super) cores: Option<At<Vec<At<i64>>>>,
    pub(super) priority: Option<At<i64>>,
    pub(super) queue_depth: Option<At<i64>>,
    /// Parameters of policies of the list, by their names there.
    pub(super) parameters: BTreeMap<String, At<Scalar>>,
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
    pub(super) zone: Option<At<String>>,
    pub(super) image: At<String>,
    pub(super) command: Option<At<Vec<String>>>,
    #[serde(default)]
    pub(super) environment: BTreeMap<At<String>, String>,
    pub(super) directory: Option<At<String>>,
    #[serde(default)]
    pub(super) ports: Vec<At<String>>,
    pub(super) outbound: Option<At<Outbound>>,
    #[serde(rename = "talks-to", default)]
    pub(super) talks_to: Vec<At<String>>,
    pub(super) neighbours: Option<At<String>>,
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
    pub(super) restart: Option<At<String>>,
    pub(super) init: Option<bool>,
    pub(super) load: Option<Load>,
    pub(super) overload: Option<Overload>,
    pub(super) cell: Option<Cell>,
    pub(super) goal: Option<At<Goal>>,
    pub(super) model: Option<At<Model>>,
    pub(super) health: Option<At<Health>>,
    #[serde(default)]
    pub(super) volume: Vec<Volume>,
    #[serde(default)]
    pub(super) entitlement: BTreeMap<At<String>, Entitlement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Health {
    pub(super) command: Option<At<Vec<String>>>,
    pub(super) tcp: Option<At<i64>>,
    pub(super) http: Option<At<String>>,
    pub(super) interval: Option<At<String>>,
    pub(super) timeout: Option<At<String>>,
    pub(super) retries: Option<At<i64>>,
    pub(super) grace: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Volume {
    pub(super) name: At<String>,
    pub(super) path: At<String>,
    pub(super) size: Option<At<String>>,
    pub(super) from: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entitlement {
    pub(super) share: Option<At<i64>>,
    pub(super) priority: Option<At<i64>>,
    pub(super) deadline: Option<At<String>>,
    pub(super) reservation: Option<At<String>>,
    pub(super) limit: Option<At<String>>,
    pub(super) period: Option<At<String>>,
    pub(super) budget: Option<At<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Broker {
    pub(super) policy: Option<At<String>>,
    pub(super) window: Option<At<String>>,
    pub(super) step: Option<At<String>>,
    pub(super) pause: Option<At<String>>,
    pub(super) turn: Option<At<String>>,
    pub(super) answers: Option<At<i64>>,
    pub(super) divides: Option<Vec<At<String>>>,
    pub(super) overload: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Goal {
    pub(super) rate: Option<At<String>>,
    pub(super) p50: Option<At<String>>,
    pub(super) p90: Option<At<String>>,
    pub(super) p95: Option<At<String>>,
    pub(super) p99: Option<At<String>>,
    pub(super) measure: Option<At<String>>,
    pub(super) penalty: Option<At<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) work: At<String>,
    pub(super) clients: Option<At<i64>>,
    pub(super) rate: Option<At<String>>,
    pub(super) varies: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cell {
    pub(super) timing: At<String>,
    pub(super) cores: At<Vec<At<i64>>>,
    pub(super) period: Option<At<String>>,
    pub(super) active: Option<At<String>>,
    pub(super) phase: Option<At<String>>,
    #[serde(default)]
    pub(super) lends: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Overload {
    pub(super) delay: Option<At<String>>,
    pub(super) refuse: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    pub(super) tool: At<String>,
    pub(super) connections: Option<At<i64>>,
    pub(super) path: Option<At<String>>,
    pub(super) port: Option<At<i64>>,
    pub(super) script: Option<At<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    #[serde(default)]
    pub(super) packages: Vec<At<String>>,
    #[serde(default)]
    pub(super) exclude: Vec<String>,
    #[serde(default)]
    pub(super) scripts: Option<At<bool>>,
    pub(super) directory: Option<At<String>>,
    pub(super) ready: Option<At<String>>,
    pub(super) oci: Option<At<String>>,
    pub(super) registry: Option<At<String>>,
    #[serde(default)]
    pub(super) files: BTreeMap<At<String>, At<String>>,
    #[serde(default)]
    pub(super) generate: BTreeMap<At<String>, At<String>>,
    pub(super) size: Option<At<String>>,
}

/// A way out: all of it, some destinations, or those with limits.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "true, a list such as [\"example.org:443\"], or a table of allow, rate and connections"
)]
pub(super) enum Outbound {
    Switch(bool),
    List(Vec<String>),
    Table { allow: Option<Vec<String>>, rate: Option<String>, connections: Option<i64> },
}

/// A value with a unit, or a bare number.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a number, or a text such as \"64 KiB\"")]
pub(super) enum Scalar {
    Number(i64),
    Text(String),
}

impl Scalar {
    /// As it would be written on a command line.
    pub(super) fn text(&self) -> String {
        match self {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text.clone(),
        }
    }
}

/// A weight, or a percentage.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a weight such as 3, or a percentage such as \"50 %\"")]
pub(super) enum Share {
    Weight(i64),
    Text(String),
}
