//! Which commands were asked to write for programs.

use super::{BillFormat, CellCommand, Command, VolumeCommand};

impl Command {
    /// Returns whether standard output shall hold JSON, errors included.
    pub fn is_for_programs(&self) -> bool {
        match self {
            Self::Run(arguments) => arguments.json,
            Self::Stop(arguments) => arguments.json,
            Self::Start(arguments) | Self::Restart(arguments) | Self::Remove(arguments) => arguments.json,
            Self::Add(arguments) => arguments.json,
            Self::Ls(arguments) => arguments.json,
            Self::Apply(arguments) => arguments.json,
            Self::Prune(arguments) => arguments.json,
            Self::Volume(volume) => matches!(volume.command, VolumeCommand::List { json: true }),
            Self::Events(arguments) => arguments.json,
            Self::Check(arguments) => arguments.json,
            Self::Image(arguments) => arguments.json,
            Self::Top(arguments) => arguments.json,
            Self::Exec(arguments) => arguments.json,
            Self::Logs(arguments) => arguments.json,
            Self::Trace(arguments) => arguments.json,
            Self::Bill(arguments) => arguments.form() == BillFormat::Json,
            Self::Set(arguments) => arguments.json,
            Self::Goals(arguments) => arguments.json,
            Self::Broker(arguments) => arguments.json,
            Self::Sim(arguments) => arguments.json,
            Self::Zone(arguments) => arguments.json,
            Self::Cell(cell) => match &cell.command {
                CellCommand::Run(run) => run.json,
                CellCommand::List(list) => list.json,
                CellCommand::Revoke(order) => order.json,
                CellCommand::Offer(offer) => offer.json,
                CellCommand::Pool(pool) => pool.json,
                CellCommand::Log(log) => log.json,
            },
            Self::Exp(arguments) => arguments.json,
            Self::Test(arguments) => arguments.json,
            Self::Doctor(arguments) => arguments.json,
            Self::Attach(_)
            | Self::Cp(_)
            | Self::Checkpoint(_)
            | Self::Evict(_)
            | Self::Symbolise(_)
            | Self::Completions { .. }
            | Self::Package(_)
            | Self::Page(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::Cli;

    fn is_for_programs(words: &[&str]) -> bool {
        Cli::parse_from(["gyre"].iter().chain(words)).command.is_for_programs()
    }

    #[test]
    fn json_is_for_programs_wherever_it_can_be_asked_for() {
        for words in [
            &["check", "m.toml", "--json"][..],
            &["stop", "--json"],
            &["logs", "gold", "--json"],
            &["exec", "--json", "gold", "ls"],
            &["test", "--json"],
            &["bill", "--format", "json"],
        ] {
            assert!(is_for_programs(words), "{words:?}");
        }
        assert!(!is_for_programs(&["exec", "gold", "ls", "--json"]) && !is_for_programs(&["bill"]));
    }
}
