//! Ports and sockets of the host that lead to addresses in the machine's network.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    time::Duration,
};

use crate::{
    failure::{Context as _, Failure, Kind, Result},
    namespace::Namespace,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A stream that can be copied and half-closed.
trait Duplex: Read + Write + Send + Sized + 'static {
    fn copy(&self) -> io::Result<Self>;
    fn close(&self, how: Shutdown);
}

impl Duplex for TcpStream {
    fn copy(&self) -> io::Result<Self> {
        self.try_clone()
    }
    fn close(&self, how: Shutdown) {
        let _ = self.shutdown(how);
    }
}

impl Duplex for UnixStream {
    fn copy(&self) -> io::Result<Self> {
        self.try_clone()
    }
    fn close(&self, how: Shutdown) {
        let _ = self.shutdown(how);
    }
}

/// Forwards a port of 127.0.0.1 to an address in the namespace until the tool ends.
///
/// # Errors
/// When the port is taken; `whose` says for whom it was meant.
pub fn port(namespace: &Namespace, host: u16, to: SocketAddr, whose: &str) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, host)).map_err(|error| taken(&error, host, whose))?;
    let namespace = namespace.clone();
    serve(format!("port {host}"), move || {
        let (client, _) = listener.accept()?;
        forward(client, namespace.clone(), to);
        Ok(())
    })
}

/// Forwards a Unix socket to an address in the namespace until the tool ends.
///
/// # Errors
/// When the socket cannot be made.
pub fn unix(namespace: &Namespace, path: &Path, to: SocketAddr) -> Result<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).context(|| format!("cannot make the socket {}", path.display()))?;
    let namespace = namespace.clone();
    serve("agent".into(), move || {
        let (client, _) = listener.accept()?;
        forward(client, namespace.clone(), to);
        Ok(())
    })
}

fn taken(error: &io::Error, host: u16, whose: &str) -> Failure {
    let help = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another program uses it; change `ports` of tenant {whose}, or end that program")
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need root".to_owned(),
        _ => "take another port".to_owned(),
    };
    Failure::with_help(format!("cannot listen on port {host}: {error}"), help).kind(Kind::Environment)
}

fn serve(name: String, mut accept: impl FnMut() -> io::Result<()> + Send + 'static) -> Result<()> {
    // A failed accept (a client that gave up, no descriptor left) is that client's loss only; the pause keeps it from spinning.
    let run = move || {
        loop {
            if accept().is_err() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    };
    std::thread::Builder::new().name(name).spawn(run).context(|| "cannot start a thread".into())?;
    Ok(())
}

fn forward(client: impl Duplex, namespace: Namespace, to: SocketAddr) {
    std::thread::spawn(move || {
        if let Ok(server) = namespace.connect(to, CONNECT_TIMEOUT) {
            let _ = splice(client, server);
        }
    });
}

/// Copies both ways until both ends have closed.
fn splice(client: impl Duplex, server: TcpStream) -> io::Result<()> {
    let _ = server.set_nodelay(true);
    let (mut from_client, mut to_client) = (client.copy()?, client);
    let (mut from_server, mut to_server) = (server.copy()?, server);
    let up = std::thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        to_server.close(Shutdown::Write);
    });
    let _ = io::copy(&mut from_server, &mut to_client);
    to_client.close(Shutdown::Write);
    let _ = up.join();
    Ok(())
}
