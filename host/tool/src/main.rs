//! `gyre`: builds, starts, watches and bills machines. `gyre --help` is the manual.
#![forbid(unsafe_code)]

mod build;
mod check;
mod cli;
mod command;
mod cpio;
mod failure;
mod forward;
mod image;
mod linux;
mod load;
mod module;
mod namespace;
mod project;
mod qemu;
mod run;
mod stop;
mod ui;
mod wire;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command};
use failure::{Failure, Result};

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{:?}", failure.report);
            ExitCode::from(failure.kind as u8)
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Image(arguments) => check::images(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "gyre", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(Failure::new("this command comes with the next commit")),
    }
}
