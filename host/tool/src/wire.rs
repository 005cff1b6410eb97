//! The wire between the machine and its far end, at an exact rate in each direction.
//!
//! QEMU sends frames over a socket pair, 4 bytes of length (big endian) before each. The far end is a TAP device in a
//! namespace. Towards the far end the wire takes the next frame only when the one before has left: QEMU's socket fills, the
//! device's ring fills, and the machine feels true back-pressure, without a frame lost. From the far end frames wait in the TAP
//! device's own queue, and are dropped there when it is full, as in any router.
//!
//! Bytes are those of Ethernet frames as QEMU sees them: header included; preamble, checksum and gap not.

mod counters;
mod frame;
mod pcap;
mod rate;

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub use counters::{Counters, Direction, Figures};
use pcap::Pcap;
use rate::Clock;
use tun_rs::SyncDevice;

use crate::failure::{Context as _, Result};

/// No frame is longer: maximum transfer unit 1500, header 14, VLAN tag 4, and room for a guest that thinks otherwise.
const FRAME_BYTES_MAX: usize = 65_536;
/// What may lie in QEMU's socket, in bytes: enough for a rate of 1 Gbit/s, little enough that the scheduler in the machine,
/// not a queue here, decides whose frame is next.
const SOCKET_BYTES: usize = 32 << 10;

/// The wire's two pumps, each a thread; they end when QEMU or the TAP device closes.
pub struct Wire {
    /// What went over it.
    pub counters: Arc<Counters>,
    closed: Arc<AtomicBool>,
}

/// How a wire is to be.
pub struct Options<'a> {
    /// Bits per second in each direction; `None` is as fast as it goes.
    pub rate_bits_per_second: Option<u64>,
    /// Where to write every frame.
    pub pcap: Option<&'a Path>,
}

/// Makes the pair of sockets: ours, and QEMU's.
///
/// # Errors
/// When the host has no more descriptors.
pub fn sockets() -> Result<(UnixStream, UnixStream)> {
    let (ours, qemus) = UnixStream::pair().context(|| "cannot make the wire's sockets".into())?;
    for socket in [&ours, &qemus] {
        nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::SndBuf, &SOCKET_BYTES)
            .context(|| "cannot size the wire's sockets".into())?;
    }
    Ok((ours, qemus))
}

impl Wire {
    /// Starts to move frames between QEMU's socket and the TAP device.
    ///
    /// # Errors
    /// When the dump cannot be written or no thread can be had.
    pub fn start(machine: UnixStream, tap: SyncDevice, counters: Arc<Counters>, options: &Options) -> Result<Self> {
        let pcap = options.pcap.map(Pcap::create).transpose()?.map(Arc::new);
        let closed = Arc::new(AtomicBool::new(false));
        let tap = Arc::new(tap);
        let writer = machine.try_clone().context(|| "cannot copy the wire's socket".into())?;
        let pump = |direction| Pump {
            direction,
            clock: options.rate_bits_per_second.map(Clock::new),
            counters: counters.clone(),
            pcap: pcap.clone(),
        };
        let (up, down) = (pump(Direction::FromMachine), pump(Direction::ToMachine));
        let (up_tap, up_closed, down_closed) = (tap.clone(), closed.clone(), closed.clone());
        spawn("wire from machine", up_closed, move || up.from_machine(machine, &up_tap))?;
        spawn("wire to machine", down_closed, move || down.to_machine(&tap, writer))?;
        Ok(Self { counters, closed })
    }

    /// Whether one end has closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

fn spawn(name: &str, closed: Arc<AtomicBool>, pump: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<()> {
    let run = move || {
        // An error here means that QEMU or the device is gone, which the caller learns from QEMU's exit.
        let _ = pump();
        closed.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().name(name.into()).spawn(run).context(|| "cannot start the wire".into())?;
    Ok(())
}

struct Pump {
    direction: Direction,
    clock: Option<Clock>,
    counters: Arc<Counters>,
    pcap: Option<Arc<Pcap>>,
}

impl Pump {
    fn from_machine(mut self, mut machine: UnixStream, tap: &SyncDevice) -> io::Result<()> {
        let mut frame = vec![0; FRAME_BYTES_MAX];
        loop {
            let mut length = [0; 4];
            machine.read_exact(&mut length)?;
            let length = u32::from_be_bytes(length) as usize;
            let Some(frame) = frame.get_mut(..length) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "QEMU sent a frame of impossible length"));
            };
            machine.read_exact(frame)?;
            self.pass(frame);
            // The device refuses frames shorter than a header; a guest may send them, a switch would drop them.
            if let Err(error) = tap.send(frame)
                && error.kind() != io::ErrorKind::InvalidInput
            {
                return Err(error);
            }
        }
    }

    fn to_machine(mut self, tap: &SyncDevice, mut machine: UnixStream) -> io::Result<()> {
        let mut buffer = vec![0; 4 + FRAME_BYTES_MAX];
        loop {
            let length = tap.recv(&mut buffer[4..])?;
            buffer[..4].copy_from_slice(&(length as u32).to_be_bytes());
            self.pass(&buffer[4..4 + length]);
            machine.write_all(&buffer[..4 + length])?;
        }
    }

    /// Waits until the frame has left, and counts it.
    fn pass(&mut self, frame: &[u8]) {
        if let Some(clock) = &mut self.clock {
            clock.pass(frame.len());
        }
        self.counters.count(self.direction, frame);
        if let Some(pcap) = &self.pcap {
            pcap.write(frame);
        }
    }
}

#[cfg(test)]
mod tests;
