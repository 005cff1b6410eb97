//! `gyre-fuzz`: makes system calls and native calls at random, from one seed, in a tenant of the machine or on Linux.
//!
//! The calls are data ([`calls`]); a round is one seed: a leader opens descriptors of each kind ([`world`]), its workers share them, and
//! each of their threads makes calls in a sequence that depends on the seed alone ([`worker`], [`values`]). A call that ends or cripples its caller
//! is made in a child. The last calls of each thread stand in pages that the host finds in the machine's memory ([`trail`]).
#![deny(unsafe_op_in_unsafe_fn)]

mod calls;
mod clear;
mod counts;
mod deep;
mod ipc;
mod kinds;
mod options;
mod rounds;
mod slots;
mod sys;
mod trail;
mod values;
mod worker;
mod world;

use std::process::ExitCode;

use options::Options;

fn main() -> ExitCode {
    let mut words = pico_args::Arguments::from_env();
    if words.contains("--nothing") {
        return ExitCode::SUCCESS;
    }
    // Calls execute this very program with other words: then it does nothing.
    if words.contains("--help") || std::env::args().len() < 2 {
        print!("{}", options::HELP);
        return ExitCode::SUCCESS;
    }
    if words.contains("--list") {
        calls::all().for_each(|call| println!("{:>8} {}", call.number, call.name));
        return ExitCode::SUCCESS;
    }
    let picture: Result<Option<std::path::PathBuf>, _> = words.opt_value_from_str("--read");
    let outcome = match picture {
        Ok(Some(picture)) => read(&picture),
        Ok(None) => Options::read(words).map_err(|wrong| wrong.to_string()).and_then(|options| rounds::run(&options)),
        Err(wrong) => Err(wrong.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("gyre-fuzz: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn read(picture: &std::path::Path) -> Result<(), String> {
    let bytes = std::fs::read(picture).map_err(|error| format!("{}: {error}", picture.display()))?;
    print!("{}", trail::read(&bytes));
    Ok(())
}
