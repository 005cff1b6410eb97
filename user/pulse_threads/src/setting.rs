//! The start of the library, before the program's own functions: the environment is read, and the first thread is put under the scheduler.

use std::{env, time::Duration};

use gyre_pulse::{
    Scheduler,
    schedulers::{EarliestDeadline, RoundRobin, SpeedBalancing, WorkStealing},
    threads::{self, Plan},
};

use crate::threads::end_with_thread;

const TICK_US: u64 = 1_000;

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    let started = plan().and_then(|plan| threads::start(plan).map_err(|error| error.to_string()));
    match started {
        Ok(()) => {
            end_with_thread();
            // SAFETY: the function is ours and only writes words of ours.
            _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
        Err(error) => {
            eprintln!("gyre-pulse-threads: {error}");
            std::process::exit(2);
        }
    }
}

extern "C" fn in_child() {
    threads::abandon();
}

fn plan() -> Result<Plan, String> {
    let cores =
        number("GYRE_PULSE_CORES", || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64))?;
    let cores = usize::try_from(cores).unwrap_or(usize::MAX);
    let tick = Duration::from_micros(number("GYRE_PULSE_TICK_US", || TICK_US)?);
    let scheduler = policy(&env::var("GYRE_PULSE_POLICY").unwrap_or_default(), cores)?;
    Ok(Plan { scheduler, cores, tick })
}

fn number(name: &str, usual: impl FnOnce() -> u64) -> Result<u64, String> {
    match env::var(name) {
        Err(_) => Ok(usual()),
        Ok(word) => word.parse().map_err(|_| format!("{name} is no number: {word}")),
    }
}

fn policy(name: &str, cores: usize) -> Result<&'static dyn Scheduler, String> {
    // Policies with a queue for each virtual core are made for no more than there may be.
    let cores = cores.min(u64::BITS as usize);
    Ok(match name {
        "" | "round-robin" => RoundRobin::leaked(),
        "earliest-deadline" => EarliestDeadline::leaked(),
        "speed-balancing" => SpeedBalancing::leaked(cores),
        "work-stealing" => WorkStealing::leaked(cores),
        _ => {
            return Err(format!(
                "GYRE_PULSE_POLICY is round-robin, earliest-deadline, speed-balancing or work-stealing, not {name}"
            ));
        }
    })
}
