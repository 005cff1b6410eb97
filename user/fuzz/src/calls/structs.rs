//! Structures that calls take, field by field (Linux's headers; `user/native/include/gyre.h`).

use crate::kinds::{
    Argument::{self, *},
    Field,
    Kind::*,
    byte, int, long, short,
};

/// struct timespec and struct timeval.
pub const TIME: &[Field] = &[long(Seconds), long(Fraction)];
/// struct itimerspec and struct itimerval: interval, value.
pub const TIMER: &[Field] = &[long(Seconds), long(Fraction), long(Seconds), long(Fraction)];
/// Two times: of access and of change.
pub const TIMES: &[Field] = TIMER;
/// sigset_t.
pub const MASK: &[Field] = &[long(Mask)];
/// struct sigaction of the kernel.
pub const ACTION: &[Field] = &[long(Handler), long(Flags(ACTION_FLAGS)), long(Restorer), long(Mask)];
const ACTION_FLAGS: &[u64] = &[0x0400_0000, 0x4, 0x1000_0000, 0x4000_0000, 0x0800_0000, 0x8000_0000, 1, 2];
/// struct sigevent.
pub const EVENT: &[Field] =
    &[long(Number), int(Signal), int(OneOf(&[0, 1, 4])), int(Pid), int(Fixed(0)), long(Handler)];
/// siginfo_t, its first fields.
pub const INFO: &[Field] = &[
    int(Signal),
    int(Number),
    int(OneOf(&[0xffff_ffff, 0xffff_fffa, 0])),
    int(Fixed(0)),
    int(Pid),
    int(Owner),
    long(Number),
];
/// struct epoll_event.
pub const EPOLL: &[Field] = &[int(Flags(EPOLL_FLAGS)), long(Number)];
const EPOLL_FLAGS: &[u64] = &[1, 2, 4, 8, 0x10, 0x2000, 1 << 28, 1 << 29, 1 << 30, 1 << 31];
/// struct pollfd.
pub const POLL: &[Field] = &[int(AnyFd), short(Flags(&[1, 2, 4, 8, 0x10, 0x20, 0x2000])), short(Number)];
/// struct iovec.
pub const VECTOR: &[Field] = &[long(Buffer), long(Length)];
/// A control message: descriptors or who sends.
pub const CONTROL: &[Field] = &[
    long(OneOf(&[16, 20, 24, 28, 64])),
    int(OneOf(&[1, 0, 6])),
    int(OneOf(&[1, 2, 3])),
    int(AnyFd),
    int(AnyFd),
    int(AnyFd),
    int(Pid),
];
/// struct msghdr.
pub const MESSAGE: &[Field] = &[
    long(Either(&[Fixed(0), Name])),
    int(OneOf(&[0, 16, 110, 28])),
    int(Fixed(0)),
    long(Row(VECTOR)),
    long(Count),
    long(Either(&[Fixed(0), In(CONTROL)])),
    long(OneOf(&[0, 20, 24, 28, 32, 40])),
    int(Number),
    int(Fixed(0)),
];
/// struct mmsghdr.
pub const MESSAGES: &[Field] = &[
    long(Fixed(0)),
    long(Fixed(0)),
    long(Row(VECTOR)),
    long(Count),
    long(In(CONTROL)),
    long(OneOf(&[0, 20, 24, 28, 32])),
    long(Fixed(0)),
    long(Fixed(0)),
];
/// struct rlimit.
pub const LIMIT: &[Field] = &[long(Number), long(Number)];
/// struct open_how.
pub const HOW: &[Field] = &[long(Flags(OPEN)), long(OneOf(&[0, 0o644, 0o777])), long(Flags(&[1, 2, 4, 8, 0x10, 0x20]))];
/// Flags of open.
pub const OPEN: &[u64] = &[
    1, 2, 0o100, 0o200, 0o1000, 0o2000, 0o4000, 0o10000, 0o40000, 0o200000, 0o400000, 0o2000000, 0o10000000, 0o20200000,
];
/// struct flock.
pub const LOCK: &[Field] = &[
    short(OneOf(&[0, 1, 2])),
    short(OneOf(&[0, 1, 2])),
    int(Fixed(0)),
    long(Offset),
    long(Offset),
    int(Pid),
    int(Fixed(0)),
];
/// struct iocb.
pub const CONTROL_BLOCK: &[Field] = &[
    long(Number),
    int(Fixed(0)),
    int(Flags(&[1, 2, 8])),
    short(OneOf(&[0, 1, 2, 3, 5, 6, 7, 8])),
    short(Number),
    int(AnyFd),
    long(Either(&[Buffer, Row(VECTOR)])),
    long(Length),
    long(Offset),
    long(Fixed(0)),
    int(Flags(&[1, 2])),
    int(Fd(Event)),
];
/// struct io_uring_sqe.
pub const ENTRY: &[Field] = &[
    byte(Either(&[OneOf(OPERATIONS), Number])),
    byte(Flags(&[1, 2, 4, 8, 0x10, 0x20, 0x40])),
    short(OneOf(&[0, 1, 4])),
    int(AnyFd),
    long(Either(&[Offset, Number, Name, In(TIME), In(EPOLL)])),
    long(Either(RING_ADDRESSES)),
    int(Either(&[Length, Count])),
    int(Either(&[Flags(&[1, 2, 4, 8, 0x10, 0x2000]), Number])),
    long(Number),
    short(Count),
    short(Fixed(0)),
    int(AnyFd),
    long(Either(&[Fixed(0), Number])),
    long(Fixed(0)),
];
const RING_ADDRESSES: &[Argument] =
    &[Buffer, Path, In(TIME), In(MESSAGE), Row(VECTOR), In(HOW), Name, In(EPOLL), Number, Page];
const OPERATIONS: &[u64] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
    31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
];
/// struct io_uring_params.
pub const RING: &[Field] = &[
    int(Fixed(0)),
    int(Either(&[Fixed(0), Count])),
    int(Flags(&[1, 2, 4, 8, 0x10, 0x20, 0x40, 0x100])),
    int(Number),
    int(Count),
    int(Fixed(0)),
    int(AnyFd),
    int(Fixed(0)),
    long(Fixed(0)),
    long(Fixed(0)),
    long(Fixed(0)),
    long(Fixed(0)),
    long(Fixed(0)),
    long(Fixed(0)),
    long(Fixed(0)),
    long(Fixed(0)),
    long(Fixed(0)),
];
/// struct termios of the kernel.
pub const TERMINAL: &[Field] = &[
    int(Number),
    int(Number),
    int(Number),
    int(Flags(&[1, 2, 8, 0x10, 0x8000])),
    int(Number),
    long(Number),
    long(Number),
];
/// struct sched_param, struct f_owner_ex, int of setsockopt and others.
pub const INTS: &[Field] = &[int(Number), int(Count)];
/// struct linger and times of sockets.
pub const OPTION: &[Field] = &[long(Either(&[Count, Number])), long(Fraction)];
/// struct user_cap_header_struct.
pub const CAPABILITY: &[Field] = &[int(OneOf(&[0x2008_0522, 0x1998_0330, 0x2007_1026])), int(Pid)];
/// argv: addresses of texts, then NULL.
pub const TEXTS: &[Field] = &[long(Text), long(Either(&[Text, Path, Fixed(0)])), long(Fixed(0))];
/// sigset_t of pselect: address and length.
pub const MASK_AND_LENGTH: &[Field] = &[long(In(MASK)), long(OneOf(&[8, 0, 16]))];
/// fd_set.
pub const SET: &[Field] = &[long(Number), long(Number), long(Fixed(0)), long(Fixed(0))];
