//! The kinds of objects that programs make the kernel keep, counted for whoever looks after the machine (V12).

use crate::file::epoll::Epoll;
use crate::file::open_file::OpenFile;
use crate::file::pipe::Pipe;
use crate::{Process, Thread};
use gyre_object::Census;

pub(crate) static PROCESSES: Census = Census::of::<Process>();
pub(crate) static THREADS: Census = Census::of::<Thread>();
pub(crate) static OPEN_FILES: Census = Census::of::<OpenFile>();
pub(crate) static PIPES: Census = Census::of::<Pipe>();
pub(crate) static EPOLLS: Census = Census::of::<Epoll>();

/// All of them, by name.
pub const ALL: &[(&str, &Census)] = &[
    ("process", &PROCESSES),
    ("thread", &THREADS),
    ("open file", &OPEN_FILES),
    ("pipe", &PIPES),
    ("epoll set", &EPOLLS),
];
