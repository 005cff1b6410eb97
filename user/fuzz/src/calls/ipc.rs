//! Calls on semaphores and message queues.

use super::structs::*;
use crate::kinds::{
    Argument::*,
    Call, Field,
    Kind::{Messages, Queue, Semaphores},
    call, int, long, short,
};

const KEYS: &[u64] = &[0, 1, 2, 3];
const MAKE: &[u64] = &[0o1000, 0o2000, 0o600, 0o66];
/// Removal, rights, status, limits, and those of each kind.
const SEMAPHORE_COMMANDS: &[u64] = &[0, 1, 2, 3, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
const MESSAGE_COMMANDS: &[u64] = &[0, 1, 2, 3, 11, 12, 13];
/// struct sembuf.
const OPERATION: &[Field] = &[
    short(OneOf(&[0, 1, 2, 3])),
    short(OneOf(&[0, 1, 2, 0xffff, 0xfffe, 0x7fff, 0x8000])),
    short(Flags(SEMAPHORE_FLAGS)),
];
/// IPC_NOWAIT mostly: nothing waits for long.
const SEMAPHORE_FLAGS: &[u64] = &[0o4000, 0x1000];
/// struct msgbuf.
const MESSAGE_TEXT: &[Field] = &[long(OneOf(&[1, 2, 3, 0, 1 << 63])), long(Number), long(Number)];
const MESSAGE_TYPES: &[u64] = &[0, 1, 2, 3, -1_i64 as u64, -3_i64 as u64, 1 << 63];
const SEND: &[u64] = &[0o4000];
const RECEIVE: &[u64] = &[0o4000, 0o10_000, 0o20_000, 0o40_000];
/// struct mq_attr.
const SIZE: &[Field] = &[long(OneOf(&[0, 0o4000])), long(Count), long(Length), long(Number)];
const QUEUE_FLAGS: &[u64] = &[1, 2, 0o100, 0o200, 0o4000];
const PRIORITIES: &[u64] = &[0, 1, 2, 32_767, 32_768];

/// Calls on semaphores and message queues.
pub const CALLS: &[Call] = &[
    call(64, "semget", &[OneOf(KEYS), Either(&[Count, Length]), Flags(MAKE)]).gives(Semaphores),
    call(65, "semop", &[Made(Semaphores), Row(OPERATION), OneOf(&[1, 2, 3, 0, 500, 501])]),
    call(66, "semctl", &[Made(Semaphores), Count, OneOf(SEMAPHORE_COMMANDS), Either(&[Buffer, Count])]),
    call(220, "semtimedop", &[Made(Semaphores), Row(OPERATION), OneOf(&[1, 2, 3]), In(TIME)]),
    call(68, "msgget", &[OneOf(KEYS), Flags(MAKE)]).gives(Messages),
    call(69, "msgsnd", &[Made(Messages), In(MESSAGE_TEXT), Length, Flags(SEND)]),
    call(70, "msgrcv", &[Made(Messages), Buffer, Length, OneOf(MESSAGE_TYPES), Flags(RECEIVE)]),
    call(71, "msgctl", &[Made(Messages), OneOf(MESSAGE_COMMANDS), Buffer]),
    call(240, "mq_open", &[Text, Flags(QUEUE_FLAGS), OneOf(&[0o600, 0o666, 0]), Either(&[Fixed(0), In(SIZE)])])
        .gives(Queue),
    call(241, "mq_unlink", &[Either(&[Text, Path])]),
    call(242, "mq_timedsend", &[Fd(Queue), Buffer, Length, OneOf(PRIORITIES), In(TIME)]),
    call(243, "mq_timedreceive", &[Fd(Queue), Buffer, Length, Either(&[Fixed(0), Buffer]), In(TIME)]),
    call(244, "mq_notify", &[Fd(Queue), Either(&[Fixed(0), In(NOTICE)])]),
    call(245, "mq_getsetattr", &[Fd(Queue), Either(&[Fixed(0), In(SIZE)]), Either(&[Fixed(0), Buffer])]),
];
/// struct sigevent: a signal, nothing, a thread.
const NOTICE: &[Field] =
    &[long(Buffer), int(Either(&[Signal, AnyFd])), int(OneOf(&[0, 1, 2, 3])), int(Pid), int(Fixed(0)), long(Number)];
