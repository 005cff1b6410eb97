//! The network path put together: the parts that the assembler makes and wires.

use crate::cards::{CardConfig, CardId};
use crate::guard::Guard;
use crate::icmp::Icmp;
use crate::links::{LinkConfig, LinkId, LinkStatistics, NoRoute};
use crate::shared::{NetConfig, NetPorts, Shared};
use crate::statistics::NetStatistics;
use crate::tcp_resource::Tcp;
use crate::timer::TcpTimer;
use crate::udp::Udp;
use crate::wire::Ip;
use crate::writer::Writer;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_contract::goals::Answers;
use gyre_interface::link::{FrameStream, LinkProperties};

/// All resources of the path. Lives as long as the instance.
///
/// The assembler makes it, makes a port for each server and gives the clients back with [`Net::connect`], then starts
/// [`Net::read_frames`] and [`Net::keep_time`] as tasks of the infrastructure.
pub struct Net {
    shared: &'static Shared,
    /// Serves `interface::tcp` and `protocols::tcp_input`.
    pub tcp: Tcp,
    /// Serves `interface::udp` and `protocols::udp_input`.
    pub udp: Udp,
    /// Serves `protocols::icmp_input`.
    pub icmp: Icmp,
    /// Serves `protocols::tcp_timer`.
    pub timer: TcpTimer,
    /// Serves `protocols::net_write`.
    pub writer: Writer,
}

impl Net {
    /// Makes the path; nothing runs yet.
    pub fn new(config: NetConfig) -> &'static Net {
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(config)));
        Box::leak(Box::new(Net {
            shared,
            tcp: Tcp::new(shared),
            udp: Udp::new(shared),
            icmp: Icmp::new(shared),
            timer: TcpTimer::new(shared),
            writer: Writer { shared },
        }))
    }

    /// Sets the clients of the path's own resources. Before it nothing is sent or delivered. Only the first call counts.
    pub fn connect(&self, ports: NetPorts) {
        self.shared.ports.set(ports);
    }

    /// Reads frames until the device is gone: a task of the infrastructure at the network device read resource.
    pub async fn read_frames(&'static self, device: &'static impl FrameStream) {
        self.shared.read_frames(device).await;
    }

    /// Adds a card, which is not in use. Its frames are read by [`Net::read_frames`].
    ///
    /// # Errors
    /// [`NoRoute`] if there were [`crate::CARDS_MAX`].
    pub fn add_card(&self, card: CardConfig) -> Result<CardId, NoRoute> {
        self.shared.cards.add(card)
    }

    /// Takes a card into use, and tells the segment at which one the tenants' addresses are now (RFC 5227 section 2.3).
    ///
    /// # Errors
    /// [`NoRoute`] if one is in use, or there is none of this number.
    pub fn connect_card(&self, id: CardId) -> Result<(), NoRoute> {
        self.shared.cards.connect(id)?;
        self.shared.announce();
        Ok(())
    }

    /// Takes the card out of use: there is no way to other machines, and what is known of their hardware addresses is forgotten.
    pub fn disconnect_card(&self) {
        self.shared.cards.disconnect();
        self.shared.neighbours.table.lock().forget();
    }

    /// Returns the properties of the card that is in use, or was last.
    pub fn card_properties(&self) -> LinkProperties {
        self.shared.cards.last().properties
    }

    /// Adds a link beside the card, which is down and lives as long as the instance. Its frames are read by [`Net::read_link`].
    ///
    /// # Errors
    /// [`NoRoute`] if there are [`crate::LINKS_MAX`].
    pub fn add_link(&self, config: LinkConfig) -> Result<LinkId, NoRoute> {
        self.shared.links.add(config)
    }

    /// Reads a link's frames until its device is gone: a task of the infrastructure at the network device read resource.
    pub async fn read_link(&'static self, id: LinkId, device: &'static impl FrameStream) {
        self.shared.read_link(id, device).await;
    }

    /// Takes a link up. It is the way to these addresses from now on, beside those that it had.
    ///
    /// # Errors
    /// [`NoRoute`] if there is no place for all of them, or one is another link's or a tenant's; then the link is as before.
    pub fn connect_link(&self, id: LinkId, addresses: &[Ip]) -> Result<(), NoRoute> {
        if addresses.iter().any(|address| self.shared.is_local(*address)) {
            return Err(NoRoute);
        }
        self.shared.links.connect(id, addresses)
    }

    /// Takes a link down: packets to its addresses are dropped and counted.
    pub fn disconnect_link(&self, id: LinkId) {
        self.shared.links.disconnect(id);
    }

    /// Takes a link down for good: its addresses are those of strangers again.
    pub fn forget_link(&self, id: LinkId) {
        self.shared.links.forget(id);
    }

    /// Returns the figures of all links beside the card.
    pub fn link_statistics(&self) -> Vec<(LinkId, LinkStatistics)> {
        self.shared.links.statistics().collect()
    }

    /// Tells deadlines for ever: a task of the infrastructure at the TCP timer resource.
    pub async fn keep_time(&'static self) {
        self.timer.keep_time().await;
    }

    /// Returns the figures of all owners of an address, and of the activity that pays for unowned frames (last).
    pub fn statistics(&self) -> Vec<(ActivityId, NetStatistics)> {
        let tenants = self.shared.tenants().chain([self.shared.unowned]);
        tenants.map(|tenant| (tenant.activity, tenant.statistics())).collect()
    }

    /// Returns how long an activity's servers took to answer, since the start.
    pub fn answers_of(&self, activity: ActivityId) -> Option<Answers> {
        self.shared.tenant_of(activity).map(|tenant| tenant.answers.totals())
    }

    /// Has the overload controller of an activity's tenant keep another delay, ns; false if it has none.
    pub fn set_overload_delay(&self, activity: ActivityId, delay_ns: u64) -> bool {
        let guard = self.shared.tenant_of(activity).and_then(|tenant| tenant.guard.as_ref());
        guard.map(|guard| guard.set_delay(delay_ns)).is_some()
    }

    /// Returns the delay that an activity's overload controller keeps, ns; nothing if it has none.
    pub fn overload_delay_of(&self, activity: ActivityId) -> Option<u64> {
        self.shared.tenant_of(activity)?.guard.as_ref().map(Guard::delay_ns)
    }

    /// Returns the figures of one activity's tenant.
    pub fn statistics_of(&self, activity: ActivityId) -> Option<NetStatistics> {
        self.shared.tenant_of(activity).map(|tenant| tenant.statistics())
    }
}
