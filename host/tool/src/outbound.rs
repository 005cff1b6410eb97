//! The way out of tenants: from the machine's network to destinations that their owners allow.
//!
//! ```text
//!   machine --frames--> Router ---tenant's half (TCP), other ends---> far end's kernel ---> accept --+
//!                         | asks the destination first                                              | joined
//!                         +-------------------------- sockets of this host ------------------------ +--> destination
//! ```
//!
//! * [`packet`] reads and makes frames. [`policy`] says where a tenant may go. [`flows`] are the connections and flows there are.
//! * [`streams`] are connections: a tenant's SYN goes on when its destination has answered, so that a refusal, a missing host and a host
//!   that hangs are for the tenant what they are for this host. [`datagrams`] are those of UDP, and questions of DNS ([`dns`], [`names`]).
//! * [`tenant`] has a tenant's rate, places and [`counters`].
//!
//! A tenant without a way out is refused by the far end's kernel, which has no way either.
//! Bounds: connections and flows of each tenant, threads that find something out for it, bytes per second. Whatever is above them is
//! dropped and counted.
//!
//! Called by `wire` with each frame, and by `run`.

mod counters;
mod datagrams;
mod dns;
mod flows;
mod names;
mod packet;
mod policy;
mod streams;
mod tenant;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

pub use counters::Figures;
use flows::{Flows, Key};
use gyre_contract::address;
use gyre_machine_file::{Description, Protocol, outbound::contains};
use names::Names;
use packet::{TCP, UDP, View};
use tenant::Tenant;

use crate::{
    failure::{Context as _, Result},
    namespace::Namespace,
    run,
};

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It goes on, perhaps changed.
    Passed,
    /// It goes no further.
    Taken,
}

/// Takes a frame.
pub type Sink = Box<dyn Fn(&[u8]) + Send + Sync>;

/// The receivers of frames that the router makes itself.
pub struct Ends {
    /// To the machine.
    pub machine: Sink,
    /// To the far end's kernel.
    pub far_end: Sink,
}

/// See the module.
pub struct Router {
    tenants: BTreeMap<Ipv4Addr, Arc<Tenant>>,
    flows: Mutex<Flows>,
    names: Names,
    ends: OnceLock<Ends>,
    /// The listener in the namespace.
    proxy: SocketAddrV4,
}

impl Router {
    /// Makes the router of a machine, and listens in its namespace; `None` if no tenant needs it.
    ///
    /// # Errors
    /// When the namespace has no port, or no thread can be had.
    pub fn start(description: &Description, namespace: &Namespace) -> Result<Option<Arc<Self>>> {
        let tenants = tenants(description);
        if tenants.is_empty() {
            return Ok(None);
        }
        let listener =
            namespace.listen(Ipv4Addr::from(address::GATEWAY)).context(|| "cannot listen for the way out".into())?;
        let SocketAddr::V4(proxy) = listener.local_addr().context(|| "cannot listen for the way out".into())? else {
            return Ok(None);
        };
        let router = Arc::new(Self::new(tenants, proxy));
        let accepting = router.clone();
        let thread = std::thread::Builder::new().name("way out".into());
        thread.spawn(move || accepting.accept(&listener)).context(|| "cannot start a thread".into())?;
        Ok(Some(router))
    }

    fn new(tenants: BTreeMap<Ipv4Addr, Arc<Tenant>>, proxy: SocketAddrV4) -> Self {
        Self { tenants, flows: Mutex::default(), names: Names::default(), ends: OnceLock::new(), proxy }
    }

    /// Says where frames go that it makes itself; only the first call counts.
    pub fn attach(&self, ends: Ends) {
        let _ = self.ends.set(ends);
    }

    /// Handles a frame that the machine has sent.
    pub fn from_machine(self: &Arc<Self>, frame: &mut [u8]) -> Handled {
        let Some(view) = View::of(frame) else { return Handled::Passed };
        let gateway = Ipv4Addr::from(address::GATEWAY);
        let is_inside = contains(gateway, address::PREFIX_BITS, *view.to.ip()) && *view.to.ip() != gateway;
        let Some(tenant) = self.tenants.get(view.from.ip()).filter(|_| !is_inside) else { return Handled::Passed };
        match view.protocol {
            TCP if !view.is_fragment => self.segment(tenant, &view, frame),
            UDP => self.datagram(tenant, &view, frame),
            // an echo is the gateway's to answer; everything else the far end's kernel refuses
            _ => Handled::Passed,
        }
    }

    /// Changes a frame of the far end that belongs to a connection on the way out.
    pub fn to_machine(&self, frame: &mut [u8]) {
        let Some(view) = View::of(frame).filter(|view| view.from.ip() == self.proxy.ip()) else { return };
        let mut flows = self.flows();
        match view.protocol {
            UDP if self.tenants.contains_key(view.to.ip()) => flows.note_outside(Key { from: view.to, to: view.from }),
            TCP if view.from == self.proxy => {
                if let Some(key) = flows.at(view.to) {
                    view.redirect(frame, key.to, key.from);
                }
            }
            _ => {}
        }
    }

    /// Returns the figures of all tenants so far.
    pub fn figures(&self) -> Vec<Figures> {
        self.tenants.values().map(|tenant| tenant.counters.read(&tenant.name)).collect()
    }

    fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_tenant(&self, frame: &[u8]) {
        if let Some(ends) = self.ends.get() {
            (ends.machine)(frame);
        }
    }

    fn to_far_end(&self, frame: &[u8]) {
        if let Some(ends) = self.ends.get() {
            (ends.far_end)(frame);
        }
    }

    /// Returns where a tenant's packets to `to` are to be sent, if they may be.
    fn target(&self, tenant: &Tenant, to: SocketAddrV4, protocol: Protocol) -> Option<SocketAddrV4> {
        policy::target(tenant.policy.as_ref()?, to, protocol, |name| self.names.addresses(name))
    }
}

/// Returns the tenants that have a way out or know others by name, by their addresses.
fn tenants(description: &Description) -> BTreeMap<Ipv4Addr, Arc<Tenant>> {
    let addresses: BTreeMap<&str, Ipv4Addr> =
        run::customers(description).map(|(tenant, host)| (host.name.as_str(), tenant.address.into())).collect();
    let needs = run::customers(description).filter(|(_, host)| host.outbound.is_some() || !host.talks_to.is_empty());
    let made = needs.map(|(tenant, host)| {
        let address = |name: &String| addresses.get(name.as_str()).map(|address| (name.clone(), *address));
        let peers = host.talks_to.iter().filter_map(address).collect();
        (tenant.address.into(), Arc::new(Tenant::new(&host.name, host.outbound.clone(), peers)))
    });
    made.collect()
}

#[cfg(test)]
mod tests;
