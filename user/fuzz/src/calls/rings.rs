//! Calls that wait for descriptors, and rings of requests.

use super::structs::*;
use crate::kinds::{
    Argument::{self, *},
    Call,
    Kind::{self, *},
    call,
};

const MASK_LENGTH: Argument = OneOf(&[8, 0, 16]);
/// Milliseconds of a wait.
const WAIT: Argument = OneOf(&[0, 1, 5, 20, u64::MAX, 0x7fff_ffff, 0xffff_ffff]);
const OPCODE: &[u64] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 22, 23, 24, 25, 26];

/// Calls that wait, and rings.
pub const CALLS: &[Call] = &[
    call(7, "poll", &[Row(POLL), Count, WAIT]),
    call(23, "select", &[OneOf(&[0, 1, 64, 128, 256, 1024, 65536]), In(SET), In(SET), In(SET), In(TIME)]),
    call(206, "io_setup", &[Either(&[Count, Number]), Buffer]).gives_word(1, 8, Context),
    call(207, "io_destroy", &[Made(Context)]),
    call(208, "io_getevents", &[Made(Context), Count, Count, Buffer, In(TIME)]),
    call(209, "io_submit", &[Made(Context), Count, Pointers(CONTROL_BLOCK)]),
    call(210, "io_cancel", &[Made(Context), In(CONTROL_BLOCK), Buffer]),
    call(213, "epoll_create", &[Count]).gives(Epoll),
    call(232, "epoll_wait", &[Fd(Epoll), Buffer, Either(&[Count, Number]), WAIT]),
    call(233, "epoll_ctl", &[Fd(Epoll), OneOf(&[1, 2, 3, 1, 1]), Either(&[AnyFd, Fd(Epoll)]), In(EPOLL)]),
    call(270, "pselect6", &[OneOf(&[0, 1, 64, 128, 1024]), In(SET), In(SET), In(SET), In(TIME), In(MASK_AND_LENGTH)]),
    call(271, "ppoll", &[Row(POLL), Count, In(TIME), Either(&[Fixed(0), In(MASK)]), MASK_LENGTH]),
    call(
        281,
        "epoll_pwait",
        &[Fd(Epoll), Buffer, Either(&[Count, Number]), WAIT, Either(&[Fixed(0), In(MASK)]), MASK_LENGTH],
    ),
    call(284, "eventfd", &[Number]).gives(Kind::Event),
    call(290, "eventfd2", &[Number, Flags(&[1, 0o4000, 0o2000000])]).gives(Kind::Event),
    call(291, "epoll_create1", &[Flags(&[0o2000000])]).gives(Epoll),
    call(
        333,
        "io_pgetevents",
        &[Made(Context), Count, Count, Buffer, In(TIME), Either(&[Fixed(0), In(MASK_AND_LENGTH)])],
    ),
    call(425, "io_uring_setup", &[Either(&[Count, Number]), In(RING)]).gives(Ring),
    call(
        426,
        "io_uring_enter",
        &[Fd(Ring), Count, Count, Flags(&[1, 2, 4, 8, 16]), Either(&[Fixed(0), In(MASK)]), MASK_LENGTH],
    ),
    call(
        427,
        "io_uring_register",
        &[Fd(Ring), OneOf(OPCODE), Either(&[Row(VECTOR), Row(INTS), Buffer, In(ENTRY)]), Count],
    ),
    call(441, "epoll_pwait2", &[Fd(Epoll), Buffer, Count, In(TIME), Either(&[Fixed(0), In(MASK)]), MASK_LENGTH]),
];
