//! Forbidden things, of which the kernel must die with a dump. `tests/boot/platform.sh` checks how.

use crate::program::Process;
use core::arch::asm;
use gyre_platform::{MapFlags, Va};
use gyre_x86_64::{Frame, PageTable, UserContext, cycles_per_ms, end_instance, enter_user, now};

/// Does it. Comes back with exit code 77 if the machine let it pass.
pub fn run(name: &str) -> ! {
    log::info!("doing what is forbidden: {name}");
    match name {
        "panic" => panic!("as asked"),
        // SAFETY: none: the page is not mapped.
        "null" => unsafe {
            core::ptr::without_provenance::<u64>(8).read_volatile();
        },
        // SAFETY: none: text is read-only.
        "text" => unsafe { (run as *const () as *mut u8).write_volatile(0) },
        "data" => run_data(),
        "user" => touch_user_page(),
        "stack" => log::info!("{}", deepen(1)),
        // SAFETY: none: an undefined instruction.
        "undefined" => unsafe { asm!("ud2") },
        "elsewhere" => die_elsewhere(),
        "hang" => hang_elsewhere(),
        "asked" => end_elsewhere(),
        _ => {}
    }
    log::error!("nothing stopped it");
    end_instance(77)
}

/// A core panics while the boot core runs a program that never ends by itself.
fn die_elsewhere() {
    gyre_x86_64::start_cores(|core| {
        let end = now() + 50 * cycles_per_ms();
        while now() < end {}
        panic!("core {core} as asked");
    });
    let mut process = Process::new(crate::program::endless());
    enter_user(&mut process.context, &process.table.root());
}

/// A core spins for ever in a piece of work, with interrupts off; the boot core makes it say where.
fn hang_elsewhere() {
    gyre_x86_64::start_cores(|_| {
        gyre_x86_64::mark_work(now());
        spin()
    });
    let mark = mark_elsewhere();
    // It answers knocks, and goes on.
    (1..=3).for_each(knock_elsewhere);
    // That of another piece of work means nothing: it answers once more.
    gyre_x86_64::show_stuck(1, mark - 1);
    knock_elsewhere(4);
    gyre_x86_64::show_stuck(1, mark);
    wait();
}

/// Waits until core 1 is at its piece of work, and answers its mark.
fn mark_elsewhere() -> u64 {
    loop {
        let mark = gyre_x86_64::work_mark_of(1);
        if mark > 0 {
            return mark;
        }
        core::hint::spin_loop();
    }
}

/// Has core 1 answer its knock of this number.
fn knock_elsewhere(number: u64) {
    gyre_x86_64::knock(1);
    while gyre_x86_64::knocks_answered_by(1) < number {
        core::hint::spin_loop();
    }
}

#[inline(never)]
fn spin() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// A core is asked to end its work, and does at the next allocation.
fn end_elsewhere() {
    gyre_x86_64::set_end_hook(|| panic!("core {} ends its work", gyre_x86_64::core_index()));
    gyre_x86_64::start_cores(|_| {
        gyre_x86_64::mark_work(now());
        loop {
            core::hint::black_box(alloc::boxed::Box::new(0u64));
        }
    });
    gyre_x86_64::ask_to_end(1, mark_elsewhere());
    wait();
}

/// Waits for the end of the machine, without an end: each boot has a limit.
fn wait() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Runs what is no code.
fn run_data() {
    static CODE: [u8; 1] = [0xc3];
    // SAFETY: none: constants cannot be executed.
    let function = unsafe { core::mem::transmute::<*const u8, fn()>(CODE.as_ptr()) };
    function();
}

/// Reads a page of a program through its own address, which SMAP forbids.
fn touch_user_page() {
    let mut table = PageTable::new().expect("memory");
    let frame = Frame::allocate(0).expect("memory");
    table.map(Va(0x40_0000), frame.pa(), MapFlags::USER | MapFlags::WRITE).expect("free");
    let mut context = UserContext::new().expect("memory");
    context.registers.rip = 0x40_0000;
    enter_user(&mut context, &table.root());
    // SAFETY: none: that is the point.
    unsafe { (0x40_0000 as *const u64).read_volatile() };
}

fn deepen(level: u64) -> u64 {
    let mut room = [level; 64];
    core::hint::black_box(&mut room);
    if level == 0 { 0 } else { deepen(level + 1) + room[(level % 64) as usize] }
}
