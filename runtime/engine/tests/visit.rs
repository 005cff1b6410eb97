//! A client that looks at a server's near part spends its turn as a message handled inline would, and only if one would have been handled so.

mod common;
use common::*;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, ResourceConfig};
use gyre_machine::advance;
use gyre_message::{Labels, Link, protocol};
use gyre_object::SpinLock;
use std::cell::Cell;
use std::rc::Rc;

/// The part that the server shows.
pub trait Shown: Sync {
    /// Returns a number, for 500 ns.
    fn look(&'static self) -> u64;
}

protocol! {
    /// Tells a number.
    pub mod teller near Shown {
        /// After a while.
        async fn tell() -> Result<u64, Nobody>;
    }
}

struct Teller;

impl teller::Server for Teller {
    async fn tell(&'static self) -> Result<u64, Nobody> {
        gyre_message::sleep_ns(10_000).await;
        Ok(7)
    }
}

impl Shown for Teller {
    fn look(&'static self) -> u64 {
        advance(500);
        7
    }
}

static TELLER: Teller = Teller;

fn client(engine: &'static Engine) -> teller::Client {
    let port = engine.port(resource(0), |request| teller::serve(&TELLER, request));
    teller::Client::new(Link::new(port))
}

/// Runs a task of a tenant in resource 1 and answers the tenant.
fn run(engine: &'static Engine, task: impl Future<Output = ()> + 'static) -> ActivityId {
    let tenant = tenant(engine, 1);
    let done = Rc::new(Cell::new(false));
    let told = done.clone();
    engine.spawn_for(resource(1), tenant, async move {
        task.await;
        told.set(true);
    });
    let mut simulator = Simulator::new(engine, 1);
    assert_eq!(simulator.run(10_000, move || done.get()), Stop::Done);
    check_books(engine);
    tenant
}

fn grid() -> &'static Engine {
    engine(1, vec![ResourceConfig::new("teller"), ResourceConfig::new("asker")])
}

#[test]
fn a_visit_is_charged_to_who_asks_at_the_resource_that_is_visited() {
    let engine = grid();
    let client = client(engine).with_near(&TELLER);
    let tenant = run(engine, async move {
        // The first message makes the queue that decides whether one would be handled inline.
        assert_eq!(client.tell().await, Ok(7));
        for _ in 0..10 {
            assert_eq!(client.visit(|shown| shown.look()), Some(7));
        }
    });
    let cell = engine.accounts().line(0).table().cell(tenant, resource(0)).read();
    assert!((5_000..7_000).contains(&cell[Column::Cycles as usize]), "{cell:?}");
    assert_eq!(cell[Column::Inline as usize], 11);
}

#[test]
fn who_holds_a_lock_or_has_no_near_part_or_wants_order_must_send_a_message() {
    let engine = grid();
    let bare = client(engine);
    let near = bare.with_near(&TELLER);
    let ordered = near.labelled(Labels { affinity: 0, dependency: 9 });
    run(engine, async move {
        assert_eq!(near.tell().await, Ok(7));
        assert_eq!(bare.visit(|shown| shown.look()), None);
        assert_eq!(ordered.visit(|shown| shown.look()), None);
        let lock = SpinLock::new(());
        let held = lock.lock();
        assert_eq!(near.visit(|shown| shown.look()), None);
        drop(held);
        assert_eq!(near.visit(|shown| shown.look()), Some(7));
    });
}

#[test]
fn nobody_visits_where_every_message_is_queued() {
    let mut config = gyre_engine::GridConfig::new(vec![ResourceConfig::new("teller"), ResourceConfig::new("asker")]);
    config.inlines = false;
    let engine = engine_of(1, config);
    let client = client(engine).with_near(&TELLER);
    run(engine, async move {
        assert_eq!(client.tell().await, Ok(7));
        assert_eq!(client.visit(|shown| shown.look()), None);
    });
}
