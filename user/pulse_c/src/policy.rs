//! A scheduler whose functions are C's, and its run.

use std::{ffi::c_void, time::Duration};

use gyre_pulse::{Error, Follows, Held, Options, Report, Scheduler, Vcore, Way, run};

use crate::number;

/// A thread that does not run, as C has it.
pub type RawHeld = *mut u8;

/// `struct gyre_pulse_scheduler`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Functions {
    own: *mut c_void,
    ready: Option<unsafe extern "C" fn(*mut c_void, u32, RawHeld)>,
    enter: Option<unsafe extern "C" fn(*mut c_void, u32) -> RawHeld>,
    tick: Option<unsafe extern "C" fn(*mut c_void, u32, RawHeld) -> RawHeld>,
    yielded: Option<unsafe extern "C" fn(*mut c_void, u32, RawHeld) -> RawHeld>,
    done: Option<unsafe extern "C" fn(*mut c_void, u32) -> RawHeld>,
    adapt: Option<unsafe extern "C" fn(*mut c_void, u32, u32)>,
}

/// `struct gyre_pulse_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawOptions {
    cores: u32,
    signals: u32,
    tick_ns: u64,
    limit_ns: u64,
    follows: u32,
    unused: u32,
}

/// `GYRE_PULSE_NOTHING`, `GYRE_PULSE_SHARE`.
const FOLLOWS: [Follows; 2] = [Follows::Nothing, Follows::Share];

/// `struct gyre_pulse_report`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawReport {
    ticks: u64,
    missed: u64,
}

const _: () = assert!(size_of::<Functions>() == 56 && size_of::<RawOptions>() == 32 && size_of::<RawReport>() == 16);

// SAFETY: C's functions are called from all virtual cores, as the header says.
unsafe impl Sync for Functions {}

impl Scheduler for Functions {
    fn ready(&self, core: Vcore, held: Held) {
        if let Some(ready) = self.ready {
            // SAFETY: the function is C's promise.
            unsafe { ready(self.own, core.0 as u32, held.into_raw()) };
        }
    }

    fn enter(&self, core: Vcore) -> Option<Held> {
        // SAFETY: as above, and the answer is a thread that C held.
        self.enter.and_then(|enter| unsafe { Held::from_raw(enter(self.own, core.0 as u32)) })
    }

    fn tick(&self, core: Vcore, running: Held) -> Option<Held> {
        // SAFETY: as above.
        self.tick.and_then(|tick| unsafe { Held::from_raw(tick(self.own, core.0 as u32, running.into_raw())) })
    }

    fn yielded(&self, core: Vcore, running: Held) -> Option<Held> {
        // SAFETY: as above.
        self.yielded.and_then(|yielded| unsafe { Held::from_raw(yielded(self.own, core.0 as u32, running.into_raw())) })
    }

    fn done(&self, core: Vcore) -> Option<Held> {
        match self.done {
            // SAFETY: as above.
            Some(done) => unsafe { Held::from_raw(done(self.own, core.0 as u32)) },
            None => self.enter(core),
        }
    }

    fn adapt(&self, before: usize, after: usize) {
        if let Some(adapt) = self.adapt {
            // SAFETY: as above.
            unsafe { adapt(self.own, before as u32, after as u32) };
        }
    }
}

impl RawOptions {
    fn checked(&self) -> Result<Options, Error> {
        let cores = usize::try_from(self.cores).ok().filter(|cores| (1..=64).contains(cores)).ok_or(Error::Time)?;
        let follows = usize::try_from(self.follows).ok().and_then(|number| FOLLOWS.get(number)).copied();
        let follows = follows.filter(|_| self.unused == 0).ok_or(Error::Time)?;
        let usual = Options::new(cores, Duration::from_nanos(self.tick_ns));
        Ok(Options {
            cores,
            tick: (self.tick_ns != 0).then_some(Duration::from_nanos(self.tick_ns)),
            limit: if self.limit_ns == 0 { usual.limit } else { Duration::from_nanos(self.limit_ns) },
            way: if self.signals != 0 { Way::Signals } else { usual.way },
            follows,
        })
    }
}

/// A C function and its argument, on their way to a thread.
pub(crate) struct Work {
    pub(crate) work: unsafe extern "C" fn(*mut c_void),
    pub(crate) argument: *mut c_void,
}

// SAFETY: C says that the function may be called on another thread.
unsafe impl Send for Work {}

impl Work {
    pub(crate) fn call(self) {
        // SAFETY: as the caller of the header's function promised.
        unsafe { (self.work)(self.argument) }
    }
}

/// `gyre_pulse_run`.
///
/// # Safety
/// As the header says; all that is named lives until the return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_run(
    scheduler: *const Functions,
    options: *const RawOptions,
    first: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    report: *mut RawReport,
) -> i32 {
    // SAFETY: by the caller's promise.
    let (scheduler, options) = unsafe { (scheduler.as_ref(), options.as_ref()) };
    let (Some(scheduler), Some(options), Some(work)) = (scheduler, options, first) else { return -libc::EINVAL };
    let is_whole = scheduler.ready.is_some() && scheduler.enter.is_some();
    if !is_whole || scheduler.tick.is_none() || scheduler.yielded.is_none() {
        return -libc::EINVAL;
    }
    // Leaked: a virtual core may look at it until its last instruction.
    let scheduler: &'static Functions = Box::leak(Box::new(*scheduler));
    let first = Work { work, argument };
    let ran = options.checked().and_then(|options| run(scheduler, options, move || first.call()));
    // SAFETY: by the caller's promise.
    if let (Ok(Report { ticks, missed }), Some(report)) = (&ran, unsafe { report.as_mut() }) {
        *report = RawReport { ticks: *ticks, missed: *missed };
    }
    number(ran.map(drop))
}
