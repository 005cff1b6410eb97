//! Services as resources of the broker: the fractions of a service (`gyre-services`) follow the goals that its clients named there.
//!
//! Each service is divided by a plan of its own, over [`gyre_broker::Resource::Service`], with the same law that holds rates of heartbeats on
//! the processor (`gyre_broker::pota`). Clients without a goal have the fractions with which they began, unless those with one need them: then
//! they give in proportion, down to a hundredth. A change is one message, all or nothing, and the service admits it.
//!
//! Each window: shortly before its end [`Services::ask`] looks for services that are new and asks all of them for their clients;
//! [`Services::decide`] takes the answers that have come, plans, and asks for the changes, or only says them ([`Making::DryRun`]).
//!
//! Each tenant can be a service, so a service is believed nothing (`claims`) and waited for by nobody. A window has one question and one
//! answer of 60 KiB at most for each tenant, whatever they do.
//! * One that has not answered yet keeps its fractions, and is asked no more until it has.
//! * One that goes keeps its fractions, too; the next window finds the one that follows it, of which nothing is learnt.
//! * One that is silent for 2 s and three ends of windows, or says what cannot be, is left alone for 30 s, and a line says why.

mod claims;
mod division;

use std::{collections::BTreeMap, io};

use gyre_contract::goals;
use gyre_services::{
    inquiry::Inquiry,
    protocol::{Line, NAME},
};

use division::Division;

/// A service that is silent, or lies, is left alone for so long, ns.
const ALONE_NS: u64 = 30_000_000_000;

/// A service as the broker sees it. No function waits.
pub trait Service {
    /// Asks for its clients.
    ///
    /// # Errors
    /// If it is gone, or takes no question.
    fn ask(&self) -> io::Result<()>;

    /// Returns its clients, once it has answered.
    ///
    /// # Errors
    /// If it is gone, or says something else.
    fn answer(&self) -> io::Result<Option<Vec<Line>>>;

    /// Asks for other fractions, all or none; the next answer shows whether it made them.
    ///
    /// # Errors
    /// As [`Service::ask`].
    fn set(&self, wishes: &[(String, u32)]) -> io::Result<()>;
}

impl Service for Inquiry {
    fn ask(&self) -> io::Result<()> {
        Inquiry::ask(self)
    }

    fn answer(&self) -> io::Result<Option<Vec<Line>>> {
        Inquiry::answer(self)
    }

    fn set(&self, wishes: &[(String, u32)]) -> io::Result<()> {
        Inquiry::set(self, wishes)
    }
}

/// Whether a plan is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Making {
    /// It is.
    Changes,
    /// It is only said.
    DryRun,
}

/// A service that is left alone.
struct Alone {
    until_ns: u64,
    why: String,
}

/// All services of the machine.
#[derive(Default)]
pub struct Services {
    known: BTreeMap<String, Division>,
    alone: BTreeMap<String, Alone>,
}

impl Services {
    /// Looks for services of tenants that had none, and asks each service for its clients.
    pub fn ask<'a>(
        &mut self,
        now_ns: u64,
        tenants: impl Iterator<Item = &'a str>,
        connect: impl Fn(&str) -> io::Result<Box<dyn Service>>,
    ) {
        self.alone.retain(|_, alone| alone.until_ns > now_ns);
        for tenant in tenants {
            if !self.known.contains_key(tenant)
                && !self.alone.contains_key(tenant)
                && let Ok(service) = connect(tenant)
            {
                self.known.insert(tenant.to_owned(), Division::new(service));
            }
        }
        self.each(now_ns, |_, division| division.ask(now_ns));
    }

    /// Ends a window at each service; answers a line for each client, and for each service that is left alone.
    pub fn decide(&mut self, now_ns: u64, length_ns: u64, making: Making) -> Vec<goals::Line> {
        let mut lines = Vec::new();
        self.each(now_ns, |name, division| {
            let own = division.decide(now_ns, length_ns, making)?;
            let named = |line: goals::Line| goals::Line { tenant: format!("{name}:{}", line.tenant), ..line };
            lines.extend(own.into_iter().map(named));
            Ok(())
        });
        let told = |(name, alone): (&String, &Alone)| goals::Line {
            tenant: format!("{name}:{NAME}"),
            strange: format!("{}: it is left alone for a while", alone.why),
            ..goals::Line::default()
        };
        lines.extend(self.alone.iter().map(told));
        lines
    }

    /// Takes a step at each service: one that is gone is forgotten, one that fails otherwise is left alone.
    fn each(&mut self, now_ns: u64, mut step: impl FnMut(&str, &mut Division) -> io::Result<()>) {
        let alone = &mut self.alone;
        self.known.retain(|name, division| match step(name, division) {
            Ok(()) => true,
            Err(error) => {
                if !is_end(&error) {
                    let until_ns = now_ns.saturating_add(ALONE_NS);
                    alone.insert(name.clone(), Alone { until_ns, why: words(&error) });
                }
                false
            }
        });
    }
}

/// Says whether an error is that of a service that is gone.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => format!("its service cannot be asked: {error}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
