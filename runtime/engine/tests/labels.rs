//! Dependency labels (V8) over random schedules: same activity and label, one at a time and in the order made.

mod common;
use common::*;
use gyre_account::ResourceId;
use gyre_engine::ResourceConfig;
use gyre_engine::simulate::{Simulator, Stop};
use gyre_machine::advance;
use gyre_message::{Labels, Link, protocol, sleep_ns, yield_now};
use gyre_object::SpinLock;
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

protocol! {
    /// Writes things down.
    pub mod log {
        /// Notes its start and its end.
        async fn note(activity: u32, label: u64, number: u32, pause: u32) -> Result<(), Nobody>;
    }
}

#[derive(Default)]
struct Log {
    /// Activity, label, number, whether it ended.
    lines: SpinLock<Vec<(u32, u64, u32, bool)>>,
}

impl log::Server for Log {
    async fn note(&'static self, activity: u32, label: u64, number: u32, pause: u32) -> Result<(), Nobody> {
        self.lines.lock().push((activity, label, number, false));
        advance(u64::from(pause % 5) * 100);
        match pause % 3 {
            0 => sleep_ns(u64::from(pause) * 10).await,
            1 => yield_now().await,
            _ => {}
        }
        self.lines.lock().push((activity, label, number, true));
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    activity: usize,
    label: u64,
    affinity: u64,
    pause: u32,
    gap_ns: u64,
}

fn sent() -> impl Strategy<Value = Sent> {
    (0..2usize, 0..3u64, 0..4u64, 0..1_000u32, 0..3_000u64)
        .prop_map(|(activity, label, affinity, pause, gap_ns)| Sent { activity, label, affinity, pause, gap_ns })
}

fn check(requests: &[Sent], cores: usize, seed: u64) {
    let engine = engine(cores, vec![ResourceConfig::new("log")]);
    let server: &'static Log = Box::leak(Box::default());
    let port = engine.port(resource(0), move |request| log::serve(server, request));
    let client = log::Client::new(Link::new(port));
    let activities = [tenant(engine, 1), tenant(engine, 2)];
    let done = Rc::new(Cell::new(0));
    for (index, &activity) in activities.iter().enumerate() {
        let mine: Vec<(u32, Sent)> =
            (0..).zip(requests.iter().copied()).filter(|(_, sent)| sent.activity == index).collect();
        let done = done.clone();
        engine.spawn_for(ResourceId::RUNTIME, activity, async move {
            let mut calls = Vec::new();
            for (number, sent) in mine {
                if sent.gap_ns > 1_500 {
                    sleep_ns(sent.gap_ns).await;
                }
                let labels = Labels { affinity: sent.affinity, dependency: sent.label };
                calls.push(client.labelled(labels).note(activity.0, sent.label, number, sent.pause));
            }
            for call in calls {
                call.await.unwrap();
                done.set(done.get() + 1);
            }
        });
    }
    let mut simulator = Simulator::new(engine, seed);
    let (count, answered) = (requests.len(), done.clone());
    assert_eq!(simulator.run(1_000_000, move || answered.get() == count), Stop::Done);
    let lines = server.lines.lock();
    for activity in activities {
        for label in 1..3 {
            let chain: Vec<_> = lines.iter().filter(|line| line.0 == activity.0 && line.1 == label).collect();
            for pair in chain.chunks(2) {
                assert!(!pair[0].3 && pair[1].3 && pair[0].2 == pair[1].2, "one at a time: {chain:?}");
            }
            assert!(chain.chunks(2).is_sorted_by_key(|pair| pair[0].2), "in the order made: {chain:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 150 }, ..ProptestConfig::default() })]
    #[test]
    fn requests_with_one_label_run_one_after_the_other_in_the_order_made(
        requests in prop::collection::vec(sent(), 1..60),
        cores in 1..4usize,
        seed in any::<u64>(),
    ) {
        std::thread::spawn(move || check(&requests, cores, seed)).join().unwrap();
    }
}
