//! Netlink sockets (netlink(7)): questions about the tenant's network and its sockets, read only.
//!
//! ```text
//!   send: requests, one after the other --> answers in datagrams of at most DATAGRAM_BYTES --> receive, in order
//! ```
//!
//! * [`message`] writes messages and attributes, and reads requests. [`route`] answers about interfaces, addresses, routes and
//!   neighbours (rtnetlink(7)); [`diagnosis`] about sockets (sock_diag(7)).
//! * A request is checked before anything is looked at. One that would change something is refused (EPERM).
//! * A socket holds the answers of so many requests as fit ([`QUEUE_BYTES_MAX`]); with more it is told ENOBUFS, as on Linux.

pub mod diagnosis;
pub mod message;
pub mod route;

use super::{Address, Data, Incoming, Options, Receive};
use crate::Errno;
use crate::file::tenant_files::TenantFiles;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::{Readiness, Ready};
use gyre_object::{Bytes, ObjectLock};
use message::{Answers, Request};

/// AF_NETLINK.
pub const NETLINK: u16 = 16;
/// Bytes of one datagram of answers: programs (glibc's if_nameindex) read with one page.
pub const DATAGRAM_BYTES: usize = 3712;
/// Bytes of answers that wait to be read.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// Bytes of one request.
const REQUEST_BYTES_MAX: usize = 32 << 10;
/// Requests in one datagram.
const REQUESTS_MAX: usize = 64;

/// The family that answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetlinkKind {
    /// NETLINK_ROUTE.
    Route,
    /// NETLINK_SOCK_DIAG.
    Diagnosis,
}

#[derive(Default)]
struct State {
    port: u32,
    groups: u32,
    answers: VecDeque<Vec<u8>>,
    bytes: usize,
    overrun: bool,
}

/// A netlink socket.
pub struct NetlinkSocket {
    kind: NetlinkKind,
    tenant: Arc<TenantFiles>,
    /// The number of the process that made it: the port that it gets without bind.
    process: u32,
    state: ObjectLock<State>,
    readiness: Arc<Readiness>,
    options: Options,
}

impl NetlinkSocket {
    /// Makes a socket.
    pub fn new(kind: NetlinkKind, tenant: &Arc<TenantFiles>, process: i32) -> NetlinkSocket {
        NetlinkSocket {
            kind,
            tenant: tenant.clone(),
            process: process.unsigned_abs(),
            state: ObjectLock::default(),
            readiness: Readiness::new(Ready::WRITE),
            options: Options::default(),
        }
    }

    /// Returns the common options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns who answers.
    pub fn kind(&self) -> NetlinkKind {
        self.kind
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> Arc<Readiness> {
        self.readiness.clone()
    }

    /// Does bind(2). Groups are taken: nothing that they would tell of ever happens.
    pub(super) fn bind(&self, port: u32, groups: u32) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.port != 0 && port != state.port {
            return Err(Errno::EINVAL);
        }
        state.port = if port == 0 { self.process } else { port };
        state.groups = groups;
        Ok(())
    }

    /// Does connect(2): the only peer is the kernel.
    pub(super) fn connect(&self, port: u32) -> Result<(), Errno> {
        if port == 0 { self.bind(self.state.lock().port, 0) } else { Err(Errno::EPERM) }
    }

    /// Returns its name.
    pub(super) fn name(&self) -> Address {
        let state = self.state.lock();
        Address::Netlink { port: state.port, groups: state.groups }
    }

    /// Takes requests, and answers them.
    pub(super) async fn send(&self, data: Data<'_>, to: Option<Address>) -> Result<usize, Errno> {
        match to {
            None | Some(Address::Netlink { port: 0, .. }) => {}
            Some(Address::Netlink { .. }) => return Err(Errno::ECONNREFUSED),
            Some(_) => return Err(Errno::EINVAL),
        }
        let bytes = data.len();
        if bytes > REQUEST_BYTES_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let all = data.into_one()?;
        let port = {
            let mut state = self.state.lock();
            if state.port == 0 {
                state.port = self.process;
            }
            state.port
        };
        for request in message::requests(all.as_slice()).take(REQUESTS_MAX) {
            let mut answers = Answers::new(&request, port);
            self.answer(&request, &mut answers).await;
            self.queue(answers);
        }
        Ok(bytes)
    }

    async fn answer(&self, request: &Request<'_>, answers: &mut Answers) {
        let done = match self.kind {
            NetlinkKind::Route => route::answer(&self.tenant, request, answers).await,
            NetlinkKind::Diagnosis => diagnosis::answer(&self.tenant, request, answers).await,
        };
        answers.finish(request, done);
    }

    fn queue(&self, answers: Answers) {
        let mut state = self.state.lock();
        for datagram in answers.into_datagrams() {
            if state.bytes.saturating_add(datagram.len()) > QUEUE_BYTES_MAX {
                state.overrun = true;
                break;
            }
            state.bytes = state.bytes.saturating_add(datagram.len());
            state.answers.push_back(datagram);
        }
        if state.overrun || !state.answers.is_empty() {
            self.readiness.set(Ready::READ);
        }
    }

    /// Gives it a datagram that answers no request (mq_notify(3)); lost if the socket is full.
    pub(crate) fn give(&self, datagram: &[u8]) {
        let mut state = self.state.lock();
        match state.bytes.saturating_add(datagram.len()) {
            bytes if bytes > QUEUE_BYTES_MAX => state.overrun = true,
            bytes => {
                state.bytes = bytes;
                state.answers.push_back(datagram.to_vec());
            }
        }
        self.readiness.set(Ready::READ);
    }

    /// Takes or looks at one datagram.
    pub(super) fn receive(&self, bytes_max: usize, how: Receive) -> Result<Incoming, Errno> {
        let mut state = self.state.lock();
        if core::mem::take(&mut state.overrun) {
            return Err(Errno::ENOBUFS);
        }
        let first = state.answers.front().ok_or(Errno::EAGAIN)?;
        let (whole_bytes, part) = (first.len(), first.get(..bytes_max.min(first.len())).unwrap_or(first));
        let data = Bytes::copy_from(part)?;
        if how == Receive::Take {
            state.answers.pop_front();
            state.bytes = state.bytes.saturating_sub(whole_bytes);
        }
        if state.answers.is_empty() {
            self.readiness.clear(Ready::READ);
        }
        let from = Some(Address::Netlink { port: 0, groups: 0 });
        Ok(Incoming { whole_bytes, data: alloc::vec![data], from, ..Incoming::default() })
    }

    /// Returns the length of the next datagram.
    pub(super) fn readable_bytes(&self) -> usize {
        self.state.lock().answers.front().map_or(0, Vec::len)
    }
}
