//! Reads a machine file and says the policy of each resource that it names: `gyre check` in small.
//!
//! `cargo run -p gyre-machine-file --example check FILE`
use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let path = std::env::args().nth(1).unwrap_or_default();
    match gyre_machine_file::read(Path::new(&path)) {
        Ok(description) => {
            for one in &description.machine.resources {
                println!("{}: {}", one.resource.file_name(), gyre_machine_file::words::policy(&one.policy));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{:?}", miette::Report::new(error));
            ExitCode::FAILURE
        }
    }
}
