//! The kinds of objects that programs make the kernel keep, counted for the machine's owner (the pools of
//! `gyre_contract::monitor`).

use crate::file::epoll::Epoll;
use crate::file::open_file::OpenFile;
use crate::file::pipe::Pipe;
use crate::ipc::message::Message;
use crate::ipc::messages::Queue;
use crate::ipc::posix;
use crate::ipc::semaphores::Set;
use crate::{Process, Thread};
use gyre_object::{Census, per_instance};

per_instance! {
    pub(crate) static PROCESSES: Census = Census::of::<Process>();
    pub(crate) static THREADS: Census = Census::of::<Thread>();
    pub(crate) static OPEN_FILES: Census = Census::of::<OpenFile>();
    pub(crate) static PIPES: Census = Census::of::<Pipe>();
    pub(crate) static EPOLLS: Census = Census::of::<Epoll>();
    pub(crate) static MESSAGE_QUEUES: Census = Census::of::<Queue>();
    pub(crate) static MESSAGES: Census = Census::of::<Message>();
    pub(crate) static POSIX_QUEUES: Census = Census::of::<posix::Queue>();
    pub(crate) static SEMAPHORE_SETS: Census = Census::of::<Set>();
}

/// All of this instance's, by name.
pub fn all() -> [(&'static str, &'static Census); 9] {
    [
        ("process", &PROCESSES),
        ("thread", &THREADS),
        ("open file", &OPEN_FILES),
        ("pipe", &PIPES),
        ("epoll set", &EPOLLS),
        ("semaphore set", &SEMAPHORE_SETS),
        ("message queue", &MESSAGE_QUEUES),
        ("POSIX message queue", &POSIX_QUEUES),
        ("message", &MESSAGES),
    ]
}
