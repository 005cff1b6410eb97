//! Datagrams between ports of the host and addresses in the machine's network.
//!
//! Each client has a socket in the namespace and a thread that brings answers back, until nothing has come for a while. There are only so
//! many; datagrams of further clients are dropped, as a full network does.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    failure::{Context as _, Result},
    namespace::Namespace,
};

/// The longest datagram, bytes.
const DATAGRAM_BYTES_MAX: usize = 1 << 16;
/// Clients of one port.
const CLIENTS_MAX: usize = 256;
/// A client for whom nothing has come for so long is forgotten.
const IDLE: Duration = Duration::from_secs(60);

/// A client's socket in the namespace.
struct Client {
    socket: Arc<UdpSocket>,
    is_over: Arc<AtomicBool>,
}

/// A thread without datagrams looks so often whether it is to end.
const LOOK: Duration = Duration::from_millis(500);

/// Forwards datagrams until it is over.
///
/// # Errors
/// When no thread can be had.
pub(super) fn serve(outside: UdpSocket, namespace: Namespace, to: SocketAddr, is_over: Arc<AtomicBool>) -> Result<()> {
    outside.set_read_timeout(Some(LOOK)).context(|| "cannot use a socket".into())?;
    let outside = Arc::new(outside);
    let run = move || {
        let mut clients: BTreeMap<SocketAddr, Client> = BTreeMap::new();
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        while !is_over.load(Ordering::Acquire) {
            // An error is that of one client (its port is closed by now), or nobody's: the others go on.
            let Ok((count, from)) = outside.recv_from(&mut bytes) else { continue };
            clients.retain(|_, client| !client.is_over.load(Ordering::Acquire));
            if !clients.contains_key(&from) && clients.len() < CLIENTS_MAX {
                clients.extend(open(&outside, &namespace, from, to).map(|client| (from, client)));
            }
            if let Some(client) = clients.get(&from) {
                let _ = client.socket.send(bytes.get(..count).unwrap_or_default());
            }
        }
    };
    std::thread::Builder::new().name("datagrams".into()).spawn(run).context(|| "cannot start a thread".into())?;
    Ok(())
}

/// Opens a client's socket, and begins to bring back what comes to it.
fn open(outside: &Arc<UdpSocket>, namespace: &Namespace, from: SocketAddr, to: SocketAddr) -> Option<Client> {
    let socket = Arc::new(namespace.datagrams(to).ok()?);
    socket.set_read_timeout(Some(IDLE)).ok()?;
    let client = Client { socket: socket.clone(), is_over: Arc::default() };
    let (outside, is_over) = (outside.clone(), client.is_over.clone());
    let bring = move || {
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        while let Ok(count) = socket.recv(&mut bytes) {
            let _ = outside.send_to(bytes.get(..count).unwrap_or_default(), from);
        }
        is_over.store(true, Ordering::Release);
    };
    std::thread::Builder::new().name("datagrams".into()).spawn(bring).ok()?;
    Some(client)
}
