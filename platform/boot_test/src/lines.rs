//! Times lines between a supervisor and a zone beside bare interrupts (R3: lines of 64 bytes, interrupt, then poll): `bench=lines` on the
//! supervisor's command line. `gyre exp zone-lines` reads what this prints: "lines: NAME COUNT", in time stamp cycles.
//!
//! ```text
//!   supervisor --[line]--> ring --interrupt if the zone's core is away--> zone --[the line again]--> ring --> supervisor, halted or polling
//! ```
//! * The bare interrupt is the same way without a line: one there, one back, both cores halted between them.
//! * A stream goes one way, and its receiver polls until the last line has come.

use crate::zones;
use alloc::vec::Vec;
use gyre_line::{Bell, Message, Receiver, Sender};
use gyre_platform::{Events, ZoneLife, ZonePage};
use gyre_x86_64::{
    Instance, cycles_per_ms, end_instance, idle, now, ring_supervisor, set_timer, supervisor_asks_to_end, take_events,
    zone_page,
};

/// Round trips of each kind, of which the first are not counted.
pub const TRIPS: usize = 2000;
const WARM: usize = 200;
/// Lines of a stream.
const STREAM: u64 = 100_000;
/// Looks of a receiver in a stream before it sleeps.
const POLLS: u32 = 100_000;
/// Kinds of lines: one that comes back, one of a stream, and the last of a stream, which is answered with the sum.
pub const ECHO: u16 = 1;
const PART: u16 = 2;
const SUM: u16 = 3;

/// The way in which the supervisor waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Halted,
    Polling,
}

/// The supervisor's side of the lines.
struct Talk<'a> {
    zone: &'a Instance,
    sender: Sender<'a>,
    receiver: Receiver<'a>,
}

/// Measures and ends the machine.
pub fn run() -> ! {
    let verdict = zones::start("act=lines").and_then(|zone| {
        zones::wait_for(&zone, ZoneLife::STANDING)?;
        measure(&zone);
        zones::end(zone)
    });
    match verdict {
        Ok(()) => log::info!("lines: done 0"),
        Err(why) => log::error!("lines: FAILED {why}"),
    }
    end_instance(0)
}

fn measure(zone: &Instance) {
    let page = zone.page();
    let mut talk = Talk { zone, sender: Sender::new(&page.to_zone.0), receiver: Receiver::new(&page.to_supervisor.0) };
    log::info!("lines: cycles-per-ms {}", cycles_per_ms());
    show("interrupt", (0..TRIPS).map(|_| timed(|| talk.interrupt())));
    show("halted", (0..TRIPS).map(|_| timed(|| talk.echo(Wait::Halted))));
    show("polled", (0..TRIPS).map(|_| timed(|| talk.echo(Wait::Polling))));
    show("interrupt-again", (0..TRIPS).map(|_| timed(|| talk.interrupt())));
    let cycles = timed(|| talk.stream());
    log::info!("lines: stream-lines {STREAM}");
    log::info!("lines: stream-cycles {cycles}");
}

pub fn timed(mut act: impl FnMut()) -> u64 {
    let start = now();
    act();
    now().saturating_sub(start)
}

/// Prints the best and the median of all but the first [`WARM`].
pub fn show(name: &str, times: impl Iterator<Item = u64>) {
    let mut times: Vec<u64> = times.skip(WARM).collect();
    times.sort_unstable();
    log::info!("lines: {name}-best {}", times.first().copied().unwrap_or(0));
    log::info!("lines: {name}-median {}", times.get(times.len() / 2).copied().unwrap_or(0));
}

impl Talk<'_> {
    /// An interrupt there, and one back.
    fn interrupt(&mut self) {
        self.zone.ring();
        while !take_events().has(Events::BELL) {
            idle();
        }
    }

    fn send(&mut self, kind: u16, number: u64) {
        let message = Message { kind, words: [number; 6], ..Message::default() };
        while self.sender.send(&message).is_err() {
            core::hint::spin_loop();
        }
        if self.zone.page().zone_bell.must_ring() {
            self.zone.ring();
        }
    }

    /// A line there, and one back.
    fn echo(&mut self, wait: Wait) {
        self.send(ECHO, 7);
        while self.receiver.receive().is_none() {
            match wait {
                Wait::Polling => core::hint::spin_loop(),
                Wait::Halted => sleep(&self.zone.page().supervisor_bell, &self.receiver),
            }
        }
    }

    /// Many lines, one after the other; each arrives once, as their sum says.
    fn stream(&mut self) {
        (0..STREAM).for_each(|number| self.send(PART, number));
        self.send(SUM, 0);
        let sum = loop {
            match self.receiver.receive() {
                Some(message) => break message.words[0],
                None => core::hint::spin_loop(),
            }
        };
        if sum != STREAM * (STREAM - 1) / 2 {
            log::error!("lines: FAILED the sum of the stream is {sum}");
        }
    }
}

/// Waits for an interrupt if no line has come.
fn sleep(bell: &Bell, receiver: &Receiver<'_>) {
    bell.leave();
    if !receiver.has_some() {
        idle();
    }
    bell.come_back();
    take_events();
}

/// The zone's side: sends each line back, answers an interrupt without a line with another one, until it is asked to end. In a stream it polls.
pub fn answer() -> ! {
    let Some(page) = zone_page() else { end_instance(1) };
    let mut echo = Echo { page, sender: Sender::new(&page.to_supervisor.0), sum: 0, last: SUM };
    let mut receiver = Receiver::new(&page.to_zone.0);
    set_timer(now() + 1000 * cycles_per_ms());
    while !supervisor_asks_to_end() {
        page.zone_bell.leave();
        if !receiver.has_some() {
            idle();
        }
        page.zone_bell.come_back();
        let events = take_events();
        if events.has(Events::TIMER) {
            set_timer(now() + 1000 * cycles_per_ms());
        }
        if !echo.take(&mut receiver) && events.has(Events::BELL) {
            ring_supervisor();
        }
    }
    end_instance(crate::inside::ENDED)
}

/// The zone's work with lines.
struct Echo<'a> {
    page: &'a ZonePage,
    sender: Sender<'a>,
    sum: u64,
    last: u16,
}

impl Echo<'_> {
    /// Takes all lines that have come; false if there were none.
    fn take(&mut self, receiver: &mut Receiver<'_>) -> bool {
        let (mut is_any, mut polls) = (false, 0);
        while polls < POLLS {
            match receiver.receive() {
                Some(message) => {
                    (is_any, polls) = (true, 0);
                    self.answer(&message);
                }
                None if self.last == PART => {
                    polls += 1;
                    core::hint::spin_loop();
                }
                None => break,
            }
        }
        is_any
    }

    fn answer(&mut self, message: &Message) {
        self.last = message.kind;
        if message.kind == PART {
            self.sum = self.sum.wrapping_add(message.words[0]);
            return;
        }
        let words = if message.kind == SUM { [core::mem::take(&mut self.sum); 6] } else { message.words };
        while self.sender.send(&Message { words, ..*message }).is_err() {
            core::hint::spin_loop();
        }
        if self.page.supervisor_bell.must_ring() {
            ring_supervisor();
        }
    }
}
