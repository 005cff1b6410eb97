//! TCP sockets: phases of one descriptor over the requests of `interface::tcp`.
//!
//! A fresh socket keeps options and address until listen or connect opens it at the resource; from then on every
//! request carries the label of its connection, so that it is handled at the connection's core. Phases: fresh,
//! listening, connecting, connected; [`TcpSocket::readiness`] answers the readiness of the phase, and subscribers
//! move along ([`gyre_interface::Readiness::hand_over`]).
//!
//! Nothing waits for the peer. Small sends share pages with those of the tenant's other sockets.

use super::list::{CLOSED, SYN_SENT};
use super::{Address, Data, Incoming, Options, Receive, Socket};
use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::tcp::{self, Direction, NetError, SocketAddress, TcpOption, TcpStatus};
use gyre_interface::{Readiness, Ready};
use gyre_message::Labels;
use gyre_object::{Bytes, ObjectLock, SmallCopies, TenantLock};

/// Any address and port.
pub const ANY: SocketAddress = SocketAddress { address: [0; 4], port: 0 };
/// Ports that the system chooses from (ip_local_port_range).
const EPHEMERAL: (u16, u16) = (32_768, 60_999);
const EPHEMERAL_COUNT: u16 = EPHEMERAL.1 - EPHEMERAL.0;
/// Tries to find a free port.
const PORT_TRIES: usize = 64;

#[derive(Clone)]
enum Phase {
    Fresh,
    Listening(tcp::Socket),
    Connecting(tcp::Socket),
    Connected(tcp::Socket),
}

struct State {
    phase: Phase,
    local: SocketAddress,
    /// The options set before there was a connection, in order; a listener's connections inherit them.
    wanted: alloc::vec::Vec<TcpOption>,
}

/// A TCP socket.
// recursion: at most 1, because the socket that it names is the network path's own
pub struct TcpSocket {
    client: tcp::tcp::Client,
    state: ObjectLock<State>,
    fresh: Arc<Readiness>,
    options: Options,
    /// The pages to which few bytes to send are copied, for all of a tenant's sockets.
    small: Arc<TenantLock<SmallCopies>>,
}

impl TcpSocket {
    /// Makes a socket without an address.
    pub fn new(client: tcp::tcp::Client, small: Arc<TenantLock<SmallCopies>>) -> TcpSocket {
        TcpSocket::in_phase(client, small, Phase::Fresh, ANY)
    }

    fn in_phase(
        client: tcp::tcp::Client,
        small: Arc<TenantLock<SmallCopies>>,
        phase: Phase,
        local: SocketAddress,
    ) -> TcpSocket {
        TcpSocket {
            client,
            state: ObjectLock::new(State { phase, local, wanted: alloc::vec::Vec::new() }),
            fresh: Readiness::new(Ready::WRITE | Ready::HANG_UP),
            options: Options::default(),
            small,
        }
    }

    /// Returns the common options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    fn phase(&self) -> Phase {
        self.state.lock().phase.clone()
    }

    fn opened(&self) -> Option<tcp::Socket> {
        match self.phase() {
            Phase::Fresh => None,
            Phase::Listening(socket) | Phase::Connecting(socket) | Phase::Connected(socket) => Some(socket),
        }
    }

    fn connection(&self) -> Result<tcp::Socket, Errno> {
        match self.phase() {
            Phase::Fresh | Phase::Listening(_) => Err(Errno::ENOTCONN),
            Phase::Connecting(socket) | Phase::Connected(socket) => Ok(socket),
        }
    }

    /// Returns the client whose requests go to the connection's core. They have no dependency label: a request at an
    /// empty queue is handled at once, in its caller's turn, and a thread's requests follow each other in its order.
    fn ask(&self, socket: &tcp::Socket) -> tcp::tcp::Client {
        self.client.labelled(Labels { affinity: socket.label, dependency: 0 })
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> Arc<Readiness> {
        self.opened().map_or_else(|| self.fresh.clone(), |socket| socket.readiness)
    }

    /// Enters a phase; subscribers of the old readiness follow.
    fn enter(&self, phase: Phase) {
        self.state.lock().phase = phase;
        if let Some(socket) = self.opened() {
            self.fresh.hand_over(&socket.readiness);
        }
    }

    /// Does bind(2). Port 0 gets a free one now, so that getsockname can tell it.
    pub(super) async fn bind(&self, mut local: SocketAddress) -> Result<(), Errno> {
        {
            let state = self.state.lock();
            if !matches!(state.phase, Phase::Fresh) || state.local != ANY {
                return Err(Errno::EINVAL);
            }
        }
        if local.port == 0 {
            local.port = self.free_port(local).await?;
        }
        self.state.lock().local = local;
        Ok(())
    }

    async fn free_port(&self, local: SocketAddress) -> Result<u16, Errno> {
        for _ in 0..PORT_TRIES {
            let mut random = [0; 2];
            gyre_machine::fill_random(&mut random);
            let port = EPHEMERAL.0.saturating_add(u16::from_le_bytes(random) % EPHEMERAL_COUNT);
            match self.client.listen(SocketAddress { port, ..local }, 1, false).await {
                Err(NetError::InUse) => {}
                Err(error) => return Err(error.into()),
                Ok(socket) => {
                    self.client.close(socket.id).await?;
                    return Ok(port);
                }
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// Does listen(2). A second call leaves the backlog as it is.
    pub(super) async fn listen(&self, backlog: u32) -> Result<(), Errno> {
        match self.phase() {
            Phase::Listening(_) => return Ok(()),
            Phase::Fresh => {}
            Phase::Connecting(_) | Phase::Connected(_) => return Err(Errno::EINVAL),
        }
        let local = self.state.lock().local;
        let share = Options::flag(&self.options.reuse_port);
        let socket = self.client.listen(local, backlog.clamp(1, 4096), share).await?;
        self.enter(Phase::Listening(socket));
        Ok(())
    }

    /// Does accept(2).
    pub(super) async fn accept(&self) -> Result<(Socket, Address), Errno> {
        let Phase::Listening(listener) = self.phase() else {
            return Err(Errno::EINVAL);
        };
        if listener.readiness.now().is_empty() {
            return Err(Errno::EAGAIN);
        }
        let socket = self.ask(&listener).accept(listener.id).await?;
        let inherited = self.state.lock().wanted.clone();
        for option in inherited {
            // An option is refused only by a connection that has ended, which the program learns when it reads.
            let _ = self.ask(&socket).set_option(socket.id, option).await;
        }
        let remote = Address::Inet(socket.remote);
        let local = socket.local;
        let accepted = TcpSocket::in_phase(self.client, self.small.clone(), Phase::Connected(socket), local);
        Ok((Socket::Tcp(accepted), remote))
    }

    /// Does connect(2).
    pub(super) async fn connect(&self, remote: SocketAddress) -> Result<(), Errno> {
        match self.phase() {
            Phase::Connected(_) | Phase::Listening(_) => Err(Errno::EISCONN),
            Phase::Connecting(socket) => self.finish_connect(socket).await,
            Phase::Fresh => {
                let (local, wanted) = {
                    let mut state = self.state.lock();
                    (state.local, core::mem::take(&mut state.wanted))
                };
                let socket = self.client.connect(local, remote).await?;
                self.enter(Phase::Connecting(socket.clone()));
                for option in wanted {
                    self.ask(&socket).set_option(socket.id, option).await?;
                }
                Err(Errno::EINPROGRESS)
            }
        }
    }

    async fn finish_connect(&self, socket: tcp::Socket) -> Result<(), Errno> {
        if !socket.readiness.now().intersects(Ready::WRITE | Ready::ERROR | Ready::HANG_UP) {
            return Err(Errno::EALREADY);
        }
        match self.take_error().await {
            Some(error) => Err(error),
            None => {
                self.state.lock().phase = Phase::Connected(socket);
                Ok(())
            }
        }
    }

    /// Returns the pending error, taken. A failed connection can be tried again.
    pub(super) async fn take_error(&self) -> Option<Errno> {
        let socket = self.opened()?;
        let error = Errno::from(self.ask(&socket).take_error(socket.id).await.ok()??);
        if let Phase::Connecting(socket) = self.phase() {
            self.state.lock().phase = Phase::Fresh;
            socket.readiness.hand_over(&self.fresh);
            // It never was connected, and no caller waits for the answer.
            drop(self.client.close(socket.id));
        }
        Some(error)
    }

    /// Sends as many bytes as fit.
    pub(super) async fn send(&self, data: Data<'_>) -> Result<usize, Errno> {
        let socket = match self.connection() {
            Err(_) => return Err(Errno::EPIPE),
            Ok(socket) => socket,
        };
        if data.is_empty() {
            return Ok(0);
        }
        let bits = socket.readiness.now();
        if !bits.intersects(Ready::WRITE | Ready::ERROR | Ready::HANG_UP) {
            return Err(Errno::EAGAIN);
        }
        Ok(self.ask(&socket).send(socket.id, data.into_pieces_of(&self.small)?).await?)
    }

    /// Takes or looks at received bytes. If there are none, the resource is not asked.
    pub(super) async fn receive(&self, bytes_max: usize, how: Receive) -> Result<Incoming, Errno> {
        let socket = self.connection()?;
        let some = Ready::READ | Ready::ERROR | Ready::HANG_UP | Ready::READ_HANG_UP;
        if !socket.readiness.now().intersects(some) {
            return Err(Errno::EAGAIN);
        }
        let client = self.ask(&socket);
        let data = match how {
            Receive::Take => client.receive(socket.id, bytes_max).await?,
            Receive::Peek => client.peek(socket.id, bytes_max).await?,
        };
        let whole_bytes = data.iter().map(Bytes::len).sum();
        Ok(Incoming { data, whole_bytes, ..Incoming::default() })
    }

    /// Does shutdown(2).
    pub(super) async fn shut_down(&self, direction: Direction) -> Result<(), Errno> {
        let socket = match self.phase() {
            Phase::Listening(socket) => socket,
            _ => self.connection()?,
        };
        Ok(self.ask(&socket).shut_down(socket.id, direction).await?)
    }

    /// Returns its own end.
    pub fn local(&self) -> SocketAddress {
        self.opened().map_or_else(|| self.state.lock().local, |socket| socket.local)
    }

    /// Returns the other end.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn remote(&self) -> Result<SocketAddress, Errno> {
        self.connection().map(|socket| socket.remote)
    }

    /// Returns the other end of a connection that has not ended (getpeername(2)).
    ///
    /// # Errors
    /// ENOTCONN.
    pub(super) async fn peer(&self) -> Result<SocketAddress, Errno> {
        let socket = self.connection()?;
        match self.status().await {
            Some(status) if status.state != CLOSED && status.state != SYN_SENT => Ok(socket.remote),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// Returns state and figures, if it is open.
    pub async fn status(&self) -> Option<TcpStatus> {
        let socket = self.opened()?;
        self.ask(&socket).status(socket.id).await.ok()
    }

    /// Returns whether it listens (SO_ACCEPTCONN).
    pub fn is_listening(&self) -> bool {
        matches!(self.phase(), Phase::Listening(_))
    }

    /// Sets an option now, or at the connection.
    ///
    /// # Errors
    /// Those of the resource.
    pub async fn set_option(&self, option: TcpOption) -> Result<(), Errno> {
        match self.connection() {
            Ok(socket) => Ok(self.ask(&socket).set_option(socket.id, option).await?),
            Err(_) => {
                let wanted = &mut self.state.lock().wanted;
                wanted.retain(|other| core::mem::discriminant(other) != core::mem::discriminant(&option));
                wanted.push(option);
                Ok(())
            }
        }
    }

    /// Closes as [`TcpSocket::close`] does, and waits until the resource has closed it.
    pub(super) async fn close_and_wait(&self) {
        if let Some(socket) = self.opened() {
            // A resource that is gone has closed everything already.
            let _ = self.ask(&socket).close(socket.id).await;
        }
    }

    /// Ends it when its descriptor is closed for good.
    pub(super) fn close(&self) {
        if let Some(socket) = self.opened() {
            // The answer is not needed: a resource that is gone has closed everything already.
            drop(self.ask(&socket).close(socket.id));
        }
    }
}
