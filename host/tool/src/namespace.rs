//! A network namespace of its own for the far end of the wire: TAP device, clients, nothing else.
//!
//! The host's own network is not touched: no bridge, no address, no rule. Needs root, or a user namespace in which we are
//! root ([`become_root_in_namespace`]).

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::process::CommandExt as _,
    sync::Arc,
    time::Duration,
};

use gyre_contract::address;
use nix::sched::{CloneFlags, setns, unshare};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::{
    command,
    failure::{Context as _, Failure, Kind, Result},
};

/// The TAP device's name; it is alone in its namespace.
const TAP: &str = "wire0";
/// Set if this program is root of a user namespace only.
pub const INSIDE: &str = "GYRE_IN_USER_NAMESPACE";

/// A handle to the namespace; clones refer to the same one.
#[derive(Clone)]
pub struct Namespace {
    file: Arc<File>,
}

/// Starts this program again as root of a user namespace, when it is not root; returns only when nothing is to be done.
///
/// # Errors
/// When the host forbids user namespaces.
pub fn become_root_in_namespace() -> Result<()> {
    if nix::unistd::geteuid().is_root() || std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let this = std::env::current_exe().context(|| "cannot tell the path of this program".into())?;
    let mut again = command::program("unshare")?;
    again.args(["--user", "--map-root-user", "--"]).arg(this).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    let error = again.exec();
    let help = "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)";
    Err(Failure::with_help(format!("cannot make a user namespace: {error}"), help).kind(Kind::Environment))
}

impl Namespace {
    /// Makes the namespace with a TAP device that has the gateway's address.
    ///
    /// # Errors
    /// When the host refuses: not root, or no /dev/net/tun.
    pub fn create() -> Result<(Self, SyncDevice)> {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from)?;
            let file = File::open("/proc/thread-self/ns/net")?;
            let tap = DeviceBuilder::new()
                .name(TAP)
                .layer(Layer::L2)
                .mac_addr(address::GATEWAY_MAC)
                .ipv4(Ipv4Addr::from(address::GATEWAY), address::PREFIX_BITS, None)
                .mtu(1500)
                .build_sync()?;
            Ok::<_, io::Error>((file, tap))
        });
        let made = made.join().map_err(|_| Failure::new("the thread that makes the namespace died"))?;
        let (file, tap) = made.map_err(refused)?;
        let namespace = Self { file: Arc::new(file) };
        namespace.prepare()?;
        Ok((namespace, tap))
    }

    /// Brings the loopback device up and keeps the far end from being the bottleneck.
    fn prepare(&self) -> Result<()> {
        let here = self.clone();
        let prepare = move || -> Result<()> {
            here.enter().context(|| "cannot enter the namespace".into())?;
            command::output(command::program("ip")?.args(["link", "set", "lo", "up"]))?;
            // A packet that has no way out gets an answer, not silence: "prohibited" is ENETUNREACH for the one who asked.
            let _ = std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
            let _ = command::output(command::program("ip")?.args(["route", "add", "prohibit", "default"]));
            // IPv6 would only add neighbour discovery that has no answer.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{TAP}/disable_ipv6"), "1");
            Ok(())
        };
        std::thread::spawn(prepare).join().map_err(|_| Failure::new("the thread that prepares the namespace died"))?
    }

    /// Moves the calling thread into the namespace, with every process that it starts from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enter(&self) -> io::Result<()> {
        setns(&*self.file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }

    /// Connects to an address inside. The calling thread does not move: a socket belongs to the namespace in which it was made.
    ///
    /// # Errors
    /// The error of `connect`.
    pub fn connect(&self, to: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        let here = self.clone();
        let connect = move || here.enter().and_then(|()| TcpStream::connect_timeout(&to, timeout));
        std::thread::spawn(connect).join().unwrap_or_else(|_| Err(io::Error::other("the connecting thread died")))
    }
}

impl Namespace {
    /// Listens on a port of an address inside that the kernel chooses.
    ///
    /// # Errors
    /// The error of `bind`.
    pub fn listen(&self, address: Ipv4Addr) -> io::Result<TcpListener> {
        let here = self.clone();
        let listen = move || here.enter().and_then(|()| TcpListener::bind((address, 0)));
        std::thread::spawn(listen).join().unwrap_or_else(|_| Err(io::Error::other("the listening thread died")))
    }

    /// Makes a socket for datagrams to an address inside.
    ///
    /// # Errors
    /// Those of `bind` and `connect`.
    pub fn datagrams(&self, to: SocketAddr) -> io::Result<UdpSocket> {
        let here = self.clone();
        let open = move || {
            here.enter()?;
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect(to).map(|()| socket)
        };
        std::thread::spawn(open).join().unwrap_or_else(|_| Err(io::Error::other("the connecting thread died")))
    }
}

fn refused(error: io::Error) -> Failure {
    let help = match error.kind() {
        io::ErrorKind::PermissionDenied => "run as root, or allow user namespaces and access to /dev/net/tun",
        io::ErrorKind::NotFound => "the host has no /dev/net/tun: modprobe tun",
        _ => "gyre doctor checks what is needed",
    };
    Failure::with_help(format!("cannot make the machine's network: {error}"), help).kind(Kind::Environment)
}
