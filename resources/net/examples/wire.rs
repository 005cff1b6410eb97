//! Runs the path on a host, on a wire that speaks the framing of QEMU's stream sockets (four bytes of length, then the frame),
//! for tests against real systems: a small web server on port 80, echo on port 7, and a sender to a peer's port.
//!
//! `wire ADDRESS:PORT [send PEER-IP PORT BYTES]`; `tap.py` beside it makes such a wire of a tap device.
//!
//! The whole path runs as in the kernel: link, network reader and writer, TCP. Only the card is replaced, by [`Wire`].
//!
//! * Time is virtual and advances in steps of [`STEP_NS`], each as long in real time; timers of TCP so keep to the
//!   wall clock.
//! * `GET /N` on port 80 answers N bytes.
//! * It ends when the socket does. Errors of the host's socket panic: this is a tool for one's own machine.

use gyre_account::{ActivityId, set_current_activity};
use gyre_interface::Ready;
use gyre_interface::link::{FrameStream, LinkError, LinkProperties, OutFrame, link};
use gyre_interface::tcp::{Direction, NetError, Socket, SocketAddress, tcp};
use gyre_message::direct::{block_on, direct_link};
use gyre_message::{WaitQueue, sleep_ns, spawn};
use gyre_net::protocols::{icmp_input, net_write, tcp_input, tcp_timer, udp_input};
use gyre_net::{Net, NetConfig, NetLimits, NetPorts};
use gyre_object::{Bytes, SpinLock};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const TENANT: ActivityId = ActivityId(1);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ADDRESS: [u8; 4] = [10, 9, 0, 1];
/// Virtual time advances in these steps, each as long in real time.
const STEP_NS: u64 = 200_000;

struct Wire {
    socket: SpinLock<TcpStream>,
    inbox: SpinLock<VecDeque<Bytes>>,
    partial: SpinLock<Vec<u8>>,
    arrived: WaitQueue,
}

impl link::Server for Wire {
    async fn properties(&'static self) -> Result<LinkProperties, LinkError> {
        Ok(properties())
    }

    async fn transmit(&'static self, frame: OutFrame) -> Result<(), LinkError> {
        let mut flat = vec![0; 4];
        frame.pieces.iter().for_each(|piece| flat.extend_from_slice(piece.as_slice()));
        let length = (flat.len() - 4) as u32;
        flat[..4].copy_from_slice(&length.to_be_bytes());
        let mut rest = &flat[..];
        while !rest.is_empty() {
            let written = self.socket.lock().write(rest);
            match written {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_micros(50)),
                Err(_) => return Err(LinkError::Device),
            }
        }
        Ok(())
    }
}

impl FrameStream for Wire {
    type Frame = Bytes;

    async fn next(&'static self) -> Result<Vec<Bytes>, LinkError> {
        let take = || Some(self.inbox.lock().drain(..).collect::<Vec<_>>()).filter(|frames| !frames.is_empty());
        Ok(self.arrived.until(take).await)
    }
}

impl Wire {
    /// Takes the bytes that have arrived; false at the end.
    fn read(&self) -> bool {
        let mut buffer = [0; 65536];
        let count = match self.socket.lock().read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        };
        let mut partial = self.partial.lock();
        partial.extend_from_slice(&buffer[..count]);
        let mut start = 0;
        while let Some(head) = partial.get(start..start + 4) {
            let length = u32::from_be_bytes(head.try_into().unwrap()) as usize;
            let Some(frame) = partial.get(start + 4..start + 4 + length) else { break };
            self.inbox.lock().push_back(Bytes::copy_from(frame).unwrap());
            start += 4 + length;
        }
        partial.drain(..start);
        drop(partial);
        self.arrived.wake_all();
        true
    }
}

fn properties() -> LinkProperties {
    LinkProperties { mac: MAC, mtu_bytes: 1500, checksum_offload: false, segmentation_bytes_max: 0 }
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn net(wire: &'static Wire) -> (&'static Net, tcp::Client) {
    let device = link::Client::new(direct_link(move |request| Box::pin(link::serve(wire, request))));
    let net = Net::new(NetConfig {
        link_write: device,
        properties: properties(),
        addresses: vec![(TENANT, ADDRESS)],
        unowned: ActivityId(2),
        gateway: [10, 9, 0, 254],
        prefix: 24,
        tenant_of: &|activity| activity,
        protected: Vec::new(),
        doors: Vec::new(),
        limits: NetLimits::default(),
    });
    net.connect(NetPorts {
        tcp_input: tcp_input::Client::new(direct_link(|request| Box::pin(tcp_input::serve(&net.tcp, request)))),
        udp_input: udp_input::Client::new(direct_link(|request| Box::pin(udp_input::serve(&net.udp, request)))),
        icmp_input: icmp_input::Client::new(direct_link(|request| Box::pin(icmp_input::serve(&net.icmp, request)))),
        tcp_timer: tcp_timer::Client::new(direct_link(|request| Box::pin(tcp_timer::serve(&net.timer, request)))),
        net_write: net_write::Client::new(direct_link(|request| Box::pin(net_write::serve(&net.writer, request)))),
    });
    (net, tcp::Client::new(direct_link(|request| Box::pin(tcp::serve(&net.tcp, request)))))
}

async fn receive(tcp: tcp::Client, socket: &Socket) -> Result<Vec<Bytes>, NetError> {
    loop {
        match tcp.receive(socket.id, 1 << 20).await {
            Err(NetError::WouldBlock) => _ = socket.readiness.wait(Ready::READ).await,
            other => return other,
        }
    }
}

async fn send(tcp: tcp::Client, socket: &Socket, mut data: Bytes) -> Result<(), NetError> {
    while !data.is_empty() {
        match tcp.send(socket.id, vec![data.clone()]).await {
            Ok(taken) => data = data.slice(taken, data.len()),
            Err(NetError::WouldBlock) => _ = socket.readiness.wait(Ready::WRITE).await,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `GET /N` answers N bytes.
async fn serve_web(tcp: tcp::Client, socket: Socket, page: Bytes) -> Result<(), NetError> {
    let mut request = Vec::new();
    loop {
        let pieces = receive(tcp, &socket).await?;
        if pieces.is_empty() {
            return tcp.close(socket.id).await;
        }
        pieces.iter().for_each(|piece| request.extend_from_slice(piece.as_slice()));
        while let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&request[..end]).into_owned();
            request.drain(..end + 4);
            let bytes: usize = text.split(['/', ' ']).nth(2).and_then(|number| number.parse().ok()).unwrap_or(4096);
            let keep =
                !text.starts_with("GET") || text.contains("HTTP/1.1") || text.to_lowercase().contains("keep-alive");
            let connection = if keep { "keep-alive" } else { "close" };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: {connection}\r\n\r\n");
            send(tcp, &socket, Bytes::copy_from(head.as_bytes()).unwrap()).await?;
            let mut left = bytes;
            while left > 0 {
                let part = page.slice(0, left);
                left -= part.len();
                send(tcp, &socket, part).await?;
            }
            if !keep {
                return tcp.close(socket.id).await;
            }
        }
    }
}

async fn serve_echo(tcp: tcp::Client, socket: Socket) -> Result<(), NetError> {
    loop {
        let pieces = receive(tcp, &socket).await?;
        if pieces.is_empty() {
            return tcp.close(socket.id).await;
        }
        for piece in pieces {
            send(tcp, &socket, piece).await?;
        }
    }
}

async fn accept_all(tcp: tcp::Client, port: u16, serve: impl Fn(Socket)) {
    let listener = tcp.listen(SocketAddress { address: [0; 4], port }, 128, false).await.expect("the port is free");
    loop {
        match tcp.accept(listener.id).await {
            Ok(socket) => serve(socket),
            Err(_) => _ = listener.readiness.wait(Ready::READ).await,
        }
    }
}

async fn send_to(tcp: tcp::Client, remote: SocketAddress, bytes: usize) {
    let started = Instant::now();
    let socket = tcp.connect(SocketAddress { address: [0; 4], port: 0 }, remote).await.expect("a socket");
    let chunk = Bytes::copy_from(&vec![0x5a; 64 << 10]).unwrap();
    socket.readiness.wait(Ready::WRITE).await;
    let mut left = bytes;
    while left > 0 {
        let part = chunk.slice(0, left);
        left -= part.len();
        if let Err(error) = send(tcp, &socket, part).await {
            println!("send: {error:?}");
            return;
        }
    }
    tcp.shut_down(socket.id, Direction::Send).await.expect("open");
    while receive(tcp, &socket).await.is_ok_and(|pieces| !pieces.is_empty()) {}
    let status = tcp.status(socket.id).await;
    println!("sent {bytes} bytes in {:?}, {status:?}", started.elapsed());
    let _ = tcp.close(socket.id).await;
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let socket = TcpStream::connect(&arguments[1]).expect("the wire answers");
    socket.set_nonblocking(true).expect("sockets can");
    socket.set_nodelay(true).expect("sockets can");
    let wire = leak(Wire {
        socket: SpinLock::new(socket),
        inbox: SpinLock::default(),
        partial: SpinLock::default(),
        arrived: WaitQueue::new(),
    });
    gyre_machine::set_virtual_time(1_000_000_000);
    let (net, tcp) = net(wire);
    block_on(async {
        spawn(async move { net.read_frames(wire).await });
        spawn(async move { net.keep_time().await });
        set_current_activity(TENANT);
        let page = Bytes::copy_from(&(0..64usize << 10).map(|at| at as u8).collect::<Vec<_>>()).unwrap();
        spawn(accept_all(tcp, 80, move |socket| {
            spawn({
                let page = page.clone();
                async move { _ = serve_web(tcp, socket, page).await }
            })
        }));
        spawn(accept_all(tcp, 7, move |socket| spawn(async move { _ = serve_echo(tcp, socket).await })));
        if arguments.get(2).is_some_and(|word| word == "send") {
            let address: std::net::Ipv4Addr = arguments[3].parse().expect("an address");
            let remote = SocketAddress { address: address.octets(), port: arguments[4].parse().expect("a port") };
            spawn(send_to(tcp, remote, arguments[5].parse().expect("a number of bytes")));
        }
        let (real, start) = (Instant::now(), gyre_machine::now());
        loop {
            if !wire.read() {
                println!("{:?}", net.statistics());
                return;
            }
            let virtual_ns = gyre_machine::now() - start;
            let behind = Duration::from_nanos(virtual_ns).checked_sub(real.elapsed());
            if let Some(wait) = behind.filter(|_| wire.inbox.lock().is_empty()) {
                std::thread::sleep(wait.min(Duration::from_nanos(STEP_NS)));
            }
            match behind {
                Some(_) => gyre_message::yield_now().await,
                None => sleep_ns(STEP_NS).await,
            }
        }
    });
}
