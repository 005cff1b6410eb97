//! TCP as a resource: connections in sharded tables, each behind its own lock; sockets for users (`interface::tcp`), segments
//! from demultiplexing ([`crate::protocols::tcp_input`]), packets to the writer, deadlines to the timer.
//!
//! A connection is changed under its lock by the pure machine of [`crate::tcp`]; messages leave after the lock is released.

mod accept;
mod connection;
mod input;
mod listener;
mod load;
mod open;
mod output;
mod server;
mod table;

pub(crate) use connection::Connection;
pub use connection::{CONNECTIONS, SendRoom};
pub(crate) use listener::Listener;
pub(crate) use open::{check_local, free_port};
pub(crate) use table::reserved_id;

use crate::shared::Shared;
use table::Table;

/// Serves `interface::tcp` and [`crate::protocols::tcp_input`].
pub struct Tcp {
    pub(crate) shared: &'static Shared,
    pub(crate) table: Table,
}

impl Tcp {
    pub(crate) fn new(shared: &'static Shared) -> Tcp {
        Tcp { shared, table: Table::default() }
    }

    /// Returns the numbers of connections, listeners and remembered ends, for the monitor.
    pub fn sizes(&self) -> (usize, usize, usize) {
        self.table.sizes()
    }
}
