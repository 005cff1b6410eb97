//! A supervisor's parked cores. On a machine whose kernel keeps all these checks have nothing to do and say so.

use crate::check;
use crate::cores::comes;
use crate::suite::{Check, Verdict};
use alloc::format;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_x86_64::{
    CorePlace, NoAnswer, ZoneEntry, call_core, core_place, cycles_per_ms, is_supervisor, now, park_core, pool,
    reset_core, zone,
};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("cores_of_the_pool_wait_in_the_parking_loop", cores_of_the_pool_wait),
    ("a_parked_core_comes_and_goes_200_times", a_parked_core_comes_and_goes),
    ("a_halted_core_is_brought_back_by_reset", a_halted_core_is_brought_back),
    ("a_core_that_spins_with_interrupts_off_is_brought_back", a_spinning_core_is_brought_back),
    ("no_core_outside_of_the_pool_is_reset", no_core_outside_of_the_pool_is_reset),
];

const ROUNDS: u64 = 200;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; 16 << 10]>);
// SAFETY: one core at a time is called onto it.
unsafe impl Sync for Stack {}
static STACK: Stack = Stack(UnsafeCell::new([0; 16 << 10]));
static VISITS: AtomicU64 = AtomicU64::new(0);

fn way(entry: extern "C" fn(u64) -> !) -> ZoneEntry {
    ZoneEntry { root: 0, stack: STACK.0.get() as u64 + (16 << 10), entry: entry as usize as u64, argument: 1 }
}

extern "C" fn visit(count: u64) -> ! {
    VISITS.fetch_add(count, Ordering::SeqCst);
    park_core()
}

extern "C" fn halt(count: u64) -> ! {
    VISITS.fetch_add(count, Ordering::SeqCst);
    loop {
        // SAFETY: the core waits for its reset.
        unsafe { asm!("cli", "hlt") };
    }
}

extern "C" fn spin(count: u64) -> ! {
    VISITS.fetch_add(count, Ordering::SeqCst);
    loop {
        core::hint::spin_loop();
    }
}

fn cores_of_the_pool_wait() -> Verdict {
    if !is_supervisor() {
        log::info!("no supervisor");
        return Ok(());
    }
    for id in pool().cores() {
        check!(core_place(*id) == Some(CorePlace::Idle), "core {id}: {:?}", core_place(*id));
    }
    Ok(())
}

fn a_parked_core_comes_and_goes() -> Verdict {
    for id in pool().cores() {
        let mut times = [0; ROUNDS as usize];
        for time in &mut times {
            let (start, visits) = (now(), VISITS.load(Ordering::SeqCst));
            call_core(*id, &way(visit)).map_err(|error| format!("{error:?}"))?;
            let is_back = || core_place(*id) == Some(CorePlace::Idle);
            check!(comes(is_back), "core {id} does not come back: {:?}", core_place(*id));
            check!(VISITS.load(Ordering::SeqCst) == visits + 1, "core {id} was not there");
            *time = now() - start;
        }
        times.sort_unstable();
        let us = |cycles: u64| cycles * 1000 / cycles_per_ms();
        log::info!(
            "core {id} there and back: {} cycles at best, {} at the median ({} us), 9 of 10 within {} us",
            times[0],
            times[100],
            us(times[100]),
            us(times[180])
        );
    }
    Ok(())
}

fn bring_back(entry: extern "C" fn(u64) -> !) -> Verdict {
    for id in pool().cores() {
        for _ in 0..20 {
            let visits = VISITS.load(Ordering::SeqCst);
            call_core(*id, &way(entry)).map_err(|error| format!("{error:?}"))?;
            check!(comes(|| VISITS.load(Ordering::SeqCst) == visits + 1), "core {id} did not go");
            check!(core_place(*id) == Some(CorePlace::Away), "core {id}: {:?}", core_place(*id));
            check!(call_core(*id, &way(entry)) == Err(NoAnswer(*id)), "core {id} was called twice");
            let start = now();
            reset_core(*id).map_err(|error| format!("{error:?}"))?;
            let us = (now() - start) * 1000 / cycles_per_ms();
            check!(us < 1_000_000, "{us} us");
            check!(core_place(*id) == Some(CorePlace::Idle), "core {id}: {:?}", core_place(*id));
        }
    }
    a_parked_core_answers()
}

fn a_parked_core_answers() -> Verdict {
    for id in pool().cores() {
        let visits = VISITS.load(Ordering::SeqCst);
        call_core(*id, &way(visit)).map_err(|error| format!("{error:?}"))?;
        check!(comes(|| core_place(*id) == Some(CorePlace::Idle)), "core {id} does not come back");
        check!(VISITS.load(Ordering::SeqCst) == visits + 1, "core {id} was not there");
    }
    Ok(())
}

fn a_halted_core_is_brought_back() -> Verdict {
    bring_back(halt)
}

fn a_spinning_core_is_brought_back() -> Verdict {
    bring_back(spin)
}

fn no_core_outside_of_the_pool_is_reset() -> Verdict {
    let own = &zone().core_ids[..zone().core_count];
    for id in own.iter().chain(&[77, 255, 256, u32::MAX]).filter(|id| !pool().cores().contains(id)) {
        check!(reset_core(*id) == Err(NoAnswer(*id)), "core {id} was reset");
        check!(call_core(*id, &way(visit)) == Err(NoAnswer(*id)), "core {id} was called");
        check!(core_place(*id).is_none(), "core {id}: {:?}", core_place(*id));
    }
    Ok(())
}
