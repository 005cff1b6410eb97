//! Questions to a zone: each has a token, a deadline, and answers of which none is believed.
//!
//! * A core that a zone says it gave must be the zone's in the pool, and parked.
//! * Lots must be the zone's, not more than were asked for, and none of them twice.
//! * A device must be the one that was asked for; it is reset before it counts as given.
//!
//! A zone that dies ends its questions at once. An answer that comes too late finds its token gone; the watch hands such a gift back.
//!
//! Left out: what follows from a refusal (`change.rs`).

use crate::handler::{Zones, now_ns};
use crate::slot::Slot;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use gyre_contract::zones::State;
use gyre_interface::leases::{Lots, Parts};
use gyre_interface::zone_messages::{FromZone, Reason, ToZone};
use gyre_machine::PciAddress;
use gyre_message::sleep_ns;

/// Questions of a zone that wait for answers at once.
const OPEN_MAX: usize = 8;
/// Answers of a question that wait to be read.
const ANSWERS_MAX: usize = 64;
/// How often it is looked whether a core has arrived, ns.
const LOOK_NS: u64 = 50_000;

/// The open questions of a zone.
#[derive(Default)]
pub(crate) struct Asks {
    open: Vec<(u32, VecDeque<FromZone>)>,
    last: u32,
}

impl Asks {
    fn begin(&mut self) -> Option<u32> {
        if self.open.len() >= OPEN_MAX {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        self.open.push((self.last, VecDeque::new()));
        Some(self.last)
    }

    fn end(&mut self, token: u32) {
        self.open.retain(|(known, _)| *known != token);
    }

    /// Takes an answer; false if nobody waits for it.
    pub(crate) fn answer(&mut self, token: u32, answer: FromZone) -> bool {
        let open = self.open.iter_mut().find(|(known, _)| *known == token);
        match open {
            Some((_, answers)) if answers.len() < ANSWERS_MAX => {
                answers.push_back(answer);
                true
            }
            _ => false,
        }
    }

    fn take(&mut self, token: u32) -> Option<FromZone> {
        self.open.iter_mut().find(|(known, _)| *known == token)?.1.pop_front()
    }
}

/// Why a zone did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// It said why.
    Refused(Reason),
    /// It did not answer in time.
    Late,
    /// It has ended.
    Dead,
    /// It said something that is not so.
    Lie(String),
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Failure::Refused(reason) => write!(f, "{reason}"),
            Failure::Late => f.write_str("it did not answer in time"),
            Failure::Dead => f.write_str("it has ended"),
            Failure::Lie(what) => f.write_str(what),
        }
    }
}

/// A question that is open; it is forgotten when this is dropped.
struct Question<'a> {
    slot: &'a Slot,
    token: u32,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.slot.inner.lock().asks.end(self.token);
    }
}

impl Question<'_> {
    async fn answer(&self) -> Result<FromZone, Failure> {
        let look = || {
            let mut inner = self.slot.inner.lock();
            match inner.asks.take(self.token) {
                Some(FromZone::Refused(reason)) => Some(Err(Failure::Refused(reason))),
                Some(answer) => Some(Ok(answer)),
                None if inner.known.state != State::Running => Some(Err(Failure::Dead)),
                None => None,
            }
        };
        self.slot.changed.until(look).await
    }
}

impl Zones {
    /// Puts a question to a zone.
    fn question(&self, place: usize, message: ToZone) -> Result<Question<'_>, Failure> {
        let slot = self.slots.get(place).ok_or(Failure::Dead)?;
        let token = slot.inner.lock().asks.begin().ok_or(Failure::Late)?;
        let question = Question { slot, token };
        self.machine.send(place, &message.encode(token)).map_err(|_| Failure::Late)?;
        let mut inner = slot.inner.lock();
        inner.messages = inner.messages.saturating_add(1);
        drop(inner);
        Ok(question)
    }

    /// Asks a zone for a core back; answers the one that it gave, which is parked then and has no box in the zone.
    pub(crate) async fn ask_core(&self, place: usize, wanted: Option<u32>, within_ms: u32) -> Result<u32, Failure> {
        let begun_ns = now_ns();
        let question = self.question(place, ToZone::CoreAsk { core: wanted, within_ms })?;
        within(within_ms, async {
            let core = match question.answer().await? {
                FromZone::CoreGiven(core) => core,
                other => return Err(strange(&other)),
            };
            if !self.holds(place, |parts| parts.cores.contains(&core)) {
                return Err(Failure::Lie(alloc::format!("it gave core {core}, which is not its own")));
            }
            while !self.machine.is_parked(place, core) {
                sleep_ns(LOOK_NS).await;
            }
            self.machine.remove_core(place, core).map_err(|fault| Failure::Lie(fault.0))?;
            log::info!("zone {} has given core {core} after {} us", self.name_of(place), micros(begun_ns));
            Ok(core)
        })
        .await
    }

    /// Asks a zone for lots back; answers those that it gave, which are out of its wall then.
    pub(crate) async fn ask_lots(&self, place: usize, wanted: u32, within_ms: u32) -> Result<Vec<Lots>, Failure> {
        let question = self.question(place, ToZone::LotAsk { lots: wanted, within_ms })?;
        within(within_ms, async {
            let mut given: Vec<Lots> = Vec::new();
            let mut left = wanted;
            while left > 0 {
                let run = match question.answer().await? {
                    FromZone::LotGiven { lots, .. } => lots,
                    other => return Err(strange(&other)),
                };
                if run.count > left
                    || !self.holds(place, |parts| is_within(parts, &run))
                    || given.iter().any(|one| meets(one, &run))
                {
                    return Err(Failure::Lie(
                        "it gave memory that is not its own, or more than was asked for".to_string(),
                    ));
                }
                left = left.saturating_sub(run.count);
                given.push(run);
            }
            for run in &given {
                self.machine.remove_lots(place, *run).map_err(|fault| Failure::Lie(fault.0))?;
            }
            Ok(given)
        })
        .await
    }

    /// Asks a zone for a device back; it is reset then.
    pub(crate) async fn ask_device(&self, place: usize, device: PciAddress, within_ms: u32) -> Result<(), Failure> {
        let question = self.question(place, ToZone::DeviceAsk(device))?;
        within(within_ms, async {
            match question.answer().await? {
                FromZone::DeviceGiven(given) if given == device => {}
                other => return Err(strange(&other)),
            }
            self.machine.remove_device(place, device).map_err(|fault| Failure::Lie(fault.0))
        })
        .await
    }

    /// Offers something to a zone and waits until it is in use.
    pub(crate) async fn offer(&self, place: usize, message: ToZone, within_ms: u32) -> Result<(), Failure> {
        let question = self.question(place, message)?;
        within(within_ms, async {
            match question.answer().await? {
                FromZone::Taken => Ok(()),
                other => Err(strange(&other)),
            }
        })
        .await
    }

    fn holds(&self, place: usize, what: impl FnOnce(&Parts) -> bool) -> bool {
        self.slots.get(place).is_some_and(|slot| what(&slot.inner.lock().known.parts))
    }
}

/// Returns the time since then in us.
pub(crate) fn micros(begun_ns: u64) -> u64 {
    now_ns().saturating_sub(begun_ns).checked_div(1000).unwrap_or(0)
}

fn strange(answer: &FromZone) -> Failure {
    Failure::Lie(alloc::format!("it answered with {answer:?}"))
}

async fn within<T>(ms: u32, answer: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    gyre_message::within(u64::from(ms).saturating_mul(1_000_000), answer).await.unwrap_or(Err(Failure::Late))
}

fn end(run: &Lots) -> u64 {
    run.first.saturating_add(u64::from(run.count))
}

fn meets(one: &Lots, other: &Lots) -> bool {
    one.first < end(other) && other.first < end(one)
}

fn is_within(parts: &Parts, run: &Lots) -> bool {
    parts.lots.iter().any(|own| own.first <= run.first && end(run) <= end(own))
}
