//! A tick on its way to the program: the context that runs is saved, and the scheduler's entry is called.

use super::context;
use super::vcore::Place;
use crate::run::Running;
use crate::signal::frame::enter_call;
use crate::signal::{SignalInfo, info::SI_KERNEL, number};
use crate::time::ns_to_cycles;
use crate::{Errno, Thread};
use gyre_contract::pulse::{Area, OVERRUN, PENDING, REASON_TICK};
use gyre_machine::USER_END;
use zerocopy::IntoBytes;

/// Looks at the tick that has come: it calls the scheduler, or waits behind a mask. A virtual core that cannot be told, or that masks ticks for
/// too long, ends: its thread goes on as an ordinary one, or by a signal.
pub(crate) async fn look(thread: &Thread, running: &mut Running) {
    let Some(vcore) = running.pulse.as_deref_mut() else { return };
    let (missed, place) = (vcore.take(), vcore.place);
    let looked = tick(thread, running, place, missed).await;
    let Err(error) = looked else { return };
    running.pulse = None;
    let signal = match error {
        Errno::ETIME => number::SIGXCPU,
        _ => number::SIGSEGV,
    };
    log::warn!(
        "{}: thread {} of process {} is no virtual core any more: {}",
        thread.tenant().name(),
        thread.id(),
        thread.process().id(),
        if error == Errno::ETIME { "ticks were masked for too long" } else { "its area or context cannot be written" }
    );
    thread.force(SignalInfo::new(signal, SI_KERNEL));
}

/// Does at once what [`look`] does for most ticks: the area and the context are in memory, ticks are let in, and the program has the extended
/// state. False, and no tick taken, if it is another one.
pub(crate) fn look_at_once(thread: &Thread, running: &mut Running) -> bool {
    let Running { pulse: Some(vcore), context, .. } = running else { return false };
    let place = vcore.place;
    let is_ours = place.is_resumed_by_program() && !place.is_resuming(context.registers.rip);
    let Some(mut area) = is_ours.then(|| read_at_once(thread, place.area)).flatten() else { return false };
    if area.masked != 0 || context::checked_place(area.running).is_err() {
        return false;
    }
    let before = vcore.due();
    area.missed = area.missed.wrapping_add(vcore.take());
    let (at, head) = (area.running, context::head(context));
    (area.masked, area.flags) = (1, area.flags & !PENDING);
    area.ticks = area.ticks.wrapping_add(1);
    let is_told = thread.with_space(|space| {
        space.copy_out_at_once(at, head.as_bytes()) && space.copy_out_at_once(place.area, area.as_bytes())
    });
    if !is_told {
        vcore.give_back(before);
        return false;
    }
    vcore.waits_since = None;
    enter_call(&mut context.registers, place.entry, place.stack, [place.area, REASON_TICK]);
    true
}

fn read_at_once(thread: &Thread, at: u64) -> Option<Area> {
    let mut area = Area::default();
    thread.with_space(|space| space.copy_in_at_once(at, area.as_mut_bytes())).then_some(area)
}

/// # Errors
/// ETIME: ticks are masked for longer than the limit. EFAULT, EINVAL: the area or the context is no memory of the program.
async fn tick(thread: &Thread, running: &mut Running, place: Place, missed: u64) -> Result<(), Errno> {
    let mut area: Area = thread.read_struct(place.area).await?;
    end_resumption(running, place, &mut area);
    area.missed = area.missed.wrapping_add(missed);
    if area.masked != 0 || area.running == 0 {
        return wait_behind_mask(thread, running, place, area).await;
    }
    context::checked_place(area.running)?;
    match place.is_resumed_by_program() {
        true => context::save_head(thread, running, area.running).await?,
        false => {
            let rax = running.context.registers.rax;
            context::save(thread, running, area.running, rax).await?;
        }
    }
    (area.masked, area.flags) = (1, area.flags & !PENDING);
    area.ticks = area.ticks.wrapping_add(1);
    thread.write_struct(place.area, &area).await?;
    if let Some(vcore) = running.pulse.as_deref_mut() {
        vcore.waits_since = None;
    }
    enter_call(&mut running.context.registers, place.entry, place.stack, [place.area, REASON_TICK]);
    Ok(())
}

/// Does the last instructions of a resumption by the program, if the thread is at them. True if it was.
fn end_resumption(running: &mut Running, place: Place, area: &mut Area) -> bool {
    let registers = &mut running.context.registers;
    let is_resuming = place.is_resuming(registers.rip) && area.resume < USER_END;
    if is_resuming {
        area.masked = 0;
        registers.rip = area.resume;
    }
    is_resuming
}

/// Ends a resumption before a signal's handler is called: within the handler a tick may resume another context on this virtual core.
///
/// # Errors
/// EFAULT: the area is no memory of the program.
pub(crate) async fn before_handler(thread: &Thread, running: &mut Running) -> Result<(), Errno> {
    let Some(place) = running.pulse.as_deref().map(|vcore| vcore.place) else { return Ok(()) };
    if !place.is_resuming(running.context.registers.rip) {
        return Ok(());
    }
    let mut area: Area = thread.read_struct(place.area).await?;
    match end_resumption(running, place, &mut area) {
        true => thread.write_struct(place.area, &area).await,
        false => Ok(()),
    }
}

async fn wait_behind_mask(thread: &Thread, running: &mut Running, place: Place, mut area: Area) -> Result<(), Errno> {
    let now = gyre_machine::now();
    let waited_already = area.flags & PENDING != 0;
    area.missed = area.missed.wrapping_add(u64::from(waited_already));
    let since = match running.pulse.as_deref().and_then(|vcore| vcore.waits_since) {
        Some(since) if waited_already => since,
        _ => now,
    };
    let is_over = now.saturating_sub(since) > ns_to_cycles(place.limit_ns);
    area.flags |= if is_over { PENDING | OVERRUN } else { PENDING };
    thread.write_struct(place.area, &area).await?;
    if let Some(vcore) = running.pulse.as_deref_mut() {
        vcore.waits_since = Some(since);
    }
    if is_over { Err(Errno::ETIME) } else { Ok(()) }
}
