//! The tenants of a zone: each serves, and asks the tenants of the other zone and its neighbour at home.

use crate::whole::exchange::{Ends, Exchange};
use crate::whole::streams::{Listener, answer, ask};
use crate::whole::zones::machine::{TENANTS, Zone, address};
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_interface::tcp::{NetError, SocketAddress};
use gyre_machine::random::Random;
use gyre_message::sleep_ns;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The port at which each tenant serves.
const PORT: u16 = 80;
/// Tasks of each tenant that ask abroad.
const ASKERS: usize = 2;
/// Bytes of an exchange in each direction, at most.
const BYTES_MAX: u64 = 400_000;
/// Time between two looks of a server whether it is over, ns.
const LOOK_NS: u64 = 500_000;

/// Whom a task asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Abroad,
    AtHome,
}

/// The traffic of a zone.
pub struct Traffic {
    zone: Rc<Zone>,
    random: RefCell<Random>,
    is_over: Cell<bool>,
    is_closed: Cell<bool>,
    asking: Cell<usize>,
    busy: Cell<usize>,
    /// How exchanges with the other zone ended, as who asked saw them.
    pub abroad: Cell<Ends>,
    /// How exchanges within the zone ended.
    pub at_home: Cell<Ends>,
}

/// A task that has not ended.
struct Busy(Rc<Traffic>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

impl Traffic {
    /// Starts all tasks, as the zone's instance.
    pub fn start(zone: &Rc<Zone>, seed: u64) -> Rc<Traffic> {
        let traffic = Rc::new(Traffic {
            zone: zone.clone(),
            random: RefCell::new(Random::new(seed, 50 + zone.number as u64)),
            is_over: Cell::new(false),
            is_closed: Cell::new(false),
            asking: Cell::new(TENANTS * (1 + ASKERS)),
            busy: Cell::new(0),
            abroad: Cell::default(),
            at_home: Cell::default(),
        });
        for tenant in 0..TENANTS {
            traffic.spawn(tenant, traffic.clone().serve(tenant));
            traffic.spawn(tenant, traffic.clone().ask(tenant, Where::AtHome));
            (0..ASKERS).for_each(|_| traffic.spawn(tenant, traffic.clone().ask(tenant, Where::Abroad)));
        }
        traffic
    }

    /// Starts a task on a core of its own, between two turns.
    fn spawn(self: &Rc<Traffic>, tenant: usize, task: impl Future<Output = ()> + 'static) {
        gyre_machine::select_core((tenant + self.busy.get()) % self.zone.engine.cores());
        self.spawn_here(tenant, task);
    }

    fn spawn_here(self: &Rc<Traffic>, tenant: usize, task: impl Future<Output = ()> + 'static) {
        self.busy.set(self.busy.get() + 1);
        let busy = Busy(self.clone());
        let (engine, activity) = (self.zone.engine, self.zone.activities[tenant]);
        engine.spawn_for(id(Resource::Process), activity, async move {
            let _busy = busy;
            task.await;
        });
    }

    /// Nothing new is asked.
    pub fn end(&self) {
        self.is_over.set(true);
    }

    /// Returns true once the questions that were begun are answered.
    pub fn is_answered(&self) -> bool {
        self.asking.get() == 0
    }

    /// Nothing is served any more.
    pub fn close(&self) {
        self.is_closed.set(true);
    }

    /// Returns true once the tasks that were begun have ended.
    pub fn is_idle(&self) -> bool {
        self.busy.get() == 0
    }

    async fn serve(self: Rc<Traffic>, tenant: usize) {
        let listener = Listener::new(self.zone.network.tcp, PORT).await.expect("the port is free");
        while !self.is_closed.get() {
            match listener.accept().await {
                Ok(stream) => self.spawn_here(tenant, async move { _ = answer(stream, None).await }),
                Err(NetError::WouldBlock) => listener.wait(LOOK_NS).await,
                Err(error) => panic!("a listener fails: {error:?}"),
            }
        }
    }

    async fn ask(self: Rc<Traffic>, tenant: usize, place: Where) {
        // all servers of both zones listen by then
        sleep_ns(2_000_000).await;
        while !self.is_over.get() {
            let (exchange, pause_ns, other) = {
                let mut random = self.random.borrow_mut();
                (Exchange::draw(&mut random, BYTES_MAX), random.below(300_000), random.below(TENANTS as u64) as usize)
            };
            let (zone, other) = match place {
                Where::Abroad => (1 - self.zone.number, other),
                Where::AtHome => (self.zone.number, 1 - tenant),
            };
            let remote = SocketAddress { address: address(zone, other), port: PORT };
            let is_whole = ask(self.zone.network.tcp, remote, exchange).await;
            let ends = if place == Where::Abroad { &self.abroad } else { &self.at_home };
            ends.set(ends.get().with(is_whole));
            sleep_ns(pause_ns).await;
        }
        self.asking.set(self.asking.get() - 1);
    }
}
