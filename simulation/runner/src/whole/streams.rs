//! A tenant's connections: a server that the peer asks, and tasks that ask the peer.
//!
//! * [`Stream`] and [`Listener`] wrap sockets so that dropping one closes it: a task may be killed at any await.
//! * [`ask`] sends a question to the peer and checks the answer; [`answer`] reads a question and sends what it wants,
//!   from pages of the file cache or made up.
//! * A stream whose work is done closes and what was sent still leaves; one that broke off resets, so the other side
//!   knows.
//!
//! An error ends the exchange; the caller decides whether the run may have one (a kill, no memory).

use crate::whole::exchange::{Exchange, FILLS, QUESTION_BYTES};
use crate::whole::files::views_of;
use gyre_interface::files::{NodeId, files};
use gyre_interface::readiness::Ready;
use gyre_interface::tcp::{NetError, Socket, SocketAddress, TcpOption, tcp};
use gyre_message::{Labels, select, sleep_ns};
use gyre_object::Bytes;
use std::cell::Cell;

/// Bytes that are sent in one request, at most.
const PART_BYTES: usize = 12_000;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 16;
/// Any port of any of its own addresses.
const ANY: SocketAddress = SocketAddress { address: [0; 4], port: 0 };

/// A file that is served.
#[derive(Clone, Copy)]
pub struct Served {
    /// Its file system.
    pub files: files::Client,
    /// The file.
    pub node: NodeId,
}

/// A connection; closed at the latest when its owner ends.
pub struct Stream {
    client: tcp::Client,
    socket: Socket,
    is_closed: Cell<bool>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.is_closed.get() {
            drop(self.client.close(self.socket.id));
        }
    }
}

impl Stream {
    /// Over an open socket.
    pub fn new(client: tcp::Client, socket: Socket) -> Stream {
        let client = client.labelled(Labels { affinity: socket.label, dependency: 0 });
        Stream { client, socket, is_closed: Cell::new(false) }
    }

    /// Connects.
    ///
    /// # Errors
    /// Those of the way there.
    pub async fn connect(client: tcp::Client, remote: SocketAddress) -> Result<Stream, NetError> {
        let socket = client.connect(ANY, remote).await?;
        let stream = Stream::new(client, socket);
        let ready = stream.socket.readiness.wait(Ready::WRITE).await;
        match stream.client.take_error(stream.socket.id).await? {
            Some(error) => Err(error),
            None if ready.contains(Ready::WRITE) => Ok(stream),
            None => Err(NetError::NotConnected),
        }
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn send(&self, mut data: Vec<Bytes>) -> Result<(), NetError> {
        while !data.is_empty() {
            match self.client.send(self.socket.id, data.clone()).await {
                Ok(taken) => data = after(data, taken),
                Err(NetError::WouldBlock) => drop(self.socket.readiness.wait(Ready::WRITE).await),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the next bytes; none at the end.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn receive(&self, bytes_max: usize) -> Result<Vec<u8>, NetError> {
        let views = self.receive_views(bytes_max).await?;
        Ok(views.iter().flat_map(|view| view.as_slice().to_vec()).collect())
    }

    /// Returns the next bytes where they lie; none at the end.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn receive_views(&self, bytes_max: usize) -> Result<Vec<Bytes>, NetError> {
        loop {
            match self.client.receive(self.socket.id, bytes_max).await {
                Err(NetError::WouldBlock) => drop(self.socket.readiness.wait(Ready::READ).await),
                got => return got,
            }
        }
    }

    /// Closes it: if all was done, what was sent still leaves; else the other side hears that it was not.
    async fn end(&self, is_done: bool) {
        if !is_done {
            let _ = self.client.set_option(self.socket.id, TcpOption::Linger(Some(0))).await;
        }
        self.is_closed.set(true);
        let _ = self.client.close(self.socket.id).await;
    }
}

/// Returns the rest after so many bytes.
fn after(data: Vec<Bytes>, mut taken: usize) -> Vec<Bytes> {
    let mut rest = Vec::new();
    for view in data {
        let skipped = taken.min(view.len());
        taken -= skipped;
        if skipped < view.len() {
            rest.push(view.slice(skipped, view.len()));
        }
    }
    rest
}

/// Asks the peer: true if all came, false if the connection broke.
pub async fn ask(client: tcp::Client, remote: SocketAddress, exchange: Exchange) -> bool {
    let Ok(stream) = Stream::connect(client, remote).await else { return false };
    let done = ask_on(&stream, exchange).await.is_ok();
    stream.end(done).await;
    done
}

async fn ask_on(stream: &Stream, exchange: Exchange) -> Result<(), NetError> {
    let mut sent = 0;
    while sent < exchange.up_bytes() {
        let part = exchange.up(sent, (exchange.up_bytes() - sent).min(PART_BYTES));
        stream.send(views_of(&part).map_err(|_| NetError::OutOfMemory)?).await?;
        sent += part.len();
    }
    let mut got = 0;
    loop {
        let data = stream.receive(PART_BYTES).await?;
        exchange.check_down(got, &data);
        got += data.len();
        if data.is_empty() || got > exchange.down {
            assert_eq!(got, exchange.down, "{exchange:?}: the stream from the peer ended in order");
            return Ok(());
        }
    }
}

/// A listener; closed at the latest when its owner ends.
pub struct Listener {
    client: tcp::Client,
    socket: Socket,
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.client.close(self.socket.id));
    }
}

impl Listener {
    /// Listens at a port.
    ///
    /// # Errors
    /// Those of the resource.
    pub async fn new(client: tcp::Client, port: u16) -> Result<Listener, NetError> {
        let socket = client.listen(SocketAddress { port, ..ANY }, BACKLOG, false).await?;
        Ok(Listener { client, socket })
    }

    /// Returns a connection that has come, or [`NetError::WouldBlock`].
    ///
    /// # Errors
    /// Those of the resource.
    pub async fn accept(&self) -> Result<Stream, NetError> {
        let socket = self.client.accept(self.socket.id).await?;
        Ok(Stream::new(self.client, socket))
    }

    /// Waits for a connection, at most so long.
    pub async fn wait(&self, ns: u64) {
        drop(select(self.socket.readiness.wait(Ready::READ), sleep_ns(ns)).await);
    }
}

/// Returns a question: true if all was sent and closed, false if the connection broke.
pub async fn answer(stream: Stream, served: Option<Served>) -> bool {
    let done = answer_on(&stream, served).await.is_ok();
    stream.end(done).await;
    done
}

async fn answer_on(stream: &Stream, served: Option<Served>) -> Result<(), NetError> {
    let mut question = Vec::new();
    while question.len() < QUESTION_BYTES {
        let data = stream.receive(QUESTION_BYTES - question.len()).await?;
        if data.is_empty() {
            return Err(NetError::Closed);
        }
        question.extend(data);
    }
    let exchange = Exchange::parse(&question).ok_or(NetError::Invalid)?;
    let mut got = QUESTION_BYTES;
    while got < exchange.up_bytes() {
        let data = stream.receive(PART_BYTES).await?;
        if data.is_empty() {
            return Err(NetError::Closed);
        }
        exchange.check_up(got, &data);
        got += data.len();
    }
    match served.filter(|_| exchange.salt < FILLS) {
        Some(served) => send_file(stream, served, exchange.down).await,
        None => send_part(stream, exchange).await,
    }
}

/// Sends the pages of a file as they lie in the cache.
async fn send_file(stream: &Stream, served: Served, bytes: usize) -> Result<(), NetError> {
    let mut sent = 0;
    while sent < bytes {
        let views = served.files.read(served.node, sent as u64, PART_BYTES.min(bytes - sent)).await;
        let views = views.map_err(|_| NetError::Gone)?;
        sent += views.iter().map(Bytes::len).sum::<usize>();
        if views.is_empty() {
            return Err(NetError::Gone);
        }
        stream.send(views).await?;
    }
    Ok(())
}

async fn send_part(stream: &Stream, exchange: Exchange) -> Result<(), NetError> {
    let mut sent = 0;
    while sent < exchange.down {
        let part = exchange.down(sent, (exchange.down - sent).min(PART_BYTES));
        stream.send(views_of(&part).map_err(|_| NetError::OutOfMemory)?).await?;
        sent += part.len();
    }
    Ok(())
}
