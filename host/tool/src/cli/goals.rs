//! Arguments of `gyre goals` and `gyre broker`.

use std::path::PathBuf;

use clap::Args;
use gyre_contract::goals::BrokerPolicy;

use super::Select;

/// Shown below the options.
pub const BROKER_EXAMPLES: &str = "\
Examples:
  ./gyre broker                               its policy, its last window
  ./gyre broker --policy threshold --dry-run  say what it would do, change nothing
  ./gyre broker --policy threshold --explain  follow goals, and show the next window with reasons
  ./gyre broker --policy off                  end it; what it allocated stays";

/// Arguments of `goals`.
#[derive(Args)]
pub struct Goals {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The zone whose goals they are; else those of the machine, or of its supervisor
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Write goals, measures and the broker's last window as JSON
    #[arg(long)]
    pub json: bool,
}

/// Shown below the options of `sim`.
pub const SIM_EXAMPLES: &str = "\
Examples:
  ./gyre sim shop.toml --policy threshold             who would meet its goal
  ./gyre sim shop.toml --policy pacora --seeds 10     under ten seeds
  ./gyre sim shop.toml --policy static --for 10min    for a longer time of the model";

/// Arguments of `sim`.
#[derive(Args)]
pub struct Sim {
    /// The machine file; a machine of its name that runs gives measured demands
    pub file: PathBuf,
    /// The broker's policy; the file's, or what its goals ask for, if none is given
    #[arg(long, value_name = "POLICY", value_parser = broker_policy)]
    pub policy: Option<BrokerPolicy>,
    /// How long to play, in time of the model
    #[arg(long = "for", value_name = "TIME", value_parser = super::duration, default_value = "5min")]
    pub duration: std::time::Duration,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub seeds: u32,
    /// Ask no running machine: [tenant.model] of the file alone
    #[arg(long)]
    pub no_machine: bool,
    /// Write the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `broker`.
#[derive(Args)]
pub struct Broker {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The zone whose goals they are; else those of the machine, or of its supervisor
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Follow this policy from now on
    #[arg(long, value_name = "POLICY", value_parser = broker_policy)]
    pub policy: Option<BrokerPolicy>,
    /// Follow the policy although a goal that is met now would be missed
    #[arg(long)]
    pub force: bool,
    /// Only say what it would do
    #[arg(long, conflicts_with = "live")]
    pub dry_run: bool,
    /// Do what it says, after --dry-run
    #[arg(long)]
    pub live: bool,
    /// Wait for its next window and show why each tenant gets its part
    #[arg(long)]
    pub explain: bool,
    /// End it as a failure would: it is started again after a second
    #[arg(long, conflicts_with = "policy")]
    pub kill: bool,
    /// Write goals, measures and its last window as JSON
    #[arg(long)]
    pub json: bool,
}

fn broker_policy(text: &str) -> Result<BrokerPolicy, String> {
    let found = BrokerPolicy::ALL.iter().find(|(name, _)| *name == text).map(|(_, policy)| *policy);
    let names = || BrokerPolicy::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("expected one of {}", names()))
}
