//! `gyre`: builds, starts, watches and bills machines. `gyre --help` is the manual.
#![forbid(unsafe_code)]

#[macro_use]
mod out;

mod agent;
mod bill;
mod build;
mod check;
mod cli;
mod command;
mod cpio;
mod debian;
mod doctor;
mod exec;
mod exp;
mod failure;
mod forward;
mod image;
mod keep;
mod linux;
mod load;
mod module;
mod namespace;
mod partitions;
mod patience;
mod project;
mod qemu;
mod record;
mod run;
mod set;
mod stop;
mod symbols;
mod tests_command;
mod top;
mod ui;
mod view;
mod wire;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command};
use failure::{Failure, Kind, Result};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let is_for_programs = command.is_for_programs();
    match dispatch(command) {
        Ok(_) if out::has_failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(failure) => {
            let failure = if is_of_interruption(&failure) { Failure::interrupted() } else { failure };
            eprintln!("{:?}", failure.report);
            // What was to be read by a program is one document: the result, or else why there is none.
            if is_for_programs && !out::has_written() {
                print!("{}", failure.json());
            }
            ExitCode::from(failure.kind as u8)
        }
    }
}

/// What a program of ours says that the same Ctrl-C has ended is no news. What is said of a machine that was ended so is.
fn is_of_interruption(failure: &Failure) -> bool {
    stop::is_interrupted() && matches!(failure.kind, Kind::Failed | Kind::Environment)
}

fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Stop(arguments) => stop::stop(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Image(arguments) => check::images(&arguments),
        Command::Completions { shell } => {
            let mut words = vec![];
            clap_complete::generate(shell, &mut Cli::command(), "gyre", &mut words);
            print!("{}", String::from_utf8_lossy(&words));
            Ok(ExitCode::SUCCESS)
        }
        Command::Top(arguments) => top::top(&arguments),
        Command::Exec(arguments) => exec::exec(&arguments),
        Command::Logs(arguments) => exec::logs(&arguments),
        Command::Checkpoint(arguments) => keep::checkpoint(&arguments),
        Command::Evict(arguments) => keep::evict(&arguments),
        Command::Set(arguments) => set::set(&arguments),
        Command::Bill(arguments) => bill::bill(&arguments),
        Command::Exp(arguments) => exp::exp(&arguments),
        Command::Test(arguments) => tests_command::test(&arguments),
        Command::Symbolise(arguments) => symbols::symbolise(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
    }
}
