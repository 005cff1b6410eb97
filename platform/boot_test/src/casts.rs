//! Times a line from a supervisor to one, several and all of its zones (R3: uni-, multi- and broadcast): `bench=casts` on the supervisor's
//! command line. `gyre exp zone-lines` reads what this prints: "lines: NAME COUNT", in time stamp cycles.
//!
//! ```text
//!   supervisor --[line]--> rings of so many zones --interrupts to those away--> each: [the line again] --> supervisor, halted or polling
//! ```
//! A trip ends when all have answered. The zones are those of `lines.rs`.

use crate::lines::{ECHO, TRIPS, Wait, show, timed};
use crate::zones;
use alloc::format;
use alloc::vec::Vec;
use gyre_line::{Message, Receiver, Sender, Target, cast};
use gyre_platform::ZoneLife;
use gyre_x86_64::{Instance, cycles_per_ms, end_instance, idle, pool, take_events};

/// The supervisor's side of the lines to all zones.
struct Talk<'a> {
    zones: &'a [Instance],
    targets: Vec<Target<'a>>,
    answers: Vec<Receiver<'a>>,
}

/// Measures and ends the machine.
pub fn run() -> ! {
    let count = pool().cores().len();
    let verdict = zones::start_several(count, "act=lines").and_then(|all| {
        all.iter().try_for_each(|zone| zones::wait_for(zone, ZoneLife::STANDING))?;
        measure(&all);
        all.into_iter().try_for_each(zones::end)
    });
    match verdict {
        Ok(()) => log::info!("lines: done 0"),
        Err(why) => log::error!("lines: FAILED {why}"),
    }
    end_instance(0)
}

fn measure(all: &[Instance]) {
    let mut talk = Talk {
        zones: all,
        targets: all.iter().map(target).collect(),
        answers: all.iter().map(|zone| Receiver::new(&zone.page().to_supervisor.0)).collect(),
    };
    log::info!("lines: cycles-per-ms {}", cycles_per_ms());
    log::info!("lines: zones {}", all.len());
    for (wait, name) in [(Wait::Halted, "halted"), (Wait::Polling, "polled")] {
        for count in 1..=all.len() {
            show(&format!("{name}-{count}"), (0..TRIPS).map(|_| timed(|| talk.echo(count, wait))));
        }
    }
}

fn target(zone: &Instance) -> Target<'_> {
    Target { sender: Sender::new(&zone.page().to_zone.0), bell: &zone.page().zone_bell }
}

impl Talk<'_> {
    /// A line to the first so many, and one back from each.
    fn echo(&mut self, count: usize, wait: Wait) {
        let (zones, message) = (self.zones, Message { kind: ECHO, words: [7; 6], ..Message::default() });
        let to = self.targets.get_mut(..count).unwrap_or_default();
        if cast(&message, to, |place| zones.get(place).into_iter().for_each(Instance::ring)).is_err() {
            log::error!("lines: FAILED a zone has not taken its last line");
        }
        for place in 0..count {
            self.take(place, wait);
        }
    }

    /// Waits for the answer of one; others may answer first.
    fn take(&mut self, place: usize, wait: Wait) {
        let (Some(zone), Some(answer)) = (self.zones.get(place), self.answers.get_mut(place)) else { return };
        while answer.receive().is_none() {
            match wait {
                Wait::Polling => core::hint::spin_loop(),
                Wait::Halted => {
                    // Only this one's bell is left: those that answer meanwhile do not interrupt.
                    zone.page().supervisor_bell.leave();
                    if !answer.has_some() {
                        idle();
                    }
                    zone.page().supervisor_bell.come_back();
                    take_events();
                }
            }
        }
    }
}
