//! For whom and by which resource a core works now. Written by the core's own loop, and by demultiplexing.

use crate::{ActivityId, ResourceId};

/// Told when a handler finds out for whom it works: ends the span of the one and starts that of the other. Answers who that is: the
/// lead of a process that has ended.
pub type SwitchHook = fn(before: ActivityId, after: ActivityId) -> ActivityId;

mod place {
    use super::SwitchHook;
    use core::sync::atomic::{AtomicU32, Ordering};
    use gyre_object::{Installed, per_instance};

    /// One line of cache per core, so that no core disturbs another.
    #[repr(align(64))]
    struct PerCore {
        activity: AtomicU32,
        resource: AtomicU32,
    }

    per_instance! {
        static CURRENT: [PerCore; gyre_machine::CORES_MAX] =
            [const { PerCore { activity: AtomicU32::new(0), resource: AtomicU32::new(0) } }; gyre_machine::CORES_MAX];
        static HOOK: Installed<SwitchHook> = Installed::new();
    }

    #[inline]
    fn here() -> &'static PerCore {
        &CURRENT[gyre_machine::core_index()]
    }

    #[inline]
    pub(super) fn get() -> (u32, u32) {
        let here = here();
        (here.activity.load(Ordering::Relaxed), here.resource.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set(activity: u32, resource: u32) {
        let here = here();
        here.activity.store(activity, Ordering::Relaxed);
        here.resource.store(resource, Ordering::Relaxed);
    }

    pub(super) fn hook() -> Option<SwitchHook> {
        HOOK.get()
    }

    /// On the machine the first one counts: an instance has one engine.
    pub(super) fn set_hook(hook: SwitchHook) {
        HOOK.set(hook);
    }
}

/// Returns the activity whose message this core handles now; infrastructure outside of any.
#[inline]
pub fn current_activity() -> ActivityId {
    ActivityId(place::get().0)
}

/// Returns the resource that handles it.
#[inline]
pub fn current_resource() -> ResourceId {
    ResourceId(place::get().1 as u8)
}

/// Both at once.
#[inline]
pub fn current() -> (ActivityId, ResourceId) {
    let (activity, resource) = place::get();
    (ActivityId(activity), ResourceId(resource as u8))
}

/// Sets both without ending a span: for the engine, which stamps by itself.
#[inline]
pub fn set_current(activity: ActivityId, resource: ResourceId) {
    place::set(activity.0, u32::from(resource.0));
}

/// For a resource that has just learned whom its work is for (demultiplexing): from here on `activity` pays. Returns who paid before.
///
/// Ends with the message; set it back before handling something else.
pub fn set_current_activity(activity: ActivityId) -> ActivityId {
    let (before, resource) = current();
    if before != activity {
        let payer = place::hook().map_or(activity, |hook| hook(before, activity));
        set_current(payer, resource);
    }
    before
}

/// Sets the payer of what belongs to a tenant as a whole (a connection): if one of its processes pays already, it goes on paying.
pub fn set_current_tenant(tenant: ActivityId) -> ActivityId {
    let before = current_activity();
    match tenant.covers(before) {
        true => before,
        false => set_current_activity(tenant),
    }
}

/// Sets who is told of such changes.
pub fn set_switch_hook(hook: SwitchHook) {
    place::set_hook(hook);
}
