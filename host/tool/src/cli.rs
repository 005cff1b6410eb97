//! The command line: each command, its arguments, and the help that `clap` makes of the comments here.
//!
//! * [`Command`] has a variant for each command, in the order in which the help lists them. Its arguments are a struct
//!   of the same name; those of groups of commands stand in modules below.
//! * A comment of an argument is its help text. It says what the user gets, in one line without a full stop.
//! * Most commands speak to a machine that runs and take [`Select`]; a name is needed only if several run. Commands
//!   that print take `--json`.
//! * A value that cannot be is refused here with the expectation in words (`cores`, `duration`, spans of time), before
//!   anything is started.
//!
//! Nothing is done here: `main.rs` hands each struct to the file of its command. Exit codes are listed in `AFTER` and
//! made by `failure.rs`. A new word is a variant, a struct, an arm in `main.rs`, and a line in docs/guide.

mod cell;
mod goals;
mod hosted;
mod programs;
mod set;
mod trace;
mod volume;
mod zone;

use std::path::PathBuf;

pub use cell::{Cell, CellCommand, CellLog, CellOffer, CellRevoke, CellRun};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use goals::{Broker, Goals, Sim};
use gyre_contract::bounds::CORES_MAX;
pub use hosted::{Add, Apply, Attach, Cp, Events, Logs, Ls, Page, Prune, Tenant};
pub use set::{Set, Subject};
pub use trace::Trace;
pub use volume::{Volume, VolumeCommand};
pub use zone::{Changing, Control, Zone, ZoneChange, ZoneCommand};

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
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Boot a machine, show what each tenant gets, end with the bill
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Show the machines of this host, with their tenants
    Ls(Ls),
    /// Show the machines of this host on a page, live, with the pages of each
    Page(Page),
    /// Start a tenant's program that has ended or was stopped
    Start(Tenant),
    /// End a running machine in order: programs end, disks are written back, then `gyre run` shows the bill. Or stop one tenant
    Stop(Stop),
    /// Stop a tenant's programs and start its own again
    Restart(Tenant),
    /// Bring the tenants of a file to a machine that runs: `spare` in its own file keeps places for them
    Add(Add),
    /// Take a tenant away from a machine that runs; its disk and its part of the bill stay
    Remove(Tenant),
    /// Make a machine that runs as its file says now: tenants, shares, limits, ports, goals and health checks
    Apply(Apply),
    /// Show what happened to a machine and its tenants
    Events(Events),
    /// Check a machine file and show what it means
    Check(Check),
    /// Make the images of a machine file without booting it
    Image(Image),
    /// Watch a running machine in the terminal
    Top(Top),
    /// Run a program in a tenant of a running machine
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(Exec),
    /// Show a tenant's console and type on it; Ctrl-C leaves
    Attach(Attach),
    /// Show what a tenant wrote to standard output and standard error
    Logs(Logs),
    /// Show the system calls of a running process, and the cycles that each takes by resource
    #[command(after_help = trace::EXAMPLES)]
    Trace(Trace),
    /// Copy files and folders between the host and a tenant
    #[command(after_help = hosted::CP_EXAMPLES)]
    Cp(Cp),
    /// Say which images, packages and disks can go, and how much that frees
    Prune(Prune),
    /// Show, save, load and remove volumes: file systems that outlive machines
    #[command(after_help = volume::EXAMPLES)]
    Volume(Volume),
    /// Make what a tenant has written durable: one file of it, or all
    Checkpoint(Keep),
    /// Make it durable like checkpoint, and drop it from memory
    Evict(Keep),
    /// Show who used what since the machine started
    Bill(Bill),
    /// Change a running machine: shares and limits of tenants and groups, policy and cores of a resource
    #[command(after_help = set::SET_EXAMPLES)]
    Set(Set),
    /// Show goals of tenants: what is measured, what the broker allocates, and why
    Goals(Goals),
    /// Show the broker, choose its policy, or have it only say what it would do
    #[command(after_help = goals::BROKER_EXAMPLES)]
    Broker(Broker),
    /// Say who would meet its goal under a policy of the broker, without a machine
    #[command(after_help = goals::SIM_EXAMPLES)]
    Sim(Sim),
    /// Show and change the zones of a running machine: kernel instances that come, go and change size
    #[command(after_help = zone::EXAMPLES)]
    Zone(Zone),
    /// Run programs of tenants as cells: on cores and memory of their own
    #[command(after_help = cell::EXAMPLES)]
    Cell(Cell),
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
    /// Write the tree of an installation into a folder: packaging/deb makes a package of it
    #[command(hide = true)]
    Package(Package),
}

const RUN_EXAMPLES: &str = "\
Examples:
  ./gyre run examples/three-tenants.toml
  ./gyre run examples/three-tenants.toml --for 30s --json | jq .bill
  ./gyre run examples/three-tenants.toml --on linux      the same tenants on Debian's kernel with cgroups
  ./gyre run examples/three-tenants.toml --pcap wire.pcap";

const EXP_EXAMPLES: &str = "\
Examples:
  ./gyre exp                                what there is
  ./gyre exp cpu-shares                     one, with its plot in report/
  ./gyre exp wakeups                        timer signals to who computes, round trips between two cores
  ./gyre exp speed --seconds 20 --record    its figures for results/speed.json and the documents
  ./gyre exp --document                     the documents' tables again, from all of results/
  ./gyre exp --report                       the report again, of what experiments found before";

const EXEC_EXAMPLES: &str = "\
Examples:
  ./gyre exec gold -- sh -c 'echo hello; uname -a'
  ./gyre exec -it gold -- sh                         a shell on a terminal
  tar c files | ./gyre exec gold -- tar x -C /srv/www";

/// Arguments of `run`.
#[derive(Args, Clone)]
pub struct Run {
    /// The machine file, or an image: an OCI layout folder, an archive of one, a file of docker save
    pub file: PathBuf,
    /// A port of the host that leads to one of the image's program; may be repeated
    #[arg(long = "publish", short = 'p', value_name = "HOST:GUEST")]
    pub ports: Vec<String>,
    /// End after this time ("30s", "2 min") instead of at Ctrl-C; it counts from the machine's first answer
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
    /// Start no clients, even if the machine file names some
    #[arg(long)]
    pub no_load: bool,
    /// Show the machine's console instead of the live view
    #[arg(long)]
    pub console: bool,
    /// Port of the live page on 127.0.0.1; 0 for none
    #[arg(long, default_value_t = 8077)]
    pub page: u16,
    /// Serve figures for Prometheus here, at /metrics: 127.0.0.1:9101, or with a token any address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
    /// The file with the token that Prometheus must send
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub metrics_token: Option<PathBuf>,
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
    /// Start also if the host's disk may become full: tenants that write get EIO then
    #[arg(long)]
    pub small_disk: bool,
    /// Begin with new disks; what tenants wrote in earlier runs is discarded
    #[arg(long)]
    pub fresh: bool,
    /// Ask the registries for their images again, also for those that are there
    #[arg(long)]
    pub pull: bool,
    /// Run in the background; returns once the machine answers
    #[arg(long, short)]
    pub detach: bool,
    /// Go on with the disks as they are, also if the images of the file have changed since
    #[arg(long, conflicts_with = "fresh")]
    pub keep: bool,
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
    /// Show the cells in time: what each had in the last second, how late, and the last change
    #[arg(long, conflicts_with = "tenant")]
    pub cells: bool,
    /// Write all figures once, as JSON: objects and locks of the kernel among them
    #[arg(long)]
    pub json: bool,
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
    /// Environment beside that of the tenant's program, NAME=VALUE; may be repeated
    #[arg(long, short = 'e', value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Pass standard input on, as is always done; for hands that are used to -it
    #[arg(long, short = 'i')]
    pub interactive: bool,
    /// Give the program a terminal: keys go to it at once, Ctrl-C among them
    #[arg(long = "tty", short = 't', conflicts_with = "json")]
    pub terminal: bool,
    /// Write exit code and output as one JSON document, at the program's end
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
    /// Only this tenant: its programs end, its files and the machine stay
    pub tenant: Option<String>,
    /// How long the tenant's programs have to end by themselves
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s", requires = "tenant")]
    pub time: std::time::Duration,
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
    /// Write JSON, like --format json
    #[arg(long)]
    pub json: bool,
    /// Write for spreadsheets, like --format csv; of a day or a month in FOCUS's columns
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// The bill of a month that is kept, also after the machine's end: "2026-11"
    #[arg(long, value_name = "YYYY-MM", value_parser = span_of_month, conflicts_with_all = ["processes", "changes"])]
    pub month: Option<Span>,
    /// The bill of a day (UTC): "2026-11-26"
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = span_of_day, conflicts_with_all = ["month", "processes", "changes"])]
    pub day: Option<Span>,
    /// A line for each process that runs, in place of the tenants'
    #[arg(long)]
    pub processes: bool,
    /// The changes of shares, promises and policies, with who made them and why, in place of a bill
    #[arg(long, conflicts_with = "processes")]
    pub changes: bool,
}

impl Bill {
    /// Returns the form that is asked for.
    pub fn form(&self) -> BillFormat {
        match (self.json, self.csv) {
            (true, _) => BillFormat::Json,
            (false, true) => BillFormat::Csv,
            (false, false) => self.format,
        }
    }
}

/// A day or a month, as the names of days begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span(pub String);

fn span_of_month(text: &str) -> Result<Span, String> {
    let is_one = format!("{text}-01").parse::<jiff::civil::Date>().is_ok() && text.len() == 7;
    is_one.then(|| Span(text.into())).ok_or_else(|| "expected a month such as 2026-11".into())
}

fn span_of_day(text: &str) -> Result<Span, String> {
    let is_one = text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10;
    is_one.then(|| Span(text.into())).ok_or_else(|| "expected a day such as 2026-11-26".into())
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
    /// The duration in minutes
    #[arg(long, conflicts_with = "seconds")]
    pub minutes: Option<u32>,
    /// First number of the random generator, in place of the experiment's own
    #[arg(long)]
    pub seed: Option<u64>,
    /// Crashes and the like, in place of the experiment's own number
    #[arg(long)]
    pub count: Option<u32>,
    /// Only this one of the experiment's programs (`programs`); with --record the figures of the
    /// others stay
    #[arg(long, value_name = "PROGRAM", requires = "name")]
    pub only: Option<String>,
    /// Leave Linux out: its programs do their checked work here alone (`programs`)
    #[arg(long, requires = "name", conflicts_with = "record")]
    pub without_linux: bool,
    /// Use this kernel instead of building one
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long)]
    pub json: bool,
    /// Keep the figures in results/NAME.json and show them in docs/performance.md and below docs/performance
    #[arg(long, requires = "name")]
    pub record: bool,
    /// Make the documents' parts that are made from results again, without an experiment
    #[arg(long, conflicts_with = "name")]
    pub document: bool,
    /// Make report/index.html again, of what experiments found before: here, or else as results/ keeps it
    #[arg(long, conflicts_with_all = ["name", "document"])]
    pub report: bool,
}

/// Arguments of `test`.
#[derive(Args, Default)]
pub struct Test {
    /// Only tests whose name contains this. `boot`, or the name of a suite in tests/boot, means suites that boot machines and nothing else
    pub filter: Option<String>,
    /// Skip the tests that boot machines
    #[arg(long)]
    pub no_boot: bool,
    /// Run everything so often, and end with a table: which check failed how often, and how long each suite took
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "count")]
    pub repeat: Option<u32>,
    /// Keep the host busy meanwhile: two threads work for 4 seconds and rest by turns
    #[arg(long)]
    pub busy: bool,
    /// Hold machines back meanwhile: each 20 to 60 seconds a processor of one of them, or all of it, for 1 to 20 seconds
    #[arg(long)]
    pub pauses: bool,
    /// Only what a change needs at once: tests of the packages that differ from main, a few seeds, and one machine
    #[arg(long, conflicts_with_all = ["filter", "long", "count"])]
    pub quick: bool,
    /// Search: property tests, seeds, mutators and calls at random by a seed that is drawn and said; takes hours
    #[arg(long)]
    pub long: bool,
    /// Write to tests/counts.toml how many checks each suite has
    #[arg(long)]
    pub count: bool,
    /// Write how many passed, and the names of those that failed, as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `package`.
#[derive(Args)]
pub struct Package {
    /// The folder
    pub folder: PathBuf,
    /// Take this kernel instead of building one
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
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
    gyre_machine_file::units::nanoseconds(text).map(std::time::Duration::from_nanos)
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
