//! Arguments of `gyre set`.

use clap::{Args, ValueEnum};

use super::Select;

/// Shown below the options.
pub const SET_EXAMPLES: &str = "\
Tenants: share WEIGHT or \"60 %\" · memory SIZE · process-memory SIZE or none · processes COUNT
  and at one resource, each a value or none: RESOURCE.share WEIGHT · .priority 0 to 255 · .deadline TIME · .reservation RATE
  · .limit RATE · .period TIME · .budget TIME or SIZE. RATE is \"20 %\" of a core at cpu, \"10 Mbit/s\" elsewhere.
  and one goal for the broker: goal.p50, .p90, .p95, .p99 TIME · goal.rate \"30/s\" · goal none
Groups: share WEIGHT · memory SIZE or none
Resources: policy NAME [inner NAME] [rate R burst B] · batch COUNT · cores 0,1 · weight WEIGHT
SIZE has a unit (64 MiB). A limit is at least what is held now (or --force), at most what the machine has.
All keys of a command are one change: the kernel makes all of it or nothing.
A percentage is what the tenant gets while all its siblings want more; they keep their shares among each other.

Examples:
  ./gyre set tenant gold share 60
  ./gyre set tenant bronze memory '128 MiB' processes 50
  ./gyre set tenant gold cpu.reservation '20 %' cpu.limit '50 %' network-write.limit '10 Mbit/s'
  ./gyre set resource block policy wfq
  ./gyre set resource cpu cores 1";

/// Arguments of `set`.
#[derive(Args)]
pub struct Set {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The kind of thing that changes
    #[arg(value_enum)]
    pub what: Subject,
    /// Its name
    pub name: String,
    /// The zone that is meant; not needed for tenants, and groups are found in the zone that has them
    #[arg(long, value_name = "NAME")]
    pub zone: Option<String>,
    /// Keys and values in turn
    #[arg(required = true, num_args = 2.., value_name = "KEY VALUE")]
    pub pairs: Vec<String>,
    /// Set limits also below what is held now: programs that want more are ended or refused then
    #[arg(long)]
    pub force: bool,
    /// Why, for the record of changes (gyre bill --changes)
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Write what holds now as JSON
    #[arg(long)]
    pub json: bool,
}

/// The kinds of things that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// A tenant's share and limits
    Tenant,
    /// Share and memory limit of a group of tenants
    Group,
    /// A resource's scheduler and cores
    Resource,
    /// A tenant's cores in time: timing, cores, period, active, phase, lends
    Cell,
}
