//! Sources of the figures.
//!
//! * [`Native`]: the machine that the agent runs in, by native system calls.
//! * [`Linux`]: Linux's control groups, with the same figures, for comparison.
//!
//! A source that lacks something answers `Unsupported`, and the agent says so to who asked (501). A refusal of the kernel is no error: it is an
//! answer, which the agent gives as its reason (409).
//!

pub mod child;
mod linux;
mod native;
mod places;

use std::{
    fs::File,
    io,
    io::{PipeReader, PipeWriter},
};

use gyre_contract::{
    cells,
    goals::Goals,
    monitor::Snapshot,
    native::Change,
    promise::{Record as ChangeRecord, Together},
    seats::{self, Offer, Record as SeatRecord, Revoke, Seats},
    session::ExecRequest,
    trace::Batch,
    zones::{Answer, Command, Orderer, Record as ZoneRecord, Wish, WishAnswer, Zones},
};

pub use self::{linux::Linux, native::Native};

/// A trace of a process.
pub trait Traced {
    /// Takes the calls since the last time. Never waits.
    ///
    /// # Errors
    /// The kernel's error.
    fn read(&mut self) -> io::Result<Batch>;
}

/// A machine, seen from inside.
pub trait Source: Send + Sync + 'static {
    /// Reads all figures.
    ///
    /// # Errors
    /// The kernel's error.
    fn snapshot(&self) -> io::Result<Snapshot>;

    /// Reads what a tenant wrote from an offset on: the offset of the first byte, and the bytes; none is "nothing new".
    ///
    /// # Errors
    /// `NotFound` when there is no such tenant.
    fn log(&self, tenant: &str, offset: u64) -> io::Result<(u64, Vec<u8>)>;

    /// Types on a tenant's console, which is its program's standard input; returns the bytes taken.
    ///
    /// # Errors
    /// `NotFound` when there is no such tenant; `WouldBlock` while it does not read; `Unsupported` on machines that have no such call.
    fn type_in(&self, _tenant: &str, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes a file of a tenant durable, or all of it without one; with `evict` also drops it from memory, and answers the bytes.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on machines that have no such call.
    fn keep(&self, _tenant: &str, _file: Option<&str>, _evict: bool) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Changes the machine.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the wish.
    fn set(&self, change: &Change) -> io::Result<()>;

    /// Changes the cells of tenants, all of the request or nothing, and tells how all cells are; an empty request only tells.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on machines that have no such call. A refusal is an answer.
    fn cells(&self, _request: &cells::Request) -> io::Result<cells::Answer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads the cells that own cores and memory.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on machines that keep no memory for cells.
    fn seats(&self) -> io::Result<Seats> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads records of their log from a number on; none if there is none yet.
    ///
    /// # Errors
    /// As [`Source::seats`].
    fn seat_log(&self, _from: u64) -> io::Result<Vec<SeatRecord>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Keeps so many bytes for cells; answers how many are kept now.
    ///
    /// # Errors
    /// As [`Source::seats`].
    fn pool(&self, _bytes: u64) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Has one give parts back, and waits until it has or is ended.
    ///
    /// # Errors
    /// As [`Source::seats`]; a refusal is an answer.
    fn revoke(&self, _order: &Revoke) -> io::Result<seats::Answer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Offers cores to one, and waits until it has taken them or the time is over.
    ///
    /// # Errors
    /// As [`Source::seats`]; a refusal is an answer.
    fn offer(&self, _order: &Offer) -> io::Result<seats::OfferAnswer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes several changes as one; returns the change's number.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the wish; nothing was changed then.
    fn change(&self, together: &Together) -> io::Result<u64>;

    /// Reads the changes that were made, from a number on.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on machines that keep no record.
    fn changes(&self, _from: u64) -> io::Result<Vec<ChangeRecord>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads all goals and measures.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on machines that measure none.
    fn goals(&self) -> io::Result<Goals> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Begins to end the machine in order; programs have `grace_ms` after SIGTERM.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on machines that have no such call.
    fn end(&self, _grace_ms: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads the zones.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` or `PermissionDenied` on an instance that supervises none.
    fn zones(&self) -> io::Result<Zones> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Changes the zones by somebody's order, all commands or none, and waits until that is done.
    ///
    /// # Errors
    /// As [`Source::zones`]; a refusal is an answer.
    fn control(&self, _commands: &[Command], _by: Orderer) -> io::Result<Answer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Hands over a piece of the boot module of a zone that is to come; answers the bytes that there are.
    ///
    /// # Errors
    /// As [`Source::zones`]; those of [`gyre_contract::native::ZONE_MODULE`].
    fn stage(&self, _piece: Piece, _bytes: &[u8]) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Asks the supervisor to hand parts of this zone to another one, and waits until that is done.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on an instance that is no zone. A refusal is an answer.
    fn wish(&self, _wish: &Wish) -> io::Result<WishAnswer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads what a zone has printed from an offset on: the offset of the first byte, and the bytes; none is "nothing new".
    ///
    /// # Errors
    /// As [`Source::zones`]; `NotFound` when there is no such zone.
    fn zone_console(&self, _zone: &str, _offset: u64) -> io::Result<(u64, Vec<u8>)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads records of the log of the zones' changes from a number on; none if there is none yet.
    ///
    /// # Errors
    /// As [`Source::zones`].
    fn zone_log(&self, _from: u64) -> io::Result<Vec<ZoneRecord>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Begins to keep the calls of a process of a tenant, until what is answered is dropped.
    ///
    /// # Errors
    /// `NotFound` when there is no such tenant or process, `ResourceBusy` when it is traced already; `Unsupported` on machines that have no
    /// such call.
    fn trace(&self, _tenant: &str, _process: i32) -> io::Result<Box<dyn Traced>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this machine traces no calls"))
    }

    /// Starts a program in a tenant with these streams.
    ///
    /// # Errors
    /// The kernel's error.
    fn spawn(&self, request: &ExecRequest, streams: Streams) -> io::Result<Box<dyn Program>>;

    /// Starts a program in a tenant on a terminal of so many rows and columns; returns the terminal's other end, too.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on machines that have no such call.
    fn spawn_on_terminal(&self, _request: &ExecRequest, _size: [u16; 2]) -> io::Result<(Box<dyn Program>, File)> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this machine gives no terminals to programs from outside"))
    }
}

/// Says that there is no such tenant, and which there are.
pub fn no_tenant_of(tenant: &str, names: &[&str]) -> io::Error {
    let why = format!("there is no tenant `{tenant}`; there is: {}", names.join(", "));
    io::Error::new(io::ErrorKind::NotFound, why)
}

/// The place of a piece in the boot module of a zone that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number that the sender chose for the module.
    pub module: u64,
    /// Bytes of the whole module.
    pub whole: u64,
    /// The place of its first byte in the module.
    pub offset: u64,
}

/// Says that there is no such zone, and which there are.
pub fn no_zone_of(zone: &str, zones: &Zones) -> io::Error {
    let names: Vec<&str> = zones.zones.iter().map(|view| view.name.as_str()).collect();
    let why = format!("there is no zone `{zone}`; there is: {}", names.join(", "));
    io::Error::new(io::ErrorKind::NotFound, why)
}

/// The program's ends of its standard streams.
pub struct Streams {
    /// Its standard input.
    pub stdin: PipeReader,
    /// Its standard output.
    pub stdout: PipeWriter,
    /// Its standard error.
    pub stderr: PipeWriter,
}

/// A program that runs.
pub trait Program: Send + Sync {
    /// Waits for its end: exit code, or 128 and the signal.
    ///
    /// # Errors
    /// The kernel's error.
    fn wait(&self) -> io::Result<i32>;

    /// Sends it a signal.
    ///
    /// # Errors
    /// The kernel's error.
    fn signal(&self, signal: i32) -> io::Result<()>;
}
