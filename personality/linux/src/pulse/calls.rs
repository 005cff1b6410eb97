//! The native calls of virtual cores and contexts.

use super::context::{self, Checked, bytes_of, checked_place};
use super::vcore::{Place, Vcore};
use crate::run::Running;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::boxed::Box;
use gyre_contract::native::{CONTEXT_RESTORE, CONTEXT_SAVE, CONTEXT_UNMASK, PULSE, PULSE_TICK};
use gyre_contract::pulse::{Area, LIMIT_NS_MAX, PENDING, RESUMPTION_BYTES_MAX, TICK_NS_MAX, TICK_NS_MIN};
use gyre_machine::USER_END;

/// Serves a call from `PULSE` to `CONTEXT_SWITCH`.
///
/// # Errors
/// As `gyre_contract::native` says.
pub(crate) async fn serve(thread: &Thread, running: &mut Running, number: u64, a: Arguments) -> Outcome {
    match number {
        PULSE => pulse(thread, running, a).await,
        PULSE_TICK => tick(running, a.word(0)),
        CONTEXT_SAVE => {
            context::save(thread, running, checked_place(a.word(0))?, 1).await?;
            Ok(0)
        }
        CONTEXT_RESTORE => {
            let [at, how, ..] = a.0;
            let read = context::read(thread, running, at).await?;
            restore(thread, running, (at, how), read).await
        }
        _ => switch(thread, running, a).await,
    }
}

async fn pulse(thread: &Thread, running: &mut Running, a: Arguments) -> Outcome {
    let [area, entry, stack, limit_ns, begin, end] = a.0;
    if area == 0 {
        running.pulse = None;
        return Ok(0);
    }
    let place = Place { area, entry, stack, limit_ns, resumption: checked_resumption(begin, end)? };
    let is_user = |address: u64| address != 0 && address < USER_END;
    let is_possible = is_user(area) && is_user(entry) && is_user(stack) && area.is_multiple_of(8);
    if !is_possible || limit_ns == 0 || limit_ns > LIMIT_NS_MAX {
        return Err(Errno::EINVAL);
    }
    let room = bytes_of(&running.context)?;
    let before: Area = thread.read_struct(area).await?;
    thread.write_struct(area, &Area { flags: 0, ..before }).await?;
    running.pulse = Some(Box::new(Vcore::new(place, room)));
    Ok(0)
}

/// # Errors
/// EINVAL: no such instructions.
fn checked_resumption(begin: u64, end: u64) -> Result<(u64, u64), Errno> {
    match end.checked_sub(begin) {
        _ if begin == 0 => Ok((0, 0)),
        Some(bytes) if bytes <= RESUMPTION_BYTES_MAX && end < USER_END => Ok((begin, end)),
        _ => Err(Errno::EINVAL),
    }
}

fn tick(running: &mut Running, period_ns: u64) -> Outcome {
    let vcore = running.pulse.as_deref_mut().ok_or(Errno::ESRCH)?;
    if period_ns != 0 && !(TICK_NS_MIN..=TICK_NS_MAX).contains(&period_ns) {
        return Err(Errno::EINVAL);
    }
    vcore.set_period(period_ns);
    Ok(0)
}

async fn switch(thread: &Thread, running: &mut Running, a: Arguments) -> Outcome {
    let [into, from, how, ..] = a.0;
    let into = checked_place(into)?;
    let read = context::read(thread, running, from).await?;
    check(running, how)?;
    context::save(thread, running, into, 0).await?;
    restore(thread, running, (from, how), read).await
}

/// # Errors
/// EINVAL: no such way. ESRCH: ticks of a thread that is no virtual core.
fn check(running: &Running, how: u64) -> Result<(), Errno> {
    match how {
        0 => Ok(()),
        CONTEXT_UNMASK if running.pulse.is_some() => Ok(()),
        CONTEXT_UNMASK => Err(Errno::ESRCH),
        _ => Err(Errno::EINVAL),
    }
}

async fn restore(thread: &Thread, running: &mut Running, (at, how): (u64, u64), read: Checked) -> Outcome {
    check(running, how)?;
    if let Some(vcore) = running.pulse.as_deref_mut().filter(|_| how == CONTEXT_UNMASK) {
        let mut area: Area = thread.read_struct(vcore.place.area).await?;
        let waits = area.flags & PENDING != 0;
        (area.masked, area.running, area.flags) = (0, at, area.flags & !PENDING);
        thread.write_struct(vcore.place.area, &area).await?;
        vcore.waits_since = None;
        if waits {
            vcore.call();
        }
    }
    read.restore(&mut running.context);
    Ok(read.answer())
}
