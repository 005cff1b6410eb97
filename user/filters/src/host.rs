//! The filters of a service, and who of them runs next.
//!
//! The choice is a policy of `gyre_schedulers`, the one that the kernel uses for tenants: a filter is a client with a share, charged with
//! the processor time that its turns took. So another policy is another name.
//!
//! States of a filter: new, waiting for events, ready, ended with a reason. Its program runs in turns of [`Options::turn`]; one that
//! is in the middle of an event when its turn ends goes on there in its next turn. It is ended, and its reason kept, if its program fails,
//! takes more memory than it may, works longer than [`Options::event_ns_max`] for one event, or stays away from its hook for longer than
//! [`STEP_MAX`] again and again ([`Steps`]).
//!
//! Everything happens in the thread of the service.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use gyre_schedulers::{ClientParams, CorePolicy, Metric, Record, Setup, list};

use crate::{
    event::{Event, Mailbox},
    fiber::{Fiber, Go, Step},
    language::{self, Language, Limits},
    turn,
};

/// Filters of a service at most, ended ones included.
pub const FILTERS_MAX: usize = 4096;
/// The largest share.
pub const SHARE_MAX: u32 = 10_000;
/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 48;
/// A step between two looks of a hook is long if it takes so long beyond the turn.
pub const STEP_MAX: Duration = Duration::from_millis(250);
/// Long steps in a filter's last 16 turns that end it. One may be the machine's: a host that takes its processor away makes a step long.
const LONG_STEPS_MAX: u32 = 3;

/// How a service treats its filters.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of a policy.
    pub policy: String,
    /// The length of a turn.
    pub turn: Duration,
    /// The most processor time for one event, ns.
    pub event_ns_max: u64,
    /// The bounds of each program.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            policy: list::usual().name.to_owned(),
            turn: Duration::from_micros(200),
            event_ns_max: 10_000_000_000,
            limits: Limits::default(),
        }
    }
}

/// The words that a filter's own stack and the service share.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) limits: Limits,
    /// Processor time of the event that it works on, ns.
    pub(crate) event_ns: Cell<u64>,
    pub(crate) held_bytes: Cell<u64>,
    /// It waits for no event: it loads, or works on one.
    pub(crate) is_busy: Cell<bool>,
}

/// A filter to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Upload {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The language of its program.
    pub language: Language,
    /// Its share beside the others, 1 to [`SHARE_MAX`].
    pub share: u32,
    /// Its program.
    pub source: Vec<u8>,
}

/// The last 16 turns of a filter, a bit each: 1 for one with a long step.
#[derive(Clone, Copy, Default)]
struct Steps(u16);

impl Steps {
    /// Notes a turn; true if long ones have become too many.
    fn note(&mut self, took_ns: u64, turn: Duration) -> bool {
        let long_ns = u64::try_from((turn + STEP_MAX).as_nanos()).unwrap_or(u64::MAX);
        self.0 = self.0 << 1 | u16::from(took_ns > long_ns);
        self.0.count_ones() >= LONG_STEPS_MAX
    }
}

/// A filter.
pub struct Filter {
    name: String,
    language: Language,
    share: u32,
    mailbox: Rc<Mailbox>,
    seat: Rc<Seat>,
    fiber: Option<Fiber>,
    used_ns: u64,
    turns: u64,
    steps: Steps,
    ended: Option<String>,
}

/// A filter's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Its name.
    pub name: String,
    /// Its language.
    pub language: Language,
    /// Its share.
    pub share: u32,
    /// Processor time that it used, ns.
    pub used_ns: u64,
    /// Turns that it had.
    pub turns: u64,
    /// Memory that it holds, bytes; 0 if its language does not say.
    pub held_bytes: u64,
    /// Events that it took.
    pub taken: u64,
    /// Events that found its queue full.
    pub lost: u64,
    /// Events that it emitted.
    pub emitted: u64,
    /// Why it has ended.
    pub ended: Option<String>,
}

impl Filter {
    fn figures(&self) -> Figures {
        Figures {
            name: self.name.clone(),
            language: self.language,
            share: self.share,
            used_ns: self.used_ns,
            turns: self.turns,
            held_bytes: self.seat.held_bytes.get(),
            taken: self.mailbox.taken.get(),
            lost: self.mailbox.lost.get(),
            emitted: self.mailbox.emitted.get(),
            ended: self.ended.clone(),
        }
    }

    /// Returns why it must end after a turn that took so long.
    fn excess(&mut self, took_ns: u64, options: &Options) -> Option<String> {
        if self.steps.note(took_ns, options.turn) {
            let took_ms = took_ns / 1_000_000;
            return Some(format!(
                "it held the service for long in one step {LONG_STEPS_MAX} times, last for {took_ms} ms"
            ));
        }
        let is_endless = self.seat.event_ns.get() > options.event_ns_max;
        is_endless.then(|| format!("more than {} ms for one event", options.event_ns_max / 1_000_000))
    }
}

/// The filters of a service.
pub struct Host {
    options: Options,
    policy: Box<dyn CorePolicy>,
    filters: Vec<Option<Filter>>,
    began: Instant,
    mark_ns: u64,
    own_ns: u64,
}

impl Host {
    /// Makes a service without filters.
    ///
    /// # Errors
    /// No policy has that name.
    pub fn new(options: Options) -> Result<Host, String> {
        let listed = list::find(&options.policy).ok_or_else(|| format!("no policy is called {:?}", options.policy))?;
        let policy = (listed.build)(&Setup { metric: Metric::Cycles, ..Setup::default() }).init_core(0);
        let (began, mark_ns) = (Instant::now(), turn::used_ns());
        Ok(Host { options, policy, filters: Vec::new(), began, mark_ns, own_ns: 0 })
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds a filter; its program is loaded in its first turn.
    ///
    /// # Errors
    /// In words: a name that is none or taken, a share out of bounds, too many filters, no memory.
    pub fn add(&mut self, upload: Upload) -> Result<(), String> {
        self.check(&upload)?;
        let Upload { name, language, share, source } = upload;
        let mailbox = Rc::<Mailbox>::default();
        let seat = Rc::new(Seat { limits: self.options.limits, is_busy: true.into(), ..Seat::default() });
        let (own_mailbox, own_seat) = (mailbox.clone(), seat.clone());
        let fiber = Fiber::new(move || language::live(language, &source, &own_mailbox, &own_seat));
        let fiber = Some(fiber.map_err(|error| format!("no stack for another filter: {error}"))?);
        let index = self.filters.iter().position(Option::is_none).unwrap_or(self.filters.len());
        let (client, now_ns) = (client_of(index), self.now_ns());
        self.policy.add_client(client, &ClientParams::weighted(share), now_ns).map_err(|error| error.to_string())?;
        self.policy.client_ready(client, now_ns);
        let filter = Filter {
            name,
            language,
            share,
            mailbox,
            seat,
            fiber,
            used_ns: 0,
            turns: 0,
            steps: Steps::default(),
            ended: None,
        };
        match self.filters.get_mut(index) {
            Some(place) => *place = Some(filter),
            None => self.filters.push(Some(filter)),
        }
        Ok(())
    }

    fn check(&self, upload: &Upload) -> Result<(), String> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if upload.name.is_empty() || upload.name.len() > NAME_BYTES_MAX || !upload.name.bytes().all(is_word) {
            return Err(format!("{:?} is no name: 1 to {NAME_BYTES_MAX} letters, digits, - _ .", upload.name));
        }
        if !(1..=SHARE_MAX).contains(&upload.share) {
            return Err(format!("a share of {}: 1 to {SHARE_MAX}", upload.share));
        }
        if self.find(&upload.name).is_some() {
            return Err(format!("{} is there already", upload.name));
        }
        if self.filters.iter().flatten().count() >= FILTERS_MAX {
            return Err(format!("there are {FILTERS_MAX} filters: remove one"));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.filters.iter().position(|filter| filter.as_ref().is_some_and(|filter| filter.name == name))
    }

    /// Removes a filter, whatever it is doing.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn remove(&mut self, name: &str) -> Result<(), String> {
        let index = self.find(name).ok_or_else(|| format!("there is no {name}"))?;
        self.retire(index);
        if let Some(place) = self.filters.get_mut(index) {
            *place = None;
        }
        Ok(())
    }

    /// Gives an event to every filter that lives.
    pub fn offer(&mut self, event: Event) {
        let now_ns = self.now_ns();
        for (index, filter) in self.filters.iter().enumerate() {
            let Some(filter) = filter.as_ref().filter(|filter| filter.ended.is_none()) else { continue };
            let waited = !filter.mailbox.has_events();
            filter.mailbox.offer(event);
            if waited {
                self.policy.client_ready(client_of(index), now_ns);
            }
        }
    }

    /// Gives the next filter a turn. False if none has anything to do.
    pub fn turn(&mut self) -> bool {
        let Some(client) = self.policy.schedule(self.now_ns()) else { return false };
        let index = client as usize;
        let before_ns = turn::used_ns();
        self.own_ns = self.own_ns.saturating_add(before_ns.saturating_sub(self.mark_ns));
        turn::open(self.options.turn);
        let filter = self.filters.get_mut(index).and_then(Option::as_mut);
        let step = filter.and_then(|filter| filter.fiber.as_mut()).map(|fiber| fiber.resume(Go::On));
        self.mark_ns = turn::used_ns();
        if let Some(step) = step {
            self.settle(index, step, self.mark_ns.saturating_sub(before_ns));
        }
        true
    }

    /// Charges a turn and sees what comes after it.
    fn settle(&mut self, index: usize, step: Step, took_ns: u64) {
        let now_ns = self.now_ns();
        let Some(filter) = self.filters.get_mut(index).and_then(Option::as_mut) else { return };
        filter.used_ns = filter.used_ns.saturating_add(took_ns);
        filter.turns = filter.turns.saturating_add(1);
        let seat = filter.seat.clone();
        seat.event_ns.set(seat.event_ns.get().saturating_add(took_ns));
        let over = match step {
            Step::Over(why) => Some(why),
            Step::Paused => filter.excess(took_ns, &self.options),
        };
        self.policy.resource_record(client_of(index), Record { kind: Metric::Cycles, amount: took_ns }, now_ns);
        match over {
            Some(why) => {
                filter.ended = Some(why);
                self.retire(index);
            }
            None if seat.is_busy.get() || filter.mailbox.has_events() => {
                self.policy.client_ready(client_of(index), now_ns);
            }
            None => {}
        }
    }

    /// Takes a filter out of the choice and gives its stack back.
    fn retire(&mut self, index: usize) {
        let now_ns = self.now_ns();
        // One that has ended is no client any more.
        let _ = self.policy.remove_client(client_of(index), now_ns);
        if let Some(filter) = self.filters.get_mut(index).and_then(Option::as_mut) {
            filter.fiber = None;
        }
    }

    /// Returns the figures of all filters.
    pub fn figures(&self) -> Vec<Figures> {
        self.filters.iter().flatten().map(Filter::figures).collect()
    }

    /// Returns what filters have emitted since the last time, with their names.
    pub fn said(&mut self) -> Vec<(String, Event)> {
        let filters = self.filters.iter().flatten();
        filters.flat_map(|filter| filter.mailbox.said().into_iter().map(|event| (filter.name.clone(), event))).collect()
    }

    /// Returns the processor time that the service used itself, ns: the choice, and events on their way to queues.
    pub fn own_ns(&self) -> u64 {
        self.own_ns
    }
}

fn client_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_step_in_a_while_ends_no_filter_and_a_third_one_soon_does() {
        let turn = Duration::from_micros(200);
        let (short, long) = (200_000, 251_000_000);
        let mut steps = Steps::default();
        for _ in 0..100 {
            assert!(!steps.note(long, turn));
            assert!((0..7).all(|_| !steps.note(short, turn)));
        }
        let noted = [long, short, long].map(|took_ns| steps.note(took_ns, turn));
        assert_eq!(noted, [false, false, true], "one of before is among the last 16");
        let mut steps = Steps::default();
        assert_eq!([long, short, long, long].map(|took_ns| steps.note(took_ns, turn)), [false, false, false, true]);
    }
}
