//! The template in a grid: queues, a scheduler and the ledger around it, on simulated cores.

use gyre_account::{Accounts, ActivityId, ActivityParams, Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, FIRST_RESOURCE, GridConfig, ResourceConfig};
use gyre_machine::{set_core_count, set_virtual_tick, set_virtual_time};
use gyre_message::Link;
use gyre_template::Tally;
use gyre_template::protocol::tally;
use std::cell::Cell;
use std::rc::Rc;

/// Two activities; how many have had their last answer.
struct World {
    engine: &'static Engine,
    client: tally::Client,
    activities: [ActivityId; 2],
    ended: Rc<Cell<usize>>,
}

impl World {
    /// Starts a task of an activity.
    fn start(&self, activity: ActivityId, task: impl Future<Output = ()> + 'static) {
        let ended = self.ended.clone();
        self.engine.spawn_for(ResourceId::RUNTIME, activity, async move {
            task.await;
            ended.set(ended.get() + 1);
        });
    }

    /// Runs until so many tasks have ended.
    fn run(&self, tasks: usize) -> Stop {
        let ended = self.ended.clone();
        Simulator::new(self.engine, 1).run(1_000_000, move || ended.get() == tasks)
    }
}

fn accounts() -> &'static Accounts {
    set_core_count(1);
    set_virtual_time(1_000);
    set_virtual_tick(20);
    Box::leak(Box::new(Accounts::new(1)))
}

#[test]
fn a_resource_in_the_grid_answers_its_clients_and_each_pays_for_its_own_requests() {
    let accounts = accounts();
    let server: &'static Tally = Box::leak(Box::default());
    let grid = GridConfig::new(vec![ResourceConfig::new("tally")]);
    let engine = Engine::build(grid, accounts).unwrap();
    let place = ResourceId(FIRST_RESOURCE);
    let port = engine.port(place, move |request| tally::serve(server, request));
    let client = tally::Client::new(Link::new(port));
    let activities = ["busy", "other"].map(|name| create(accounts, name));
    let world = World { engine, client, activities, ended: Rc::default() };
    work(&world);
    let [busy, other] = activities;
    let row = |activity| engine.accounts().line(0).table().cell(activity, place).get(Column::Messages);
    assert!(row(busy) >= 9 && row(other) >= 1, "each pays for its own requests");
    assert_eq!(engine.accounts().line(0).partition().unattributed(), 0);
}

fn create(accounts: &Accounts, name: &str) -> ActivityId {
    accounts.activities.create(None, name, ActivityParams::default()).unwrap()
}

/// One waits for a count that another task of its own reaches; the other's counter has the same number and is another
/// one.
fn work(world: &World) {
    let ([busy, other], client) = (world.activities, world.client);
    world.start(busy, async move { assert_eq!(client.reached(7, 8).await, Ok(8)) });
    world.start(busy, async move {
        for count in 1..=8 {
            assert_eq!(client.add(7, 1).await, Ok(count));
        }
    });
    world.start(other, async move { assert_eq!(client.add(7, 1).await, Ok(1)) });
    assert_eq!(world.run(3), Stop::Done);
}
