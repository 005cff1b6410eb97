//! The machine's own kernel, by native system calls.
//!
//! * Each function is one call of `gyre_native`; the kernel's errors come back as they are.
//! * [`Native::index`] finds a tenant's place in the description by its name: the calls for logs and consoles want that. Logs are looked at often,
//!   so [`Places`] finds theirs.
//! * [`Native::explain`] makes a sentence of the errno with which a change was refused, [`Native::refused`] of a refusal of several changes
//!   together.
//!
//! Called by the agent's threads, each for its own connection; nothing but the places is kept between calls.

use std::{fs::File, io, os::fd::AsRawFd as _, time::Instant};

use gyre_contract::{
    cells,
    goals::Goals,
    monitor::Snapshot,
    native::{Change, Life},
    promise::{Record as ChangeRecord, Refusal, Refused, Together},
    seats::{self, Offer, Revoke, Seats},
    session::ExecRequest,
    trace::Batch,
    zones::{Answer, Command, Orderer, Record, Wish, WishAnswer, Zones},
};

use gyre_native::trace::Trace;

use super::{
    Piece, Program, Source, Streams, Traced, no_zone_of,
    places::{self, Places},
};

const LOG_BYTES: usize = 16 << 10;

/// Errors of a trace (errno(3)).
const ESRCH: i32 = 3;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;

/// The machine that the agent runs in.
#[derive(Default)]
pub struct Native {
    places: Places,
}

struct Started {
    pid: i32,
}

impl Traced for Trace {
    fn read(&mut self) -> io::Result<Batch> {
        Self::read(self)
    }
}

impl Source for Native {
    fn snapshot(&self) -> io::Result<Snapshot> {
        let at = Instant::now();
        let snapshot = gyre_native::snapshot()?;
        self.places.keep(&snapshot, at);
        Ok(snapshot)
    }

    fn log(&self, tenant: &str, offset: u64) -> io::Result<(u64, Vec<u8>)> {
        self.places.read(tenant, gyre_native::snapshot, |index| gyre_native::log(index, offset, LOG_BYTES))
    }

    fn type_in(&self, tenant: &str, bytes: &[u8]) -> io::Result<usize> {
        gyre_native::type_in(self.index(tenant)?, bytes)
    }

    fn keep(&self, tenant: &str, file: Option<&str>, evict: bool) -> io::Result<u64> {
        let tenant = Some(self.index(tenant)?);
        if evict { gyre_native::evict(tenant, file) } else { gyre_native::checkpoint(tenant, file).map(|()| 0) }
    }

    fn spawn(&self, request: &ExecRequest, streams: Streams) -> io::Result<Box<dyn Program>> {
        let descriptors = [streams.stdin.as_raw_fd(), streams.stdout.as_raw_fd(), streams.stderr.as_raw_fd()];
        let pid = gyre_native::spawn(&request.tenant, &request.argv, &request.env, descriptors);
        Ok(Box::new(Started { pid: pid.map_err(|error| self.not_started(request, error))? }))
    }

    fn spawn_on_terminal(&self, request: &ExecRequest, size: [u16; 2]) -> io::Result<(Box<dyn Program>, File)> {
        let started = gyre_native::spawn_on_terminal(&request.tenant, &request.argv, &request.env, size);
        let (pid, master) = started.map_err(|error| self.not_started(request, error))?;
        Ok((Box::new(Started { pid }), File::from(master)))
    }

    fn trace(&self, tenant: &str, process: i32) -> io::Result<Box<dyn Traced>> {
        let begun = Trace::begin(self.index(tenant)?, process);
        let why = |error: io::Error| match error.raw_os_error() {
            Some(ESRCH) => {
                io::Error::new(io::ErrorKind::NotFound, format!("there is no process {process} in tenant `{tenant}`"))
            }
            Some(EBUSY) => io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("process {process} of tenant `{tenant}` is traced already, by another client"),
            ),
            Some(EAGAIN) => io::Error::new(io::ErrorKind::ResourceBusy, "the machine has as many traces as it can"),
            _ => error,
        };
        Ok(Box::new(begun.map_err(why)?))
    }

    fn end(&self, grace_ms: u64) -> io::Result<()> {
        gyre_native::end(grace_ms)
    }

    fn cells(&self, request: &cells::Request) -> io::Result<cells::Answer> {
        gyre_native::cells::cells(request)
    }

    fn seats(&self) -> io::Result<Seats> {
        gyre_native::seats::seats()
    }

    fn seat_log(&self, from: u64) -> io::Result<Vec<seats::Record>> {
        gyre_native::seats::log(from)
    }

    fn pool(&self, bytes: u64) -> io::Result<u64> {
        gyre_native::seats::pool(bytes)
    }

    fn revoke(&self, order: &Revoke) -> io::Result<seats::Answer> {
        gyre_native::seats::revoke(order)
    }

    fn offer(&self, order: &Offer) -> io::Result<seats::OfferAnswer> {
        gyre_native::seats::offer(order)
    }

    fn zones(&self) -> io::Result<Zones> {
        gyre_native::zones::zones()
    }

    fn control(&self, commands: &[Command], by: Orderer) -> io::Result<Answer> {
        gyre_native::zones::control(commands, by)
    }

    fn stage(&self, piece: Piece, bytes: &[u8]) -> io::Result<u64> {
        gyre_native::zones::stage(piece.module, piece.whole, piece.offset, bytes)
    }

    fn wish(&self, wish: &Wish) -> io::Result<WishAnswer> {
        gyre_native::zones::wish(wish)
    }

    fn zone_console(&self, zone: &str, offset: u64) -> io::Result<(u64, Vec<u8>)> {
        let zones = self.zones()?;
        let at = zones.zones.iter().position(|view| view.name == zone).ok_or_else(|| no_zone_of(zone, &zones))?;
        gyre_native::zones::console(u32::try_from(at).map_err(io::Error::other)?, offset, LOG_BYTES)
    }

    fn zone_log(&self, from: u64) -> io::Result<Vec<Record>> {
        gyre_native::zones::log(from)
    }

    fn set(&self, change: &Change) -> io::Result<()> {
        gyre_native::set(change).map_err(|error| self.explain(change, error))
    }

    fn change(&self, together: &Together) -> io::Result<u64> {
        let answer = gyre_native::goals::change(together)?;
        answer.map_err(|refused| self.refused(together, &refused))
    }

    fn changes(&self, from: u64) -> io::Result<Vec<ChangeRecord>> {
        gyre_native::goals::changes(from)
    }

    fn goals(&self) -> io::Result<Goals> {
        gyre_native::goals::goals()
    }
}

impl Native {
    /// Finds a tenant's index now.
    fn index(&self, tenant: &str) -> io::Result<u32> {
        places::index(&self.snapshot()?, tenant)
    }

    /// Says what was not there: the kernel's answer is the same for a tenant and a program.
    fn not_started(&self, request: &ExecRequest, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::NotFound => self.index(&request.tenant).err().unwrap_or(error),
            _ => error,
        }
    }

    /// A refusal as a sentence.
    fn refused(&self, together: &Together, refused: &Refused) -> io::Error {
        match (&refused.why, together.changes.get(usize::from(refused.part))) {
            (Refusal::Change { errno }, Some(change)) => self.explain(change, io::Error::from_raw_os_error(*errno)),
            (Refusal::NoTenant { name }, _) => {
                let kind = io::ErrorKind::NotFound;
                self.index(name).err().unwrap_or_else(|| io::Error::new(kind, refused.why.to_string()))
            }
            (why, _) => io::Error::new(io::ErrorKind::InvalidInput, why.to_string()),
        }
    }

    /// The kernel's error as a sentence.
    fn explain(&self, change: &Change, error: io::Error) -> io::Error {
        let because = |why: String| io::Error::new(error.kind(), why);
        let name = match change {
            Change::Tenant { name, .. }
            | Change::Group { name, .. }
            | Change::Resource { name, .. }
            | Change::Life { name, .. }
            | Change::Program { name, .. } => name,
            Change::Add { tenant } => &tenant.name,
            Change::Remove { name, .. } => name,
            Change::Promise(promise) => &promise.tenant,
            Change::Goal { tenant, .. } | Change::Overload { tenant, .. } | Change::Cell { tenant, .. } => tenant,
        };
        match (error.raw_os_error(), change) {
            (Some(libc::EEXIST), Change::Add { .. }) => because(format!("there is a tenant `{name}` already")),
            (Some(libc::EBUSY), Change::Add { .. }) => because(format!("there is no spare place for `{name}`")),
            (Some(libc::ENOSPC), Change::Add { .. }) => {
                because(format!("all reservations with that of `{name}` are more memory than the machine has"))
            }
            (Some(libc::EBUSY), Change::Remove { .. }) => {
                because(format!("`{name}` goes away for another image: remove it once it is away"))
            }
            (Some(libc::EPERM), Change::Remove { .. }) => because(format!("`{name}` is the machine's own")),
            (Some(libc::ENOENT), Change::Remove { .. }) => {
                self.index(name).err().unwrap_or_else(|| because(format!("`{name}` has left already")))
            }
            (Some(libc::EALREADY), Change::Life { life: Life::Start | Life::Back, .. }) => {
                because(format!("`{name}` runs already"))
            }
            (Some(libc::EBUSY), Change::Life { life: Life::Away { .. }, .. }) => {
                because(format!("`{name}` starts, or a failure of the kernel has ended it"))
            }
            (Some(libc::EBUSY), Change::Life { .. }) => {
                because(format!("`{name}` is away: gyre apply --fresh gives it its image"))
            }
            (Some(libc::ENOSPC), Change::Life { .. }) => {
                because(format!("`{name}` has been away too often: the next time needs a new run"))
            }
            (Some(libc::EINVAL), Change::Life { .. }) => because(format!("`{name}` has no disk of its own")),
            (Some(libc::EALREADY), Change::Life { .. }) => because(format!("`{name}` does not run")),
            (Some(libc::EINVAL), Change::Program { .. }) => {
                because(format!("`{name}` runs no program of its own, or the other one has no name"))
            }
            (Some(libc::EPERM), Change::Life { .. } | Change::Program { .. }) => {
                because(format!("`{name}` is the machine's own"))
            }
            (
                Some(libc::ENOENT),
                Change::Tenant { .. }
                | Change::Life { .. }
                | Change::Program { .. }
                | Change::Promise(_)
                | Change::Goal { .. }
                | Change::Overload { .. },
            ) => self.index(name).err().unwrap_or_else(|| because(format!("the tenant `{name}` has not started yet"))),
            (Some(libc::EINVAL), Change::Overload { .. }) => {
                because(format!("`{name}` has no overload controller, or the delay is not from 1 ms to 10 s"))
            }
            (Some(libc::ENOENT), Change::Group { .. }) => because(format!("there is no group `{name}`")),
            (Some(libc::EDOM), _) => because(format!("`{name}` has more memory reserved than that")),
            (Some(libc::EBUSY), _) => because(format!("`{name}` holds more than that now: wait, or force it")),
            (Some(libc::ERANGE), _) => because(format!("that is more than the machine has for `{name}`")),
            (Some(libc::ENOENT), Change::Resource { .. }) => because(format!("there is no resource `{name}`")),
            (Some(libc::EOPNOTSUPP), _) => because(format!(
                "`{name}` has no policy of its own: the CPU's decides; change that of `cpu`, or its weight"
            )),
            (Some(libc::ENODEV), _) => because("the machine has no such core".into()),
            (Some(libc::ENOSPC), _) => because(format!("more would be reserved than can be, with that of `{name}`")),
            (Some(libc::EAGAIN), _) => because("another change is under way".into()),
            (Some(libc::EINVAL), _) => because(format!("the kernel refuses these values for `{name}`")),
            _ => error,
        }
    }
}

impl Program for Started {
    fn wait(&self) -> io::Result<i32> {
        gyre_native::wait(self.pid)
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        gyre_native::terminate(self.pid, signal)
    }
}
