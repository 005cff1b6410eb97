//! The list of checks and the verdict.

use crate::{
    attacks, bench, casts, cores, crash, devices, guest_attacks, guest_machines, guests, image, inside, lines, memory,
    supervisor, tables, time, users, walls, watches, zones,
};
use alloc::string::String;
use gyre_x86_64 as machine;

/// The result of a check: the reason if it failed.
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
    if let Some(what) = machine::command_line_value("act") {
        inside::act(what);
    }
    match machine::command_line_value("bench") {
        Some("lines") => lines::run(),
        Some("casts") => casts::run(),
        Some(_) => bench::run(),
        None => {}
    }
    if machine::command_line_value("echo").is_some() {
        echo();
    }
    let cores = machine::start_cores(cores::serve);
    log::info!("{cores} cores");
    // Guests come first: the others show that nothing of the host has changed by them. A zone makes none.
    let is_zone = machine::zone_page().is_some();
    let of_host = |checks: &'static [Check]| if is_zone { &[] } else { checks };
    let lists = [
        of_host(guests::CHECKS),
        of_host(guest_attacks::CHECKS),
        of_host(guest_machines::CHECKS),
        memory::CHECKS,
        tables::CHECKS,
        time::CHECKS,
        cores::CHECKS,
        users::CHECKS,
        watches::CHECKS,
        attacks::CHECKS,
        devices::CHECKS,
        image::CHECKS,
        supervisor::CHECKS,
        walls::checks(),
        zones::CHECKS,
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
    log::info!("{} bytes of the stack were never used", machine::stack_bytes_unused());
    log::info!("{good} passed, {bad} failed");
    machine::end_instance(u8::from(bad > 0))
}

/// Writes what comes in from the console in upper case until a full stop, waiting by halting only.
fn echo() -> ! {
    log::info!("echo: takes letters");
    loop {
        machine::idle();
        if !machine::take_events().has(gyre_platform::Events::CONSOLE) {
            continue;
        }
        let mut bytes = [0; 64];
        loop {
            let count = machine::console_read(&mut bytes);
            bytes[..count].make_ascii_uppercase();
            machine::console_write(&bytes[..count]);
            if bytes[..count].contains(&b'.') {
                machine::end_instance(0);
            }
            if count == 0 {
                break;
            }
        }
    }
}
