//! Clocks, timers and random bytes.

use crate::check;
use crate::suite::{Check, Verdict};
use gyre_platform::Events;
use gyre_x86_64::{
    clear_timer, cycles_per_ms, fill_random, idle, interrupt_window, now, set_timer, take_events, wall_clock_ns,
};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("a_timer_fires_after_its_deadline_and_once", a_timer_fires_after_its_deadline),
    ("a_past_deadline_fires_at_once", a_past_deadline_fires_at_once),
    ("a_cleared_timer_is_silent", a_cleared_timer_is_silent),
    ("the_wall_clock_is_of_this_century_and_runs", the_wall_clock_runs),
    ("random_bytes_differ", random_bytes_differ),
];

/// Looks, each after halting, until a timer's event is there. Counted: the host may pause the machine before any of them.
const LOOKS_MAX: u32 = 1000;

/// Waits for the event of a timer that is armed, by halting; false if other events woke the core so often instead.
fn timer_fires() -> bool {
    (0..LOOKS_MAX).any(|_| {
        idle();
        take_events().has(Events::TIMER)
    })
}

fn a_timer_fires_after_its_deadline() -> Verdict {
    for ms in [1, 3, 20] {
        let deadline = now() + ms * cycles_per_ms();
        set_timer(deadline);
        let fired = timer_fires();
        let after = now();
        check!(fired, "{ms} ms: no event");
        check!(after >= deadline, "{ms} ms: {} cycles early", deadline - after);
    }
    let end = now() + 5 * cycles_per_ms();
    while now() < end {
        interrupt_window();
        check!(!take_events().has(Events::TIMER), "it fired twice");
    }
    Ok(())
}

fn a_past_deadline_fires_at_once() -> Verdict {
    set_timer(now() - 1000);
    check!(timer_fires(), "no event");
    set_timer(0);
    check!(timer_fires(), "no event for deadline 0");
    Ok(())
}

fn a_cleared_timer_is_silent() -> Verdict {
    for _ in 0..20 {
        let deadline = now() + 10 * cycles_per_ms();
        set_timer(deadline);
        clear_timer();
        if now() >= deadline {
            // The host took the core away for so long that the timer was over before it was cleared.
            interrupt_window();
            take_events();
            continue;
        }
        while now() < deadline + 10 * cycles_per_ms() {
            interrupt_window();
            check!(!take_events().has(Events::TIMER), "it fired");
        }
        return Ok(());
    }
    Err("the host is too busy to clear a timer within 10 ms".into())
}

fn the_wall_clock_runs() -> Verdict {
    // Each look at the clock lies between two at the cycles: the host may take the core away between any two.
    let (before_start, start, after_start) = (now(), wall_clock_ns(), now());
    while now() < after_start + 20 * cycles_per_ms() {}
    let (before_end, passed, after_end) = (now(), wall_clock_ns() - start, now());
    let ns = |cycles: u64| cycles * 1_000_000 / cycles_per_ms();
    let (least, most) = (ns(before_end - after_start), ns(after_end - before_start));
    let is_between = (least - least / 50..=most + most / 50).contains(&passed);
    check!(is_between, "{passed} ns by the clock, {least} to {most} ns by cycles");
    let seconds = start / 1_000_000_000;
    check!((1_700_000_000..4_100_000_000).contains(&seconds), "{seconds} s since 1970");
    Ok(())
}

fn random_bytes_differ() -> Verdict {
    let (mut first, mut second) = ([0u8; 100], [0u8; 100]);
    fill_random(&mut first);
    fill_random(&mut second);
    let ones: u32 = first.iter().map(|byte| byte.count_ones()).sum();
    check!(first != second && (250..550).contains(&ones), "{ones} of 800 bits are set");
    let same = first.iter().zip(second).filter(|(a, b)| **a == *b).count();
    check!(same < 20, "{same} bytes are equal");
    Ok(())
}
