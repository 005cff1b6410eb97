//! Costs of the platform's operations: the best of several rounds, in nanoseconds. `bench=1` on the command line.

use crate::guest::{Guest, is_offered, plan};
use crate::program;
use crate::program::{CODE, Process};
use alloc::boxed::Box;
use core::hint::black_box;
use gyre_platform::{MapFlags, Pa, Va};
use gyre_x86_64::guest::enter;
use gyre_x86_64::{
    Frame, PageTable, clear_timer, cycles_per_ms, end_instance, enter_user, fill_random, interrupt_window, now,
    set_timer, take_events,
};

const ROUNDS: usize = 7;

/// Runs `action` `turns` times in each of several rounds and prints the cost of one turn in the best.
fn measure(name: &str, turns: u64, mut action: impl FnMut()) {
    let best = (0..ROUNDS)
        .map(|_| {
            let start = now();
            (0..turns).for_each(|_| action());
            now() - start
        })
        .min();
    let ps = best.unwrap_or(0) * 1_000_000 / cycles_per_ms() * 1000 / turns;
    log::info!("{name}: {}.{:03} ns", ps / 1000, ps % 1000);
}

program!(call_again, "2: syscall", "jmp 2b");
program!(break_again, "2: int3", "jmp 2b");

/// Measures all and ends the machine.
pub fn run() -> ! {
    measure("now", 10_000, || {
        black_box(now());
    });
    measure("set and clear timer", 1000, || {
        set_timer(now() + cycles_per_ms());
        clear_timer();
    });
    measure("interrupt window", 1000, interrupt_window);
    measure("take events", 10_000, || {
        black_box(take_events());
    });
    measure_user();
    measure_guest();
    measure_memory();
    measure_copies();
    end_instance(0)
}

fn measure_user() {
    let mut process = Process::new(call_again());
    measure("system call there and back", 10_000, || {
        enter_user(&mut process.context, &process.table.root());
    });
    measure("the same by IRET", 10_000, || {
        process.context.registers.rcx = 1;
        enter_user(&mut process.context, &process.table.root());
    });
    let mut other = Process::new(call_again());
    measure("two programs in turn", 2000, || {
        enter_user(&mut process.context, &process.table.root());
        enter_user(&mut other.context, &other.table.root());
    });
    let mut broken = Process::new(break_again());
    measure("exception there and back", 10_000, || {
        enter_user(&mut broken.context, &broken.table.root());
    });
    measure("interrupt of a program", 500, || {
        process.context.registers.rip = CODE;
        set_timer(now());
        enter_user(&mut process.context, &process.table.root());
        take_events();
    });
}

program!(call_guest_again, "2: vmmcall", "jmp 2b");

fn measure_guest() {
    if !is_offered() {
        return;
    }
    let mut guest = Guest::new(plan(call_guest_again));
    measure("call of a guest, out and in again", 2000, || {
        black_box(enter(&mut guest.core, &guest.table));
    });
}

fn measure_memory() {
    measure("frame, taken and freed", 1000, || {
        black_box(Frame::allocate(0).is_ok());
    });
    measure("64 KiB, taken and freed", 200, || {
        black_box(Frame::allocate(4).is_ok());
    });
    measure("object of 64 bytes", 10_000, || {
        black_box(Box::new([0u64; 8]));
    });
    measure("object of 2000 bytes", 2000, || {
        black_box(Box::new([0u64; 250]));
    });
    measure("page table, made and dropped", 200, || {
        black_box(PageTable::new().is_ok());
    });
    let Ok(mut table) = PageTable::new() else {
        return;
    };
    measure("map and unmap", 10_000, || {
        black_box(table.map(Va(0x12_3000), Pa(0x1000), MapFlags::USER).is_ok());
        table.unmap(Va(0x12_3000));
    });
    let mut bytes = [0u8; 16];
    measure("16 random bytes", 1000, || fill_random(&mut bytes));
}

fn measure_copies() {
    let (Ok(mut from), Ok(mut into)) = (Frame::allocate(5), Frame::allocate(5)) else {
        return;
    };
    from.as_mut_slice().fill(7);
    for (name, bytes) in [
        ("copy 24 bytes", 24),
        ("copy 200 bytes", 200),
        ("copy 1500 bytes", 1500),
        ("copy 4 KiB", 4096),
        ("copy 32 KiB", 32768),
    ] {
        measure(name, 500, || {
            black_box(&mut into.as_mut_slice()[..bytes]).copy_from_slice(black_box(&from.as_slice()[..bytes]))
        });
    }
    measure("fill 4 KiB", 500, || black_box(&mut into.as_mut_slice()[..4096]).fill(0));
    measure("fill 40 bytes", 500, || black_box(&mut into.as_mut_slice()[..40]).fill(0));
    measure("copy 32 KiB by rep movsq", 50, || {
        let (to, of) = (into.as_mut_slice().as_mut_ptr(), from.as_slice().as_ptr());
        // SAFETY: both frames are 128 KiB long.
        unsafe {
            core::arch::asm!("rep movsq", inout("rcx") 4096 => _, inout("rdi") to => _, inout("rsi") of => _, options(nostack))
        };
    });
}
