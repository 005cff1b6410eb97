//! A process as a descriptor (pidfd_open(2)): it names its process for good, also after the number is used again, and can be read from once the
//! process has ended.

use crate::{Process, Thread};
use alloc::sync::{Arc, Weak};
use gyre_interface::{Readiness, Ready};
use gyre_object::TenantLock;

/// The readiness that all descriptors of a process share; made when somebody asks.
#[derive(Default)]
pub struct EndWatch(TenantLock<Option<Arc<Readiness>>>);

impl EndWatch {
    /// Tells that the process has ended.
    pub(crate) fn ended(&self) {
        let readiness = self.0.lock().clone();
        if let Some(readiness) = readiness {
            readiness.set(Ready::READ);
        }
    }

    fn readiness(&self, is_over: bool) -> Arc<Readiness> {
        let bits = if is_over { Ready::READ } else { Ready::empty() };
        self.0.lock().get_or_insert_with(|| Readiness::new(bits)).clone()
    }
}

/// The descriptor.
pub struct ProcessFile {
    id: i32,
    process: Weak<Process>,
    readiness: Arc<Readiness>,
}

impl ProcessFile {
    /// Makes a descriptor of a process.
    pub fn new(process: &Arc<Process>) -> ProcessFile {
        let readiness = process.end_watch.readiness(process.is_over());
        // It may have ended just now, before it was seen that somebody watches.
        if process.is_over() {
            readiness.set(Ready::READ);
        }
        ProcessFile { id: process.id(), process: Arc::downgrade(process), readiness }
    }

    /// Returns its readiness: to read, once the process has ended.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Returns the number that the process has or had.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Returns the process until its parent has asked for its status; nothing after that, also if another one has its number.
    pub fn process(&self, thread: &Thread) -> Option<Arc<Process>> {
        let known = thread.tenant().tree.lock().process(self.id)?;
        self.process.upgrade().filter(|own| Arc::ptr_eq(own, &known))
    }
}
