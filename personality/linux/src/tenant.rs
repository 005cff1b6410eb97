//! A tenant as its processes see it: their numbers, its limits, and what the machine does for them.

use crate::Thread;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_machine::UserContext;

/// What the kernel's assembly does for the personality.
pub trait Host: Send + Sync + 'static {
    /// Starts [`crate::run::run_thread`] for the thread as a task of the process' activity, on a core of its choice.
    fn start(&self, thread: Arc<Thread>, context: UserContext);
}

/// Numbers of system calls that are watched for being missing.
const CALLS_WATCHED: u64 = 512;

/// A tenant.
pub struct Tenant {
    name: String,
    activity: ActivityId,
    host: &'static dyn Host,
    missed: [AtomicU64; CALLS_WATCHED as usize / 64],
}

impl Tenant {
    /// A tenant without processes.
    pub fn new(name: &str, activity: ActivityId, host: &'static dyn Host) -> Arc<Tenant> {
        Arc::new(Tenant {
            name: name.into(),
            activity,
            host,
            missed: Default::default(),
        })
    }

    /// Its name, which is the host name too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who pays for what its processes share.
    pub fn activity(&self) -> ActivityId {
        self.activity
    }

    /// The machine.
    pub fn host(&self) -> &'static dyn Host {
        self.host
    }

    /// True the first time a number is asked for; numbers beyond the table count as one.
    pub(crate) fn first_miss(&self, number: u64) -> bool {
        let number = number.min(CALLS_WATCHED - 1);
        let bit = 1 << (number % 64);
        self.missed
            .get((number / 64) as usize)
            .is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }
}

/// The soft limits that a tenant's first process has (RLIMIT_*).
pub fn default_limit(resource: u32) -> u64 {
    use linux_raw_sys::general as raw;
    match resource {
        raw::RLIMIT_NOFILE => 1024,
        raw::RLIMIT_STACK => 8 << 20,
        raw::RLIMIT_CORE => 0,
        _ => u64::MAX,
    }
}
