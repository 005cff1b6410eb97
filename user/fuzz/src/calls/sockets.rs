//! Calls on sockets.

use super::structs::*;
use crate::kinds::{
    Argument::{self, *},
    Call,
    Kind::*,
    call,
};

const FAMILY: &[u64] = &[1, 2, 1, 2, 10, 16, 17];
const TYPE: &[u64] = &[1, 2, 5, 3, 1 | 0o4000, 2 | 0o4000, 1 | 0o2000000];
const SEND: &[u64] = &[1, 2, 4, 0x40, 0x80, 0x800, 0x4000, 0x8000];
const RECEIVE: &[u64] = &[1, 2, 0x20, 0x40, 0x100, 0x2000, 0x4000_0000, 0x1_0000];
const LEVEL: &[u64] = &[1, 6, 0, 17, 41];
const OPTIONS: &[u64] =
    &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20, 21, 23, 25, 30, 38, 39, 46, 49, 60, 61];
const SOCKET: Argument = Either(&[Fd(Local), Fd(Net), Fd(Net), Fd(Listener), AnyFd]);
const LENGTH: Argument = OneOf(&[16, 110, 2, 3, 0, 28]);

/// Calls on sockets.
pub const CALLS: &[Call] = &[
    call(41, "socket", &[OneOf(FAMILY), OneOf(TYPE), OneOf(&[0, 6, 17])]).gives(Net),
    call(42, "connect", &[SOCKET, Name, LENGTH]),
    call(43, "accept", &[Either(&[Fd(Listener), SOCKET]), Either(&[Fixed(0), Buffer]), Buffer]).gives(Net),
    call(44, "sendto", &[SOCKET, Buffer, Length, Flags(SEND), Either(&[Fixed(0), Name]), LENGTH]),
    call(45, "recvfrom", &[SOCKET, Buffer, Length, Flags(RECEIVE), Either(&[Fixed(0), Buffer]), Buffer]),
    call(46, "sendmsg", &[SOCKET, In(MESSAGE), Flags(SEND)]),
    call(47, "recvmsg", &[SOCKET, In(MESSAGE), Flags(RECEIVE)]),
    call(48, "shutdown", &[SOCKET, OneOf(&[0, 1, 2])]),
    call(49, "bind", &[SOCKET, Name, LENGTH]),
    call(50, "listen", &[SOCKET, Either(&[Count, Number])]),
    call(51, "getsockname", &[SOCKET, Buffer, Buffer]),
    call(52, "getpeername", &[SOCKET, Buffer, Buffer]),
    call(53, "socketpair", &[OneOf(FAMILY), OneOf(TYPE), Fixed(0), Buffer]).gives_pair(3, [Local, Local]),
    call(
        54,
        "setsockopt",
        &[SOCKET, OneOf(LEVEL), OneOf(OPTIONS), Either(&[In(OPTION), Buffer]), OneOf(&[4, 8, 16, 0, 1])],
    ),
    call(55, "getsockopt", &[SOCKET, OneOf(LEVEL), OneOf(OPTIONS), Buffer, In(INTS)]),
    call(
        288,
        "accept4",
        &[Either(&[Fd(Listener), SOCKET]), Either(&[Fixed(0), Buffer]), Buffer, Flags(&[0o4000, 0o2000000])],
    )
    .gives(Net),
    call(299, "recvmmsg", &[SOCKET, Row(MESSAGES), Count, Flags(RECEIVE), Either(&[Fixed(0), In(TIME)])]),
    call(307, "sendmmsg", &[SOCKET, Row(MESSAGES), Count, Flags(SEND)]),
];
