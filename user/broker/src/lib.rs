//! The broker: a process of the system tenant that follows the goals of tenants.
//!
//! Each window it reads all goals and measures ([`measure`]), lets a policy of `gyre-broker` make a plan ([`policies`]), asks the machine for
//! the new shares as one change ([`broker`]), and writes a line of JSON, a [`gyre_contract::goals::Report`], to its standard output. The agent
//! starts it, keeps its last line, and starts it again if it ends.
//!
//! [`forecast`] plays the same broker in virtual time: who would meet its goal under a policy.
//!
//! It has no state that must survive: what tenants hold is the machine's, so after a failure the last allocation stays, and the next broker
//! goes on from there. It allocates shares of the processor among the tenants that hang below no group and are no cell in time, the
//! fractions of services among their clients ([`services`]), and cores between its own zone and one that lends some ([`borrow`]).
//!
//! Nothing that a tenant does stops it: a heartbeat is a number in a page, and a service is asked and answers, or is left alone.
#![forbid(unsafe_code)]

pub mod borrow;
pub mod broker;
pub mod celled;
pub mod cores;
mod delays;
mod divided;
pub mod forecast;
mod lines;
mod look;
pub mod machine;
pub mod measure;
mod numbers;
pub mod options;
mod policies;
mod rest;
pub mod services;

use borrow::Borrower;
pub use broker::Broker;
pub use machine::{Machine, Native};
pub use options::{Options, chosen};
pub use policies::window_ms;
use services::{Making, Services};

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

/// Looks in a window: a look gives a sample of responses beside what was granted meanwhile.
const LOOKS: u32 = 4;
/// Services have this part of a look's time for their answers, before the window ends.
const ANSWERS: u32 = 2;

/// Follows goals until the standard output is closed, which means that nobody wants it any more.
///
/// # Errors
/// When the machine tells no goals, or takes no changes.
pub fn run(machine: &dyn Machine, options: &Options) -> io::Result<()> {
    let mut broker = Broker::new(options, &machine.goals()?);
    let window = Duration::from_millis(broker.window_ms());
    let pause = window / LOOKS;
    let mut services = Services::default();
    let mut borrower = Borrower::new(&machine.goals()?, options.policy, window);
    let making = if options.is_dry_run { Making::DryRun } else { Making::Changes };
    let mut next = Instant::now();
    // By the clock, not by pauses: the time of a look does not add up.
    let until = |at: Instant| std::thread::sleep(at.saturating_duration_since(Instant::now()));
    loop {
        for look in 1..=LOOKS {
            next += pause;
            if look == LOOKS {
                until(next - pause / ANSWERS);
                services.ask(broker.now_ns(), broker.tenants(), |tenant| machine.service(tenant));
            }
            until(next);
            broker.look(&machine.goals()?);
        }
        let wish = broker.decide();
        let answer = wish.filter(|_| !options.is_dry_run).map(|wish| machine.change(&wish)).transpose()?;
        let mut report = broker.report(answer);
        report.lines.extend(services.decide(report.at_ns, window.as_nanos() as u64, making));
        if let Some(borrower) = &mut borrower {
            report.cores = borrower.decide(&machine.goals()?, machine, making);
        }
        let mut line = serde_json::to_string(&report)?;
        line.push('\n');
        let mut out = io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()?;
    }
}
