//! Members (processes) of a lead (a tenant): figures of their own, queues of the lead, and nothing lost when they end.

mod common;
use common::*;
use gyre_account::{ActivityError, ActivityId, ActivityParams, Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext, advance};
use gyre_message::{Labels, Link, protocol, sleep_ns, yield_now};
use std::cell::Cell;
use std::rc::Rc;

protocol! {
    /// A service that takes time.
    pub mod service {
        /// Works, waits, works.
        async fn work(number: u64) -> Result<u64, Nobody>;
    }
}

struct Service;
impl service::Server for Service {
    async fn work(&'static self, number: u64) -> Result<u64, Nobody> {
        advance(300);
        match number % 3 {
            0 => sleep_ns(2_000).await,
            1 => yield_now().await,
            _ => {}
        }
        advance(200);
        Ok(number)
    }
}
static SERVICE: Service = Service;

fn member(engine: &Engine, lead: ActivityId, weight: u32) -> ActivityId {
    let params = ActivityParams { weight, ..ActivityParams::default() };
    engine.accounts().activities.create_member(lead, "process", params, 100).unwrap()
}

fn machine() -> (&'static Engine, service::Client, service::Client) {
    let engine = engine(2, vec![ResourceConfig::new("near"), ResourceConfig::new("far")]);
    let client = |position| {
        let port = engine.port(resource(position), |request| service::serve(&SERVICE, request));
        service::Client::new(Link::new(port))
    };
    let far = client(1).labelled(Labels { affinity: 4711, dependency: 5 });
    (engine, client(0), far)
}

fn ask(engine: &'static Engine, payer: ActivityId, clients: [service::Client; 2], calls: u64, done: &Rc<Cell<u64>>) {
    for client in clients {
        let done = done.clone();
        engine.spawn_for(ResourceId::RUNTIME, payer, async move {
            for call in 0..calls {
                assert_eq!(client.work(call).await, Ok(call), "work goes on whoever pays");
                done.set(done.get() + 1);
            }
        });
    }
}

fn all_cycles(engine: &Engine) -> u64 {
    (0..engine.cores()).map(|core| engine.accounts().line(core).partition().handling).sum()
}

/// A member that ends after any number of steps: its work goes on, its figures are its lead's, its slot may be another's.
fn end_after(steps: u64) {
    let (engine, near, far) = machine();
    let (lead, other) = (tenant(engine, 1), tenant(engine, 1));
    let done = Rc::new(Cell::new(0));
    let process = member(engine, lead, 1);
    ask(engine, process, [near, far], 40, &done);
    let mut simulator = Simulator::new(engine, steps);
    simulator.run(steps, || false);
    let used = used_everywhere(engine, process, Column::Cycles);
    let handled = all_cycles(engine);
    let ended = Rc::new(Cell::new(false));
    let answer = ended.clone();
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        engine.end_members(vec![process]).await.unwrap();
        answer.set(true);
    });
    let answer = ended.clone();
    assert_eq!(simulator.run(200_000, move || answer.get()), Stop::Done);
    assert!(!engine.accounts().activities.exists(process));
    assert!(used_everywhere(engine, lead, Column::Cycles) >= used);
    // The activity that gets the slot next starts with clean books and stays the only one who writes in them.
    let strangers: Vec<ActivityId> = (0..99).map(|_| member(engine, other, 1)).collect();
    let all_done = done.clone();
    assert_eq!(simulator.run(400_000, move || all_done.get() == 80), Stop::Done, "ended after {steps} steps");
    assert!(strangers.iter().all(|&stranger| used_everywhere(engine, stranger, Column::Messages) == 0));
    assert!(all_cycles(engine) > handled);
    check_books(engine);
}

#[test]
fn a_member_ended_after_any_number_of_steps_leaves_its_work_and_its_figures_to_its_lead() {
    let last = if cfg!(miri) { 6 } else { 150 };
    (0..last).for_each(|steps| std::thread::spawn(move || end_after(steps)).join().unwrap());
}

#[test]
fn members_share_their_leads_queues_and_keep_their_own_figures() {
    let (engine, near, far) = machine();
    let lead = tenant(engine, 1);
    let processes: Vec<ActivityId> = (0..20).map(|_| member(engine, lead, 1)).collect();
    let done = Rc::new(Cell::new(0));
    processes.iter().for_each(|&process| ask(engine, process, [near, far], 10, &done));
    let all_done = done.clone();
    assert_eq!(Simulator::new(engine, 7).run(400_000, move || all_done.get() == 400), Stop::Done);
    let queues: usize = (0..2)
        .map(|core| {
            gyre_machine::select_core(core);
            engine.copy_figures().queues
        })
        .sum();
    assert!(queues < 16, "{queues} queues for 20 processes");
    let messages: Vec<u64> =
        processes.iter().map(|&process| used_everywhere(engine, process, Column::Messages)).collect();
    assert!(messages.iter().all(|&count| count >= 20), "{messages:?}");
    check_books(engine);
}

fn hog(engine: &'static Engine, activity: ActivityId) {
    let params = ThreadParams { cores: 1, kernel: resource(0) };
    assert!(engine.spawn_thread(
        activity,
        params,
        Box::pin(async move {
            let mut context = UserContext::new().unwrap();
            let table = PageTable::new().unwrap().root();
            loop {
                context.script.push_back((50_000, Trap::SystemCall));
                compute::run(&mut context, &table).await;
            }
        }),
    ));
}

#[test]
fn weights_divide_a_leads_share_among_its_members() {
    let (engine, ..) = machine();
    let (lead, other) = (tenant(engine, 1), tenant(engine, 1));
    let (nice, eager) = (member(engine, lead, 10), member(engine, lead, 30));
    [nice, eager, other].iter().for_each(|&activity| hog(engine, activity));
    let mut simulator = Simulator::new(engine, 1);
    simulator.run_for(2_000_000_000, 2_000_000);
    let used = |activity| used(engine, 0, activity, Column::Cycles) as f64;
    let (nice, eager, other) = (used(nice), used(eager), used(other));
    let all = nice + eager + other;
    assert!((other / all - 0.5).abs() < 0.01, "{nice} {eager} {other}");
    assert!((eager / (nice + eager) - 0.75).abs() < 0.01, "{nice} {eager} {other}");
    check_books(engine);
}

#[test]
fn thousands_of_short_lives_add_up_to_the_cycle() {
    let (engine, near, _) = machine();
    let lead = tenant(engine, 1);
    let mut simulator = Simulator::new(engine, 3);
    let ends = if cfg!(miri) { 20 } else { 5_000 };
    let done = Rc::new(Cell::new(false));
    let answer = done.clone();
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        for _ in 0..ends {
            let process = member(engine, lead, 1);
            let (reply, call) = gyre_message::reply_pair::<Result<(), Nobody>>();
            engine.spawn_for(ResourceId::RUNTIME, process, async move {
                assert_eq!(near.work(2).await, Ok(2));
                reply.send(Ok(()));
            });
            call.await.unwrap();
            engine.end_members(vec![process]).await.unwrap();
        }
        answer.set(true);
    });
    assert_eq!(simulator.run(10_000_000, move || done.get()), Stop::Done);
    assert_eq!(engine.accounts().activities.ids(), [ActivityId::INFRASTRUCTURE, lead]);
    // A start at the runtime and one at the service each, also if others asked.
    assert!(used_everywhere(engine, lead, Column::Messages) >= 2 * ends);
    assert!(used_everywhere(engine, lead, Column::Cycles) > 500 * ends);
    check_books(engine);
}

#[test]
fn a_lead_takes_no_more_places_than_its_own() {
    let (engine, ..) = machine();
    let lead = tenant(engine, 1);
    let activities = &engine.accounts().activities;
    let create = || activities.create_member(lead, "p", ActivityParams::default(), 3);
    assert!((0..3).all(|_| create().is_ok()));
    assert_eq!(create(), Err(ActivityError::Full));
    let of_a_member = activities.subtree(lead)[0];
    let below = activities.create_member(of_a_member, "p", ActivityParams::default(), 3);
    assert_eq!(below, Err(ActivityError::Unknown));
}

#[test]
fn a_lead_is_killed_with_its_members() {
    let (engine, near, far) = machine();
    let lead = tenant(engine, 1);
    let processes: Vec<ActivityId> = (0..5).map(|_| member(engine, lead, 1)).collect();
    for &process in &processes {
        engine.spawn_for(ResourceId::RUNTIME, process, async move {
            while near.work(0).await.is_ok() && far.work(1).await.is_ok() {}
        });
    }
    let mut simulator = Simulator::new(engine, 5);
    simulator.run(300, || false);
    let killed = Rc::new(Cell::new(false));
    let answer = killed.clone();
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        // A process that ends while its tenant does.
        let ending = engine.end_members(vec![processes[0]]);
        engine.kill(lead).await.unwrap();
        ending.await.unwrap();
        answer.set(true);
    });
    assert_eq!(simulator.run(200_000, move || killed.get()), Stop::Done);
    assert_eq!(simulator.run(200_000, || false), Stop::Quiet);
    assert_eq!(engine.accounts().activities.ids(), [ActivityId::INFRASTRUCTURE]);
    check_books(engine);
}
