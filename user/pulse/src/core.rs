//! A virtual core: a kernel thread whose time the program's scheduler divides.
//!
//! Its state begins with the area that the kernel knows, and the thread's gs names it: so one instruction reads or changes it, also for a thread
//! that a tick moves to another virtual core between two instructions.
//!
//! States: a thread runs ([`Core::current`], ticks let in or masked by it), the scheduler runs (on its own stack, ticks masked once), idle.
//! [`called`] and [`turn`] lead from a thread to the scheduler, [`Core::run`] back. Neither returns.
//!
//! Only the kernel thread that is the core calls this file, but for [`begin`], which each thread of the program does first.

use std::{
    arch::asm,
    cell::Cell,
    io,
    mem::offset_of,
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use gyre_contract::pulse::{Area, PENDING};

use crate::{
    Held, Vcore,
    fiber::{Fiber, Place, Stack},
    runtime::{Runtime, now_ns},
    switch,
};

const SCHEDULER_STACK_BYTES: usize = 64 << 10;
/// arch_prctl's code for the base of gs (arch/x86/include/uapi/asm/prctl.h).
const ARCH_SET_GS: i32 = 0x1001;

/// The reason for which a thread leaves its core.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Enter,
    Tick,
    Yield,
    Block,
    Done,
}

/// Takes a thread that is blocked; answers it if it need not wait.
pub(crate) type Keep<'a> = dyn FnMut(Held) -> Option<Held> + 'a;

/// `gyre_contract::pulse::Area`, which the kernel changes between two instructions.
#[repr(C)]
pub(crate) struct Shared {
    pub(crate) masked: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) running: AtomicU64,
    pub(crate) ticks: AtomicU64,
    pub(crate) missed: AtomicU64,
    pub(crate) resume: AtomicU64,
}

const _: () = assert!(size_of::<Shared>() == size_of::<Area>());

#[repr(C)]
pub(crate) struct Core {
    pub(crate) area: Shared,
    own: Cell<*const Core>,
    pub(crate) id: usize,
    pub(crate) runtime: &'static Runtime,
    current: Cell<Option<NonNull<Fiber>>>,
    reason: Cell<Reason>,
    keep: Cell<Option<*mut Keep<'static>>>,
    stack: Stack,
    home: Cell<u64>,
}

std::thread_local! {
    /// True on threads that are virtual cores: the same for all threads of the program that run there.
    static IS_CORE: Cell<bool> = const { Cell::new(false) };
}

impl Core {
    pub(crate) fn new(id: usize, runtime: &'static Runtime) -> io::Result<Box<Core>> {
        let area = Shared {
            masked: AtomicU32::new(1),
            flags: AtomicU32::new(0),
            running: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            resume: AtomicU64::new(0),
        };
        let core = Box::new(Core {
            area,
            own: Cell::new(std::ptr::null()),
            id,
            runtime,
            current: Cell::new(None),
            reason: Cell::new(Reason::Enter),
            keep: Cell::new(None),
            stack: Stack::new(SCHEDULER_STACK_BYTES)?,
            home: Cell::new(0),
        });
        core.own.set(&raw const *core);
        Ok(core)
    }

    pub(crate) fn stack_end(&self) -> u64 {
        self.stack.end()
    }

    pub(crate) fn fiber(&self) -> Option<&Fiber> {
        // SAFETY: the thread that runs here lives.
        self.current.get().map(|fiber| unsafe { fiber.as_ref() })
    }

    /// Is a virtual core until the program has no thread any more.
    pub(crate) fn live(&self, period_ns: u64, limit_ns: u64) -> io::Result<()> {
        set_gs(self)?;
        IS_CORE.set(true);
        let lived = self.runtime.way.begin(self, period_ns, limit_ns);
        if lived.is_ok() {
            self.reason.set(Reason::Enter);
            // SAFETY: the scheduler's stack is free, and `turn` comes back by `home`.
            unsafe { switch::gyre_pulse_park(self.home.as_ptr(), self.stack_end(), turn, self.argument()) };
            self.runtime.way.end();
        }
        IS_CORE.set(false);
        lived
    }

    fn argument(&self) -> *const u8 {
        (&raw const *self).cast()
    }

    /// Runs a thread from now on.
    fn run(&self, held: Held, now_ns: u64) -> ! {
        let fiber = held.into_fiber();
        self.current.set(Some(fiber));
        // SAFETY: we have it.
        let fiber = unsafe { fiber.as_ref() };
        fiber.begin_run(now_ns);
        self.note_answer();
        if fiber.place.get() == Place::Stopped {
            self.runtime.way.restore(self, fiber.context_address());
        }
        self.area.running.store(fiber.context_address(), Ordering::Relaxed);
        self.area.masked.store(fiber.masks.get(), Ordering::Relaxed);
        // SAFETY: it was parked there, and runs nowhere.
        unsafe { switch::gyre_pulse_unpark(fiber.parked.get()) }
    }

    /// The scheduler has just been asked: a tick that waited for that waits no longer, and the limit of masks begins anew.
    fn note_answer(&self) {
        self.area.flags.fetch_and(!PENDING, Ordering::Relaxed);
    }

    /// The thread that ran is no longer here.
    fn take(&self, place: Place, now_ns: u64) -> Option<Held> {
        self.area.running.store(0, Ordering::Relaxed);
        let fiber = self.current.take()?;
        // SAFETY: it does not run: we are on the scheduler's stack.
        let held = unsafe { Held::new(fiber) };
        let fiber = held.fiber();
        fiber.place.set(place);
        fiber.end_run(now_ns);
        Some(held)
    }

    /// Asks the scheduler what runs next. A core that is not wanted takes nothing more, however much waits.
    fn decide(&self, now_ns: u64) -> Option<Held> {
        let (scheduler, id) = (self.runtime.scheduler, Vcore(self.id));
        let is_wanted = self.runtime.is_wanted(self.id);
        match (self.reason.replace(Reason::Enter), self.keep.take()) {
            (Reason::Tick, _) => self.take(Place::Parked, now_ns).and_then(|held| self.after(held, Reason::Tick)),
            (Reason::Yield, _) => self.take(Place::Parked, now_ns).and_then(|held| self.after(held, Reason::Yield)),
            (Reason::Block, Some(keep)) => {
                // SAFETY: it lives on the stack of the thread that is blocked, which goes on only after this.
                let back = self.take(Place::Parked, now_ns).and_then(|held| unsafe { (*keep)(held) });
                if let Some(held) = back {
                    scheduler.ready(id, held);
                }
                if is_wanted { scheduler.done(id) } else { None }
            }
            (Reason::Done, _) => {
                if let Some(held) = self.take(Place::Parked, now_ns) {
                    self.runtime.end_thread(held);
                }
                if is_wanted { scheduler.done(id) } else { None }
            }
            _ if is_wanted => scheduler.enter(id),
            _ => None,
        }
    }

    fn after(&self, held: Held, reason: Reason) -> Option<Held> {
        let (scheduler, id) = (self.runtime.scheduler, Vcore(self.id));
        if !self.runtime.is_wanted(self.id) {
            scheduler.ready(id, held);
            return None;
        }
        match reason {
            Reason::Tick => scheduler.tick(id, held),
            _ => scheduler.yielded(id, held),
        }
    }
}

/// The scheduler's turn, on its own stack.
extern "C" fn turn(core: *const u8) -> ! {
    // SAFETY: only `live` and `leave` name this function, with their core, which lives as long as its turns.
    let core = unsafe { &*core.cast::<Core>() };
    // One look at the clock serves the whole turn.
    let mut now = now_ns();
    core.runtime.wake_sleepers(Vcore(core.id), now);
    core.runtime.follow_share();
    let mut next = core.decide(now);
    loop {
        if let Some(held) = next.take() {
            core.run(held, now);
        }
        let seen = core.runtime.changes();
        if core.runtime.is_over() {
            // SAFETY: `live` waits there.
            unsafe { switch::gyre_pulse_unpark(core.home.get()) }
        }
        core.runtime.follow_share();
        if core.runtime.is_wanted(core.id) {
            next = core.runtime.scheduler.enter(Vcore(core.id));
        } else {
            core.runtime.leave(core.id);
        }
        if next.is_none() {
            core.note_answer();
            core.runtime.wait(seen, Vcore(core.id));
            now = now_ns();
        }
    }
}

/// A tick's entry: the kernel has saved the thread that ran, and masked ticks.
pub(crate) extern "C" fn called(area: *const u8, _reason: u64) -> ! {
    // SAFETY: the area is the first field of the core that `begin` named.
    let core = unsafe { &*area.cast::<Core>() };
    let now = now_ns();
    core.runtime.wake_sleepers(Vcore(core.id), now);
    core.runtime.follow_share();
    let next = core.take(Place::Stopped, now).and_then(|held| core.after(held, Reason::Tick));
    if let Some(held) = next {
        core.run(held, now);
    }
    turn(core.argument())
}

fn set_gs(core: &Core) -> io::Result<()> {
    // SAFETY: this program uses gs for nothing else.
    let done = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, &raw const *core) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True on a virtual core.
pub(crate) fn is_here() -> bool {
    IS_CORE.get()
}

/// The virtual core that this thread is on, as long as ticks are masked.
pub(crate) fn here<'a>() -> Option<&'a Core> {
    if !is_here() {
        return None;
    }
    let core: *const Core;
    // SAFETY: gs names the core of a thread that is one. Volatile: the answer differs after each switch.
    unsafe { asm!("mov {}, gs:[{}]", out(reg) core, const offset_of!(Core, own), options(nostack, preserves_flags)) };
    // SAFETY: the core outlives its thread's time as one.
    Some(unsafe { &*core })
}

/// Ticks are masked once more; `None` inside if this is no virtual core.
#[must_use]
pub(crate) struct Masked {
    is_core: bool,
}

pub(crate) fn mask() -> Masked {
    let is_core = is_here();
    if is_core {
        // SAFETY: the first word of what gs names; one instruction, so no tick comes between finding and changing it.
        unsafe { asm!("inc dword ptr gs:[0]", options(nostack)) };
    }
    Masked { is_core }
}

impl Masked {
    /// Takes the mask away; a tick that waited comes now.
    pub(crate) fn unmask(self) {
        if self.is_core {
            unmask_here();
        }
    }
}

/// Takes away a mask that [`mask`] has set; nothing if there is none.
pub(crate) fn unmask_one() {
    // Only the thread's own masks, which no tick changes: a tick comes only while there is none.
    let is_masked = here().is_some_and(|core| core.area.masked.load(Ordering::Relaxed) > 0);
    if is_masked {
        unmask_here();
    }
}

fn unmask_here() {
    let (left, flags): (u32, u32);
    // SAFETY: as in `mask`; a thread that moves between the two reads sees another core's words, which are as good.
    unsafe {
        asm!(
            "mov {flags:e}, dword ptr gs:[4]",
            "dec dword ptr gs:[0]",
            "mov {left:e}, dword ptr gs:[0]",
            flags = out(reg) flags, left = out(reg) left, options(nostack)
        );
    }
    if flags & PENDING != 0 && left == 0 {
        tick_now();
    }
}

/// Takes a tick that waited behind a mask.
#[cold]
fn tick_now() {
    let masked = mask();
    let waits = here().is_some_and(|core| {
        // On the scheduler's own stack nothing runs that a tick could stop.
        core.current.get().is_some() && core.area.flags.fetch_and(!PENDING, Ordering::Relaxed) & PENDING != 0
    });
    match waits {
        true => leave_masked(Reason::Tick, None, masked),
        false => drop_mask(masked),
    }
}

/// Takes a mask away without looking for ticks.
fn drop_mask(masked: Masked) {
    if masked.is_core {
        // SAFETY: as in `mask`.
        unsafe { asm!("dec dword ptr gs:[0]", options(nostack)) };
    }
}

/// The thread that runs leaves its core; returns when it goes on. Returns at once if this is no thread of a scheduler.
pub(crate) fn leave(reason: Reason, keep: Option<&mut Keep<'_>>) {
    let masked = mask();
    leave_masked(reason, keep, masked);
}

fn leave_masked(reason: Reason, keep: Option<&mut Keep<'_>>, masked: Masked) {
    if let Some(core) = here()
        && let Some(fiber) = core.fiber()
    {
        core.reason.set(reason);
        // SAFETY: only its lifetime changes: it is used before this thread goes on.
        core.keep.set(keep.map(|keep| unsafe { std::mem::transmute::<*mut Keep<'_>, *mut Keep<'static>>(keep) }));
        fiber.masks.set(core.area.masked.load(Ordering::Relaxed));
        // SAFETY: the scheduler's stack is free while a thread runs, and ticks are masked until we are away from ours.
        unsafe { switch::gyre_pulse_park(fiber.parked.as_ptr(), core.stack_end(), turn, core.argument()) };
    }
    masked.unmask();
}

/// A thread's first function.
pub(crate) extern "C" fn begin(fiber: *const u8) -> ! {
    // SAFETY: its own fiber, which lives until its end is seen.
    let work = unsafe { &*fiber.cast::<Fiber>() }.work.take();
    Masked { is_core: true }.unmask();
    if let Some(work) = work
        && std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
    {
        std::process::abort();
    }
    leave(Reason::Done, None);
    std::process::abort()
}
