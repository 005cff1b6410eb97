//! This kernel as a zone: it does what the word `act=` of its command line says. `zones.rs` is the supervisor's side.

use crate::cores::comes;
use crate::devices::{CHECKS, entropy_device};
use crate::program::{self, Process};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::CoreBox;
use gyre_x86_64::{
    Arrival, Frame, attempt, beat, come_online, cycles_per_ms, end_instance, enter_user, fetch_core, go_offline, idle,
    now, return_core, set_timer, start_cores, supervisor_asks_to_end, take_events, tell_standing, zone_page,
};

/// Exit code of a zone that ended as it was told.
pub const ENDED: u8 = 7;

/// Does it.
pub fn act(what: &str) -> ! {
    match what {
        "cores" => {
            let count = start_cores(|_| wait_for_ever());
            log::info!("{count} cores");
        }
        "fill" => fill(),
        "device" => use_device(),
        "elastic" => come_and_go(),
        _ if what.starts_with("break-") => {
            start_cores(|_| spin());
            attempt(what.trim_start_matches("break-"));
        }
        _ => {}
    }
    tell_standing();
    match what {
        "panic" => panic!("as asked"),
        "spin" => spin(),
        "user" => {
            let mut process = Process::new(program::endless());
            loop {
                enter_user(&mut process.context, &process.table.root());
            }
        }
        "end" => end_instance(ENDED),
        "lines" => crate::lines::answer(),
        _ => serve(),
    }
}

/// How often the second core comes back.
const ROUNDS: u64 = 20;
static VISITS: AtomicU64 = AtomicU64::new(0);

/// Has the second core leave and come again, to the slot that it had.
fn come_and_go() {
    start_cores(visit);
    let Some(place) = zone_page().map(|page| &page.cores[1]) else { return };
    let mut cycles = [0; ROUNDS as usize];
    for (round, taken) in (1..).zip(&mut cycles) {
        let is_back =
            || place.state.load(Ordering::Acquire) == CoreBox::PARKED && VISITS.load(Ordering::SeqCst) == round;
        if !comes(is_back) {
            return log::error!("round {round}: the core does not leave: {}", place.state.load(Ordering::Relaxed));
        }
        let start = now();
        let arrival = Arrival { place: 1, slot: 1, entry: visit };
        if let Err(error) = fetch_core(&arrival) {
            return log::error!("round {round}: the core cannot be called: {error}");
        }
        comes(|| VISITS.load(Ordering::SeqCst) > round);
        *taken = now() - start;
    }
    cycles.sort_unstable();
    let us = |place: usize| cycles[place] * 1000 / cycles_per_ms();
    log::info!("{ROUNDS} rounds, a core is there in {} us at best, {} at the median", us(0), us(ROUNDS as usize / 2));
}

fn visit(_: usize) -> ! {
    come_online();
    VISITS.fetch_add(1, Ordering::SeqCst);
    go_offline();
    return_core()
}

/// Beats until the supervisor asks for the end.
fn serve() -> ! {
    while !supervisor_asks_to_end() {
        beat();
        set_timer(gyre_x86_64::now() + 10 * cycles_per_ms());
        idle();
        take_events();
    }
    end_instance(ENDED)
}

fn wait_for_ever() -> ! {
    loop {
        idle();
        take_events();
    }
}

#[inline(never)]
fn spin() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Uses the entropy device as any kernel does, and leaves it in the worst state: at another address, allowed to write memory, not reset.
fn use_device() {
    let device = entropy_device().expect("the zone was given the device");
    for (name, check) in CHECKS {
        check().unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let start = device.bar_range(4).expect("a register").0.0;
    device.enable_bus_master();
    device.config_write16(4, device.config_read16(4) & !2);
    device.config_write32(0x20, start as u32 ^ 1 << 20 | device.config_read32(0x20) & 15);
    log::info!("the device is moved");
}

/// Writes to all memory that there is.
fn fill() {
    let mut all = Vec::new();
    while let Ok(mut frame) = Frame::allocate(4) {
        frame.as_mut_slice().fill(0xa5);
        all.push(frame);
    }
    log::info!("{} MiB filled", all.len() >> 4);
}
