//! `gyre-pulse`: shows and measures schedulers of a program's own. Prints a line `NAME: WHAT COUNT` for each figure.
#![allow(clippy::print_stdout, reason = "its lines are what it is for")]

mod program;

use program::{deadlines, hand_over, overrun, policies, share, ticks};

#[global_allocator]
static HEAP: gyre_pulse::Allocator = gyre_pulse::Allocator;

fn main() {
    let command = std::env::args().nth(1).unwrap_or_default();
    let done = match command.as_str() {
        "ticks" => ticks::measure().and_then(|()| hand_over::measure()),
        "deadlines" => deadlines::measure(),
        "policies" => policies::show(),
        "overrun" => overrun::show(),
        "share" => share::show(std::env::args().skip(2)),
        _ => {
            eprintln!("gyre-pulse ticks | deadlines | policies | overrun | share FILE COUNT...");
            std::process::exit(2);
        }
    };
    match done {
        Ok(()) => println!("{command}: done 0"),
        Err(error) => {
            println!("{command}: FAILED: {error}");
            std::process::exit(1);
        }
    }
}
