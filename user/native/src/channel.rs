//! Channels: messages and shared pages between two programs, of this tenant or of two.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    time::Duration,
};

use gyre_contract::native;

use crate::call;

/// Waits for connections.
const LISTEN: i64 = 1;
/// No call waits.
const NONBLOCK: i64 = 2;

/// Waits for connections under a name of this tenant. The name is free again once it is dropped.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One end of a channel. Dropped, it ends for the peer, who still reads what was sent.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// No channel.
const NO_CHANNEL: i64 = -1;

/// Work at another tenant's expense; dropped, it ends. It is the thread's, so it stays there.
#[derive(Debug)]
#[must_use = "dropped at once, it paid for nothing"]
pub struct OnBehalf(());

impl OnBehalf {
    /// Ends it; answers what the other tenant has paid, ns.
    pub fn end(self) -> u64 {
        let spent = call::plain(native::ON_BEHALF, [NO_CHANNEL, 0]);
        std::mem::forget(self);
        spent.map_or(0, |ns| ns as u64)
    }
}

impl Drop for OnBehalf {
    fn drop(&mut self) {
        // it cannot fail: there is no channel to be wrong about
        let _ = call::plain(native::ON_BEHALF, [NO_CHANNEL, 0]);
    }
}

fn open(name: &str, pages: u16, flags: i64) -> io::Result<OwnedFd> {
    // The kernel only reads `name`, which lives through the call.
    let arguments = [name.as_ptr() as i64, name.len() as i64, i64::from(pages), flags];
    call::descriptor(native::CHANNEL_OPEN, arguments)
}

impl Listener {
    /// Listens under a name (`orders`) and grants each connection up to so many shared pages, 512 at most.
    ///
    /// # Errors
    /// `AddrInUse`; `PermissionDenied` for another tenant's name; `Unsupported` on Linux.
    pub fn new(name: &str, pages: u16) -> io::Result<Listener> {
        open(name, pages, LISTEN).map(Listener)
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn accept(&self) -> io::Result<Channel> {
        call::descriptor(native::CHANNEL_ACCEPT, [i64::from(self.0.as_raw_fd()), 0]).map(Channel)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    /// Connects to the program that listens under `TENANT/NAME`, or `NAME` in this tenant, with so many shared pages.
    ///
    /// # Errors
    /// `ConnectionRefused` if nobody does; `InvalidInput` for more pages than are granted; `WouldBlock` if too many wait.
    pub fn connect(name: &str, pages: u16) -> io::Result<Channel> {
        open(name, pages, 0).map(Channel)
    }

    /// As [`Channel::connect`], and no call waits: [`Channel::send`] and [`Channel::receive`] answer `WouldBlock` instead.
    ///
    /// # Errors
    /// As there.
    pub fn connect_without_waiting(name: &str, pages: u16) -> io::Result<Channel> {
        open(name, pages, NONBLOCK).map(Channel)
    }

    /// Sends a message of up to 64 KiB whole; waits for room.
    ///
    /// # Errors
    /// `BrokenPipe` if the peer is gone; EMSGSIZE.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        call::with_number_and_input(native::CHANNEL_WRITE, self.0.as_raw_fd() as u64, message).map(drop)
    }

    /// As [`Channel::send`], but waits for nothing.
    ///
    /// # Errors
    /// As there; `WouldBlock` without room.
    pub fn try_send(&self, message: &[u8]) -> io::Result<()> {
        match call::can_write(self.0.as_fd())? {
            true => self.send(message),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Returns the tenant at the other end.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn peer(&self) -> io::Result<String> {
        let mut figures = [0; native::CHANNEL_FIGURES_BYTES];
        call::with_output(native::CHANNEL_FIGURES, [i64::from(self.0.as_raw_fd())], &mut figures)?;
        let name: Vec<u8> = figures.iter().take(64).copied().take_while(|byte| *byte != 0).collect();
        String::from_utf8(name).map_err(io::Error::other)
    }

    /// Lets the program at the other end work at this tenant's expense for so long, in place of what it was granted before; zero takes
    /// that back. Answers the rest of it.
    ///
    /// # Errors
    /// `BrokenPipe` if the peer is gone; `InvalidInput` for more than an hour; `HostUnreachable` for a peer in another zone.
    pub fn grant(&self, time: Duration) -> io::Result<Duration> {
        self.grant_from(time, NO_CHANNEL)
    }

    /// Passes on what the peer of `from` has granted, up to so much.
    ///
    /// # Errors
    /// As [`Channel::grant`]; `PermissionDenied` if that peer grants nothing; ELOOP for too many in a row.
    pub fn pass_on(&self, time: Duration, from: &Channel) -> io::Result<Duration> {
        self.grant_from(time, i64::from(from.0.as_raw_fd()))
    }

    fn grant_from(&self, time: Duration, from: i64) -> io::Result<Duration> {
        let ns = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX - 1);
        let left = call::numbers(native::GRANT, [i64::from(self.0.as_raw_fd()), ns, from])?;
        Ok(Duration::from_nanos(left as u64))
    }

    /// From here on this thread works at the expense of the tenant at the other end, until the answer ends, or the thread waits for news.
    ///
    /// # Errors
    /// `PermissionDenied` if nothing was granted; `QuotaExceeded` if nothing is left of it; `BrokenPipe` if the peer is gone.
    pub fn on_behalf(&self) -> io::Result<OnBehalf> {
        call::plain(native::ON_BEHALF, [i64::from(self.0.as_raw_fd()), 0])?;
        Ok(OnBehalf(()))
    }

    /// Receives a message into `buffer`; answers its bytes, 0 once the peer is gone and all was read.
    ///
    /// # Errors
    /// EMSGSIZE if it is longer: it stays.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        call::with_output(native::CHANNEL_READ, [i64::from(self.0.as_raw_fd())], buffer)
    }
}
