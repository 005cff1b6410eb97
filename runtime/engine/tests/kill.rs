//! An activity killed at any moment holds nothing afterwards, and no task that waits for it is forgotten.

mod common;
use common::*;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext, advance};
use gyre_message::{Labels, Link, protocol, sleep_ns, yield_now};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is alive, as buffers and guards of a handler are.
struct Held(&'static AtomicUsize);
impl Held {
    fn new(count: &'static AtomicUsize) -> Held {
        count.fetch_add(1, Ordering::Relaxed);
        Held(count)
    }
}
impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

protocol! {
    /// A stage that holds something while it works.
    pub mod stage {
        /// Works, waits, asks the next one.
        async fn work(depth: u32, cargo: Box<u64>) -> Result<Box<u64>, Nobody>;
    }
}

struct Stage {
    held: &'static AtomicUsize,
    next: OnceLock<stage::Client>,
}

impl stage::Server for Stage {
    async fn work(&'static self, depth: u32, cargo: Box<u64>) -> Result<Box<u64>, Nobody> {
        let _held = Held::new(self.held);
        advance(300);
        match depth % 3 {
            0 => sleep_ns(2_000).await,
            1 => yield_now().await,
            _ => {}
        }
        let cargo = match self.next.get() {
            Some(next) => next.work(depth + 1, cargo).await?,
            None => {
                sleep_ns(4_000).await;
                cargo
            }
        };
        advance(200);
        Ok(cargo)
    }
}

struct World {
    engine: &'static Engine,
    first: stage::Client,
    held: &'static AtomicUsize,
}

fn world() -> World {
    let names = ["a", "b", "c", "d"];
    let engine = engine(2, names.iter().map(|name| ResourceConfig::new(name)).collect());
    let held: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let mut next = None;
    for level in (0..names.len() as u8).rev() {
        let stage: &'static Stage = Box::leak(Box::new(Stage { held, next: OnceLock::new() }));
        if let Some(next) = next {
            assert!(stage.next.set(next).is_ok());
        }
        let port = engine.port(resource(level), move |request| stage::serve(stage, request));
        // One stage elsewhere, one in order, the others on the sender's core.
        let labels = match level {
            1 => Labels { affinity: 4711, dependency: 0 },
            2 => Labels { affinity: 0, dependency: 5 },
            _ => Labels::default(),
        };
        next = Some(stage::Client::new(Link::new(port)).labelled(labels));
    }
    World { engine, first: next.unwrap(), held }
}

fn start(world: &World, activity: ActivityId, calls: u64, done: Rc<Cell<u64>>) {
    let (first, held) = (world.first, world.held);
    for client in 0..3 {
        let done = done.clone();
        world.engine.spawn_for(ResourceId::RUNTIME, activity, async move {
            let _held = Held::new(held);
            for call in 0..calls {
                assert_eq!(*first.work(client, Box::new(call)).await.unwrap(), call);
                done.set(done.get() + 1);
            }
        });
    }
}

fn kill_after(steps: u64) -> bool {
    let world = world();
    let (victim, bystander) = (tenant(world.engine, 1), tenant(world.engine, 1));
    let process = child(world.engine, victim);
    let (lost, kept) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    start(&world, process, 1_000, lost.clone());
    start(&world, bystander, 12, kept.clone());
    let mut simulator = Simulator::new(world.engine, steps);
    simulator.run(steps, || false);
    let used = used_everywhere(world.engine, process, Column::Cycles);
    let killed = Rc::new(Cell::new(false));
    let answer = killed.clone();
    let engine = world.engine;
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        engine.kill(victim).await.unwrap();
        answer.set(true);
    });
    let answer = killed.clone();
    let stop = simulator.run(200_000, move || answer.get() && kept.get() == 36);
    assert_eq!(stop, Stop::Done, "killed after {steps} steps: {}", killed.get());
    assert_eq!(simulator.run(200_000, || false), Stop::Quiet);
    assert_eq!(world.held.load(Ordering::Relaxed), 0, "killed after {steps} steps");
    let activities = &engine.accounts().activities;
    assert!(!activities.exists(victim) && !activities.exists(process));
    for core in 0..2 {
        gyre_machine::select_core(core);
        let figures = engine.copy_figures();
        assert_eq!((figures.tasks, figures.queued, figures.timers), (0, 0, 0));
    }
    check_books(engine);
    // Its use stays in the books, at the infrastructure, for its parents are gone too.
    let left = used_everywhere(engine, ActivityId::INFRASTRUCTURE, Column::Cycles);
    assert!(left >= used);
    lost.get() < 3_000
}

#[test]
fn an_activity_killed_after_any_number_of_steps_holds_nothing() {
    let last = if cfg!(miri) { 8 } else { 260 };
    let cut_short = (0..last).filter(|&steps| std::thread::spawn(move || kill_after(steps)).join().unwrap()).count();
    assert!(cut_short > 0);
}

#[test]
fn a_thread_is_killed_in_its_program_and_while_it_waits() {
    for steps in [3, 10, 50, 200, 1_000] {
        std::thread::spawn(move || {
            let engine = engine(2, vec![ResourceConfig::new("linux")]);
            let held: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
            let (victim, other) = (tenant(engine, 1), tenant(engine, 1));
            for activity in [victim, victim, victim, other] {
                let params = ThreadParams { cores: u64::MAX, kernel: resource(0) };
                assert!(engine.spawn_thread(
                    activity,
                    params,
                    Box::pin(async move {
                        let _held = Held::new(held);
                        let mut context = UserContext::new().unwrap();
                        let table = PageTable::new().unwrap().root();
                        loop {
                            context.script.push_back((700_000, Trap::SystemCall));
                            compute::run(&mut context, &table).await;
                            sleep_ns(100_000).await;
                        }
                    })
                ));
            }
            let mut simulator = Simulator::new(engine, steps);
            simulator.run(steps, || false);
            let killed = Rc::new(Cell::new(false));
            let answer = killed.clone();
            engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
                engine.kill(victim).await.unwrap();
                answer.set(true);
            });
            assert_eq!(simulator.run(100_000, move || killed.get()), Stop::Done);
            simulator.run_for(simulator.now_ns() + 10_000_000, 100_000);
            assert_eq!(held.load(Ordering::Relaxed), 1, "only the other tenant's thread is left");
            check_books(engine);
        })
        .join()
        .unwrap();
    }
}

#[test]
fn who_asks_somebody_that_is_killed_gets_an_answer() {
    let engine = engine(1, vec![ResourceConfig::new("a")]);
    let (victim, asker) = (tenant(engine, 1), tenant(engine, 1));
    let answer = Rc::new(Cell::new(None));
    let got = answer.clone();
    engine.spawn_for(ResourceId::RUNTIME, asker, async move {
        let (reply, call) = gyre_message::reply_pair::<Result<u32, Nobody>>();
        engine.spawn_for(ResourceId::RUNTIME, victim, async move {
            sleep_ns(1_000_000_000).await;
            reply.send(Ok(1));
        });
        sleep_ns(1_000).await;
        engine.kill(victim).await.unwrap();
        got.set(Some(call.await));
    });
    let mut simulator = Simulator::new(engine, 1);
    let got = answer.clone();
    assert_eq!(simulator.run(10_000, move || got.get().is_some()), Stop::Done);
    assert_eq!(answer.get(), Some(Err(Nobody)));
}

#[test]
fn nothing_is_started_for_an_activity_that_has_ended() {
    let engine = engine(1, vec![ResourceConfig::new("a")]);
    let victim = tenant(engine, 1);
    let mut simulator = Simulator::new(engine, 1);
    let killed = Rc::new(Cell::new(false));
    let done = killed.clone();
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        engine.kill(victim).await.unwrap();
        done.set(true);
    });
    assert_eq!(simulator.run(1_000, || killed.get()), Stop::Done);
    let ran = Rc::new(Cell::new(false));
    let flag = ran.clone();
    engine.spawn_for(ResourceId::RUNTIME, victim, async move { flag.set(true) });
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert!(!ran.get());
}

#[test]
fn a_halted_activity_works_again_under_its_books_once_it_is_revived() {
    let engine = engine(2, vec![ResourceConfig::new("files")]);
    let (tenant, done) = (tenant(engine, 10), Rc::new(Cell::new(0)));
    let mut simulator = Simulator::new(engine, 1);
    let mut work = |expected: u32| {
        let done = done.clone();
        let count = done.clone();
        engine.spawn_for(resource(0), tenant, async move {
            advance(1_000);
            done.set(done.get() + 1);
        });
        simulator.run_for(10_000_000, 100_000);
        assert_eq!(count.get(), expected);
    };
    work(1);
    assert!(!engine.revive(tenant), "it lives");
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        engine.halt(tenant).await.unwrap();
    });
    work(1);
    work(1);
    assert!(engine.revive(tenant) && !engine.revive(tenant));
    work(2);
    check_books(engine);
    assert!(!engine.revive(ActivityId::INFRASTRUCTURE));
}
