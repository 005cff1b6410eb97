//! The command line of `gyre zone`.
//!
//! * [`ZoneCommand`]: all of it; those that only show, and the two that run for long ([`Control`], and what `--follow` watches).
//! * [`ZoneChange`]: commands that become one change of the supervisor's. A change is done as a whole or not at all.
//! * [`Changing`]: how long parts that are in use are waited for.
//!
//! Sizes are keys and values in turn, as those of `gyre set`: `cores 2 memory '512 MiB'`. They are read in `zone/wish.rs`, which knows the machine.
//! Here only what stands for itself is checked: times, devices, bands.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gyre_broker_program::cores::Band;
use gyre_contract::zones::DeviceAddress;

pub(super) const EXAMPLES: &str = "\
A change is done as a whole or not at all. A part that is in use is waited for (--deadline); then the answer says who
holds it, and everything is as it was. SIZE has a unit and is whole lots of 2 MiB.

Examples:
  ./gyre zone list                              zones, their state and parts, and what is free
  ./gyre zone create batch cores 2              make a described zone, here with more cores than described
  ./gyre zone create late --file late.toml      make one that the machine was not started with
  ./gyre zone set search cores 2 memory '512 MiB'
  ./gyre zone lend batch search cores 1         a core moves from one running zone to another
  ./gyre zone spawn search batch cores 1 memory '128 MiB'   search makes batch of parts of its own
  ./gyre zone borrow search batch cores 1       search takes a core of batch, which lends to it; `return` gives it back
  ./gyre zone destroy batch --by search         search orders it, which manages batch
  ./gyre zone control search batch --p99 160ms..200ms   cores follow the 99th percentile of search's answers
  ./gyre zone restart search --grace 5s         end it in order, then make it again
  ./gyre zone console search --follow           what its kernel prints
  ./gyre zone apply machine.toml --dry-run      what would have to change so that the zones are as in the file
  ./gyre zone log --json | jq .result           each change, by whose order, how long it took";

/// Arguments of `zone`.
#[derive(Args)]
pub struct Zone {
    /// The machine's name; not needed when one machine runs
    #[arg(long, short, value_name = "NAME", global = true)]
    pub machine: Option<String>,
    /// Write JSON: the zones as they are now, or what was asked for
    #[arg(long, global = true)]
    pub json: bool,
    /// The command.
    #[command(subcommand)]
    pub command: ZoneCommand,
}

/// The commands of `zone`.
#[derive(Subcommand)]
pub enum ZoneCommand {
    /// Show the zones: state, cores, memory, devices; and what nobody holds
    List,
    /// A change.
    #[command(flatten)]
    Change(ZoneChange),
    /// Show what a zone's kernel has printed
    Console {
        /// The zone
        name: String,
        /// Wait for more
        #[arg(long, short)]
        follow: bool,
    },
    /// Show each change of the zones: when, what moved from whom to whom, by whose order, and how it ended
    Log {
        /// Wait for more
        #[arg(long, short)]
        follow: bool,
    },
    /// Show what a zone has held, and below it the zone's own bill
    Bill {
        /// The zone
        name: String,
    },
    /// Have a zone hand parts of its own to another zone; one that does not run is made of them: `spawn FROM TO cores 1 memory SIZE`
    Spawn {
        /// The zone that gives; it has may-create = true
        from: String,
        /// The zone that gets
        to: String,
        /// Keys and values in turn: cores N, memory SIZE
        #[arg(required = true, num_args = 2.., value_name = "KEY VALUE")]
        pairs: Vec<String>,
    },
    /// Have a zone borrow parts of another one, which lends to it or is managed by it: `borrow ZONE LENDER cores N`
    Borrow {
        /// The zone that gets
        zone: String,
        /// The zone that gives: its lends-to names the other, or the other manages it
        lender: String,
        /// Keys and values in turn: cores N, memory SIZE
        #[arg(required = true, num_args = 2.., value_name = "KEY VALUE")]
        pairs: Vec<String>,
    },
    /// Have a zone give borrowed parts back: `return ZONE LENDER cores N`
    Return {
        /// The zone that has borrowed
        zone: String,
        /// The zone that has lent
        lender: String,
        /// Keys and values in turn: cores N, memory SIZE
        #[arg(required = true, num_args = 2.., value_name = "KEY VALUE")]
        pairs: Vec<String>,
    },
    /// Move cores between a service zone and a batch zone so that the service's 99th percentile stays in a band
    Control(Control),
    /// Make the zones as a machine file describes them, in one change that is shown first
    Apply {
        /// The machine file
        file: PathBuf,
        /// Only show what would change
        #[arg(long, short = 'n')]
        dry_run: bool,
        /// How it is done.
        #[command(flatten)]
        changing: Changing,
    },
}

/// Arguments of `zone control`.
#[derive(Args)]
pub struct Control {
    /// The zone whose answers are watched
    pub service: String,
    /// The zone that gives cores and gets them back
    pub batch: String,
    /// The band of the service's 99th percentile: above it a core comes, below it one goes back
    #[arg(long = "p99", value_name = "LOW..HIGH", value_parser = band)]
    pub band: Band,
    /// The time over which answers are counted
    #[arg(long, value_name = "TIME", value_parser = super::duration, default_value = "10s")]
    pub window: std::time::Duration,
    /// Least time between two cores; three times that before one goes back
    #[arg(long, value_name = "TIME", value_parser = super::duration, default_value = "10s")]
    pub pause: std::time::Duration,
    /// Answers in a window below which nothing moves
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub answers: u64,
    /// End after this time; else it runs until it is interrupted
    #[arg(long = "for", value_name = "TIME", value_parser = super::duration)]
    pub limit: Option<std::time::Duration>,
    /// Only say what would move
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// How it is done.
    #[command(flatten)]
    pub changing: Changing,
}

/// The commands of `zone` that change something.
#[derive(Subcommand)]
pub enum ZoneChange {
    /// Make a described zone that does not run: `create NAME [cores N] [memory SIZE]`
    Create {
        /// The zone
        name: String,
        /// The machine file that describes it, if the machine was not started with it; it takes a place that spare-zones keeps
        #[arg(long, short, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Other sizes than described: cores N, memory SIZE
        #[arg(value_name = "KEY VALUE", num_args = 0..)]
        pairs: Vec<String>,
    },
    /// End a zone, in order within the grace time, then by force; its parts are free then
    Destroy {
        /// The zone
        name: String,
        /// Time for an end in order; 0s ends it at once
        #[arg(long, value_name = "TIME", value_parser = super::duration, default_value = "3s")]
        grace: std::time::Duration,
        /// The zone that orders it, which manages this one; without it the order is the owner's
        #[arg(long, value_name = "ZONE", conflicts_with = "grace")]
        by: Option<String>,
    },
    /// End a zone and make it again
    Restart {
        /// The zone
        name: String,
        /// Time for an end in order; 0s ends it at once
        #[arg(long, value_name = "TIME", value_parser = super::duration, default_value = "3s")]
        grace: std::time::Duration,
        /// The zone that orders it, which manages this one; without it the order is the owner's
        #[arg(long, value_name = "ZONE", conflicts_with = "grace")]
        by: Option<String>,
    },
    /// Change how much a running zone holds, or the share of one: `set NAME [cores N] [memory SIZE] [share N]`
    Set {
        /// The zone
        name: String,
        /// Keys and values in turn: cores N, memory SIZE, share N
        #[arg(required = true, num_args = 2.., value_name = "KEY VALUE")]
        pairs: Vec<String>,
        /// How it is done.
        #[command(flatten)]
        changing: Changing,
    },
    /// Give a running zone a PCI function
    Attach {
        /// The zone
        name: String,
        /// The function as lspci writes it: 00:1a.0
        #[arg(value_parser = device)]
        device: DeviceAddress,
    },
    /// Take a PCI function from a running zone
    Detach {
        /// The zone
        name: String,
        /// The function as lspci writes it: 00:1a.0
        #[arg(value_parser = device)]
        device: DeviceAddress,
        /// How it is done.
        #[command(flatten)]
        changing: Changing,
    },
    /// Lend parts of one running zone to another: `lend FROM TO cores N`
    Lend {
        /// The lender
        from: String,
        /// The borrower
        to: String,
        /// Keys and values in turn: cores N, memory SIZE
        #[arg(required = true, num_args = 2.., value_name = "KEY VALUE")]
        pairs: Vec<String>,
        /// How it is done.
        #[command(flatten)]
        changing: Changing,
    },
    /// Hand the management of a zone to another zone, or back to the supervisor
    Adopt {
        /// The zone
        child: String,
        /// Its new parent; the supervisor without it
        parent: Option<String>,
        /// The zone that gives it up to whoever manages that zone; without it the order is the owner's
        #[arg(long, value_name = "ZONE", conflicts_with = "parent")]
        by: Option<String>,
    },
}

/// How a change is done that takes parts which may be in use.
#[derive(Args, Clone, Copy)]
pub struct Changing {
    /// How long a part that is in use is waited for
    #[arg(long, value_name = "TIME", value_parser = super::duration, default_value = "2s")]
    pub deadline: std::time::Duration,
}

fn band(text: &str) -> Result<Band, String> {
    let (low, high) = text.split_once("..").ok_or("expected two times, as 160ms..200ms")?;
    let ms = |text: &str| super::duration(text).map(|time| time.as_secs_f64() * 1e3);
    let band = Band { lower_ms: ms(low)?, upper_ms: ms(high)? };
    if band.lower_ms < band.upper_ms { Ok(band) } else { Err("expected the shorter time first".into()) }
}

fn device(text: &str) -> Result<DeviceAddress, String> {
    text.parse().map_err(|expected| format!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::{ZoneChange, ZoneCommand};

    fn parsed(words: &[&str]) -> Result<ZoneChange, String> {
        let words = ["gyre", "zone"].iter().chain(words);
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Zone(zone) => match zone.command {
                ZoneCommand::Change(change) => Ok(change),
                _ => panic!("a change"),
            },
            _ => panic!("zone"),
        }
    }

    #[test]
    fn sizes_are_keys_and_values_and_options_stand_anywhere() {
        let Ok(ZoneChange::Set { name, pairs, changing }) =
            parsed(&["set", "a", "cores", "2", "memory", "64 MiB", "--deadline", "1s", "--json"])
        else {
            panic!("set")
        };
        assert_eq!((name.as_str(), pairs.len(), changing.deadline.as_secs()), ("a", 4, 1));
        assert!(matches!(parsed(&["create", "a"]), Ok(ZoneChange::Create { pairs, .. }) if pairs.is_empty()));
        assert!(parsed(&["set", "a"]).is_err());
    }

    #[test]
    fn a_band_is_two_times_the_shorter_one_first() {
        assert_eq!(super::band("160ms..0.2s"), Ok(super::Band { lower_ms: 160.0, upper_ms: 200.0 }));
        for wrong in ["160ms", "160..200", "200ms..160ms", "..", "5ms..5ms"] {
            assert!(super::band(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_device_is_written_as_lspci_does() {
        assert!(
            matches!(parsed(&["attach", "a", "00:1a.0"]), Ok(ZoneChange::Attach { device, .. }) if device.device == 26)
        );
        assert!(parsed(&["attach", "a", "net1"]).err().unwrap().contains("as lspci writes it"));
    }
}
