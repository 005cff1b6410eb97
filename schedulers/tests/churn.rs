//! Every policy under random calls: none panics, chooses a client that is not ready, or loses one that is.
mod common;

use common::{parameters, policies};
use gyre_schedulers::policy::CLIENTS_MAX;
use gyre_schedulers::{ClientParams, CorePolicy, Metric, PolicyError, Readiness, Record};
use proptest::prelude::*;

const CLIENTS: u32 = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Absent,
    Away,
    Ready,
    Suspended,
}

#[derive(Clone, Debug)]
enum Step {
    Add(u32, ClientParams),
    Update(u32, ClientParams),
    Remove(u32),
    Ready(u32),
    Suspend(u32),
    Idle(u32),
    Record(u32, Metric, u64),
    Schedule,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    let amount = prop_oneof![8 => 0u64..10_000, 1 => Just(u64::MAX), 1 => Just(0)];
    let kind = prop_oneof![4 => Just(Metric::Cycles), 1 => Just(Metric::Bytes), 1 => Just(Metric::QueueDepth)];
    prop_oneof![
        2 => (client.clone(), parameters()).prop_map(|(client, params)| Step::Add(client, params)),
        1 => (client.clone(), parameters()).prop_map(|(client, params)| Step::Update(client, params)),
        1 => client.clone().prop_map(Step::Remove),
        8 => client.clone().prop_map(Step::Ready),
        1 => client.clone().prop_map(Step::Suspend),
        1 => client.clone().prop_map(Step::Idle),
        5 => (client, kind, amount).prop_map(|(client, kind, amount)| Step::Record(client, kind, amount)),
        6 => Just(Step::Schedule),
        2 => prop_oneof![Just(0), 1u64..5000, Just(1u64 << 40)].prop_map(Step::Pass),
    ]
}

/// A core policy beside the expected states of its clients.
struct Checked {
    core: Box<dyn CorePolicy>,
    states: [State; CLIENTS as usize],
    chosen: [u64; CLIENTS as usize],
    now_ns: u64,
}

impl Checked {
    fn state(&mut self, client: u32) -> &mut State {
        &mut self.states[client as usize]
    }

    fn add(&mut self, client: u32, params: &ClientParams) {
        let before = *self.state(client);
        let params = ClientParams { parent: params.parent.filter(|_| self.is_tree()), ..*params };
        match self.core.add_client(client, &params, self.now_ns) {
            Ok(()) => {
                assert_eq!(before, State::Absent);
                *self.state(client) = State::Away;
                self.chosen[client as usize] = 0;
            }
            Err(PolicyError::DuplicateClient) => assert_ne!(before, State::Absent),
            Err(error) => assert!(matches!(error, PolicyError::InvalidParams | PolicyError::Overcommitted)),
        }
    }

    fn is_tree(&self) -> bool {
        self.core.node_statistics(1).is_some()
    }

    fn schedule(&mut self) -> Option<u32> {
        let before = self.core.poll_ready(self.now_ns);
        let chosen = self.core.schedule(self.now_ns);
        match chosen {
            Some(client) => {
                assert_eq!(before, Readiness::Now);
                assert_eq!(*self.state(client), State::Ready, "client {client} was not ready");
                *self.state(client) = State::Away;
                self.chosen[client as usize] += 1;
            }
            // The answer may have been too early, but then the next one is exact.
            None => assert_ne!(self.core.poll_ready(self.now_ns), Readiness::Now),
        }
        chosen
    }

    fn take(&mut self, step: &Step) {
        let now_ns = self.now_ns;
        match *step {
            Step::Add(client, params) => self.add(client, &params),
            Step::Update(client, params) => {
                let result = self.core.update_client(client, &params, now_ns);
                assert_eq!(*self.state(client) == State::Absent, result == Err(PolicyError::UnknownClient));
            }
            Step::Remove(client) => {
                let result = self.core.remove_client(client, now_ns);
                assert_eq!(*self.state(client) == State::Absent, result == Err(PolicyError::UnknownClient));
                *self.state(client) = State::Absent;
            }
            Step::Ready(client) => {
                self.core.client_ready(client, now_ns);
                self.move_present(client, |_| State::Ready);
            }
            Step::Suspend(client) => {
                self.core.client_suspended(client, now_ns);
                self.move_present(client, |_| State::Suspended);
            }
            Step::Idle(client) => {
                self.core.client_idle(client, now_ns);
                self.move_present(client, |state| if state == State::Ready { State::Away } else { state });
            }
            Step::Record(client, kind, amount) => self.core.resource_record(client, Record { kind, amount }, now_ns),
            Step::Schedule => drop(self.schedule()),
            Step::Pass(ns) => self.now_ns += ns,
        }
    }

    fn move_present(&mut self, client: u32, to: impl Fn(State) -> State) {
        let state = self.state(client);
        if *state != State::Absent {
            *state = to(*state);
        }
    }

    fn check(&self) {
        let is_any_ready = self.states.contains(&State::Ready);
        let readiness = self.core.poll_ready(self.now_ns);
        assert_eq!(readiness != Readiness::Never, is_any_ready, "{readiness:?}, {:?}", self.states);
        for (client, &state) in (0..).zip(&self.states) {
            let Some(statistics) = self.core.client_statistics(client) else {
                assert_eq!(state, State::Absent);
                assert!(!self.core.entitled(client, self.now_ns));
                continue;
            };
            assert_eq!(statistics.ready, state == State::Ready);
            assert_eq!(statistics.suspended, state == State::Suspended);
            assert_eq!(statistics.chosen, self.chosen[client as usize]);
            assert!(!(self.core.entitled(client, self.now_ns) && state == State::Suspended));
        }
    }

    /// Serves every ready client, waiting when the policy says so.
    fn drain(&mut self) {
        for _ in 0..10 * CLIENTS {
            if self.schedule().is_none() {
                match self.core.poll_ready(self.now_ns) {
                    Readiness::At(at_ns) => self.now_ns = self.now_ns.max(at_ns),
                    answer => return assert_eq!(answer, Readiness::Never),
                }
            }
        }
        panic!("not empty after many choices: {:?}", self.states);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_policy_panics_invents_or_loses_a_client(steps in prop::collection::vec(step(), 1..300)) {
        for (name, policy) in policies() {
            let core = policy.init_core(0);
            let (states, chosen) = ([State::Absent; CLIENTS as usize], [0; CLIENTS as usize]);
            let mut checked = Checked { core, states, chosen, now_ns: 0 };
            let run = || {
                for step in &steps {
                    checked.take(step);
                    checked.check();
                }
                checked.drain();
                assert!(!checked.states.contains(&State::Ready), "lost: {:?}", checked.states);
            };
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            prop_assert!(result.is_ok(), "{}: {:?}", name, result.err().and_then(|e| e.downcast_ref::<String>().cloned()));
        }
    }
}

#[test]
fn the_index_of_a_client_has_a_limit_and_a_refused_one_leaves_nothing() {
    for (name, policy) in policies() {
        let mut core = policy.init_core(0);
        let params = ClientParams::default();
        assert_eq!(core.add_client(CLIENTS_MAX, &params, 0), Err(PolicyError::IndexTooLarge), "{name}");
        assert_eq!(core.add_client(u32::MAX, &params, 0), Err(PolicyError::IndexTooLarge), "{name}");
        assert_eq!(core.add_client(CLIENTS_MAX - 1, &params, 0), Ok(()), "{name}");
        core.client_ready(CLIENTS_MAX - 1, 0);
        core.client_ready(u32::MAX, 0);
        assert_eq!(core.schedule(0), Some(CLIENTS_MAX - 1), "{name}");
        assert_eq!(core.schedule(0), None, "{name}");
    }
}

#[test]
fn a_hundred_years_at_full_speed_overflow_nothing() {
    const CENTURY_NS: u64 = 3_155_760_000_000_000_000;
    for (name, policy) in policies() {
        let mut core = policy.init_core(0);
        for client in 0..2 {
            core.add_client(client, &ClientParams::default(), 0).unwrap();
            core.client_ready(client, 0);
        }
        // A century in a thousand steps, each charged with 5 units per nanosecond.
        let step_ns = CENTURY_NS / 1000;
        let mut used = [0u64; 2];
        for step in 0..1000 {
            let client = core.schedule(step * step_ns).unwrap();
            used[client as usize] += 1;
            core.resource_record(client, Record { kind: Metric::Cycles, amount: step_ns * 5 }, (step + 1) * step_ns);
            core.client_ready(client, (step + 1) * step_ns);
        }
        // Four standard deviations of 1000 fair draws; a tree's own policy counts, not the one below it.
        let most = if name == "lottery" { 127 } else { 2 };
        assert!(name.contains("priority") || used[0].abs_diff(used[1]) <= most, "{name}: {used:?}");
    }
}
