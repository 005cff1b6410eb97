//! Arguments of `trace`.

use clap::Args;

use super::{Select, duration};

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  ./gyre trace gold 12                           each call, as strace shows it, with its cycles by resource
  ./gyre trace gold 12 --summary --for 10s       counts, errors and cycles by call
  ./gyre trace gold 12 --json | jq -c .cycles
The process pays for being traced. Ctrl-C ends the trace; the process goes on.";

/// Arguments of `trace`.
#[derive(Args)]
pub struct Trace {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The tenant
    pub tenant: String,
    /// The process, by its number in the tenant (`gyre exec TENANT -- ps`)
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub process: i32,
    /// End after this time ("10s") instead of at Ctrl-C or the process' end
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<std::time::Duration>,
    /// Count calls, errors and cycles, and show only the sums at the end
    #[arg(long, short = 'c')]
    pub summary: bool,
    /// Write a JSON document for each call, or for the summary
    #[arg(long)]
    pub json: bool,
}
