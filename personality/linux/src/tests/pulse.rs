//! Virtual cores: ticks, masks, contexts, hand-over.

use super::script::*;
use crate::Process;
use gyre_contract::native::{
    CONTEXT_RESTORE, CONTEXT_SAVE, CONTEXT_SWITCH, CONTEXT_UNMASK, HAND_OVER, PULSE, PULSE_TICK,
};
use gyre_contract::pulse::{Area, CONTEXT_MAGIC, Context, OVERRUN, PENDING, REASON_TICK};
use gyre_machine::Trap;
use gyre_message::direct::block_on;

const NANOSLEEP: u64 = 35;
const AREA: u64 = DATA + 0x100;
const RUNNING: u64 = DATA + 0x1000;
const OTHER: u64 = DATA + 0x2000;
const TIME: u64 = DATA + 0x200;
/// A short sleep, so that the test sees the area before the end.
const SHORT: u64 = DATA + 0x240;
const UPCALL_STACK: u64 = DATA + 0x8000;
/// The step at which the scheduler's entry stands.
const ENTRY: usize = 20;
const MS: u64 = 1_000_000;
const EINVAL: i64 = -22;
const ESRCH: i64 = -3;
const EFAULT: i64 = -14;

fn pad(script: &mut Script, to: usize) {
    while script.here() < to {
        script.exit(99);
    }
}

/// A program that becomes a virtual core with a tick each millisecond, and masks that are bounded to 5 ms.
fn ticking() -> Script {
    let mut script = Script::default();
    script.call(PULSE, &[AREA, address_of(ENTRY), UPCALL_STACK, 5 * MS]).expect(0);
    script.call(PULSE_TICK, &[MS]).expect(0);
    script
}

/// Runs a script whose first context is to be saved at [`RUNNING`], with 1.5 ms for [`NANOSLEEP`].
fn end(script: Script, masked: u32) -> (i32, Area) {
    end_with(script, Area { masked, running: RUNNING, ..Area::default() })
}

fn end_with(script: Script, area: Area) -> (i32, Area) {
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        process.space().write_struct(AREA, &area).await.unwrap();
        process.space().write_struct(TIME, &[0u64, 1_500_000]).await.unwrap();
        process.space().write_struct(SHORT, &[0u64, 100_000]).await.unwrap();
        let mut last = area;
        while !process.threads.lock().is_empty() {
            gyre_message::sleep_ns(10_000).await;
            last = process.space().read_struct(AREA).await.unwrap_or(last);
        }
        (process.end_status().unwrap(), last)
    })
}

fn sleep(script: &mut Script) {
    script.call(NANOSLEEP, &[TIME, 0]);
}

#[test]
fn a_tick_calls_the_scheduler_and_the_context_goes_on_as_it_was() {
    let mut script = ticking();
    script.step(|registers| {
        (registers.rbx, registers.r15) = (11, 15);
        set_arguments(registers, NANOSLEEP, &[TIME, 0]);
        Some(Trap::SystemCall)
    });
    script.step(|registers| {
        assert_eq!((registers.rax, registers.rbx, registers.r15), (0, 11, 15));
        assert_eq!(registers.rsp, STACK);
        None
    });
    script.call(NANOSLEEP, &[SHORT, 0]).exit(1);
    pad(&mut script, ENTRY);
    script.step(|registers| {
        assert_eq!((registers.rdi, registers.rsi), (AREA, REASON_TICK));
        assert_eq!(registers.rsp, UPCALL_STACK - 8);
        (registers.rbx, registers.r15) = (0, 0);
        None
    });
    script.call(CONTEXT_RESTORE, &[RUNNING, CONTEXT_UNMASK]).exit(99);
    let (status, area) = end(script, 0);
    assert_eq!(status, 1 << 8);
    assert_eq!((area.masked, area.ticks, area.missed, area.flags), (0, 1, 0, 0));
}

/// A program that resumes contexts by itself: its last instructions are those after its first sleep.
fn resuming() -> Script {
    let mut script = Script::default();
    let (begin, end) = (address_of(5), address_of(6));
    script.call(PULSE, &[AREA, address_of(ENTRY), UPCALL_STACK, 5 * MS, begin, end]).expect(0);
    script.call(PULSE_TICK, &[MS]).expect(0);
    sleep(&mut script);
    assert_eq!(script.here(), 5);
    script
}

#[test]
fn a_tick_in_the_last_instructions_of_a_resumption_finds_the_context_resumed() {
    let mut script = resuming();
    script.exit(99);
    pad(&mut script, ENTRY);
    script.step(|registers| {
        assert_eq!((registers.rdi, registers.rsi), (AREA, REASON_TICK));
        None
    });
    script.call(CONTEXT_RESTORE, &[RUNNING, CONTEXT_UNMASK]).exit(99);
    pad(&mut script, 30);
    script.call(NANOSLEEP, &[SHORT, 0]).exit(4);
    let area = Area { masked: 1, running: RUNNING, resume: address_of(30), ..Area::default() };
    let (status, area) = end_with(script, area);
    assert_eq!(status, 4 << 8);
    assert_eq!((area.masked, area.ticks, area.flags), (0, 1, 0));
}

#[test]
fn a_resumption_to_no_address_of_a_program_waits_as_masked() {
    let mut script = resuming();
    script.exit(5);
    let area = Area { masked: 1, running: RUNNING, resume: u64::MAX, ..Area::default() };
    assert_eq!(end_with(script, area).0, 5 << 8);
}

#[test]
fn a_tick_waits_behind_a_mask_and_comes_when_it_is_taken_away() {
    let mut script = ticking();
    script.call(CONTEXT_SAVE, &[OTHER]).jump_if_zero(|| 10).exit(99);
    pad(&mut script, 10);
    sleep(&mut script);
    script.call(CONTEXT_RESTORE, &[OTHER, CONTEXT_UNMASK]);
    pad(&mut script, ENTRY);
    script.step(|registers| {
        assert_eq!(registers.rdi, AREA, "the tick comes before the context's next step");
        None
    });
    script.call(NANOSLEEP, &[SHORT, 0]).exit(2);
    let (status, area) = end(script, 1);
    assert_eq!(status, 2 << 8);
    assert_eq!((area.masked, area.ticks, area.flags & PENDING), (1, 1, 0));
    assert_eq!(area.running, OTHER);
}

#[test]
fn who_masks_ticks_for_ever_gets_a_signal_and_no_ticks_any_more() {
    let mut script = ticking();
    (0..8).for_each(|_| sleep(&mut script));
    script.exit(0);
    let (status, area) = end(script, 1);
    assert_eq!(status, 24, "SIGXCPU");
    // The last look of this test may have come before the end.
    assert!(area.flags == PENDING || area.flags == PENDING | OVERRUN, "{area:?}");
    assert!(area.missed >= 3, "{area:?}");
}

#[test]
fn short_masks_are_no_overrun() {
    let mut script = ticking();
    for _ in 0..8 {
        sleep(&mut script);
        // It begins anew: nothing waits.
        script.call(PULSE, &[AREA, address_of(ENTRY), UPCALL_STACK, 5 * MS]).expect(0);
        script.call(PULSE_TICK, &[MS]).expect(0);
    }
    script.exit(3);
    assert_eq!(end(script, 1).0, 3 << 8);
}

#[test]
fn a_place_that_is_no_memory_ends_by_a_signal() {
    let mut script = ticking();
    sleep(&mut script);
    script.exit(0);
    let status = block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        let area = Area { running: 0x7000_0000_0000, ..Area::default() };
        process.space().write_struct(AREA, &area).await.unwrap();
        process.space().write_struct(TIME, &[0u64, 1_500_000]).await.unwrap();
        end_of(&process).await
    });
    assert_eq!(status, 11);
}

async fn write_context(process: &Process, change: impl FnOnce(&mut Context)) {
    let mut context = Context { magic: CONTEXT_MAGIC, rip: address_of(30), rflags: 0x202, ..Context::default() };
    context.low[7] = STACK;
    change(&mut context);
    process.space().write_struct(OTHER, &context).await.unwrap();
}

/// The answer of restoring a context that a program has filled in; 100 if it runs.
fn restored(change: impl FnOnce(&mut Context), how: u64) -> i64 {
    let mut script = Script::default();
    script.call(CONTEXT_RESTORE, &[OTHER, how]).step(|registers| {
        let code = registers.rax.wrapping_neg();
        set_arguments(registers, 231, &[code]);
        Some(Trap::SystemCall)
    });
    pad(&mut script, 30);
    script.step(|registers| {
        // Flags that only a kernel may set are gone: IOPL, NT, VM; IF is set.
        assert_eq!(registers.rflags & 0x2_7200, 0x200);
        None
    });
    script.exit(100);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        write_context(&process, change).await;
        let code = i64::from(end_of(&process).await >> 8);
        if code == 100 { 100 } else { -code }
    })
}

#[test]
fn wild_contexts_are_refused_and_tame_ones_run() {
    assert_eq!(restored(|_| {}, 0), 100);
    assert_eq!(restored(|context| context.rflags = u64::MAX & !0x100, 0), 100);
    assert_eq!(restored(|context| context.rip = 0xffff_8000_0000_0000, 0), EINVAL);
    assert_eq!(restored(|context| context.rip = 0x8000_0000_0000, 0), EINVAL);
    assert_eq!(restored(|context| context.low[7] = 0xffff_ffff_8000_0000, 0), EINVAL);
    assert_eq!(restored(|context| context.magic = 0, 0), EINVAL);
    assert_eq!(restored(|context| context.extended_bytes = u64::MAX, 0), EINVAL);
    assert_eq!(restored(|context| context.reserved[3] = 1, 0), EINVAL);
    assert_eq!(restored(|_| {}, 7), EINVAL);
    assert_eq!(restored(|_| {}, CONTEXT_UNMASK), ESRCH, "it is no virtual core");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let mut script = Script::default();
    let entry = address_of(ENTRY);
    script.call(PULSE_TICK, &[MS]).expect(ESRCH);
    script.call(PULSE, &[AREA + 4, entry, UPCALL_STACK, MS]).expect(EINVAL);
    script.call(PULSE, &[u64::MAX & !7, entry, UPCALL_STACK, MS]).expect(EINVAL);
    script.call(PULSE, &[0x7000_0000_0000, entry, UPCALL_STACK, MS]).expect(EFAULT);
    script.call(PULSE, &[AREA, 0, UPCALL_STACK, MS]).expect(EINVAL);
    script.call(PULSE, &[AREA, entry, u64::MAX, MS]).expect(EINVAL);
    script.call(PULSE, &[AREA, entry, UPCALL_STACK, 0]).expect(EINVAL);
    script.call(PULSE, &[AREA, entry, UPCALL_STACK, u64::MAX]).expect(EINVAL);
    script.call(PULSE, &[AREA, entry, UPCALL_STACK, MS, 64, 63]).expect(EINVAL);
    script.call(PULSE, &[AREA, entry, UPCALL_STACK, MS, 64, 129]).expect(EINVAL);
    script.call(PULSE, &[AREA, entry, UPCALL_STACK, MS, u64::MAX - 1, u64::MAX]).expect(EINVAL);
    script.call(PULSE, &[AREA, entry, UPCALL_STACK, MS, 0, 0]).expect(0);
    script.call(PULSE_TICK, &[1]).expect(EINVAL);
    script.call(PULSE_TICK, &[u64::MAX]).expect(EINVAL);
    script.call(PULSE_TICK, &[0]).expect(0);
    script.call(PULSE, &[0]).expect(0).call(PULSE_TICK, &[MS]).expect(ESRCH);
    script.call(CONTEXT_SAVE, &[OTHER + 8]).expect(EINVAL).call(CONTEXT_SAVE, &[0x7000_0000_0000]).expect(EFAULT);
    script.call(CONTEXT_RESTORE, &[0, 0]).expect(EINVAL).call(CONTEXT_RESTORE, &[0x7000_0000_0000, 0]).expect(EFAULT);
    script.call(CONTEXT_SWITCH, &[RUNNING, OTHER, 0]).expect(EINVAL);
    script.call(HAND_OVER, &[77]).expect(ESRCH).call(HAND_OVER, &[1]).expect(0);
    script.exit(0);
    assert_eq!(run(script), 0);
}

#[test]
fn a_context_is_saved_and_comes_back_with_one() {
    let mut script = Script::default();
    script.call(CONTEXT_SAVE, &[OTHER]).jump_if_zero(|| 10).expect(1).exit(5);
    pad(&mut script, 10);
    script.call(CONTEXT_SWITCH, &[RUNNING, OTHER, 0]).exit(99);
    assert_eq!(run(script), 5 << 8);
}
