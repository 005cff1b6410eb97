//! The native call by which a program has work for it fail, in kernels that are built for tests of containment.

use crate::assembly::System;
use gyre_config::native::FAIL_RESOURCES;
use gyre_engine::fault::{Fault, Kind};
use gyre_linux::{Arguments, Errno, Outcome, Thread};

/// In the order of [`gyre_config::native::FAIL_KINDS`].
const KINDS: [Kind; 6] =
    [Kind::Panic, Kind::Stack, Kind::Overflow, Kind::UnderObjectLock, Kind::UnderTenantLock, Kind::UnderMachineLock];

/// Serves `fail`.
pub fn inject(system: &'static System, thread: &Thread, arguments: Arguments) -> Outcome {
    let kind = KINDS.get(arguments.size(0)).copied().ok_or(Errno::EINVAL)?;
    let resource = match FAIL_RESOURCES.get(arguments.size(1)).copied().ok_or(Errno::EINVAL)? {
        "" => None,
        name => Some(system.engine.resource(name).ok_or(Errno::EINVAL)?),
    };
    let activity = thread.process().activity();
    system.engine.inject(Fault { activity, resource, after: arguments.word(2), kind });
    Ok(0)
}
