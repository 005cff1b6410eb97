//! Connections on the way out: the destination is asked first, and the tenant gets its answer.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use gyre_contract::address;
use gyre_machine_file::Protocol;

use super::{
    Handled, Router,
    counters::Event,
    flows::{Key, State},
    packet::{HOST_UNREACHABLE, PROHIBITED, View},
    tenant::{Tenant, Way, spawn},
};

/// How long a destination may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const BUFFER_BYTES: usize = 16 << 10;

impl Router {
    /// Handles a segment of a tenant.
    pub(super) fn segment(self: &Arc<Self>, tenant: &Arc<Tenant>, view: &View, frame: &mut [u8]) -> Handled {
        let key = Key { from: view.from, to: view.to };
        let mut flows = self.flows();
        let port = match flows.connection(&key) {
            Some(one) if matches!(one.state, State::Ended) && view.opens(frame) => {
                flows.forget(&key);
                None
            }
            // the destination has not answered yet
            Some(one) if matches!(one.state, State::Opening) => return Handled::Taken,
            Some(one) => Some(one.port),
            None => None,
        };
        drop(flows);
        match port {
            Some(port) => {
                self.redirect(view, frame, port);
                Handled::Passed
            }
            None if view.opens(frame) => self.begin(tenant, key, *view, frame),
            None if is_for_gateway(view) => Handled::Passed,
            None => {
                if !view.resets(frame) {
                    self.to_tenant(&view.reset(frame));
                }
                Handled::Taken
            }
        }
    }

    fn redirect(&self, view: &View, frame: &mut [u8], port: u16) {
        let from = std::net::SocketAddrV4::new(*view.from.ip(), port);
        view.redirect(frame, from, self.proxy);
    }

    fn begin(self: &Arc<Self>, tenant: &Arc<Tenant>, key: Key, view: View, frame: &[u8]) -> Handled {
        let max = tenant.policy.as_ref().map_or(0, |policy| policy.connections);
        if !tenant.begin_errand() {
            tenant.counters.count(Event::Dropped);
            return Handled::Taken;
        }
        if !self.flows().begin(key, max) {
            tenant.give_up_errand();
            self.to_tenant(&view.reset(frame));
            return Handled::Taken;
        }
        let (router, frame) = (self.clone(), frame.to_vec());
        if !tenant.run_errand(move |tenant| router.open(tenant, key, &view, frame)) {
            self.flows().forget(&key);
        }
        Handled::Taken
    }

    /// Asks the destination. The tenant's SYN goes on only when it has answered: so a refusal is a refusal for the tenant too.
    fn open(&self, tenant: &Tenant, key: Key, view: &View, mut frame: Vec<u8>) {
        let Some(target) = self.target(tenant, key.to, Protocol::Tcp) else {
            self.flows().forget(&key);
            tenant.counters.count(Event::Refused);
            return self.to_tenant(&view.unreachable(&frame, Ipv4Addr::from(address::GATEWAY), PROHIBITED));
        };
        match TcpStream::connect_timeout(&SocketAddr::V4(target), CONNECT_TIMEOUT) {
            Ok(stream) => {
                let port = self.flows().change(&key, State::Held(stream));
                if let Some(port) = port {
                    tenant.counters.count(Event::Connected);
                    self.redirect(view, &mut frame, port);
                    self.to_far_end(&frame);
                }
            }
            Err(error) => {
                self.flows().forget(&key);
                tenant.counters.count(Event::Failed);
                self.tell_failure(&error, view, &frame);
            }
        }
    }

    /// Tells the tenant why there is no connection. One that hangs gets no answer, as from a destination that hangs.
    fn tell_failure(&self, error: &io::Error, view: &View, frame: &[u8]) {
        match error.kind() {
            ErrorKind::TimedOut => {}
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => self.to_tenant(&view.reset(frame)),
            _ => self.to_tenant(&view.unreachable(frame, Ipv4Addr::from(address::GATEWAY), HOST_UNREACHABLE)),
        }
    }

    /// Takes the tenants' halves of connections until the tool ends.
    pub(super) fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            match listener.accept() {
                Ok((half, SocketAddr::V4(peer))) => self.join(half, peer),
                Ok((_, SocketAddr::V6(_))) => {}
                // no descriptor left: this connection's loss only
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Joins a tenant's half with its destination's; one that nobody waits for is closed.
    fn join(self: &Arc<Self>, half: TcpStream, peer: std::net::SocketAddrV4) {
        let mut flows = self.flows();
        let Some(key) = flows.at(peer) else { return };
        let Some(destination) = flows.take_held(&key) else { return };
        drop(flows);
        let Some(tenant) = self.tenants.get(key.from.ip()).cloned() else { return };
        let router = self.clone();
        let run = move || {
            let _ = splice(&tenant, half, destination);
            router.flows().change(&key, State::Ended);
        };
        if !spawn(run) {
            // both halves are closed with what was to be run
            self.flows().change(&key, State::Ended);
        }
    }
}

/// Returns whether a packet is for the gateway itself.
pub(super) fn is_for_gateway(view: &View) -> bool {
    view.to.ip().octets() == address::GATEWAY
}

/// Copies both ways until both ends have closed.
fn splice(tenant: &Arc<Tenant>, half: TcpStream, destination: TcpStream) -> io::Result<()> {
    half.set_nodelay(true)?;
    destination.set_nodelay(true)?;
    let (from, to, of_tenant) = (half.try_clone()?, destination.try_clone()?, tenant.clone());
    let up = std::thread::Builder::new().name("way out".into());
    let up = up.spawn(move || copy(&of_tenant, Way::Up, &from, &to))?;
    copy(tenant, Way::Down, &destination, &half);
    let _ = up.join();
    Ok(())
}

/// Copies one way; its end, or its failure, is told to the receiver.
fn copy(tenant: &Tenant, way: Way, mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // the sender is gone without an end in order: both are
            Err(_) => return shut(&[from, to]),
        };
        tenant.pass(way, count);
        if to.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
            return shut(&[from, to]);
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn shut(ends: &[&TcpStream]) {
    ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
}
