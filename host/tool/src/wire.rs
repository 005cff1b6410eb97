//! The wire between the machine and its far end, at an exact rate in each direction.
//!
//! QEMU sends frames over a socket pair, 4 bytes of length (big endian) before each. The far end is a TAP device in a
//! namespace. Towards the far end the wire takes the next frame only when the one before has left: QEMU's socket fills, the
//! device's ring fills, and the machine feels true back-pressure, without a frame lost. From the far end frames wait in the TAP
//! device's own queue, and are dropped there when it is full, as in any router.
//!
//! A machine with zones has a card for each instance ([`switch`]); the rate is that of each card.
//!
//! Bytes are those of Ethernet frames as QEMU sees them: header included; preamble, checksum and gap not.

mod counters;
mod frame;
mod pcap;
mod rate;
mod switch;

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Receiver,
    },
};

pub use counters::{Counters, Direction, Figures};
use pcap::Pcap;
pub use rate::Clock;
use switch::{Origin, Switch};
use tun_rs::SyncDevice;

use crate::{
    failure::{Context as _, Result},
    outbound::{Ends, Handled, Router},
};

/// No frame is longer: maximum transfer unit 1500, header 14, VLAN tag 4, and room for a guest that thinks otherwise.
const FRAME_BYTES_MAX: usize = 65_536;
/// Bytes that may lie in QEMU's socket: enough for a rate of 1 Gbit/s, little enough that the scheduler in the machine,
/// not a queue here, decides whose frame is next.
const SOCKET_BYTES: usize = 32 << 10;

/// The wire's pumps, each a thread; they end when QEMU or the TAP device closes.
pub struct Wire {
    /// The counters of its frames.
    pub counters: Arc<Counters>,
    closed: Arc<AtomicBool>,
}

/// A card's end of the wire.
pub struct Plug {
    /// The socket that leads to it.
    pub socket: UnixStream,
    /// Its hardware address, and those that it carries frames for.
    pub macs: Vec<[u8; 6]>,
}

/// How a wire is to be.
pub struct Options<'a> {
    /// Bits per second in each direction; `None` is as fast as it goes.
    pub rate_bits_per_second: Option<u64>,
    /// The file to which every frame is written.
    pub pcap: Option<&'a Path>,
    /// The way out of tenants, if some have one.
    pub router: Option<Arc<Router>>,
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
    /// Starts to move frames between the cards and the TAP device.
    ///
    /// # Errors
    /// When the dump cannot be written or no thread can be had.
    pub fn start(cards: Vec<Plug>, tap: SyncDevice, counters: Arc<Counters>, options: &Options) -> Result<Self> {
        let pcap = options.pcap.map(Pcap::create).transpose()?.map(Arc::new);
        let closed = Arc::new(AtomicBool::new(false));
        let pump = |card, direction| Pump {
            card,
            direction,
            clock: options.rate_bits_per_second.map(Clock::new),
            counters: counters.clone(),
            pcap: pcap.clone(),
            router: options.router.clone(),
        };
        let tap = Arc::new(tap);
        let macs: Vec<Vec<[u8; 6]>> = cards.iter().map(|card| card.macs.clone()).collect();
        let (switch, queues) = Switch::new(&macs);
        let switch = Arc::new(switch);
        if let Some(router) = &options.router {
            router.attach(ends(&tap, &switch));
        }
        // One card alone needs no queue but the TAP device's own.
        let is_alone = cards.len() == 1 && options.router.is_none();
        for (index, (card, queue)) in cards.into_iter().zip(queues).enumerate() {
            let writer = card.socket.try_clone().context(|| "cannot copy the wire's socket".into())?;
            let (up, down) = (pump(index, Direction::FromMachine), pump(index, Direction::ToMachine));
            let (tap, down_tap, switch) = (tap.clone(), tap.clone(), switch.clone());
            spawn("wire from machine", closed.clone(), move || up.from_machine(card.socket, &tap, &switch))?;
            match is_alone {
                true => spawn("wire to machine", closed.clone(), move || down.to_machine(&down_tap, writer))?,
                false => {
                    let down = Pump { pcap: None, ..down };
                    spawn("wire to card", closed.clone(), move || down.serve_card(&queue, writer))?;
                }
            }
        }
        if !is_alone {
            let router = options.router.clone();
            let pump = move || from_far_end(&tap, &switch, pcap.as_deref(), router.as_deref());
            spawn("wire from far end", closed.clone(), pump)?;
        }
        Ok(Self { counters, closed })
    }

    /// Returns whether one end has closed.
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

/// Returns where the way out sends the frames that it makes.
fn ends(tap: &Arc<SyncDevice>, switch: &Arc<Switch>) -> Ends {
    let (tap, switch) = (tap.clone(), switch.clone());
    Ends {
        // A card that is gone loses its frames; its pump tells of it.
        machine: Box::new(move |frame| drop(switch.pass(frame, Origin::FarEnd, |_| Ok(())))),
        far_end: Box::new(move |frame| drop(tap.send(frame))),
    }
}

/// Hands the far end's frames to the cards, each once on record.
fn from_far_end(tap: &SyncDevice, switch: &Switch, pcap: Option<&Pcap>, router: Option<&Router>) -> io::Result<()> {
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    loop {
        let length = tap.recv(&mut buffer)?;
        let frame = buffer.get_mut(..length).unwrap_or_default();
        router.into_iter().for_each(|router| router.to_machine(frame));
        pcap.into_iter().for_each(|pcap| pcap.write(frame));
        switch.pass(frame, Origin::FarEnd, |_| Ok(()))?;
    }
}

struct Pump {
    card: usize,
    direction: Direction,
    clock: Option<Clock>,
    counters: Arc<Counters>,
    pcap: Option<Arc<Pcap>>,
    router: Option<Arc<Router>>,
}

impl Pump {
    fn from_machine(mut self, mut machine: UnixStream, tap: &SyncDevice, switch: &Switch) -> io::Result<()> {
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
            if self.router.as_ref().is_some_and(|router| router.from_machine(frame) == Handled::Taken) {
                continue;
            }
            switch.pass(frame, Origin::Card(self.card), |frame| match tap.send(frame) {
                // The device refuses frames shorter than a header; a guest may send them, a switch would drop them.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
                Ok(_) | Err(_) => Ok(()),
            })?;
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

    fn serve_card(mut self, queue: &Receiver<Vec<u8>>, mut machine: UnixStream) -> io::Result<()> {
        for frame in queue {
            self.pass(&frame);
            machine.write_all(&[&(frame.len() as u32).to_be_bytes()[..], &frame].concat())?;
        }
        Ok(())
    }

    /// Waits until the frame has left, and counts it.
    fn pass(&mut self, frame: &[u8]) {
        if let Some(clock) = &mut self.clock {
            clock.pass(frame.len());
        }
        self.counters.count_at(self.card, self.direction, frame);
        if let Some(pcap) = &self.pcap {
            pcap.write(frame);
        }
    }
}

#[cfg(test)]
mod tests;
