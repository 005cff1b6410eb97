//! The command line.

mod programs;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gyre_config::file::CORES_MAX;

const AFTER: &str = "\
Exit codes: 0 done · 1 failed · 2 wrong command line · 3 the machine file is wrong · 4 the host lacks something
(gyre doctor says what) · 5 the machine stopped by itself · 6 a tenant did not run, or its disk failed ·
7 the machine no longer answered · 130 interrupted. docs/guide/when-something-fails.md has all messages.

Examples:
  ./gyre run examples/three-tenants.toml --for 30s   boot, serve, show shares, end with the bill
  ./gyre exec gold -- ls -l /srv/www                 run a program in a tenant
  ./gyre bill --format csv > bill.csv                who used what so far
  source <(./gyre completions bash)                  completions for this shell";

/// Gyre: machines shared by several tenants, every cycle accounted.
#[derive(Parser)]
#[command(name = "gyre", version, after_help = AFTER, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Boot a machine, show what each tenant gets, end with the bill
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// End a running machine in order: programs end, disks are written back, then `gyre run` shows the bill
    Stop(Stop),
    /// Check a machine file and show what it means
    Check(Check),
    /// Make the images of a machine file without booting it
    Image(Image),
    /// Watch a running machine in the terminal
    Top(Top),
    /// Run a program in a tenant of a running machine
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(Exec),
    /// Show what a tenant wrote to standard output and standard error
    Logs(Logs),
    /// Make what a tenant has written durable: one file of it, or all
    Checkpoint(Keep),
    /// The same, and drop it from memory
    Evict(Keep),
    /// Show who used what since the machine started
    Bill(Bill),
    /// Change a running machine: shares and limits of tenants and groups, policy and cores of a resource
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
    #[command(after_help = EXP_EXAMPLES)]
    /// Run an experiment of a paper: a table with its figure beside ours, and a plot
    Exp(Exp),
    /// Name the functions in a kernel's trace: a console's log as it was, with names, files and lines below the addresses
    Symbolise(Symbolise),
    /// Run the tests of the project
    Test(Test),
    /// Check what this host has and say what to do
    Doctor(Doctor),
    /// Write completions for a shell to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  ./gyre run examples/three-tenants.toml
  ./gyre run examples/three-tenants.toml --for 30s --json | jq .bill
  ./gyre run examples/three-tenants.toml --on linux      the same tenants on Debian's kernel with cgroups
  ./gyre run examples/three-tenants.toml --pcap wire.pcap";

const SET_EXAMPLES: &str = "\
Tenants: share WEIGHT or \"60 %\" · memory SIZE · process-memory SIZE or none · processes COUNT
Groups: share WEIGHT · memory SIZE or none
Resources: policy NAME [inner NAME] [rate R burst B] · batch COUNT · cores 0,1 · weight WEIGHT
SIZE has a unit (64 MiB). A limit is at least what is held now (or --force), at most what the machine has.
A percentage is what the tenant gets while all its siblings want more; they keep their shares among each other.

Examples:
  ./gyre set tenant gold share 60
  ./gyre set tenant bronze memory '128 MiB' processes 50
  ./gyre set resource block policy wfq
  ./gyre set resource cpu cores 1";

const EXP_EXAMPLES: &str = "\
Examples:
  ./gyre exp                                what there is
  ./gyre exp cpu-shares                     one, with its plot in report/
  ./gyre exp wakeups                        timer signals to who computes, round trips between two cores
  ./gyre exp speed --seconds 20 --record    its figures for results/speed.json and docs/performance.md
  ./gyre exp --document                     the documents' tables again, from all of results/";

const EXEC_EXAMPLES: &str = "\
Examples:
  ./gyre exec gold -- sh -c 'echo hello; uname -a'
  tar c files | ./gyre exec gold -- tar x -C /srv/www";

/// Arguments of `run`.
#[derive(Args, Clone)]
pub struct Run {
    /// The machine file
    pub file: PathBuf,
    /// End after this time ("30s", "2 min") instead of at Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<std::time::Duration>,
    /// The kernel to run on
    #[arg(long, value_enum, default_value = "gyre")]
    pub on: Kernel,
    /// Use this kernel instead of building one
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// Cores, in place of the machine file's: 1 to 8
    #[arg(long, value_parser = cores)]
    pub cores: Option<u16>,
    /// Write every frame on the wire to this file
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Start no clients, whatever the machine file says
    #[arg(long)]
    pub no_load: bool,
    /// Show the machine's console instead of the live view
    #[arg(long)]
    pub console: bool,
    /// Port of the live page on 127.0.0.1; 0 for none
    #[arg(long, default_value_t = 8077)]
    pub page: u16,
    /// More arguments for QEMU
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub qemu: Vec<String>,
    /// More words for the kernel's command line
    #[arg(long, value_name = "WORDS", default_value = "")]
    pub append: String,
    /// Write the result as JSON to standard output
    #[arg(long)]
    pub json: bool,
    /// End a machine that has not answered for so long, with exit code 7; 0s for never
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub patience: std::time::Duration,
    /// Start also where the host's disk may become full: tenants that write get EIO then
    #[arg(long)]
    pub small_disk: bool,
    /// Keep the bill in results/bill.txt and show it in README.md
    #[arg(long)]
    pub record: bool,
}

/// The kernel under the tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kernel {
    /// This project's kernel
    Gyre,
    /// Debian's cloud kernel with control groups, to compare with
    Linux,
}

/// Arguments of `check`.
#[derive(Args)]
pub struct Check {
    /// The machine file
    pub file: PathBuf,
    /// Write the machine as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `image`.
#[derive(Args)]
pub struct Image {
    /// The machine file
    pub file: PathBuf,
    /// Only this image
    pub name: Option<String>,
    /// Write names and paths as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which running machine is meant.
#[derive(Args, Clone)]
pub struct Select {
    /// The machine's name; not needed when one machine runs
    #[arg(long, short, value_name = "NAME")]
    pub machine: Option<String>,
}

/// Arguments of `top`.
#[derive(Args)]
pub struct Top {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// Show the processes of this tenant, or of all with `all`
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Write all figures once, as JSON: objects and locks of the kernel among them
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `set`.
#[derive(Args)]
pub struct Set {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// What is changed
    #[arg(value_enum)]
    pub what: Subject,
    /// Its name
    pub name: String,
    /// Keys and values in turn
    #[arg(required = true, num_args = 2.., value_name = "KEY VALUE")]
    pub pairs: Vec<String>,
    /// Set limits also below what is held now: programs that want more are ended or refused then
    #[arg(long)]
    pub force: bool,
    /// Write what holds now as JSON
    #[arg(long)]
    pub json: bool,
}

/// What can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// A tenant's share and limits
    Tenant,
    /// Share and memory limit of a group of tenants
    Group,
    /// A resource's scheduler and cores
    Resource,
}

/// Arguments of `exec`.
#[derive(Args)]
pub struct Exec {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The tenant
    pub tenant: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
    /// Environment, NAME=VALUE; may be repeated
    #[arg(long, short = 'e', value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Write exit code and output as one JSON document, at the program's end
    #[arg(long)]
    pub json: bool,
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
    /// Write a JSON document for each line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `checkpoint` and `evict`.
#[derive(Args)]
pub struct Keep {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The tenant
    pub tenant: String,
    /// The file's path in the tenant; without it all that the tenant has
    pub file: Option<String>,
}

/// Arguments of `stop`.
#[derive(Args)]
pub struct Stop {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// Write which machine ended, and how long that took, as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `bill`.
#[derive(Args)]
pub struct Bill {
    /// Which machine.
    #[command(flatten)]
    pub select: Select,
    /// The form
    #[arg(long, value_enum, default_value = "table")]
    pub format: BillFormat,
    /// The same as --format json
    #[arg(long)]
    pub json: bool,
    /// A line for each process that runs, in place of the tenants'
    #[arg(long)]
    pub processes: bool,
}

/// Forms of a bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BillFormat {
    /// For people
    Table,
    /// For programs
    Json,
    /// For spreadsheets
    Csv,
}

/// Arguments of `exp`.
#[derive(Args)]
pub struct Exp {
    /// The experiment, `all`, or nothing for a list
    pub name: Option<String>,
    /// Seconds of measurement, in place of the experiment's own
    #[arg(long)]
    pub seconds: Option<u32>,
    /// The same in minutes
    #[arg(long, conflicts_with = "seconds")]
    pub minutes: Option<u32>,
    /// Where chance begins, in place of the experiment's own number
    #[arg(long)]
    pub seed: Option<u64>,
    /// Crashes and the like, in place of the experiment's own number
    #[arg(long)]
    pub count: Option<u32>,
    /// Use this kernel instead of building one
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long)]
    pub json: bool,
    /// Keep the figures in results/NAME.json and show them in docs/performance.md
    #[arg(long, requires = "name")]
    pub record: bool,
    /// Make the documents' parts that are made from results again, without an experiment
    #[arg(long, conflicts_with = "name")]
    pub document: bool,
}

/// Arguments of `test`.
#[derive(Args)]
pub struct Test {
    /// Only tests whose name contains this
    pub filter: Option<String>,
    /// Skip the tests that boot machines
    #[arg(long)]
    pub no_boot: bool,
    /// Write how many passed, and the names of those that failed, as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `symbolise`.
#[derive(Args)]
pub struct Symbolise {
    /// The console's log; standard input without it
    pub log: Option<PathBuf>,
    /// The kernel that wrote it, in place of the one built last
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Args)]
pub struct Doctor {
    /// Write the findings as JSON
    #[arg(long)]
    pub json: bool,
}

fn duration(text: &str) -> Result<std::time::Duration, String> {
    gyre_config::file::units::nanoseconds(text).map(std::time::Duration::from_nanos)
}

fn cores(text: &str) -> Result<u16, String> {
    let expected = || format!("the number of cores cannot be {text}: expected 1 to {CORES_MAX}");
    text.parse().ok().filter(|cores| (1..=CORES_MAX).contains(cores)).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_in_a_tenant_keeps_its_own_options() {
        let cli = Cli::try_parse_from(["gyre", "exec", "gold", "ls", "-l", "--", "x"]).unwrap();
        let Command::Exec(exec) = cli.command else { panic!("exec") };
        assert_eq!(exec.command, ["ls", "-l", "--", "x"]);
    }

    #[test]
    fn cores_are_those_that_a_machine_file_may_ask_for() {
        for good in ["1", "8"] {
            assert!(Cli::try_parse_from(["gyre", "run", "x", "--cores", good]).is_ok());
        }
        for bad in ["0", "9", "64", "300", "99999", "-1", "two"] {
            let error = Cli::try_parse_from(["gyre", "run", "x", &format!("--cores={bad}")]).err().unwrap().to_string();
            let expected = format!("the number of cores cannot be {bad}: expected 1 to 8");
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert!(Cli::try_parse_from(["gyre", "run", "x", "--for", "30s"]).is_ok());
        let error = Cli::try_parse_from(["gyre", "run", "x", "--for", "30"]).err().unwrap().to_string();
        assert!(error.contains("unit is missing"), "{error}");
    }
}
