//! Keeps the broker: a process from this program's own file, started when goals or the owner want one, and again after it has ended. The
//! last allocation stays meanwhile, because it is the machine's.
//!
//! The broker writes a line of JSON for each window; the last one is kept for `GET /goals`. A wish ends the process; the next one has it.
//!
//! * The policy is the owner's last wish, else that of the machine file, else the one that the goals ask for. Without goals there is none.
//! * An end that nobody wanted counts as a restart, and the next process comes after a second.
//! * `kill` in a wish ends it as a failure would.
//! * A broker that says nothing for ten windows and half a minute hangs ([`watch`]): it is ended, which counts as a restart.

mod watch;

use std::{
    io::{self, BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use gyre_broker_program::{Options, chosen, window_ms};
use gyre_contract::goals::{BrokerPolicy, BrokerState, BrokerWish, Report, Shown};

use crate::source::Source;
use watch::{Patience, Watch};

/// Time between two looks for goals while no broker runs.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Time after the end of a broker that nobody wanted to end.
const REST: Duration = Duration::from_secs(1);
/// A thread's stack: it reads lines, or looks at a clock.
const STACK_BYTES: usize = 128 << 10;

/// See the module.
pub struct Keeper {
    source: Arc<dyn Source>,
    /// This program's file, and words before those of the broker.
    program: Vec<String>,
    patience: Patience,
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
    watch: Watch,
    /// Why this program ended the last one; empty if it ended none.
    ended_for: String,
}

impl Keeper {
    /// Makes a keeper that starts `program` with the broker's options behind its words.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, program: Vec<String>) -> Arc<Keeper> {
        Keeper::patient(source, program, Patience::default())
    }

    fn patient(source: Arc<dyn Source>, program: Vec<String>, patience: Patience) -> Arc<Keeper> {
        Arc::new(Keeper { source, program, patience, state: Mutex::default() })
    }

    /// Begins to keep it, in two threads of its own; without them there is no broker, or none that is watched.
    pub fn start(self: &Arc<Self>) {
        for work in [Keeper::keep, Keeper::watch] {
            let keeper = self.clone();
            let _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || work(&keeper));
        }
    }

    fn keep(&self) {
        loop {
            match self.wanted() {
                None => std::thread::sleep(LOOK_EVERY),
                Some((options, window)) => {
                    if let Err(error) = self.run(&options, window) {
                        eprintln!("agent: the broker does not start: {error}");
                    }
                    self.rest();
                }
            }
        }
    }

    /// Ends each broker that hangs; for ever.
    fn watch(&self) {
        let mut last = Instant::now();
        loop {
            std::thread::sleep(self.patience.look);
            let passed = last.elapsed();
            last = Instant::now();
            let mut state = self.state();
            let silent = state.child.is_some().then(|| state.watch.pass(passed, &self.patience)).flatten();
            if let Some(silent) = silent {
                state.end_for(format!("it has said nothing for {} s", silent.as_secs()));
            }
        }
    }

    /// Returns the options of the broker that is wanted, and its window; `None` if none is.
    fn wanted(&self) -> Option<(Options, Duration)> {
        let (policy, is_dry_run) = {
            let state = self.state();
            (state.policy, state.is_dry_run)
        };
        if policy == Some(BrokerPolicy::Off) {
            return None;
        }
        let goals = self.source.goals().ok()?;
        let policy = policy.unwrap_or_else(|| chosen(&goals));
        let window = Duration::from_millis(window_ms(&goals.broker, policy));
        (policy != BrokerPolicy::Off).then_some((Options { policy, is_dry_run }, window))
    }

    /// Runs a broker with such windows until it ends.
    fn run(&self, options: &Options, window: Duration) -> io::Result<()> {
        let (program, words) = self.program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(words).args(options.words()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let lines = child.stdout.take().map(BufReader::new);
        {
            let mut state = self.state();
            state.is_unwanted = false;
            state.watch.begin(window);
            state.child = Some(child);
        }
        for line in lines.into_iter().flat_map(BufReader::lines) {
            // A line that is cut by the broker's end is not the last word.
            if let Some(report) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                let mut state = self.state();
                state.watch.hear();
                state.report = Some(report);
            }
        }
        let Some(mut child) = self.state().child.take() else { return Ok(()) };
        // Nobody reads it any more, also if it has only closed its output.
        let killed = child.kill();
        child.wait()?;
        killed
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
        let State { restarts, report, ended_for, .. } = &*state;
        Ok(Shown { goals, broker, restarts: *restarts, ended_for: ended_for.clone(), report: report.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ends a broker that hangs; what it allocated stays.
    fn end_for(&mut self, why: String) {
        eprintln!("agent: the broker hangs and is ended: {why}");
        self.ended_for = why;
        if let Some(Err(error)) = self.child.as_mut().map(Child::kill) {
            eprintln!("agent: the broker cannot be ended: {error}");
        }
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
        goals::{Aim, Broker, Goal, Goals, Measure, TenantGoal},
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
        patient(script, Patience { least: Duration::from_secs(3600), ..Patience::default() })
    }

    fn patient(script: &str, patience: Patience) -> Arc<Keeper> {
        let goal = Goal { aim: Aim::Rate(1000), measure: Measure::Either, penalty: 1 };
        let gold = TenantGoal { name: "gold".into(), goal: Some(goal), ..TenantGoal::default() };
        let broker = Broker { window_ms: 20, ..Broker::default() };
        let goals = Goals { broker, tenants: vec![gold], ..Goals::default() };
        let program = ["sh", "-c", script, "broker"].map(str::to_owned).to_vec();
        Keeper::patient(Arc::new(Aimed(Mutex::new(goals))), program, patience)
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

    #[test]
    fn a_broker_that_hangs_is_ended_and_started_again_and_its_last_report_stays() {
        // Ten windows of 20 ms are shorter.
        let patience = Patience { look: Duration::from_millis(50), least: Duration::from_millis(500) };
        let keeper = patient(STAYS, patience);
        keeper.start();
        let again = until(&keeper, |shown| shown.restarts >= 2 && shown.report.is_some());
        assert!(again.ended_for.contains("has said nothing"), "{again:?}");
        assert_eq!(policy_of(&again), "pota", "the last report stays");
        keeper.wish(&BrokerWish { policy: Some(BrokerPolicy::Off), ..BrokerWish::default() }).unwrap();
        until(&keeper, |shown| shown.broker == BrokerState::Off);
    }
}
