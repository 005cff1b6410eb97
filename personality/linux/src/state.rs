//! States of system calls: each row of the tables ends with one, and docs/guide/system-calls.md is written from them.

use crate::Errno;

/// The state of a call that has a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It does what Linux does.
    Done,
    /// It lacks something: a sentence.
    Partly(&'static str),
    /// It always answers this error.
    Refused(Errno),
}

/// A row of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its number (x86-64).
    pub number: u64,
    /// Its name.
    pub name: &'static str,
    /// Its state.
    pub state: State,
}
