//! The native calls by which a program has work for it fail, or the whole kernel, in kernels that are built for tests of containment.

use crate::kernel::Kernel;
use gyre_assembly::grid::id;
use gyre_contract::native::{ATTACKS, FAIL_KINDS, FAIL_RESOURCES};
use gyre_engine::fault::{Fault, Kind};
use gyre_linux::{Arguments, Errno, Outcome, Thread};

/// In the order of [`gyre_contract::native::FAIL_KINDS`].
const KINDS: [Kind; FAIL_KINDS.len()] = [
    Kind::Panic,
    Kind::Stack,
    Kind::Overflow,
    Kind::UnderObjectLock,
    Kind::UnderTenantLock,
    Kind::UnderMachineLock,
    Kind::Endless,
];

/// Serves `fail`.
pub fn inject(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let kind = KINDS.get(arguments.size(0)).copied().ok_or(Errno::EINVAL)?;
    let resource = FAIL_RESOURCES.get(arguments.size(1)).copied().ok_or(Errno::EINVAL)?.map(id);
    let activity = thread.process().activity();
    kernel.base.engine.inject(Fault { activity, resource, after: arguments.word(2), kind });
    Ok(0)
}

/// Serves `attack`.
pub fn attack(arguments: Arguments) -> Outcome {
    gyre_x86_64::attempt(ATTACKS.get(arguments.size(0)).ok_or(Errno::EINVAL)?);
    Ok(0)
}
