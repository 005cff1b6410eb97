//! The list of checks and the verdict.

use crate::{attacks, cores, crash, devices, memory, tables, time, users};
use alloc::string::String;
use gyre_x86_64 as machine;

/// What a check returns: why it failed.
pub type Verdict = Result<(), String>;
/// A check with its name, a sentence.
pub type Check = (&'static str, fn() -> Verdict);

/// Fails the check with a text unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(alloc::format!($($text)*));
        }
    };
}

/// Runs everything.
pub fn main() -> ! {
    if let Some(name) = machine::command_line_value("crash") {
        crash::run(name);
    }
    let cores = machine::start_cores(cores::serve);
    log::info!("{cores} cores");
    let lists = [
        memory::CHECKS,
        tables::CHECKS,
        time::CHECKS,
        cores::CHECKS,
        users::CHECKS,
        attacks::CHECKS,
        devices::CHECKS,
    ];
    let (mut good, mut bad) = (0, 0);
    for (name, check) in lists.into_iter().flatten() {
        match check() {
            Ok(()) => {
                good += 1;
                log::info!("ok {name}");
            }
            Err(why) => {
                bad += 1;
                log::error!("FAILED {name}: {why}");
            }
        }
    }
    log::info!("{good} passed, {bad} failed");
    machine::shut_down(u8::from(bad > 0))
}
