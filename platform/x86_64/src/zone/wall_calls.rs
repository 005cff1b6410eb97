//! The calls of a walled zone to its supervisor: VMMCALL at level 0, with the call's number in rax and its argument in rdi; the answer comes
//! back in rax. All else that a zone needs of others goes through the page that both share.

use crate::instructions::halt_forever;
use core::arch::asm;

/// The calling core leaves the zone and waits at its box. It does not come back from the call.
pub(crate) const LEAVE: u64 = 1;
/// Calls the core that waits at the box with this number, in which the zone has written `CALLED` and the way.
pub(crate) const CALL_CORE: u64 = 2;
/// Rings the supervisor.
pub(crate) const RING: u64 = 3;

/// The answer to a call that was done.
pub(crate) const DONE: u64 = 0;
/// The answer to [`CALL_CORE`] if the core is still on its way to its box: to be asked again.
pub(crate) const ON_ITS_WAY: u64 = 1;
/// The answer to a call that was refused, or whose number is unknown.
pub(crate) const REFUSED: u64 = u64::MAX;

fn call(number: u64, argument: u64) -> u64 {
    let answer;
    // SAFETY: the supervisor answers in rax and changes nothing else; outside of a wall nobody comes here.
    unsafe { asm!("vmmcall", inlateout("rax") number => answer, in("rdi") argument, options(nostack)) };
    answer
}

/// Gives this core back. Callable in any state.
pub(crate) fn leave() -> ! {
    call(LEAVE, 0);
    halt_forever()
}

/// The fate of a call of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Called {
    /// It comes.
    Coming,
    /// It is still on its way to its box, for longer than one call waits; the next call may find it there.
    OnItsWay,
    /// None waits there.
    Nobody,
}

/// Calls the core that waits at a box.
pub(crate) fn call_core(slot: usize) -> Called {
    match call(CALL_CORE, slot as u64) {
        DONE => Called::Coming,
        ON_ITS_WAY => Called::OnItsWay,
        _ => Called::Nobody,
    }
}

/// Rings the supervisor.
pub(crate) fn ring() {
    call(RING, 0);
}
