//! Requests of two tenants, each with sockets of all kinds.

use super::stranger::{PORTS, THEIRS};
use crate::tests::echoes::client;
use crate::tests::rig::*;
use crate::tests::streams::at;
use gyre_account::ActivityId;
use gyre_interface::icmp::{Wanted, icmp};
use gyre_interface::tcp::{Direction, NetError, Socket, SocketAddress, SocketId, TcpOption};
use gyre_interface::udp::{Binding, Coverage, Kind, PortUse};
use gyre_message::wait::Either;
use gyre_message::{select, sleep_ns};
use gyre_mutate::Input;
use gyre_object::Bytes;
use std::vec::Vec;

const TENANTS: &[ActivityId] = &[GOLD, BRONZE];
const LOCALS: &[[u8; 4]] = &[[0; 4], GOLD_IP, BRONZE_IP, [127, 0, 0, 1], [8, 8, 8, 8]];
const REMOTES: &[[u8; 4]] = &[
    PEER_IP,
    GOLD_IP,
    BRONZE_IP,
    [127, 0, 0, 1],
    [10, 0, 0, 20],
    [8, 8, 8, 8],
    [10, 0, 0, 255],
    [224, 0, 0, 1],
    [0; 4],
];
const SIZES: &[usize] = &[1, 100, 1448, 4096, 9000, 40_000];

/// The resource of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    Stream,
    Datagrams,
    Messages,
}

struct Owned {
    sort: Sort,
    owner: ActivityId,
    socket: Socket,
}

/// See the module.
pub struct Calls {
    pub rig: Rig,
    icmp: icmp::Client,
    /// Bytes of streams that were taken to be sent, and that were received.
    pub moved_bytes: [usize; 2],
    sockets: Vec<Owned>,
}

/// Waits for an answer, which waits for nobody.
async fn answered<T>(answer: impl Future<Output = T>) -> T {
    match select(answer, sleep_ns(1000 * MS)).await {
        Either::First(answer) => answer,
        Either::Second(()) => panic!("a request waits"),
    }
}

fn data(input: &mut Input<'_>) -> Bytes {
    Bytes::copy_from(&std::vec![3; input.one_of(SIZES)]).unwrap()
}

impl Calls {
    pub fn new(rig: Rig) -> Calls {
        Calls { rig, icmp: client(rig), moved_bytes: [0; 2], sockets: Vec::new() }
    }

    /// Lets a tenant ask for something.
    pub async fn ask(&mut self, input: &mut Input<'_>) {
        act_as(input.one_of(TENANTS));
        if self.sockets.is_empty() || input.hits(4) {
            return self.open(input).await;
        }
        let turn = input.below(self.sockets.len());
        let Owned { sort, owner, socket } = &self.sockets[turn];
        let (sort, owner, id) = (*sort, *owner, socket.id);
        // most requests are about one's own sockets
        let is_foreign = input.hits(16);
        act_as(if is_foreign { NOBODY } else { owner });
        let answer = match sort {
            Sort::Stream => self.ask_stream(id, turn, input).await,
            Sort::Datagrams => self.ask_datagrams(id, turn, input).await,
            Sort::Messages => self.ask_messages(id, turn, input).await,
        };
        assert!(!is_foreign || answer.is_err(), "a socket of another is there");
    }

    fn keep(&mut self, sort: Sort, opened: Result<Socket, NetError>) -> Result<(), NetError> {
        let owner = gyre_account::current_activity();
        opened.map(|socket| self.sockets.push(Owned { sort, owner, socket }))
    }

    fn gone(&mut self, turn: usize, closed: Result<(), NetError>) -> Result<(), NetError> {
        closed.map(|()| drop(self.sockets.remove(turn)))
    }

    async fn open(&mut self, input: &mut Input<'_>) {
        let (tcp, udp) = (self.rig.tcp, self.rig.udp);
        let local = at(input.one_of(LOCALS), input.one_of(PORTS));
        let port_use = input.one_of(&[PortUse::Alone, PortUse::Shared]);
        let (sort, opened) = match input.byte() % 8 {
            0..3 => {
                let backlog = input.number() as u32;
                (Sort::Stream, answered(tcp.listen(local, backlog, port_use == PortUse::Shared)).await)
            }
            3..6 => (Sort::Stream, answered(tcp.connect(local, remote(input))).await),
            6 => {
                let kind = input.one_of(&[Kind::Udp, Kind::Lite]);
                (Sort::Datagrams, answered(udp.bind(Binding { local, kind, port_use })).await)
            }
            _ => {
                let wanted = input.one_of(&[Wanted::Echoes(0), Wanted::Echoes(7), Wanted::All]);
                (Sort::Messages, answered(self.icmp.open(wanted)).await)
            }
        };
        let _ = self.keep(sort, opened);
    }

    async fn ask_stream(&mut self, id: SocketId, turn: usize, input: &mut Input<'_>) -> Result<(), NetError> {
        let tcp = self.rig.tcp;
        match input.byte() % 16 {
            0..3 => {
                let accepted = answered(tcp.accept(id)).await;
                self.keep(Sort::Stream, accepted)
            }
            3..7 => {
                let taken = answered(tcp.send(id, std::vec![data(input); input.below(4)])).await;
                taken.map(|bytes| self.moved_bytes[0] += bytes)
            }
            7..9 => {
                let received = answered(tcp.receive(id, input.number() as usize)).await;
                received.map(|views| self.moved_bytes[1] += views.iter().map(Bytes::len).sum::<usize>())
            }
            9 => answered(tcp.peek(id, input.number() as usize)).await.map(drop),
            10 => {
                let direction = input.one_of(&[Direction::Send, Direction::Receive, Direction::Both]);
                answered(tcp.shut_down(id, direction)).await
            }
            11 | 12 => {
                let option = option(input);
                answered(tcp.set_option(id, option)).await
            }
            13 => answered(tcp.take_error(id)).await.map(drop),
            14 => answered(tcp.status(id)).await.map(drop),
            _ => {
                let closed = answered(tcp.close(id)).await;
                self.gone(turn, closed)
            }
        }
    }

    async fn ask_datagrams(&mut self, id: SocketId, turn: usize, input: &mut Input<'_>) -> Result<(), NetError> {
        let udp = self.rig.udp;
        match input.byte() % 8 {
            0..3 => {
                let to = remote(input);
                answered(udp.send(id, to, data(input))).await
            }
            3 | 4 => answered(udp.receive(id)).await.map(drop),
            5 => answered(udp.peek(id)).await.map(drop),
            6 => {
                let received_bytes_min = Some(input.number() as u16).filter(|least| *least != 1);
                let coverage = Coverage { sent_bytes: input.number() as u16, received_bytes_min };
                answered(udp.cover(id, coverage)).await
            }
            _ => {
                let closed = answered(udp.close(id)).await;
                self.gone(turn, closed)
            }
        }
    }

    async fn ask_messages(&mut self, id: SocketId, turn: usize, input: &mut Input<'_>) -> Result<(), NetError> {
        let icmp = self.icmp;
        match input.byte() % 8 {
            0..3 => {
                let mut message = std::vec![input.one_of(&[8, 0, 3, 255]), input.byte() % 2, 0, 0, 0, 7, 0, 1];
                message.extend(std::vec![4; input.one_of(SIZES)]);
                message.truncate(input.number() as usize);
                answered(icmp.send(id, input.one_of(REMOTES), message)).await
            }
            3 | 4 => answered(icmp.receive(id)).await.map(drop),
            5 => answered(icmp.peek(id)).await.map(drop),
            // facts are about no socket
            6 => answered(icmp.facts()).await.map(drop),
            _ => {
                let closed = answered(icmp.close(id)).await;
                self.gone(turn, closed)
            }
        }
    }

    /// Closes all sockets.
    pub async fn close_all(&mut self) {
        while let Some(Owned { sort, owner, socket }) = self.sockets.pop() {
            act_as(owner);
            let closed = match sort {
                Sort::Stream => answered(self.rig.tcp.close(socket.id)).await,
                Sort::Datagrams => answered(self.rig.udp.close(socket.id)).await,
                Sort::Messages => answered(self.icmp.close(socket.id)).await,
            };
            assert_eq!(closed, Ok(()), "{sort:?}");
        }
    }
}

fn remote(input: &mut Input<'_>) -> SocketAddress {
    let ports = if input.hits(2) { PORTS } else { THEIRS };
    at(input.one_of(REMOTES), input.one_of(ports))
}

fn option(input: &mut Input<'_>) -> TcpOption {
    let (is_on, number) = (input.hits(2), input.number());
    input.one_of(&[
        TcpOption::NoDelay(is_on),
        TcpOption::Cork(is_on),
        TcpOption::KeepAlive(is_on),
        TcpOption::ReceiveBuffer(number as usize),
        TcpOption::SendBuffer(number as usize),
        TcpOption::Linger(is_on.then_some(number as u16)),
    ])
}
