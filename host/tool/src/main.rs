//! `gyre`: builds, starts, watches and bills machines. `gyre --help` is the manual.
#![forbid(unsafe_code)]

#[macro_use]
mod out;
mod outbound;

mod agent;
mod apply;
mod arrival;
mod bill;
mod build;
mod cell;
mod cells;
mod check;
mod cli;
mod command;
mod cp;
mod cpio;
mod debian;
mod doctor;
mod exec;
mod exp;
mod failure;
mod forecast;
mod forward;
mod goals;
mod held_file;
mod image;
mod instances;
mod keep;
mod ledger;
mod life;
mod lifeline;
mod linux;
mod load;
mod ls;
mod machines;
mod members;
mod module;
mod moves;
mod namespace;
mod package;
mod partitions;
mod patience;
mod places;
mod project;
mod prune;
mod qemu;
mod record;
mod registry;
mod run;
mod set;
mod size;
mod stop;
mod symbols;
mod terminal;
mod tests_command;
mod top;
mod trace;
mod ui;
mod view;
mod volume;
mod whole_file;
mod wire;
mod zone;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command};
use failure::{Failure, Kind, Result};

fn main() -> ExitCode {
    if package::is_asked() {
        println!("{}", package::writer());
        return ExitCode::SUCCESS;
    }
    let command = Cli::parse().command;
    let is_for_programs = command.is_for_programs();
    match dispatch(command) {
        Ok(_) if out::has_failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(failure) => {
            let failure = if is_of_interruption(&failure) { Failure::interrupted() } else { failure };
            eprintln!("{:?}", failure.report);
            // A program reads one document: the result, or else the reason why there is none.
            if is_for_programs && !out::has_written() {
                print!("{}", failure.json());
            }
            ExitCode::from(failure.kind as u8)
        }
    }
}

/// Returns true for a failure that Ctrl-C caused in a program of ours: it is no news. A machine that was ended so is news.
fn is_of_interruption(failure: &Failure) -> bool {
    stop::is_interrupted() && matches!(failure.kind, Kind::Failed | Kind::Environment)
}

fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Add(arguments) => arrival::add(&arguments),
        Command::Remove(arguments) => arrival::remove(&arguments),
        Command::Apply(arguments) => apply::apply(&arguments),
        Command::Cp(arguments) => cp::cp(&arguments),
        Command::Prune(arguments) => prune::prune(&arguments),
        Command::Volume(arguments) => volume::command::volume(&arguments),
        Command::Ls(arguments) => ls::ls(&arguments),
        Command::Page(arguments) => view::page::machines::page(&arguments),
        Command::Start(arguments) => life::start(&arguments),
        Command::Restart(arguments) => life::restart(&arguments),
        Command::Events(arguments) => life::events(&arguments),
        Command::Stop(arguments) => stop::stop(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Image(arguments) => check::images(&arguments),
        Command::Completions { shell } => {
            let mut words = vec![];
            clap_complete::generate(shell, &mut Cli::command(), "gyre", &mut words);
            print!("{}", String::from_utf8_lossy(&words));
            Ok(ExitCode::SUCCESS)
        }
        Command::Package(arguments) => package::package(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Exec(arguments) => exec::exec(&arguments),
        Command::Attach(arguments) => exec::attach(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::Logs(arguments) => exec::logs(&arguments),
        Command::Checkpoint(arguments) => keep::checkpoint(&arguments),
        Command::Evict(arguments) => keep::evict(&arguments),
        Command::Set(arguments) => set::set(&arguments),
        Command::Bill(arguments) => bill::bill(&arguments),
        Command::Goals(arguments) => goals::goals(&arguments),
        Command::Broker(arguments) => goals::broker(&arguments),
        Command::Sim(arguments) => forecast::sim(&arguments),
        Command::Zone(arguments) => zone::zone(&arguments),
        Command::Cell(arguments) => cell::cell(&arguments),
        Command::Exp(arguments) => exp::exp(&arguments),
        Command::Test(arguments) => tests_command::test(&arguments),
        Command::Symbolise(arguments) => symbols::symbolise(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
    }
}
