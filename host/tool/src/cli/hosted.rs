//! Arguments of the commands of each day: machines of this host, a tenant's life, its files and its log.

use clap::Args;

use super::{Select, duration};

pub(super) const CP_EXAMPLES: &str = "\
Examples:
  ./gyre cp site/ gold:/srv/www
  ./gyre cp gold:/var/log/nginx/access.log .";

/// Arguments of `start`, `restart` and `remove`.
#[derive(Args)]
pub struct Tenant {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The tenant
    pub tenant: String,
    /// How long its programs have to end by themselves
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub time: std::time::Duration,
    /// Write its state as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `add`.
#[derive(Args)]
pub struct Add {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// A machine file: its tenants come, with their images
    pub file: std::path::PathBuf,
    /// Write their states as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `events`.
#[derive(Args)]
pub struct Events {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// Wait for more
    #[arg(long, short)]
    pub follow: bool,
    /// Only events since a time: how long ago ("10 min"), or when ("2026-11-25T20:00:00Z")
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<jiff::Timestamp>,
    /// Write a JSON document for each event
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `apply`.
#[derive(Args)]
pub struct Apply {
    /// The machine file; its name says which machine
    pub file: std::path::PathBuf,
    /// Only show the difference
    #[arg(long)]
    pub dry_run: bool,
    /// Make new disks for tenants whose image is another one, and discard what they wrote there; volumes stay
    #[arg(long)]
    pub fresh: bool,
    /// Write the difference as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cp`.
#[derive(Args)]
pub struct Cp {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// A path of the host, or TENANT:/PATH
    pub from: String,
    /// TENANT:/PATH, or a path of the host
    pub to: String,
}

/// Arguments of `prune`.
#[derive(Args)]
pub struct Prune {
    /// Also the disks of machines that do not run: what their tenants wrote is lost then
    #[arg(long)]
    pub disks: bool,
    /// Remove it, not only say so
    #[arg(long)]
    pub yes: bool,
    /// Write it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `ls`.
#[derive(Args)]
pub struct Ls {
    /// Also machines that have ended
    #[arg(long, short)]
    pub all: bool,
    /// Write them as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `page`.
#[derive(Args)]
pub struct Page {
    /// Port on 127.0.0.1
    #[arg(long, default_value_t = 8070)]
    pub port: u16,
}

/// Arguments of `attach`.
#[derive(Args)]
pub struct Attach {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The tenant
    pub tenant: String,
    /// Show what was written before, too
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `logs`.
#[derive(Args)]
pub struct Logs {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The tenant
    pub tenant: String,
    /// Wait for more
    #[arg(long, short)]
    pub follow: bool,
    /// Only the last so many lines
    #[arg(long, short = 'n', value_name = "LINES")]
    pub tail: Option<usize>,
    /// Only lines since a time: how long ago ("10 min"), or when ("2026-11-25T20:00:00Z")
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<jiff::Timestamp>,
    /// The time before each line, at which the host received it
    #[arg(long, short)]
    pub timestamps: bool,
    /// Write a JSON document for each line
    #[arg(long)]
    pub json: bool,
}

fn since(text: &str) -> Result<jiff::Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = duration(text).map_err(|expected| format!("{expected}, or a time such as 2026-11-25T20:00:00Z"))?;
    jiff::Timestamp::now().checked_sub(ago).map_err(|_| format!("{text} is too long ago"))
}
