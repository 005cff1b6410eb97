//! `gyre-cell`: starts an unmodified program in a cell.

use std::{ffi::OsString, io, process::ExitCode};

use gyre_cell::launch::{self, Crash, Ground, Hall, Options, USAGE};

#[global_allocator]
static HALL: Hall = Hall::CLOSED;

/// How a shell says that a program was not found, or cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == "--help" || word == "-h") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::read(words) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("gyre-cell: {error}");
            return ExitCode::from(2);
        }
    };
    if options.crash == Crash::Restart {
        match launch::children(&options.program[0].to_string_lossy()) {
            Ok(None) => {}
            Ok(Some(code)) => return code,
            Err(error) => {
                eprintln!("gyre-cell: no process for the program: {error}");
                return ExitCode::from(NOT_STARTED);
            }
        }
    }
    let Err(error) = start(&options);
    eprintln!("gyre-cell: {}: {error}", options.program[0].display());
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED })
}

/// Never returns if the program has begun.
fn start(options: &Options) -> io::Result<std::convert::Infallible> {
    let image = launch::load(&options.program[0])?;
    let start = launch::build(&image, &options.program)?;
    match options.ground {
        Ground::Plain => launch::plain(options, start),
        Ground::Privileged => match launch::privileged(options, start, &HALL) {
            Err(error) if launch::wants_plain(&error) => {
                eprintln!("gyre-cell: this processor runs no virtual machines: the program runs in a plain cell");
                launch::plain(options, start)
            }
            other => other,
        },
    }
}
