//! Keeps the broker: a process from this program's own file, started when goals or the owner want one, and again after it has ended. The
//! last allocation stays meanwhile, because it is the machine's.
//!
//! The broker writes a line of JSON for each window; the last one is kept for `GET /goals`. A wish ends the process; the next one has it.
//!
//! * The policy is the owner's last wish, else that of the machine file, else the one that the goals ask for. Without goals there is none.
//! * An end that nobody wanted counts as a restart, and the next process comes after a second.
//! * `kill` in a wish ends it as a failure would.

use std::{
    io::{self, BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gyre_broker_program::{Options, chosen};
use gyre_contract::goals::{BrokerPolicy, BrokerState, BrokerWish, Report, Shown};

use crate::source::Source;

/// Time between two looks for goals while no broker runs.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Time after the end of a broker that nobody wanted to end.
const REST: Duration = Duration::from_secs(1);
/// A thread's stack: it reads lines.
const STACK_BYTES: usize = 128 << 10;

/// See the module.
pub struct Keeper {
    source: Arc<dyn Source>,
    /// This program's file, and words before those of the broker.
    program: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The owner's policy; `None` follows the machine file and the goals.
    policy: Option<BrokerPolicy>,
    is_dry_run: bool,
    child: Option<Child>,
    /// The child was ended because the owner wanted something else.
    is_unwanted: bool,
    is_resting: bool,
    restarts: u32,
    report: Option<Report>,
}

impl Keeper {
    /// Makes a keeper that starts `program` with the broker's options behind its words.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, program: Vec<String>) -> Arc<Keeper> {
        Arc::new(Keeper { source, program, state: Mutex::default() })
    }

    /// Begins to keep it, in a thread of its own; without one there is no broker.
    pub fn start(self: &Arc<Self>) {
        let keeper = self.clone();
        let _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || keeper.keep());
    }

    fn keep(&self) {
        loop {
            match self.wanted() {
                None => std::thread::sleep(LOOK_EVERY),
                Some(options) => {
                    if let Err(error) = self.run(&options) {
                        eprintln!("agent: the broker does not start: {error}");
                    }
                    self.rest();
                }
            }
        }
    }

    /// Returns the options of the broker that is wanted; `None` if none is.
    fn wanted(&self) -> Option<Options> {
        let (policy, is_dry_run) = {
            let state = self.state();
            (state.policy, state.is_dry_run)
        };
        let policy = match policy {
            Some(policy) => policy,
            None => chosen(&self.source.goals().ok()?),
        };
        (policy != BrokerPolicy::Off).then_some(Options { policy, is_dry_run })
    }

    /// Runs a broker until it ends.
    fn run(&self, options: &Options) -> io::Result<()> {
        let (program, words) = self.program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(words).args(options.words()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let lines = child.stdout.take().map(BufReader::new);
        {
            let mut state = self.state();
            state.is_unwanted = false;
            state.child = Some(child);
        }
        for line in lines.into_iter().flat_map(BufReader::lines) {
            // A line that is cut by the broker's end is not the last word.
            if let Some(report) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                self.state().report = Some(report);
            }
        }
        let child = self.state().child.take();
        child.map_or(Ok(()), |mut child| child.wait().map(drop))
    }

    /// Waits after an end that nobody wanted.
    fn rest(&self) {
        {
            let mut state = self.state();
            if state.is_unwanted {
                return;
            }
            state.restarts = state.restarts.saturating_add(1);
            state.is_resting = true;
        }
        std::thread::sleep(REST);
        self.state().is_resting = false;
    }

    /// Follows a wish of the owner: the present broker ends if it has to.
    ///
    /// # Errors
    /// When the present broker cannot be ended.
    pub fn wish(&self, wish: &BrokerWish) -> io::Result<()> {
        let mut state = self.state();
        state.policy = wish.policy.or(state.policy);
        state.is_dry_run = wish.dry_run.unwrap_or(state.is_dry_run);
        state.is_unwanted = !wish.kill;
        if wish.policy == Some(BrokerPolicy::Off) {
            state.report = None;
        }
        state.child.as_mut().map_or(Ok(()), Child::kill)
    }

    /// Returns goals and the broker's last window.
    ///
    /// # Errors
    /// Those of [`Source::goals`].
    pub fn shown(&self) -> io::Result<Shown> {
        let goals = self.source.goals()?;
        let state = self.state();
        let policy = state.policy.unwrap_or_else(|| chosen(&goals));
        let broker = match (policy, &state.child) {
            (BrokerPolicy::Off, _) => BrokerState::Off,
            (_, Some(_)) => BrokerState::Runs,
            (_, None) => BrokerState::Starts,
        };
        Ok(Shown { goals, broker, restarts: state.restarts, report: state.report.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::Mutex,
        time::{Duration, Instant},
    };

    use gyre_contract::{
        goals::{Aim, Goal, Goals, Measure, TenantGoal},
        monitor::Snapshot,
        native::Change,
        promise::Together,
        session::ExecRequest,
    };

    use super::*;
    use crate::source::{Program, Streams};

    /// A machine that knows goals only.
    struct Aimed(Mutex<Goals>);

    impl Source for Aimed {
        fn snapshot(&self) -> io::Result<Snapshot> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn log(&self, _tenant: &str, _offset: u64) -> io::Result<(u64, Vec<u8>)> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn set(&self, _change: &Change) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn change(&self, _together: &Together) -> io::Result<u64> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn goals(&self) -> io::Result<Goals> {
            Ok(self.0.lock().unwrap().clone())
        }
        fn spawn(&self, _request: &ExecRequest, _streams: Streams) -> io::Result<Box<dyn Program>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn keeper(script: &str) -> Arc<Keeper> {
        let goal = Goal { aim: Aim::Rate(1000), measure: Measure::Either, penalty: 1 };
        let gold = TenantGoal { name: "gold".into(), goal: Some(goal), ..TenantGoal::default() };
        let goals = Goals { tenants: vec![gold], ..Goals::default() };
        let program = ["sh", "-c", script, "broker"].map(str::to_owned).to_vec();
        Keeper::new(Arc::new(Aimed(Mutex::new(goals))), program)
    }

    fn until(keeper: &Keeper, mut what: impl FnMut(&Shown) -> bool) -> Shown {
        let begun = Instant::now();
        loop {
            let shown = keeper.shown().unwrap();
            if what(&shown) {
                return shown;
            }
            assert!(begun.elapsed() < Duration::from_secs(300), "{shown:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn policy_of(shown: &Shown) -> &str {
        shown.report.as_ref().map_or("", |report| report.policy.as_str())
    }

    /// Writes a report with the policy that it was started with, and stays.
    const STAYS: &str = r#"printf '{"policy":"%s","is_dry_run":false,"at_ns":1,"window_ms":1,"windows":1,"changes":0,"refused":null,"lines":[]}\n' "$2"; exec sleep 600"#;

    #[test]
    fn a_broker_that_dies_is_started_again_and_its_last_report_stays() {
        let keeper = keeper(STAYS);
        keeper.start();
        let first = until(&keeper, |shown| shown.report.is_some());
        assert_eq!((policy_of(&first), first.restarts), ("pota", 0), "rates want pota");
        // A host may be away for the whole rest of a dead broker; then another one dies.
        let mut deaths = 0;
        let mut has_starts = false;
        while !has_starts {
            keeper.wish(&BrokerWish { kill: true, ..BrokerWish::default() }).unwrap();
            deaths += 1;
            let again = until(&keeper, |shown| {
                assert!(shown.report.is_some(), "the last report stays");
                has_starts |= shown.broker == BrokerState::Starts;
                shown.restarts == deaths && shown.broker == BrokerState::Runs
            });
            assert_eq!(again.restarts, deaths);
        }
        keeper.wish(&BrokerWish { policy: Some(BrokerPolicy::Off), ..BrokerWish::default() }).unwrap();
        until(&keeper, |shown| shown.broker == BrokerState::Off);
    }

    #[test]
    fn another_policy_is_another_process_and_no_failure() {
        let keeper = keeper(STAYS);
        keeper.start();
        until(&keeper, |shown| shown.report.is_some());
        keeper.wish(&BrokerWish { policy: Some(BrokerPolicy::Pacora), ..BrokerWish::default() }).unwrap();
        let other = until(&keeper, |shown| policy_of(shown) == "pacora");
        assert_eq!(other.restarts, 0);
        keeper.wish(&BrokerWish { policy: Some(BrokerPolicy::Off), ..BrokerWish::default() }).unwrap();
        until(&keeper, |shown| shown.broker == BrokerState::Off && shown.report.is_none());
    }
}
