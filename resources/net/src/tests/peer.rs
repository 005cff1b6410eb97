//! smoltcp at the other end of the wire.

use super::rig::{PEER_IP, PEER_MAC, Wire, pattern, stream};
use gyre_message::{sleep_ns, spawn};
use gyre_object::SpinLock;
use gyre_peer::socket::tcp;
use gyre_peer::{Ends, SocketHandle, Stack};
use std::boxed::Box;
use std::vec::Vec;

/// The wire's end at the peer.
pub struct Port(&'static Wire);

impl Ends for Port {
    fn take(&mut self, _now_ns: u64) -> Option<Vec<u8>> {
        self.0.to_peer.lock().take()
    }

    fn put(&mut self, _now_ns: u64, frame: Vec<u8>) {
        self.0.to_us.lock().put(&mut self.0.faults.lock(), frame);
    }
}

/// The peer's work with one TCP socket: it sends `send` bytes of the pattern, reads and checks the answer, and closes at the end.
pub struct Job {
    pub handle: SocketHandle,
    pub send: usize,
    pub sent: usize,
    pub read: usize,
    pub finished: bool,
}

/// smoltcp and its jobs.
pub struct Peer {
    pub stack: Stack<Port>,
    pub jobs: Vec<Job>,
}

impl Peer {
    pub fn new(wire: &'static Wire) -> &'static SpinLock<Peer> {
        let stack = Stack::new(Port(wire), PEER_MAC, PEER_IP, 0, gyre_machine::now());
        Box::leak(Box::new(SpinLock::new(Peer { stack, jobs: Vec::new() })))
    }

    /// Lets it work for ever; call inside `block_on`.
    pub fn start(peer: &'static SpinLock<Peer>) {
        let wire = peer.lock().stack.ends().0;
        spawn(async move {
            loop {
                peer.lock().poll();
                let period = *wire.period_ns.lock();
                sleep_ns(period).await;
            }
        });
    }

    fn job(&mut self, handle: SocketHandle, send: usize) -> usize {
        self.jobs.push(Job { handle, send, sent: 0, read: 0, finished: false });
        self.jobs.len() - 1
    }

    pub fn connect(&mut self, to: [u8; 4], port: u16, send: usize) -> usize {
        let handle = self.stack.connect(to, port);
        self.job(handle, send)
    }

    pub fn listen(&mut self, port: u16, send: usize) -> usize {
        let handle = self.stack.listen(port);
        self.job(handle, send)
    }

    pub fn bind_udp(&mut self, port: u16) -> SocketHandle {
        self.stack.bind_udp(port)
    }

    pub fn poll(&mut self) {
        // ingress one by one: the default budget would leave frames for the next millisecond
        while self.stack.poll(gyre_machine::now()) {
            self.work();
        }
        self.work();
    }

    fn work(&mut self) {
        let sockets = &mut self.stack.sockets;
        self.jobs.iter_mut().for_each(|job| job.work(sockets));
    }
}

impl Job {
    fn work(&mut self, sockets: &mut gyre_peer::SocketSet<'static>) {
        let socket = sockets.get_mut::<tcp::Socket>(self.handle);
        while socket.can_recv() {
            let _ = socket.recv(|data| {
                for byte in data.iter() {
                    assert_eq!(*byte, pattern(self.read), "byte {} at the peer", self.read);
                    self.read += 1;
                }
                (data.len(), ())
            });
        }
        while socket.can_send() && self.sent < self.send {
            let chunk = stream(self.sent, (self.send - self.sent).min(4000));
            match socket.send_slice(&chunk).unwrap() {
                0 => break,
                sent => self.sent += sent,
            }
        }
        if self.sent == self.send && !self.finished && socket.may_send() {
            self.finished = true;
            socket.close();
        }
    }
}
