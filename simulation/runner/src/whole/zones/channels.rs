//! Channels between the tenants of two zones: each listens, and asks the tenants of the other zone. Every byte of a message is known to both.
//!
//! ```text
//!   task of a tenant -- Trunks --> Trunk --[lines, pages]--> Trunk -- listener --> task of a tenant that sends each message back
//! ```
//!
//! The bell of the channels is one of its own; its interrupts are lost and late as the link's are. A zone that is killed takes its ends with it:
//! whoever asked hears that, and goes on asking. Left out: pages that programs map.

use crate::whole::exchange::Ends;
use crate::whole::zones::bell::Bell;
use crate::whole::zones::machine::{TENANTS, Zone};
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::grid::id;
use gyre_channel::{Abroad, ChannelError, Channels, End, Listener, MESSAGE_BYTES_MAX, Message, Name};
use gyre_contract::catalogue::Resource;
use gyre_interface::Ready;
use gyre_machine::SharedMemory;
use gyre_machine::random::Random;
use gyre_message::sleep_ns;
use gyre_object::Bytes;
use gyre_zone_channel::{Setup, Trunk, Trunks};
use gyre_zone_link::Side;
use gyre_zone_link::fake::SharedArena;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Messages of a channel, at most.
const MESSAGES_MAX: u64 = 12;
/// Bytes of most messages, at most.
const SMALL_BYTES: u64 = 5000;
/// Time between two looks of a server, ns.
const LOOK_NS: u64 = 500_000;

/// The channels of a zone's tenants.
pub struct Talk {
    zone: Rc<Zone>,
    /// The way to the other zone.
    pub trunk: &'static Trunk,
    abroad: Trunks,
    channels: &'static Channels,
    random: RefCell<Random>,
    is_over: Cell<bool>,
    is_closed: Cell<bool>,
    asking: Cell<usize>,
    busy: Cell<usize>,
    /// The ends of channels, as who opened them saw them.
    pub ends: Cell<Ends>,
}

/// A task that has not ended.
struct Busy(Rc<Talk>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

fn tenant_name(zone: usize, tenant: usize) -> String {
    format!("zone{zone}-tenant{tenant}")
}

/// A message of so many bytes, in pieces that do not fall on pages.
fn message(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(7).wrapping_add(seed as u8)).collect()
}

fn pieces(bytes: &[u8]) -> Message {
    bytes.chunks(3000).map(|piece| Bytes::copy_from(piece).expect("there is memory")).collect()
}

fn flat(message: &Message) -> Vec<u8> {
    message.iter().flat_map(|piece| piece.as_slice().to_vec()).collect()
}

impl Talk {
    /// Starts all tasks, as the zone's instance.
    pub fn start(zone: &Rc<Zone>, seed: u64) -> Rc<Talk> {
        let (number, activities) = (zone.number, zone.activities.clone());
        let channels: &'static Channels = Box::leak(Box::default());
        let payer = move |name: &str| (0..TENANTS).find(|at| tenant_name(number, *at) == name).map(|at| activities[at]);
        let setup = Setup {
            tenants: (0..TENANTS).map(|tenant| tenant_name(1 - number, tenant)).collect(),
            channels,
            payer: Box::new(payer),
        };
        let trunk: &'static Trunk = Box::leak(Box::new(Trunk::new(setup)));
        zone.engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, trunk.serve());
        let talk = Rc::new(Talk {
            zone: zone.clone(),
            trunk,
            abroad: Trunks(vec![trunk]),
            channels,
            random: RefCell::new(Random::new(seed, 70 + number as u64)),
            is_over: Cell::new(false),
            is_closed: Cell::new(false),
            asking: Cell::new(TENANTS),
            busy: Cell::new(0),
            ends: Cell::default(),
        });
        for tenant in 0..TENANTS {
            talk.spawn(tenant, talk.clone().serve(tenant));
            talk.spawn(tenant, talk.clone().ask(tenant));
        }
        talk
    }

    /// Attaches its end of the memory; `other` is the bell of the other zone.
    pub fn attach(&self, memory: Arc<SharedMemory>, other: Arc<Bell>) {
        let side = if self.zone.number == 0 { Side::First } else { Side::Second };
        let arena = SharedArena::new(memory, side, Box::new(move || other.ring()));
        assert!(self.trunk.attach(arena), "it is not attached");
    }

    /// Nothing new is asked.
    pub fn end(&self) {
        self.is_over.set(true);
    }

    /// Nothing is served any more.
    pub fn close(&self) {
        self.is_closed.set(true);
    }

    /// Returns true once what was asked is answered.
    pub fn is_answered(&self) -> bool {
        self.asking.get() == 0
    }

    /// Returns true once the tasks that were begun have ended.
    pub fn is_idle(&self) -> bool {
        self.busy.get() == 0
    }

    fn spawn(self: &Rc<Talk>, tenant: usize, task: impl Future<Output = ()> + 'static) {
        self.busy.set(self.busy.get() + 1);
        let busy = Busy(self.clone());
        self.zone.engine.spawn_for(id(Resource::Process), self.zone.activities[tenant], async move {
            let _busy = busy;
            task.await;
        });
    }

    async fn serve(self: Rc<Talk>, tenant: usize) {
        let own = tenant_name(self.zone.number, tenant);
        let name = Name::read(b"echo", &own).expect("it is a name");
        let listener: Arc<Listener> = self.channels.listen(name, 0).expect("the name is free");
        while !self.is_closed.get() {
            match listener.accept() {
                Ok(end) => self.spawn(tenant, async move { _ = echo(&end).await }),
                Err(ChannelError::Again) => sleep_ns(LOOK_NS).await,
                Err(error) => panic!("a listener fails: {error:?}"),
            }
        }
    }

    async fn ask(self: Rc<Talk>, tenant: usize) {
        // all listen by then
        sleep_ns(2_000_000).await;
        while !self.is_over.get() {
            let pause_ns = self.random.borrow_mut().below(300_000);
            let is_whole = self.exchange(tenant).await.is_ok();
            self.ends.set(self.ends.get().with(is_whole));
            sleep_ns(pause_ns).await;
        }
        self.asking.set(self.asking.get() - 1);
    }

    /// Few messages are large.
    fn draw_bytes(&self) -> usize {
        let mut random = self.random.borrow_mut();
        let below = if random.once_in(8) { MESSAGE_BYTES_MAX as u64 } else { SMALL_BYTES };
        1 + random.below(below) as usize
    }

    /// Opens a channel, and has messages sent back.
    async fn exchange(&self, tenant: usize) -> Result<(), ChannelError> {
        let (other, count) = {
            let mut random = self.random.borrow_mut();
            (random.below(TENANTS as u64) as usize, random.below(MESSAGES_MAX))
        };
        let own = tenant_name(self.zone.number, tenant);
        let name = format!("{}/echo", tenant_name(1 - self.zone.number, other));
        let name = Name::read(name.as_bytes(), &own)?;
        let end = self.abroad.connect(&name, own, 0).ok_or(ChannelError::Refused)?.await?;
        for number in 0..count {
            let bytes = self.draw_bytes();
            let sent = message(bytes, number);
            send(&end, pieces(&sent)).await?;
            let got = receive(&end).await?.ok_or(ChannelError::Lost)?;
            assert!(flat(&got) == sent, "message {number} of {bytes} bytes came back as another one");
        }
        Ok(())
    }
}

/// Sends each message back until the other end goes.
async fn echo(end: &End) -> Result<(), ChannelError> {
    while let Some(message) = receive(end).await? {
        send(end, message).await?;
    }
    Ok(())
}

async fn send(end: &End, message: Message) -> Result<(), ChannelError> {
    loop {
        match end.send(message.clone()) {
            Err(ChannelError::Again) => _ = end.readiness().wait(Ready::WRITE).await,
            result => return result,
        }
    }
}

async fn receive(end: &End) -> Result<Option<Message>, ChannelError> {
    loop {
        match end.receive(MESSAGE_BYTES_MAX) {
            Err(ChannelError::Again) => _ = end.readiness().wait(Ready::READ).await,
            result => return result,
        }
    }
}
