//! A look at a machine from outside: an NMI that no core sent makes each core say where it is, and asks its loop to say more.
//!
//! Whoever runs the machine sends it to all cores (QEMU's monitor: `inject-nmi`) if the machine has fallen silent. A core may be anywhere then, with
//! the console's lock held; so nothing here waits without a bound, takes memory or changes what the interrupted code looks at. The loop's
//! part is an event, [`Events::REPORT`]. Nothing of this costs anything before it is asked for.

use crate::console::say_aside;
use crate::core_local::post_event_here;
use crate::exception::KernelFrame;
use crate::panic::{Places, TRACE_DEPTH};
use crate::watch::{since_ms, work_mark};
use core::fmt::{Display, Formatter};
use gyre_platform::Events;

/// The flag that lets interrupts in. In the kernel only a core that waits for one has it.
const INTERRUPTS: u64 = 1 << 9;

/// The place of a core when it was asked.
enum Place {
    /// In a program.
    Program,
    /// It waits for an interrupt.
    Idle,
    /// In a piece of the kernel's work that began with this mark.
    Kernel(u64),
}

impl Place {
    fn of(frame: &KernelFrame) -> Place {
        match (frame.is_kernels(), frame.flags() & INTERRUPTS) {
            (false, _) => Place::Program,
            (true, 0) => Place::Kernel(work_mark()),
            _ => Place::Idle,
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self {
            Place::Program => f.write_str("is in a program"),
            Place::Idle => f.write_str("idles"),
            Place::Kernel(mark) => write!(f, "is in the kernel, in one piece of work for {} ms", since_ms(*mark)),
        }
    }
}

/// Says where this core is and has its loop say what waits.
pub(crate) fn on_nmi(frame: &KernelFrame) {
    let place = Place::of(frame);
    say_aside("report", format_args!("core {} {place}", crate::core_index()));
    if let Place::Kernel(_) = place {
        let (rip, rbp) = frame.place();
        say_aside("trace", format_args!("0 {rip:#018x}"));
        for (depth, place) in Places(rbp).take(TRACE_DEPTH - 1).enumerate() {
            say_aside("trace", format_args!("{} {place:#018x}", depth + 1));
        }
    }
    // A core that takes its events at this very moment may lose this one: it is asked again.
    post_event_here(Events::REPORT);
    // A program has no reason to come to the kernel, and a core may be about to halt.
    crate::apic::interrupt_self();
}
