//! Signals as messages (signalfd(2)). The signals must be blocked, else their actions take them first.

use crate::signal::{SignalInfo, SignalSet};
use crate::{Errno, Process, Thread};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use gyre_interface::{Readiness, Ready};
use gyre_object::TenantLock;

/// Bytes of `struct signalfd_siginfo`.
const RECORD_BYTES: usize = 128;

struct Shared {
    wanted: TenantLock<SignalSet>,
    readiness: Arc<Readiness>,
}

/// The descriptors that read the signals of a process.
#[derive(Default)]
pub struct SignalWatch(TenantLock<Vec<Weak<Shared>>>);

impl SignalWatch {
    /// Tells that a signal has become pending. Not to be called with signals locked.
    pub(crate) fn arrived(&self, signal: i32) {
        let files: Vec<_> = {
            let mut watchers = self.0.lock();
            watchers.retain(|file| file.strong_count() > 0);
            watchers.iter().filter_map(Weak::upgrade).collect()
        };
        for file in files {
            if file.wanted.lock().has(signal) {
                file.readiness.set(Ready::READ);
            }
        }
    }
}

/// A descriptor that reads the signals of the process that made it.
pub struct SignalFile {
    shared: Arc<Shared>,
}

impl SignalFile {
    /// Makes a descriptor for the signals of a set.
    pub fn new(thread: &Thread, wanted: SignalSet) -> SignalFile {
        let shared = Arc::new(Shared { wanted: TenantLock::new(wanted), readiness: Readiness::new(Ready::empty()) });
        watch_of(thread.process()).0.lock().push(Arc::downgrade(&shared));
        let file = SignalFile { shared };
        file.look(thread);
        file
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.shared.readiness
    }

    /// Reads other signals from now on.
    pub fn set_wanted(&self, thread: &Thread, wanted: SignalSet) {
        *self.shared.wanted.lock() = wanted;
        self.look(thread);
    }

    /// Sets the readiness from the signals that are pending now.
    fn look(&self, thread: &Thread) {
        let pending = {
            let process = thread.process().signals.lock();
            let own = thread.signals.lock();
            process.pending.set().0 | own.pending.set().0
        };
        self.shared.readiness.clear(Ready::READ);
        if pending & self.shared.wanted.lock().0 != 0 {
            self.shared.readiness.set(Ready::READ);
        }
    }

    /// Takes as many signals as fit.
    ///
    /// # Errors
    /// EINVAL for less than a record; EAGAIN without a signal.
    pub fn read(&self, thread: &Thread, into: &mut [u8]) -> Result<usize, Errno> {
        if into.len() < RECORD_BYTES {
            return Err(Errno::EINVAL);
        }
        let mut done = 0;
        for place in into.chunks_exact_mut(RECORD_BYTES) {
            let wanted = *self.shared.wanted.lock();
            let Some(info) = thread.take_signal(wanted) else { break };
            place.copy_from_slice(&record_of(&info));
            done = usize::saturating_add(done, RECORD_BYTES);
        }
        self.look(thread);
        if done == 0 { Err(Errno::EAGAIN) } else { Ok(done) }
    }
}

fn watch_of(process: &Process) -> &SignalWatch {
    &process.signal_files
}

/// `struct signalfd_siginfo`: the union's first two words are sender and user, or a timer's; then status or value.
fn record_of(info: &SignalInfo) -> [u8; RECORD_BYTES] {
    let mut out = [0; RECORD_BYTES];
    let mut put = |at: usize, value: u32| {
        if let Some(place) = out.get_mut(at..).and_then(|rest| rest.get_mut(..4)) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    };
    let (first, second) = (info.detail[0], info.detail[1]);
    put(0, info.signal as u32);
    put(4, info.errno as u32);
    put(8, info.code as u32);
    if info.code == crate::signal::info::SI_TIMER {
        put(24, first as u32);
        put(32, (first >> 32) as u32);
    } else {
        put(12, first as u32);
        put(16, (first >> 32) as u32);
        put(40, second as u32);
    }
    put(44, second as u32);
    put(48, second as u32);
    put(52, (second >> 32) as u32);
    out
}
