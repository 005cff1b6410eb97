//! The command line of `gyre cell`.
//!
//! * [`CellRun`]: a program of a tenant as a cell, with its policies and devices.
//! * [`CellRevoke`], [`CellOffer`]: orders to a cell, which is known by its tenant and its process.
//! * [`CellList`], [`CellLogging`], [`CellPool`]: what there is, what has happened, and how much memory is kept for cells.
//!
//! Cells in time are something else: `gyre set cell` changes those.
//!
//! Sizes and times are words with units; `cell/list.rs` reads them. Whether an order can be followed is the machine's to say.

use clap::{Args, Subcommand};

pub(super) const EXAMPLES: &str = "\
The machine file says `[cells]` `pool`: memory that is kept for cells. The program is an ordinary one of the tenant.

Examples:
  ./gyre cell run gold -- /usr/bin/sort /tmp/numbers
  ./gyre cell run gold --cores 2 --restart -- /usr/bin/worker
  ./gyre cell list                                    who has which cores and how much memory, and what it cost
  ./gyre cell revoke gold 17 --memory '32 MiB' --within '100 ms'
  ./gyre cell offer gold 17 --cores 1                 a core in the place of one that it gave back
  ./gyre cell log --json | jq .result
  ./gyre cell pool '64 MiB'
  ./gyre cell run gold --memory '128 MiB' --pager eager -- /usr/bin/redis-server --save ''
  ./gyre cell run gold --disk /dev/cell0 -- /usr/bin/dd if=/dev/cell0 of=/dev/null bs=4k";

/// Arguments of `cell`.
#[derive(Args)]
pub struct Cell {
    /// The command.
    #[command(subcommand)]
    pub command: CellCommand,
}

/// The commands of `cell`.
#[derive(Subcommand)]
pub enum CellCommand {
    /// Run a program of a tenant as a cell: on cores and memory of its own, unmodified
    Run(CellRun),
    /// Show the cells: tenant, process, state, cores, memory, cycles, runtime; and what is free
    List(CellList),
    /// Have a cell give back memory or cores within a time, or all that it has; if it does not, it is ended
    Revoke(CellRevoking),
    /// Let a cell have cores again that it gave back; what it does not take within the time is not offered any more
    Offer(CellOffering),
    /// Keep more or less memory for cells: lots that no cell has go back to the machine, or come from it
    Pool(CellPool),
    /// Show each grant, entry, exit and revocation: when, what moved, by whose order, and how it ended
    Log(CellLogging),
}

/// Arguments of `cell list`.
#[derive(Args)]
pub struct CellList {
    /// Which machine.
    #[command(flatten)]
    pub select: super::Select,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cell revoke`.
#[derive(Args)]
pub struct CellRevoking {
    /// Which machine.
    #[command(flatten)]
    pub select: super::Select,
    /// The order.
    #[command(flatten)]
    pub order: CellRevoke,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cell offer`.
#[derive(Args)]
pub struct CellOffering {
    /// Which machine.
    #[command(flatten)]
    pub select: super::Select,
    /// The offer.
    #[command(flatten)]
    pub offer: CellOffer,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cell pool`.
#[derive(Args)]
pub struct CellPool {
    /// Which machine.
    #[command(flatten)]
    pub select: super::Select,
    /// The memory, whole lots of 2 MiB; never more than the machine file says
    #[arg(value_name = "SIZE")]
    pub size: String,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// An order to a cell; without memory and cores all is taken back.
#[derive(Args)]
pub struct CellRevoke {
    /// The tenant
    pub tenant: String,
    /// The cell's process, as `gyre cell list` shows it
    pub process: i32,
    /// Cores; the first one stays
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub cores: u32,
    /// Memory, whole lots of 2 MiB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// The time that the cell has, 1 ms to 60 s
    #[arg(long, default_value = "100 ms", value_name = "TIME")]
    pub within: String,
}

/// Cores for a cell.
#[derive(Args)]
pub struct CellOffer {
    /// The tenant
    pub tenant: String,
    /// The cell's process, as `gyre cell list` shows it
    pub process: i32,
    /// Cores, as many as it has given back at most
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub cores: u32,
    /// The time for which they are offered, 1 ms to 60 s
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    pub within: String,
}

/// Arguments of `cell log`.
#[derive(Args)]
pub struct CellLogging {
    /// Which machine.
    #[command(flatten)]
    pub select: super::Select,
    /// The part of it.
    #[command(flatten)]
    pub log: CellLog,
    /// Write JSON, a document for each record
    #[arg(long)]
    pub json: bool,
}

/// The part of the log.
#[derive(Args)]
pub struct CellLog {
    /// Wait for more
    #[arg(long, short)]
    pub follow: bool,
}

/// Arguments of `cell run`.
#[derive(Args)]
pub struct CellRun {
    /// Which machine.
    #[command(flatten)]
    pub select: super::Select,
    /// The tenant
    pub tenant: String,
    /// Cores for itself
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub cores: u32,
    /// Memory for itself, whole lots of 2 MiB
    #[arg(long, default_value = "64 MiB", value_name = "SIZE")]
    pub memory: String,
    /// Start it again if it crashes
    #[arg(long)]
    pub restart: bool,
    /// Without a virtual machine: the runtime runs at ring 3
    #[arg(long)]
    pub plain: bool,
    /// With --plain: an ordinary process, without cores and memory for itself
    #[arg(long, requires = "plain")]
    pub unleased: bool,
    /// When pages become present: demand, eager, keep, reuse
    #[arg(long, value_name = "NAME")]
    pub pager: Option<String>,
    /// Allocator of frames: buddy, coloured
    #[arg(long, value_name = "NAME")]
    pub frames: Option<String>,
    /// Order of threads: round-robin, newest
    #[arg(long, value_name = "NAME")]
    pub fibers: Option<String>,
    /// Cores that wait for lines: wait, poll
    #[arg(long, value_name = "NAME")]
    pub io: Option<String>,
    /// The path under which the program finds the cell's disk
    #[arg(long, value_name = "PATH")]
    pub disk: Option<String>,
    /// Which of the machine file's devices of cells that is
    #[arg(long, value_name = "N", requires = "disk")]
    pub device: Option<String>,
    /// The path under which the program finds the cell's network card
    #[arg(long, value_name = "PATH")]
    pub card: Option<String>,
    /// Which of the machine file's devices of cells that is
    #[arg(long, value_name = "N", requires = "card")]
    pub card_device: Option<String>,
    /// Environment, NAME=VALUE; may be repeated
    #[arg(long, short = 'e', value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Give the program a terminal: keys go to it at once, Ctrl-C among them
    #[arg(long = "tty", short = 't', conflicts_with = "json")]
    pub terminal: bool,
    /// Write exit code and output as one JSON document, at the program's end
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(required = true, last = true)]
    pub command: Vec<String>,
}
