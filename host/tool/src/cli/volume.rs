//! The command line of `gyre volume`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(super) const EXAMPLES: &str = "\
A volume belongs to one tenant at a time. `save` and `load` want one that nobody has.

Examples:
  ./gyre volume list
  ./gyre volume save data data.gz                 a copy of it
  ./gyre volume load data data.gz --replace       and back
  ./gyre volume remove data                       what it holds is lost";

/// Arguments of `volume`.
#[derive(Args)]
pub struct Volume {
    /// The command.
    #[command(subcommand)]
    pub command: VolumeCommand,
}

/// The commands of `volume`.
#[derive(Subcommand)]
pub enum VolumeCommand {
    /// Show the volumes: size, what they take on the host, who has or had them
    List {
        /// Write them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a copy of a volume to a file
    Save {
        /// The volume
        name: String,
        /// The file; - is standard output
        file: PathBuf,
    },
    /// Make a volume of a copy
    Load {
        /// The volume
        name: String,
        /// The file that `save` wrote
        file: PathBuf,
        /// Discard what a volume of this name holds
        #[arg(long)]
        replace: bool,
    },
    /// Remove volumes, with all that they hold
    #[command(visible_alias = "rm")]
    Remove {
        /// The volumes
        #[arg(required = true)]
        names: Vec<String>,
    },
}
