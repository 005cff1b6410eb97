//! Calls about the cell's network card: the program opens it by its path, and reads and writes frames of Ethernet, one with each call.
//!
//! The kernel sees a descriptor of `/dev/null` in its place. A read waits for a frame and gives as much of it as its buffers have room for; the
//! rest is gone, as from a tap device. A write gives a whole frame to the card, and waits if that has too many already. Signals interrupt both. With
//! O_NONBLOCK at the opening they answer EAGAIN in place of waiting.
//!
//! poll(2) of the card alone waits for it (`card_poll.rs`); with other files it says that the card is ready.
//!
//! Left out: positions (EINVAL), mappings (ENODEV), and descriptors that go to other processes.

use core::sync::atomic::{AtomicU64, Ordering};

use gyre_cell_abi::{
    card::{CardFacts, CardRequest, FRAME_BYTES_MIN},
    device::DEVICE_OPEN,
};
use linux_raw_sys::general as nr;

use super::{
    Outcome, card_poll,
    own_file::{self, Named, block},
    vector::{Buffers, Piece},
};
use crate::{
    device::{Card, Direction, FRAMES_ORDER, Files, Name},
    error::Errno,
    fiber::{Call, FiberId, NEVER, State},
    machine::Machine,
    memory::Rights,
    runtime::Runtime,
};

/// The file that the kernel has in place of the card. Another spelling than the disk's, so that the two are told apart.
static STAND_IN: [u8; 11] = *b"/dev//null\0";
/// Flags of an open that the kernel sees.
const FLAGS: u32 = nr::O_ACCMODE | nr::O_CLOEXEC | nr::O_NONBLOCK;
/// The address and the longest payload of an interface (linux/sockios.h); the place of the answer behind its name, and the kind of address.
const SIOCGIFMTU: u32 = 0x8921;
const SIOCGIFHWADDR: u32 = 0x8927;
const BEHIND_NAME: u64 = 16;
const ARPHRD_ETHER: u16 = 1;

/// The card of a cell, which is opened when the program opens it first.
#[derive(Debug)]
pub struct OwnCard {
    name: Name,
    pub(super) card: Option<Card>,
    /// Descriptors that are the card's; in place of a position, the flags of their opening.
    pub(super) files: Files,
    request: CardRequest,
    facts: [AtomicU64; 2],
}

impl OwnCard {
    /// A card that nobody has opened.
    pub fn new(name: Name) -> Self {
        let (files, request) = (Files::default(), CardRequest::default());
        Self { name, card: None, files, request, facts: [const { AtomicU64::new(0) }; 2] }
    }

    /// Returns whether the kernel serves it.
    pub fn is_open(&self) -> bool {
        self.card.is_some()
    }
}

/// Answers a call about the card; `None` if it is about something else.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Option<Outcome> {
    let files = &runtime.card.as_ref()?.files;
    if card_poll::is_it(&call) {
        return card_poll::answer(runtime, call);
    }
    match Named::by(&call) {
        Named::Path(argument) => by_path(runtime, call, argument),
        Named::File(file) => {
            files.find(file)?;
            on_descriptor(runtime, call)
        }
        other => other.refused(files),
    }
}

/// Opens the card in place of a path, or tells of it; the argument is the path's.
fn by_path<M: Machine>(runtime: &mut Runtime<M>, call: Call, argument: usize) -> Option<Outcome> {
    let path = |runtime: &Runtime<M>, place: usize| {
        let own = runtime.card.as_ref();
        own.and_then(|own| own.name.path.as_bytes().get(place).copied())
    };
    if !own_file::has_path(runtime, call.arguments[argument], path) {
        return None;
    }
    if own_file::opens(&call)
        && let Err(errno) = open(runtime)
    {
        return Some(Outcome::refused(errno));
    }
    own_file::redirect(runtime.fiber(), argument, &STAND_IN, FLAGS);
    Some(Outcome::Line)
}

/// Has the kernel serve the card, if it does not yet.
fn open<M: Machine>(runtime: &mut Runtime<M>) -> Result<(), Errno> {
    let own = runtime.card.as_ref().ok_or(Errno::NODEV)?;
    if !own.files.has_room() {
        return Err(Errno::MFILE);
    }
    if own.card.is_some() {
        return Ok(());
    }
    let [receive, send] = [direction(runtime)?, direction(runtime)?];
    let mut card = Card::new(&mut runtime.machine, receive, send);
    let own = runtime.card.as_mut().ok_or(Errno::NODEV)?;
    own.request = card.describe(own.name.device);
    let addresses = [(&raw const own.request) as u64, (&raw const own.facts) as u64];
    let result = runtime.machine.call(DEVICE_OPEN as u32, [addresses[0], addresses[1], 0, 0, 0, 0]);
    Errno::of_result(result)?;
    let first = own.facts[0].load(Ordering::Acquire);
    let [a, b, c, d, e, f, low, high] = first.to_le_bytes();
    let frame_bytes_max = u16::from_le_bytes([low, high]);
    card.facts = CardFacts { mac: [a, b, c, d, e, f], frame_bytes_max, reserved: 0 };
    own.card = Some(card);
    Ok(())
}

fn direction<M: Machine>(runtime: &mut Runtime<M>) -> Result<Direction, Errno> {
    let (ring, buffers) = (block(runtime, 0)?, block(runtime, FRAMES_ORDER)?);
    Ok(Direction::new(&mut runtime.machine, ring, buffers))
}

fn on_descriptor<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Option<Outcome> {
    let [_, second, third, ..] = call.arguments;
    match call.number {
        nr::__NR_read | nr::__NR_write | nr::__NR_readv | nr::__NR_writev => {
            Some(match advance(runtime, runtime.current) {
                Some(result) => Outcome::Value(result),
                None => Outcome::Wait(State::Card(NEVER)),
            })
        }
        nr::__NR_lseek
        | nr::__NR_pread64
        | nr::__NR_pwrite64
        | nr::__NR_preadv
        | nr::__NR_pwritev
        | nr::__NR_preadv2
        | nr::__NR_pwritev2 => Some(Outcome::refused(Errno::INVAL)),
        nr::__NR_ioctl => Some(Outcome::done(control(runtime, second as u32, third))),
        _ => None,
    }
}

fn control<M: Machine>(runtime: &mut Runtime<M>, request: u32, address: u64) -> Result<(), Errno> {
    let facts = runtime.card.as_ref().and_then(|own| own.card.as_ref()).ok_or(Errno::NODEV)?.facts;
    let place = address.wrapping_add(BEHIND_NAME);
    match request {
        SIOCGIFHWADDR => {
            runtime.write(place, &ARPHRD_ETHER.to_ne_bytes())?;
            runtime.write(place.wrapping_add(2), &facts.mac)
        }
        SIOCGIFMTU => runtime.write(place, &(u32::from(facts.frame_bytes_max) - FRAME_BYTES_MIN as u32).to_ne_bytes()),
        _ => Err(Errno::NOTTY),
    }
}

/// Sees to what a call of the kernel has done to descriptors.
pub fn after<M: Machine>(runtime: &mut Runtime<M>, call: &Call, result: i64) -> i64 {
    let Some(own) = &mut runtime.card else { return result };
    let Ok(new) = u64::try_from(result) else { return result };
    let [first, second, third, ..] = call.arguments;
    let stand_in = STAND_IN.as_ptr() as u64;
    let is_noted = match call.number {
        nr::__NR_open if first == stand_in => note(&mut own.files, new, second),
        nr::__NR_openat if second == stand_in => note(&mut own.files, new, third),
        _ => own.files.follow(call, new),
    };
    if is_noted {
        return result;
    }
    // A number that cannot be noted would be read as an empty file.
    runtime.machine.call(nr::__NR_close, [new, 0, 0, 0, 0, 0]);
    Errno::MFILE.result()
}

fn note(files: &mut Files, descriptor: u64, flags: u64) -> bool {
    let is_noted = files.open(descriptor);
    if let Some(opened) = files.find(descriptor) {
        *files.position(opened) = flags;
    }
    is_noted
}

/// Goes on with all threads that wait for the card, if there is something for them.
pub fn collect<M: Machine>(runtime: &mut Runtime<M>) -> bool {
    let card = runtime.card.as_ref().and_then(|own| own.card.as_ref());
    if !card.is_some_and(|card| card.has_news(&runtime.machine)) {
        return false;
    }
    let mut some = false;
    for id in 0..runtime.fibers_end {
        if matches!(runtime.fibers[id].state, State::Card(_))
            && let Some(result) = advance(runtime, id)
        {
            runtime.wake(id, result);
            some = true;
        }
    }
    some
}

/// Goes on with a thread's call; returns its result, or `None` if it waits.
fn advance<M: Machine>(runtime: &mut Runtime<M>, id: FiberId) -> Option<i64> {
    let call = runtime.fibers[id].call;
    if card_poll::is_it(&call) {
        return card_poll::ready(runtime, &call)
            .map_or_else(|errno| Some(errno.result()), |count| (count > 0).then_some(count));
    }
    let result = Buffers::of(&call).and_then(|buffers| match call.number {
        nr::__NR_read | nr::__NR_readv => read(runtime, buffers),
        _ => write(runtime, buffers),
    });
    if runtime.card.as_mut().and_then(|own| own.card.as_mut()).is_some_and(Card::takes_bell) {
        runtime.machine.ring();
    }
    match result {
        Ok(Some(done)) => Some(done.cast_signed()),
        Ok(None) => waits_not(runtime, call.arguments[0]).then(|| Errno::AGAIN.result()),
        Err(errno) => Some(errno.result()),
    }
}

fn waits_not<M: Machine>(runtime: &mut Runtime<M>, descriptor: u64) -> bool {
    let Some(own) = &mut runtime.card else { return false };
    own.files.find(descriptor).is_some_and(|opened| *own.files.position(opened) as u32 & nr::O_NONBLOCK != 0)
}

fn read<M: Machine>(runtime: &mut Runtime<M>, buffers: Buffers) -> Result<Option<u64>, Errno> {
    let card = runtime.card.as_mut().and_then(|own| own.card.as_mut()).ok_or(Errno::NODEV)?;
    let Some(frame) = card.receive(&runtime.machine) else { return Ok(None) };
    let given = buffers.each(runtime, frame.bytes, |runtime, Piece { address, bytes, before }| {
        runtime.ensure(address, bytes, Rights::WRITE)?;
        runtime.machine.copy_out(frame.physical + before, address, bytes).map(|()| true)
    });
    if let Some(card) = runtime.card.as_mut().and_then(|own| own.card.as_mut()) {
        card.release(&mut runtime.machine, frame.slot);
    }
    given.map(Some)
}

fn write<M: Machine>(runtime: &mut Runtime<M>, buffers: Buffers) -> Result<Option<u64>, Errno> {
    // One byte more than a frame may have tells that there are too many.
    let card = runtime.card.as_ref().and_then(|own| own.card.as_ref()).ok_or(Errno::NODEV)?;
    let most = u64::from(card.facts.frame_bytes_max);
    let bytes = buffers.each(runtime, most + 1, |_, _| Ok(true))?;
    if !(FRAME_BYTES_MIN as u64..=most).contains(&bytes) {
        return Err(Errno::INVAL);
    }
    let card = runtime.card.as_mut().and_then(|own| own.card.as_mut()).ok_or(Errno::NODEV)?;
    let Some(frame) = card.take_slot(&runtime.machine) else { return Ok(None) };
    // The descriptions may say something else by now.
    let copied = buffers.each(runtime, bytes, |runtime, Piece { address, bytes, before }| {
        runtime.ensure(address, bytes, Rights::READ)?;
        runtime.machine.copy_in(frame.physical + before, address, bytes).map(|()| true)
    })?;
    if copied != bytes {
        return Err(Errno::FAULT);
    }
    let card = runtime.card.as_mut().and_then(|own| own.card.as_mut()).ok_or(Errno::NODEV)?;
    card.send(&mut runtime.machine, frame.slot, bytes);
    Ok(Some(bytes))
}
