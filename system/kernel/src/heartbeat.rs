//! A zone's life, as its supervisor sees it: the kernel says that it stands, then that it is alive, and looks whether it shall end.
//!
//! A beat is a notice that a timer of the first core sends, so it comes in its turn as the infrastructure's work. It stops by itself if that
//! core hangs or starves; if another core hangs, the beat is left out. The supervisor then takes the zone for dead.

use crate::ending;
use crate::kernel::Kernel;
use crate::zones::home;
use alloc::boxed::Box;
use gyre_account::ResourceId;
use gyre_engine::{NoticeRoute, Ticks};
use gyre_machine::Events;

/// Time between two beats, ms: a little less than the 100 ms that the supervisor is promised, as a beat may wait for its turn.
const BEAT_MS: u64 = 90;
/// Time that programs have to end when the supervisor asks, ms.
const GRACE_MS: u64 = 1000;
const ROUTE: NoticeRoute = NoticeRoute { from: ResourceId::RUNTIME, to: ResourceId::RUNTIME, core: 0 };

/// Says that the instance stands, and goes on saying that it lives. An instance that is no zone has nobody to tell.
pub fn start(kernel: &'static Kernel) {
    if gyre_x86_64::zone_page().is_none() {
        return;
    }
    gyre_x86_64::tell_standing();
    let engine = kernel.base.engine;
    let ticks: &'static Ticks = Box::leak(Box::default());
    ticks.set_notice(engine.notice(ROUTE, move || ticks.on_tick(|| Some(beat(kernel)))));
    ticks.note_request();
    let agent = home::start(kernel);
    let rung = engine.notice(ROUTE, move || {
        look(kernel);
        agent.iter().for_each(|agent| agent.ring());
    });
    engine.on_event(ROUTE.core, Events::BELL.trailing_zeros(), Box::new(move || rung.send()));
}

/// Beats if all cores get on with their work; returns after how many cycles the next beat follows.
fn beat(kernel: &'static Kernel) -> u64 {
    if !kernel.base.engine.has_stuck_core() {
        gyre_x86_64::beat();
    }
    look(kernel);
    gyre_x86_64::cycles_per_ms().saturating_mul(BEAT_MS)
}

/// Ends the instance in order if the supervisor asks for it.
fn look(kernel: &'static Kernel) {
    if gyre_x86_64::supervisor_asks_to_end() {
        ending::begin(kernel, GRACE_MS);
    }
}
