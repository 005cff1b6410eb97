//! The native calls by which a program has work for it fail, or the whole kernel, in kernels that are built for tests of containment.

use crate::kernel::Kernel;
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_contract::native::{ATTACKS, FAIL_ANY, FAIL_KINDS, FAIL_WHOSE};
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

/// No resource has a longer name, bytes.
const NAME_BYTES_MAX: usize = 32;

/// Serves `fail`.
pub async fn inject(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let kind = KINDS.get(arguments.size(0)).copied().ok_or(Errno::EINVAL)?;
    let name = thread.read_vec(arguments.word(1), arguments.size(2).min(NAME_BYTES_MAX)).await?;
    let resource = resource(&name)?;
    let activity = whose(kernel, thread, arguments.size(4))?;
    kernel.base.engine.inject(Fault { activity, resource, after: arguments.word(3), kind });
    Ok(0)
}

/// The activity of a process, by its position in [`FAIL_WHOSE`].
fn whose(kernel: &Kernel, thread: &Thread, position: usize) -> Result<ActivityId, Errno> {
    let agent = || {
        let systems = kernel.base.activities.iter().enumerate().filter(|(_, tenant)| kernel.base.is_system(**tenant));
        systems.map(|(index, _)| index).find_map(|index| kernel.tenants.first(index))
    };
    let process = match FAIL_WHOSE.get(position) {
        Some(&"the agent's") => agent(),
        Some(_) => Some(thread.process().clone()),
        None => None,
    };
    process.map(|process| process.activity()).ok_or(Errno::EINVAL)
}

/// The resource of a name; none for that of all.
fn resource(name: &[u8]) -> Result<Option<ResourceId>, Errno> {
    let name = core::str::from_utf8(name).map_err(|_| Errno::ENODEV)?;
    if name == FAIL_ANY {
        return Ok(None);
    }
    Resource::find(name).map(|found| Some(id(found))).ok_or(Errno::ENODEV)
}

/// Serves `attack`.
pub fn attack(arguments: Arguments) -> Outcome {
    gyre_x86_64::attempt(ATTACKS.get(arguments.size(0)).ok_or(Errno::EINVAL)?);
    Ok(0)
}
