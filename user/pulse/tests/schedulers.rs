//! Each policy on this kernel, by signals on Linux: no thread is lost, ticks stop who computes, mutexes hand on deadlines.
//!
//! * Policies are tried one after the other, each with its own threads, on one virtual core and on three.
//! * What is judged is the results of threads and the order in which they run, never how long that took.
//! * A host may let a virtual core stand still: so masks may last a minute, but in the test of that limit.
//! * Each test is a program of its own to the library: it calls `run` from an ordinary thread.
//!
//! Left out: native calls of Gyre (`tests/boot/pulse`), and threads of unmodified programs (`user/pulse_threads`).
#![allow(missing_docs)]

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use gyre_pulse::{
    Error, Options, Scheduler, masked, mutex::Mutex, now_ns, resize, run, schedulers::*, set_deadline, sleep_until,
    spawn, spawn_due, unmask, yield_now,
};

#[global_allocator]
static HEAP: gyre_pulse::Allocator = gyre_pulse::Allocator;

const TICK: Duration = Duration::from_millis(1);
/// Looks at a word, each of some tens of cycles, before what is waited for is missing.
const LOOKS: u32 = 1_000_000_000;

fn policies(cores: usize) -> [(&'static str, &'static dyn Scheduler); 4] {
    [
        ("round robin", RoundRobin::leaked()),
        ("earliest deadline", EarliestDeadline::leaked()),
        ("speed balancing", SpeedBalancing::leaked(cores)),
        ("work stealing", WorkStealing::leaked(cores)),
    ]
}

/// A host may let a virtual core stand still in the middle of a callback, which is no fault of the scheduler.
fn options(cores: usize, tick: Duration) -> Options {
    Options { limit: Duration::from_secs(60), ..Options::new(cores, tick) }
}

/// Computes with floating point numbers, so that ticks stop it with full registers.
fn compute(rounds: u64) -> f64 {
    (0..rounds).fold(1.0, |value, at| black_box(value * 1.000_000_1 + (at % 7) as f64 * 1e-9))
}

/// Ticks are masked on a virtual core that is idle, or has left: its scheduler answers all the same.
#[test]
fn virtual_cores_without_work_may_be_so_for_longer_than_the_limit_of_masks() {
    let limit = Duration::from_secs(2);
    let report = run(RoundRobin::leaked(), Options { limit, ..Options::new(2, TICK) }, || {
        resize(1).unwrap();
        sleep_until(now_ns() + 5_000_000_000).unwrap();
    });
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn no_thread_is_lost_and_each_computes_as_if_alone() {
    let expected = compute(100_000).to_bits();
    for cores in [1, 3] {
        for (name, policy) in policies(cores) {
            let right = Arc::new(AtomicUsize::new(0));
            let counted = right.clone();
            let report = run(policy, options(cores, TICK), move || {
                for _ in 0..40 {
                    let right = counted.clone();
                    spawn(move || {
                        for _ in 0..3 {
                            right.fetch_add(usize::from(compute(100_000).to_bits() == expected), Ordering::Relaxed);
                            yield_now();
                        }
                    })
                    .unwrap();
                }
            });
            let report = report.unwrap();
            assert_eq!(right.load(Ordering::Relaxed), 120, "{name} on {cores}");
            assert!(report.ticks > 0, "{name} on {cores}: {report:?}");
        }
    }
}

#[test]
fn ticks_stop_who_never_yields() {
    let done = Arc::new(AtomicUsize::new(0));
    let seen = done.clone();
    run(RoundRobin::leaked(), options(1, TICK), move || {
        let other = seen.clone();
        spawn(move || {
            other.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        // Only a tick lets the other one run.
        while seen.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
    })
    .unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 1);
}

#[test]
fn a_mutex_lets_one_in_at_a_time_under_each_policy() {
    for (name, policy) in policies(2) {
        let sum = Arc::new(Mutex::new(0u64));
        let shared = sum.clone();
        run(policy, options(2, TICK), move || {
            for _ in 0..8 {
                let shared = shared.clone();
                spawn(move || {
                    for _ in 0..2_000 {
                        shared.with(|sum| *sum = black_box(*sum) + 1).unwrap();
                    }
                })
                .unwrap();
            }
            let total = shared.clone();
            spawn(move || {
                while total.with(|sum| *sum).unwrap() < 16_000 {
                    yield_now();
                }
            })
            .unwrap();
        })
        .unwrap();
        drop((sum, name));
    }
}

/// A late thread holds the mutex that the urgent one wants, and a third one computes: without inheritance it would go first.
#[test]
fn the_holder_of_a_mutex_runs_with_the_deadline_of_who_waits() {
    let order = Arc::new(AtomicU64::new(0));
    let kept = order.clone();
    let note = move |digit: u64| kept.store(kept.load(Ordering::Relaxed) * 10 + digit, Ordering::Relaxed);
    let (shared, start) = (Arc::new(Mutex::new(())), now_ns());
    let second = 1_000_000_000;
    run(EarliestDeadline::leaked(), options(1, TICK), move || {
        set_deadline(0).unwrap();
        let (late_mutex, urgent_mutex) = (shared.clone(), shared);
        let (late, middle, urgent) = (note.clone(), note.clone(), note);
        spawn_due(start + 90 * second, move || {
            late_mutex
                .with(|()| {
                    spawn_due(start + 50 * second, move || {
                        compute(2_000_000);
                        middle(2);
                    })
                    .unwrap();
                    spawn_due(start + second, move || {
                        urgent_mutex.with(|()| ()).unwrap();
                        urgent(1);
                    })
                    .unwrap();
                    let until = now_ns() + 30_000_000;
                    while now_ns() < until {
                        std::hint::spin_loop();
                    }
                })
                .unwrap();
            late(3);
        })
        .unwrap();
    })
    .unwrap();
    assert_eq!(order.load(Ordering::Relaxed), 123);
}

#[test]
fn virtual_cores_leave_and_come_back_and_no_thread_is_lost() {
    for (name, policy) in policies(4) {
        let done = Arc::new(AtomicUsize::new(0));
        let counted = done.clone();
        run(policy, options(4, TICK), move || {
            for _ in 0..30 {
                let done = counted.clone();
                spawn(move || {
                    for _ in 0..20 {
                        black_box(compute(20_000));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
            }
            let mut changes = 0;
            while changes < 6 {
                match resize([1, 4, 2, 3, 1, 4][changes]) {
                    Ok(()) => changes += 1,
                    Err(Error::Busy) => yield_now(),
                    Err(other) => panic!("{other}"),
                }
            }
        })
        .unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 30, "{name}");
    }
}

#[test]
fn of_five_hundred_microseconds_asked_no_tick_comes_too_early() {
    let begun_ns = now_ns();
    let report = run(RoundRobin::leaked(), options(1, Duration::from_micros(500)), || {
        let until = now_ns() + 50_000_000;
        while now_ns() < until {
            std::hint::spin_loop();
        }
    })
    .unwrap();
    // A hundred come in 50 ms on a machine with nothing else to do; one that stood still meanwhile has missed more.
    let most = (now_ns() - begun_ns) / 500_000 * 11 / 10;
    assert!((1..=most).contains(&(report.ticks + report.missed)), "{report:?}, at most {most}");
}

/// Looks until something is so, or for too long.
fn look_for(is_so: impl Fn() -> bool) {
    (0..LOOKS).find(|_| {
        std::hint::spin_loop();
        is_so()
    });
}

#[test]
fn a_virtual_core_without_threads_steals_from_one_that_is_busy() {
    let (ran, stolen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = stolen.clone();
    run(WorkStealing::leaked(2), options(2, TICK), move || {
        let other = ran.clone();
        // Behind the mask this virtual core runs nobody else, and the new thread is its own.
        masked(|| {
            spawn(move || other.store(1, Ordering::Relaxed)).unwrap();
            look_for(|| ran.load(Ordering::Relaxed) == 1);
            counted.store(ran.load(Ordering::Relaxed), Ordering::Relaxed);
        });
    })
    .unwrap();
    assert_eq!(stolen.load(Ordering::Relaxed), 1);
}

#[test]
fn speed_balancing_moves_a_thread_away_from_a_slow_virtual_core() {
    let policy = SpeedBalancing::leaked(2);
    run(policy, options(2, TICK), move || {
        // Two share a virtual core, and the third one has the other.
        for _ in 0..3 {
            spawn(move || look_for(|| policy.moved() > 0)).unwrap();
        }
    })
    .unwrap();
    assert!(policy.moved() > 0);
}

#[test]
fn nested_masks_hold_a_tick_back_until_the_last_is_gone() {
    let seen = Arc::new(AtomicUsize::new(0));
    let done = seen.clone();
    run(RoundRobin::leaked(), options(1, TICK), move || {
        let other = seen.clone();
        spawn(move || other.store(1, Ordering::Relaxed)).unwrap();
        let wait = |ms: u64| {
            let until = now_ns() + ms * 1_000_000;
            while now_ns() < until {
                std::hint::spin_loop();
            }
        };
        masked(|| {
            masked(|| wait(20));
            wait(20);
            assert_eq!(seen.load(Ordering::Relaxed), 0, "a tick came behind a mask");
        });
        // The tick that waited came as the last mask went.
        let until = now_ns() + 60_000_000_000;
        while seen.load(Ordering::Relaxed) == 0 && now_ns() < until {
            std::hint::spin_loop();
        }
        // One too many takes nothing away.
        unmask();
        masked(|| ());
    })
    .unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 1);
}

#[test]
fn a_callback_that_never_returns_ends_the_program_by_a_signal() {
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_gyre-pulse")).arg("overrun").status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGXCPU));
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let asked = |cores, tick| run(RoundRobin::leaked(), Options::new(cores, tick), || ());
    assert!(matches!(asked(0, TICK), Err(Error::TooMany)));
    assert!(matches!(asked(65, TICK), Err(Error::TooMany)));
    assert!(matches!(asked(1, Duration::from_micros(49)), Err(Error::Time)));
    assert!(matches!(asked(1, Duration::MAX), Err(Error::Time)));
    assert!(matches!(spawn(|| ()), Err(Error::Outside)));
    assert!(matches!(sleep_until(0), Err(Error::Outside)));
    assert!(matches!(Mutex::new(1).with(|_| ()), Err(Error::Outside)));
    yield_now();
    run(RoundRobin::leaked(), Options::new(1, TICK), || {
        assert!(matches!(resize(2), Err(Error::TooMany)));
        assert!(matches!(resize(0), Err(Error::TooMany)));
        let again = run(RoundRobin::leaked(), Options::new(1, TICK), || ());
        assert!(matches!(again, Err(Error::TooMany)));
    })
    .unwrap();
}
