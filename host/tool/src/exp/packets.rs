//! Datagrams of the smallest size at a tenant's port, at a rate, from the other end of the wire.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gyre_contract::boot::Machine;

use super::note;
use crate::{
    failure::{Context as _, Failure, Result},
    namespace::Namespace,
};

/// 18 bytes of UDP make the smallest Ethernet frame: 64 bytes with its checksum.
const PAYLOAD: [u8; 18] = [0; 18];

/// A thread that sends datagrams until this value is dropped.
pub struct Packets {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    started: Instant,
}

impl Packets {
    /// Starts to send `per_second` datagrams a second to an address.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(namespace: &Namespace, to: SocketAddr, per_second: u32) -> Result<Self> {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, count, namespace) = (stop.clone(), sent.clone(), namespace.clone());
        let run = move || {
            let Ok(socket) = namespace.enter().and_then(|()| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))) else {
                return;
            };
            let mut due = Instant::now();
            while !ended.load(Ordering::Relaxed) {
                // The answer "port unreachable" comes back as an error of a later send: it changes nothing here.
                let _ = socket.send_to(&PAYLOAD, to);
                count.fetch_add(1, Ordering::Relaxed);
                due += Duration::from_secs(1) / per_second;
                let ahead = due.saturating_duration_since(Instant::now());
                if ahead > Duration::from_millis(1) {
                    std::thread::sleep(ahead);
                }
            }
        };
        std::thread::Builder::new().name("packets".into()).spawn(run).context(|| "cannot send packets".into())?;
        Ok(Self { stop, sent, started: Instant::now() })
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let rate = self.sent.load(Ordering::Relaxed) as f64 / self.started.elapsed().as_secs_f64();
        note(&format!("{rate:.0} packets a second were sent"));
    }
}

/// Finds the address of a tenant's port.
///
/// # Errors
/// When the machine has no such tenant.
pub fn address(machine: &Machine, tenant: &str, port: u16) -> Result<SocketAddr> {
    let found = machine.tenants.iter().find(|one| one.name == tenant);
    let found = found.ok_or_else(|| Failure::new(format!("the machine has no tenant `{tenant}`")))?;
    Ok(SocketAddr::from((Ipv4Addr::from(found.address), port)))
}
