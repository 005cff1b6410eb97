//! The task that looks after a zone: its messages, its console, its life, its end, and its next instance.
//!
//! It works in the zone's name, so a zone that keeps it busy pays for that. In a round it takes some messages and some of the console, then
//! looks at the zone's life; after some rounds without a pause it makes one. So a zone that floods delays no other one.
//!
//! An instance that ends by itself is put down here, unless a change that is at the zone's work does so. If the rule of restart says so, the
//! next one is made in the parts of the last, after a pause that grows with each crash at once.
//!
//! Left out: when a zone counts as dead (`life.rs`), how an instance is made and ended (`build.rs`).

use crate::handler::{Zones, now_ns};
use crate::life::{Verdict, is_made_again};
use crate::slot::Presence;
use crate::views::{Adjustment, stood_ns};
use crate::wishes::Wished;
use alloc::string::{String, ToString};
use gyre_contract::last_words::LastWords;
use gyre_contract::zones::{Cause, Deed, Refusal, State};
use gyre_interface::leases::Parts;
use gyre_interface::zone_messages::{FromZone, ToZone};
use gyre_interface::zones::By;
use gyre_message::wait::Either;
use gyre_message::{select, sleep_ns, yield_now};

/// Messages that are taken before others of the supervisor have their turn.
const MESSAGES_MAX: usize = 64;
/// Bytes of the console that are taken then.
const CONSOLE_BYTES_MAX: usize = 4096;
/// Turns of looking after each other before a pause: a zone that floods gets this much, and no more.
const ROUNDS_MAX: u32 = 16;
/// The pause, ns.
const PAUSE_NS: u64 = 1_000_000;
/// Longest and shortest time between two looks at a zone that lives, ns.
const LOOK_NS_MAX: u64 = 100_000_000;
const LOOK_NS_MIN: u64 = 1_000_000;
/// How often a zone is asked for its figures, ns.
const FIGURES_NS: u64 = 1_000_000_000;
/// The token of questions whose answer nobody waits for.
const NO_TOKEN: u32 = 0;

/// Whether a zone has more to be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Quiet,
    More,
}

impl Zones {
    /// Looks after a zone for ever.
    pub(crate) async fn watch(&'static self, place: usize) {
        let Some(slot) = self.slots.get(place) else { return };
        let mut rounds = 0;
        loop {
            let rung = slot.rung.wait();
            let is_there = || slot.inner.lock().presence == Presence::There;
            if self.round(place).await == Load::More || is_there() && !self.machine.may_sleep(place) {
                rounds = u32::saturating_add(rounds, 1);
                match rounds < ROUNDS_MAX {
                    true => yield_now().await,
                    false => {
                        rounds = 0;
                        sleep_ns(PAUSE_NS).await;
                    }
                }
                continue;
            }
            rounds = 0;
            match self.pause_ns(place) {
                Some(pause) => match select(rung, sleep_ns(pause)).await {
                    Either::First(()) | Either::Second(()) => {}
                },
                None => rung.await,
            }
        }
    }

    /// Returns how long a zone may go without a look; `None` if only a change of its state is of interest.
    fn pause_ns(&self, place: usize) -> Option<u64> {
        let slot = self.slots.get(place)?;
        let inner = slot.inner.lock();
        let now = now_ns();
        if inner.known.lives() {
            let look = (slot.patience_ns() / 4).clamp(LOOK_NS_MIN, LOOK_NS_MAX);
            return Some(look.min(inner.signs.silent_at(slot.patience_ns()).saturating_sub(now).max(LOOK_NS_MIN)));
        }
        inner.again_ns.map(|again| again.saturating_sub(now))
    }

    async fn round(&'static self, place: usize) -> Load {
        let Some(slot) = self.slots.get(place) else { return Load::Quiet };
        if slot.inner.lock().presence == Presence::There {
            let messages = self.take_messages(place).await;
            let console = self.take_console(place);
            self.judge(place).await;
            self.want_figures(place);
            return if messages == Load::More || console == Load::More { Load::More } else { Load::Quiet };
        }
        let is_due = slot.inner.lock().again_ns.is_some_and(|again| again <= now_ns());
        if is_due {
            self.begin_again(place).await;
        }
        Load::Quiet
    }

    async fn take_messages(&'static self, place: usize) -> Load {
        let Some(slot) = self.slots.get(place) else { return Load::Quiet };
        for _ in 0..MESSAGES_MAX {
            let Some(message) = self.machine.receive(place) else { return Load::Quiet };
            {
                let mut inner = slot.inner.lock();
                inner.messages = inner.messages.saturating_add(1);
            }
            match FromZone::decode(&message) {
                Some(FromZone::Figures(figures)) => {
                    let lease = self.lease_of(place).await;
                    let mut inner = slot.inner.lock();
                    (inner.own, inner.lease_said) = (Some(figures), lease.saturating_sub(inner.lease_begun));
                }
                // Its token is the zone's, not one of ours.
                Some(FromZone::Wish { to, deed, cores, lots }) => {
                    self.wished(place, message.token, &Wished { to: to.to_string(), deed, cores, lots });
                }
                Some(answer) => {
                    let is_expected = slot.inner.lock().asks.answer(message.token, answer);
                    match is_expected {
                        true => slot.changed.wake_all(),
                        false => self.stray(place, answer).await,
                    }
                }
                None => {}
            }
        }
        Load::More
    }

    /// Sees to a message that is no answer to an open question: a gift that came too late goes back.
    async fn stray(&self, place: usize, message: FromZone) {
        let Some(slot) = self.slots.get(place) else { return };
        let holds = |what: &dyn Fn(&Parts) -> bool| what(&slot.inner.lock().known.parts);
        match message {
            FromZone::CoreGiven(core) if holds(&|parts| parts.cores.contains(&core)) => {
                if let (true, Ok(slot)) = (self.machine.is_parked(place, core), self.machine.add_core(place, core)) {
                    let _ = self.machine.send(place, &ToZone::CoreOffer { core, slot }.encode(NO_TOKEN));
                }
            }
            FromZone::LotGiven { lots, .. } => {
                let given = Parts { lots: alloc::vec![lots], ..Parts::default() };
                if holds(&|parts| given.without(parts).is_empty()) {
                    let _ = self.machine.send(place, &ToZone::LotOffer { lots, left: 0 }.encode(NO_TOKEN));
                }
            }
            FromZone::DeviceGiven(device) if holds(&|parts| parts.devices.contains(&device)) => {
                let _ = self.machine.send(place, &ToZone::DeviceOffer(device).encode(NO_TOKEN));
            }
            _ => {}
        }
    }

    fn take_console(&self, place: usize) -> Load {
        let Some(slot) = self.slots.get(place) else { return Load::Quiet };
        let from = slot.inner.lock().console_at;
        let (position, bytes) = self.machine.printed(place, from, CONSOLE_BYTES_MAX);
        let lines = {
            let mut inner = slot.inner.lock();
            inner.tail.skip(position.saturating_sub(from));
            inner.console_at = position.saturating_add(bytes.len() as u64);
            inner.tail.add(&bytes)
        };
        // The owner reads a zone's console by itself; here it is for who looks for an error of both.
        lines.iter().for_each(|line| log::debug!("{}: {line}", slot.name()));
        if bytes.len() < CONSOLE_BYTES_MAX { Load::Quiet } else { Load::More }
    }

    /// Asks an instance for its figures once it stands, and from then on each second.
    fn want_figures(&self, place: usize) {
        let Some(slot) = self.slots.get(place) else { return };
        let now = now_ns();
        {
            let mut inner = slot.inner.lock();
            let is_early = inner.figures_asked_ns.is_some_and(|asked| now.saturating_sub(asked) < FIGURES_NS);
            if inner.known.state != State::Running || is_early {
                return;
            }
            inner.figures_asked_ns = Some(now);
        }
        // A zone with a full ring is asked again the next time.
        let _ = self.machine.send(place, &ToZone::FiguresAsk.encode(NO_TOKEN));
    }

    async fn judge(&self, place: usize) {
        let Some(slot) = self.slots.get(place) else { return };
        let life = self.machine.life(place);
        let broke_out = self.machine.broke_out(place);
        let verdict = {
            let mut inner = slot.inner.lock();
            match (inner.known.lives(), broke_out) {
                (false, _) => Verdict::Same,
                (true, Some(cause)) => Verdict::Dead(cause),
                (true, None) => inner.signs.look(life, slot.patience_ns(), now_ns()),
            }
        };
        match verdict {
            Verdict::Same => {}
            Verdict::Stood => {
                let mut inner = slot.inner.lock();
                let stood = stood_ns(life.stood_cycle, inner.begun_ns);
                (inner.stood_ns, inner.start_ns) = (Some(stood), stood.saturating_sub(inner.begun_ns));
                let is_booting = inner.known.state == State::Booting;
                drop(inner);
                if is_booting {
                    slot.set_state(State::Running);
                }
            }
            Verdict::Ended(code) => self.bury(place, State::Ended { code }).await,
            Verdict::Dead(cause) => self.bury(place, State::Crashed { cause }).await,
        }
    }

    /// Notes the end of an instance, and sees to its parts, unless a change does so first.
    async fn bury(&self, place: usize, state: State) {
        let Some(slot) = self.slots.get(place) else { return };
        let begun_ns = now_ns();
        let was_asked = slot.state() == State::Ending;
        let instance = slot.inner.lock().created;
        if let State::Crashed { cause } = &state {
            {
                let mut inner = slot.inner.lock();
                inner.crashed = inner.crashed.saturating_add(1);
                inner.last_words = LastWords::default();
            }
            self.hear_last_words(place, *cause);
        }
        for _ in 0..ROUNDS_MAX {
            // The ring of a zone is smaller than this.
            if self.take_console(place) == Load::Quiet {
                break;
            }
            yield_now().await;
        }
        slot.set_state(state.clone());
        // A change that ends the zone, or fails with it, is at its work and sees to it; it may go on to wait for the next instance.
        let is_seen_to = || {
            let inner = slot.inner.lock();
            inner.presence == Presence::Gone || inner.created != instance
        };
        let seen_to = slot.changed.until(|| is_seen_to().then_some(()));
        let alone = match select(core::pin::pin!(slot.work.begin()), seen_to).await {
            Either::First(alone) => Some(alone).filter(|_| !is_seen_to()),
            Either::Second(()) => None,
        };
        let is_crash = matches!(state, State::Crashed { .. });
        let deed = if is_crash { Deed::Crash } else { Deed::Destroy };
        let end = |parts: Parts, to: String| Adjustment { deed, parts, from: slot.name(), to };
        let Some(_alone) = alone else {
            if is_crash {
                // Its parts are in the records of that change.
                self.record_end(place, end(Parts::default(), slot.name()), begun_ns, Ok(()));
            }
            return;
        };
        self.refresh().await;
        let parts = slot.known().parts;
        let put_down = self.put_down(place).await;
        let result = put_down.clone().map_err(|fault| Refusal::Machine { why: fault.0 });
        let restarts = put_down.is_ok() && !was_asked && is_made_again(slot.described().zone.restart, &state);
        if restarts {
            let mut inner = slot.inner.lock();
            let stood = inner.stood_ns.map_or(0, |stood| begun_ns.saturating_sub(stood));
            let pause = inner.backoff.pause_ns(stood);
            inner.again_ns = Some(now_ns().saturating_add(if is_crash { pause } else { pause.max(LOOK_NS_MIN) }));
        } else {
            self.give_up(place).await;
        }
        let to = if restarts { slot.name() } else { "free".to_string() };
        self.record_end(place, end(parts, to), begun_ns, result);
        slot.rung.wake_all();
    }

    /// Takes the last words of an instance that crashed, as far as they can be had yet.
    pub(crate) fn hear_last_words(&self, place: usize, cause: Cause) {
        let Some(slot) = self.slots.get(place) else { return };
        let heard = words(cause, &self.machine.last_words(place));
        let before = core::mem::replace(&mut slot.inner.lock().last_words, heard.clone());
        if heard != before {
            log::error!("zone {} is dead: {heard}", slot.name());
        }
    }

    /// Makes the next instance of a zone that ended by itself, in the parts that it has.
    async fn begin_again(&self, place: usize) {
        let Some(slot) = self.slots.get(place) else { return };
        let _alone = slot.work.begin().await;
        let begun_ns = now_ns();
        let is_due = {
            let mut inner = slot.inner.lock();
            let is_due = inner.known.waits() && inner.again_ns.is_some();
            inner.again_ns = None;
            is_due
        };
        if !is_due {
            return;
        }
        let result = self.begin(place).await;
        if let Err(refusal) = &result {
            log::error!("zone {} cannot be made again: {refusal:?}", slot.name());
            let mut inner = slot.inner.lock();
            let pause = inner.backoff.pause_ns(0);
            inner.again_ns = Some(now_ns().saturating_add(pause));
        }
        let (parts, name) = (slot.known().parts, slot.name());
        let made = Adjustment { deed: Deed::Create, parts, from: name.clone(), to: name };
        self.record(made, By::Supervisor, begun_ns, result);
    }
}

/// Returns the last words of a crash: its cause, then what was said.
fn words(cause: Cause, said: &LastWords) -> LastWords {
    let what = match cause {
        Cause::Panic => "its kernel panicked",
        Cause::Silence => "it gave no sign of life",
        Cause::Violation => "it left its wall",
        Cause::Shutdown => "its core shut down",
    };
    match said.words.as_str() {
        "" => LastWords::new(what, &said.trace),
        more => LastWords::new(&alloc::format!("{what}: {more}"), &said.trace),
    }
}
