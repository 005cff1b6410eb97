//! Which commands were asked to write for programs.

use super::{BillFormat, Command};

impl Command {
    /// Whether standard output shall hold JSON, errors included.
    pub fn is_for_programs(&self) -> bool {
        match self {
            Self::Run(arguments) => arguments.json,
            Self::Stop(arguments) => arguments.json,
            Self::Check(arguments) => arguments.json,
            Self::Image(arguments) => arguments.json,
            Self::Top(arguments) => arguments.json,
            Self::Exec(arguments) => arguments.json,
            Self::Logs(arguments) => arguments.json,
            Self::Bill(arguments) => arguments.json || arguments.format == BillFormat::Json,
            Self::Set(arguments) => arguments.json,
            Self::Exp(arguments) => arguments.json,
            Self::Test(arguments) => arguments.json,
            Self::Doctor(arguments) => arguments.json,
            Self::Checkpoint(_) | Self::Evict(_) | Self::Symbolise(_) | Self::Completions { .. } => false,
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
