//! Datagrams on the way out, and questions of DNS.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    os::fd::AsRawFd as _,
    sync::Arc,
    time::Duration,
};

use gyre_contract::address;
use gyre_machine_file::Protocol;
use nix::sys::socket::{MsgFlags, send};

use super::{
    Handled, Router,
    counters::Event,
    dns::{Found, Question},
    flows::Key,
    packet::{DATAGRAM_MAX, HOST_UNREACHABLE, PORT_UNREACHABLE, PROHIBITED, View},
    policy,
    streams::is_for_gateway,
    tenant::{Tenant, Way, spawn},
};

/// A flow for which nothing has come for so long is forgotten.
const IDLE: Duration = Duration::from_secs(60);
const DNS_PORT: u16 = 53;
/// Names of this host, as in podman, Docker and here.
const HOST_NAMES: &[&str] = &["host.gyre.internal", "host.containers.internal", "host.docker.internal"];

impl Router {
    /// Handles a datagram of a tenant.
    pub(super) fn datagram(self: &Arc<Self>, tenant: &Arc<Tenant>, view: &View, frame: &[u8]) -> Handled {
        let Some(payload) = view.datagram(frame).filter(|_| !view.is_fragment) else {
            tenant.counters.count(Event::Dropped);
            return Handled::Taken;
        };
        let key = Key { from: view.from, to: view.to };
        if is_for_gateway(view) && view.to.port() == DNS_PORT {
            return self.begin_errand(tenant, *view, frame, Router::answer_question);
        }
        let flows = self.flows();
        if flows.is_answer(&key) {
            return Handled::Passed;
        }
        let known = flows.datagrams(&key);
        drop(flows);
        match known {
            Some(Some(socket)) => pass_on(tenant, &socket, payload),
            // it is being made: as a network that is not ready, it drops what comes meanwhile
            Some(None) => tenant.counters.count(Event::Dropped),
            None => return self.begin_errand(tenant, *view, frame, Router::open_datagrams),
        }
        Handled::Taken
    }

    fn begin_errand(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        view: View,
        frame: &[u8],
        errand: fn(&Arc<Self>, &Arc<Tenant>, &View, &[u8]),
    ) -> Handled {
        if !tenant.begin_errand() {
            tenant.counters.count(Event::Dropped);
            return Handled::Taken;
        }
        let (router, frame) = (self.clone(), frame.to_vec());
        tenant.run_errand(move |tenant| errand(&router, tenant, &view, &frame));
        Handled::Taken
    }

    /// Makes the socket of a flow, and sends its first datagram.
    fn open_datagrams(self: &Arc<Self>, tenant: &Arc<Tenant>, view: &View, frame: &[u8]) {
        let key = Key { from: view.from, to: view.to };
        let Some(target) = self.target(tenant, key.to, Protocol::Udp) else {
            tenant.counters.count(Event::Refused);
            return self.to_tenant(&view.unreachable(frame, Ipv4Addr::from(address::GATEWAY), PROHIBITED));
        };
        let max = tenant.policy.as_ref().map_or(0, |policy| policy.connections);
        if !self.flows().begin_datagrams(key, max) {
            return tenant.counters.count(Event::Dropped);
        }
        let Ok(socket) = socket_to(target) else {
            self.flows().forget_datagrams(&key);
            tenant.counters.count(Event::Failed);
            return self.to_tenant(&view.unreachable(frame, Ipv4Addr::from(address::GATEWAY), HOST_UNREACHABLE));
        };
        tenant.counters.count(Event::Connected);
        self.flows().open_datagrams(key, socket.clone());
        pass_on(tenant, &socket, view.datagram(frame).unwrap_or_default());
        // A flow that waits for answers is no errand: its tenant may have others.
        let (router, of_tenant, view, frame) = (self.clone(), tenant.clone(), *view, frame.to_vec());
        let bring = move || {
            router.bring_answers(&of_tenant, &socket, &view, &frame);
            router.flows().forget_datagrams(&key);
        };
        if !spawn(bring) {
            self.flows().forget_datagrams(&key);
            tenant.counters.count(Event::Dropped);
        }
    }

    /// Brings answers back until nothing has come for a while.
    fn bring_answers(&self, tenant: &Tenant, socket: &UdpSocket, view: &View, frame: &[u8]) {
        let mut bytes = vec![0; 1 << 16];
        loop {
            match socket.recv(&mut bytes) {
                Ok(count) if count > DATAGRAM_MAX || !tenant.try_pass(Way::Down, count) => {
                    tenant.counters.count(Event::Dropped);
                }
                Ok(count) => self.to_tenant(&view.answer(frame, bytes.get(..count).unwrap_or_default())),
                // the destination says that nobody listens: so the tenant hears it
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    tenant.counters.count(Event::Failed);
                    self.to_tenant(&view.unreachable(frame, *view.to.ip(), PORT_UNREACHABLE));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn answer_question(self: &Arc<Self>, tenant: &Arc<Tenant>, view: &View, frame: &[u8]) {
        tenant.counters.count(Event::Asked);
        // nonsense gets no answer: it is no question
        if let Some(question) = view.datagram(frame).and_then(Question::of) {
            let found = if question.asks_for_address() { self.find(tenant, &question.name) } else { Found::Nothing };
            self.to_tenant(&view.answer(frame, &question.answer(&found)));
        }
    }

    /// Returns what a tenant may know of a name: other tenants, this host, and what its list lets it ask for.
    fn find(&self, tenant: &Tenant, name: &str) -> Found {
        if let Some(address) = tenant.peers.get(name) {
            return Found::Addresses(vec![*address]);
        }
        let Some(policy) = &tenant.policy else { return Found::Refused };
        if HOST_NAMES.contains(&name) {
            return Found::Addresses(vec![Ipv4Addr::from(address::GATEWAY)]);
        }
        if !policy::may_ask(policy, name) {
            tenant.counters.count(Event::Refused);
            return Found::Refused;
        }
        match self.names.find(name) {
            Found::Addresses(all) => {
                Found::Addresses(all.into_iter().filter(|one| !policy::is_special(*one)).collect())
            }
            other => other,
        }
    }
}

fn socket_to(target: SocketAddrV4) -> std::io::Result<Arc<UdpSocket>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(target)?;
    socket.set_read_timeout(Some(IDLE))?;
    Ok(Arc::new(socket))
}

/// Sends a datagram without a wait: the wire's pump must not stop for one destination.
fn pass_on(tenant: &Tenant, socket: &UdpSocket, payload: &[u8]) {
    let went = tenant.try_pass(Way::Up, payload.len())
        && !matches!(
            send(socket.as_raw_fd(), payload, MsgFlags::MSG_DONTWAIT),
            Err(nix::Error::EAGAIN | nix::Error::EMSGSIZE)
        );
    if !went {
        tenant.counters.count(Event::Dropped);
    }
}
