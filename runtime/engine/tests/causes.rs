//! Choosing, interrupts and expiries of timers are on the bill of the activity that caused them, and count against its share.
//!
//! The machine is an engine of one or two cores in the simulator, in virtual time, in which each look at the clock costs 20 ns. `beside`
//! lets an attacker and a victim that computes share a core for a tenth of a second, `across` has them on two cores; both return the
//! cycles of looks of the attacker, of the victim and of nobody.
//!
//! The tests hold that a program's own time is whole whoever interrupts it, that an attacker by timers, yields, naps, wakes or devices
//! pays nearly all that it causes, on other cores too, that it gets less of the core for it, that an idle core's time is nobody's, and
//! that the rest of ended processes is their tenant's.
//!
//! Shares between programs that only compute, and costs on real processors, are left out.

mod common;
use common::*;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::snapshot::Spent;
use gyre_engine::{Engine, NoticeRoute, ResourceConfig, ThreadParams, compute};
use gyre_machine::{Events, PageTable, Trap, UserContext, advance, post_event};
use gyre_message::{Link, Reply, Runtime, protocol, sleep_ns, yield_now};
use gyre_object::SpinLock;
use std::cell::Cell;
use std::rc::Rc;

const SECOND_NS: u64 = 1_000_000_000;
const US: u64 = 1_000;

fn machine(cores: usize) -> &'static Engine {
    engine(cores, vec![ResourceConfig::new("linux"), ResourceConfig::new("interrupts"), ResourceConfig::new("disk")])
}

fn params(cores: u64) -> ThreadParams {
    ThreadParams { cores, kernel: resource(0) }
}

/// A program that computes for ever.
fn hog(engine: &'static Engine, activity: ActivityId, cores: u64) {
    let program = Box::pin(async {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            compute::run(&mut context, &table).await;
        }
    });
    assert!(engine.spawn_thread(activity, params(cores), program));
}

/// A program that computes for `ns`, then does something in the kernel, again and again.
fn program<F: Future<Output = ()> + Send>(
    engine: &'static Engine,
    activity: ActivityId,
    ns: u64,
    call: impl Fn() -> F + Send + 'static,
) where
    F: 'static,
{
    let program = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            context.script.push_back((ns, Trap::SystemCall));
            compute::run(&mut context, &table).await;
            call().await;
        }
    });
    assert!(engine.spawn_thread(activity, params(u64::MAX), program));
}

/// Returns cycles of looks that an activity caused.
fn looks(engine: &Engine, activity: ActivityId) -> u64 {
    let lines = engine.accounts().lines().iter();
    lines.map(|line| line.table().cell(activity, ResourceId::RUNTIME).get(Column::Cycles)).sum()
}

/// Returns cycles of looks that nobody caused.
fn nobodys(engine: &Engine) -> u64 {
    let parts = engine.accounts().lines().iter().map(|line| line.partition());
    parts.map(|part| part.scheduling + part.interrupt).sum()
}

fn run(engine: &'static Engine, ns: u64) {
    assert_eq!(Simulator::new(engine, 1).run_for(ns, 100_000_000), Stop::TimeOver);
    check_books(engine);
}

/// A victim that computes, with this attack beside it for a tenth of a second: cycles of looks of the attacker, of the victim, and of nobody.
fn beside(attack: impl Fn(&'static Engine, ActivityId)) -> [u64; 3] {
    let engine = machine(1);
    let (victim, attacker) = (tenant(engine, 1), tenant(engine, 1));
    hog(engine, victim, 1);
    attack(engine, attacker);
    run(engine, SECOND_NS / 10);
    [looks(engine, attacker), looks(engine, victim), nobodys(engine)]
}

/// A program's own time is its time in user mode to the cycle, whoever interrupts and displaces it.
#[test]
fn a_programs_own_time_is_whole_whoever_takes_the_core_meanwhile() {
    const ROUNDS: u64 = 200;
    let engine = machine(1);
    let (worker, other) = (tenant(engine, 1), tenant(engine, 1));
    for _ in 0..3 {
        hog(engine, other, 1);
    }
    for number in 0..16 {
        engine.spawn_for(resource(0), other, async move {
            loop {
                sleep_ns((70 + number) * US).await;
            }
        });
    }
    let done: &'static SpinLock<u64> = Box::leak(Box::default());
    program(engine, worker, 500 * US, move || async move { *done.lock() += 1 });
    assert_eq!(Simulator::new(engine, 1).run(1_000_000, move || *done.lock() >= ROUNDS), Stop::Done);
    check_books(engine);
    let own = engine.accounts().line(0).table().cell(worker, gyre_engine::COMPUTE).get(Column::Cycles);
    // The round after the last one has begun.
    let wanted = *done.lock() * 500 * US;
    assert!(own >= wanted, "{own} of {wanted} cycles");
    // Entering user mode is its, too: a look at the clock each time.
    assert!(own <= wanted + 500 * US + wanted / 50, "{own} of {wanted} cycles");
    assert!(looks(engine, worker) > 0);
}

/// A clock of a program's own time does not run faster because the core is taken from it often.
#[test]
fn a_programs_clock_shows_its_work_alone_whoever_takes_the_core() {
    const ROUNDS: u64 = 400;
    let work = |neighbours: u64| {
        let engine = machine(1);
        let (worker, other) = (tenant(engine, 1), tenant(engine, 1));
        (0..neighbours).for_each(|_| hog(engine, other, 1));
        let done: &'static SpinLock<u64> = Box::leak(Box::default());
        program(engine, worker, 100 * US, move || async move { *done.lock() += 1 });
        assert_eq!(Simulator::new(engine, 1).run(100_000, move || *done.lock() >= ROUNDS), Stop::Done);
        let spent = Spent::of(&engine.figures(worker));
        assert_eq!(spent.work() + spent.looks, used(engine, 0, worker, Column::Cycles), "each cycle has one use");
        assert!((neighbours == 0 || spent.looks > 0) && spent.leased == 0, "{spent:?}");
        let rounds = *done.lock();
        spent.work() / rounds
    };
    let (alone, beside) = (work(0), work(4));
    assert!(
        beside * 100 <= alone * 102 && alone * 100 <= beside * 102,
        "{alone} cycles a round alone, {beside} beside others"
    );
}

/// Interrupts that lead to no work are nobody's, not of who comes next.
#[test]
fn who_comes_to_an_idle_core_pays_for_none_of_its_idle_time() {
    let engine = machine(1);
    engine.on_event(0, Events::FIRST_LINE, Box::new(|| advance(10 * US)));
    for _ in 0..100 {
        post_event(0, 1 << Events::FIRST_LINE);
        Simulator::new(engine, 1).run(100, || false);
    }
    let before = nobodys(engine);
    assert!(before >= 1000 * US, "{before}");
    let comer = tenant(engine, 1);
    engine.spawn_for(resource(0), comer, async {});
    Simulator::new(engine, 1).run(100, || false);
    assert!(looks(engine, comer) < 10 * US && nobodys(engine) >= before, "{} cycles", looks(engine, comer));
    check_books(engine);
}

/// Nearly all is the attacker's.
fn assert_paid([attacker, victim, nobody]: [u64; 3]) {
    assert!(attacker > 10 * US, "it caused something: {attacker}");
    assert!(20 * victim <= attacker, "attacker {attacker}, victim {victim}");
    assert!(100 * nobody <= attacker, "attacker {attacker}, nobody {nobody}");
}

#[test]
fn who_arms_timers_pays_for_their_interrupts() {
    assert_paid(beside(|engine, attacker| {
        for number in 0..64 {
            engine.spawn_for(resource(0), attacker, async move {
                sleep_ns(number * 3 * US).await;
                loop {
                    sleep_ns(200 * US).await;
                }
            });
        }
    }));
}

#[test]
fn who_yields_pays_for_the_choice_that_follows() {
    assert_paid(beside(|engine, attacker| program(engine, attacker, US, yield_now)));
}

#[test]
fn who_naps_pays_for_the_choices_before_and_after() {
    assert_paid(beside(|engine, attacker| (0..8).for_each(|_| program(engine, attacker, US, || sleep_ns(20 * US)))));
}

/// Two that only compute pay for each other's turns as often as they get them.
#[test]
fn who_is_chosen_at_the_end_of_anothers_slice_pays_for_that() {
    let engine = machine(1);
    let [one, other] = [tenant(engine, 1), tenant(engine, 1)];
    [one, other].into_iter().for_each(|tenant| hog(engine, tenant, 1));
    run(engine, SECOND_NS);
    let (one, other) = (looks(engine, one), looks(engine, other));
    assert!(one.abs_diff(other) * 10 <= one && one > 0, "{one} and {other}");
    assert!(nobodys(engine) * 100 <= one, "nobody {}", nobodys(engine));
}

/// The amount that somebody caused counts against its share of the core.
#[test]
fn who_causes_much_gets_less() {
    let engine = machine(1);
    let (victim, attacker) = (tenant(engine, 1), tenant(engine, 1));
    hog(engine, victim, 1);
    (0..8).for_each(|_| program(engine, attacker, 400, yield_now));
    run(engine, SECOND_NS / 2);
    let [mine, its] = [victim, attacker].map(|tenant| used(engine, 0, tenant, Column::Cycles));
    assert!(looks(engine, attacker) * 20 > its, "looks are a part that counts: {} of {its}", looks(engine, attacker));
    assert!(mine.abs_diff(its) * 200 <= mine, "victim {mine}, attacker {its}");
}

protocol! {
    /// A disk.
    pub mod disk {
        /// Reads.
        async fn read() -> Result<(), Nobody>;
    }
}

/// A device whose interrupts come while another one computes: all of them are for the one that asked.
#[test]
fn who_asked_a_device_pays_for_its_interrupts_and_notices() {
    const READS: u64 = 200;
    let engine = machine(1);
    let (victim, asker) = (tenant(engine, 1), tenant(engine, 1));
    let begun: &'static SpinLock<Vec<(gyre_engine::Origin, Reply<Result<(), Nobody>>)>> = Box::leak(Box::default());
    let port = engine.port(resource(2), move |disk::Request::read { reply }| async move {
        begun.lock().push((engine.origin(), reply));
        post_event(0, 1 << Events::FIRST_LINE);
    });
    let client = disk::Client::new(Link::new(port));
    let notice = engine.notice(NoticeRoute { from: resource(1), to: resource(2), core: 0 }, move || {
        advance(500);
        for (origin, reply) in core::mem::take(&mut *begun.lock()) {
            engine.go_on(origin, || reply.send(Ok(())));
        }
    });
    engine.on_interrupt(0, Events::FIRST_LINE, Box::new(move || notice.send()));
    Simulator::new(engine, 1).run(10_000, || false);
    let before = [used(engine, 0, ActivityId::INFRASTRUCTURE, Column::Cycles), nobodys(engine)];
    hog(engine, victim, 1);
    let done = Rc::new(Cell::new(0));
    let told = done.clone();
    engine.spawn_for(resource(0), asker, async move {
        loop {
            client.read().await.unwrap();
            told.set(told.get() + 1);
            sleep_ns(100 * US).await;
        }
    });
    let told = done.clone();
    assert_eq!(Simulator::new(engine, 1).run(1_000_000, move || told.get() == READS), Stop::Done);
    let [infrastructure, nobody] = [used(engine, 0, ActivityId::INFRASTRUCTURE, Column::Cycles), nobodys(engine)];
    let at_disk = engine.accounts().line(0).table().cell(asker, resource(2)).get(Column::Cycles);
    assert!(at_disk >= READS * 500, "the notices' work is the asker's: {at_disk}");
    assert!(infrastructure - before[0] <= 2 * US, "{} cycles", infrastructure - before[0]);
    assert!(nobody - before[1] <= 2 * US, "{} cycles", nobody - before[1]);
    assert!(looks(engine, asker) > READS * 40 && looks(engine, victim) * 20 <= looks(engine, asker));
    check_books(engine);
}

/// A victim that computes on a core, and somebody on the other one for a tenth of a second: cycles of looks on the victim's core, of the
/// somebody, of the victim, and of nobody.
fn across(attack: impl Fn(&'static Engine, ActivityId)) -> [u64; 3] {
    let engine = machine(2);
    let (victim, attacker) = (tenant(engine, 1), tenant(engine, 1));
    hog(engine, victim, 0b10);
    gyre_machine::select_core(0);
    attack(engine, attacker);
    run(engine, SECOND_NS / 10);
    let line = engine.accounts().line(1);
    let looks = |activity| line.table().cell(activity, ResourceId::RUNTIME).get(Column::Cycles);
    [looks(attacker), looks(victim), line.partition().interrupt + line.partition().scheduling]
}

/// Sleeps on core 0 as often as the attacks there do: a simulated program stops whenever another core has something to do.
async fn sleeps() {
    loop {
        sleep_ns(50 * US).await;
    }
}

#[test]
fn who_asks_another_core_at_once_pays_there_too() {
    let rest = across(|engine, other| engine.spawn_for(resource(0), other, sleeps()));
    let asked = across(|engine, asker| {
        engine.spawn_for(resource(0), asker, async move {
            loop {
                engine.at_once(1, || advance(300)).await.unwrap();
                sleep_ns(50 * US).await;
            }
        });
    });
    assert_more(rest, asked);
}

#[test]
fn who_wakes_its_tasks_on_another_core_pays_for_the_interrupt() {
    let rest = across(|engine, other| engine.spawn_for(resource(0), other, sleeps()));
    let woken = across(|engine, waker| {
        engine.spawn_for_on(1, resource(0), waker, move || async move {
            loop {
                let (reply, call) = gyre_message::reply_pair::<Result<(), Nobody>>();
                engine.spawn_for_on(0, resource(0), waker, move || async move {
                    sleep_ns(50 * US).await;
                    reply.send(Ok(()));
                });
                call.await.unwrap();
            }
        });
    });
    assert_more(rest, woken);
}

/// Nearly all that is more than at rest is the attacker's.
fn assert_more(rest: [u64; 3], attacked: [u64; 3]) {
    let [attacker, victim, nobody] = attacked;
    assert!(rest[0] == 0 && attacker > 2 * US, "{rest:?} {attacked:?}");
    assert!(victim.saturating_sub(rest[1]) * 20 <= attacker, "{rest:?} {attacked:?}");
    assert!(nobody.saturating_sub(rest[2]) * 20 <= attacker, "{rest:?} {attacked:?}");
}

/// A timer without a task, as that of an alarm: its waker arms the next one.
struct Again(&'static Engine);

impl std::task::Wake for Again {
    fn wake(self: std::sync::Arc<Self>) {
        let engine = self.0;
        engine.wake_at(gyre_machine::now() + 50 * US, self.into());
    }
}

#[test]
fn who_arms_a_timer_again_when_it_expires_goes_on_paying() {
    assert_paid(beside(|engine, attacker| {
        engine.spawn_for(resource(0), attacker, async move {
            std::task::Waker::from(std::sync::Arc::new(Again(engine))).wake();
        });
    }));
}

#[test]
fn a_tenant_pays_for_what_is_left_of_its_processes() {
    const ENDED: usize = 100;
    let engine = machine(1);
    let lead = tenant(engine, 1);
    let activities = &engine.accounts().activities;
    let infrastructure = || used(engine, 0, ActivityId::INFRASTRUCTURE, Column::Cycles);
    let params = gyre_account::ActivityParams::default();
    let members: Vec<_> = (0..ENDED).map(|_| activities.create_member(lead, "process", params, 200).unwrap()).collect();
    let (before, its_before) = (infrastructure(), used(engine, 0, lead, Column::Cycles));
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        advance(5 * US);
        engine.end_members(members).await.unwrap();
    });
    assert_eq!(Simulator::new(engine, 1).run(10_000, || false), Stop::Quiet);
    assert!(used(engine, 0, lead, Column::Cycles) >= its_before + 5 * US);
    assert!(infrastructure() <= before + US, "{} cycles", infrastructure() - before);
    check_books(engine);
}

/// A process that ends while it causes something leaves nothing behind that nobody pays.
#[test]
fn what_a_process_caused_is_its_tenants_when_it_has_ended() {
    let engine = machine(1);
    let (victim, lead) = (tenant(engine, 1), tenant(engine, 1));
    hog(engine, victim, 1);
    for _ in 0..50 {
        let child = child(engine, lead);
        engine.spawn_for(resource(0), child, async { sleep_ns(100 * US).await });
        run(engine, SECOND_NS / 1000);
        let closed = Rc::new(Cell::new(false));
        let told = closed.clone();
        engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
            engine.kill(child).await.unwrap();
            told.set(true);
        });
        assert_eq!(Simulator::new(engine, 1).run(10_000, move || closed.get()), Stop::Done);
        check_books(engine);
    }
    let line = engine.accounts().line(0);
    let listed: u64 =
        engine.accounts().activities.ids().into_iter().map(|id| used(engine, 0, id, Column::Cycles)).sum();
    assert_eq!(listed, line.table().sum(Column::Cycles), "no cycles on rows without an activity");
}
