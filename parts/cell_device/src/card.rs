//! The service of a card's two queues.
//!
//! ```text
//!   sending:    chain --copied--> a frame of the kernel's --source is the card's?--> gate (bytes, share) --> card --> used ring
//!   receiving:  card --> a frame of the kernel's --for the card or a group?--> chain that the cell offers --> used ring
//! ```
//! A frame is the kernel's own when it is looked at, so what the cell writes meanwhile changes nothing. No device reaches the cell's lots: of
//! what a cell leaves behind only copies are under way.
//!
//! The service gives the gate no frame that the card has no room for, so frames of others do not wait behind those of a cell.

use crate::chain::Chain;
use crate::queue::{Lie, Queue};
use crate::request::Done;
use crate::serve::{Cell, End, Performed, some_end};
use crate::watch::{News, Watch, pause};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use gyre_cell_abi::card::FRAME_BYTES_MIN;
use gyre_cell_abi::device::ENTRIES_MAX;
use gyre_cell_memory::{Bell, CellMemory};
use gyre_interface::link::{FrameStream, LinkError, OutFrame, link};
use gyre_message::wait::Either;
use gyre_message::{select, sleep_ns};
use gyre_object::Bytes;

/// Frames on their way through the gate at once.
const UNDER_WAY_MAX: usize = 16;
/// A device that fails is asked again after so long, ns.
const LOOK_AGAIN_NS: u64 = 10_000_000;
/// Looks for frames that came before the cell had the card: more than a card has buffers.
const OLD_LOOKS: usize = 1024;
/// The bit of an address that says that it is a group's.
const GROUP: u8 = 1;

/// A card.
pub struct Wire<F: 'static> {
    /// Frames out, behind the gate.
    pub client: link::Client,
    /// Frames in. Nobody else reads them.
    pub frames: &'static F,
    /// Returns true if the card takes a frame now.
    pub has_room: fn(&F) -> bool,
    /// Its address.
    pub mac: [u8; 6],
    /// Bytes of the longest frame.
    pub frame_bytes_max: usize,
}

/// The queues of a card.
pub struct Rings {
    /// For frames to come.
    pub receive: Queue,
    /// For frames to send.
    pub send: Queue,
}

impl Rings {
    /// Returns the lots in which they lie, by physical address.
    pub fn lots(&self) -> Vec<u64> {
        [self.receive.lots(), self.send.lots()].concat()
    }
}

struct Service<'a, F: 'static, C> {
    wire: Wire<F>,
    memory: &'a CellMemory,
    rings: Rings,
    under_way: Vec<Performed>,
    watch: Watch,
    cell: &'a C,
}

/// Serves the queues of a card to their end.
pub async fn attend_card<F: FrameStream<Frame = Bytes>>(
    wire: Wire<F>,
    memory: &CellMemory,
    rings: Rings,
    cell: &impl Cell,
) -> End {
    forget_old(wire.frames).await;
    rings.receive.hush();
    let watch = Watch::begin(&rings.send);
    let mut service = Service { wire, memory, rings, under_way: Vec::new(), watch, cell };
    // Ends with the cell, or as it wishes: each turn waits for one of four.
    loop {
        let change = cell.news().wait();
        if cell.is_over() {
            return End::Over;
        }
        let gives_back = cell.gives_back();
        if gives_back && service.under_way.is_empty() {
            return End::GivenBack;
        }
        let bell = match if gives_back { Ok(Bell::Wanted) } else { service.look() } {
            Ok(bell) => bell,
            Err(lie) => return End::Lied(lie),
        };
        let news = select(some_end(&mut service.under_way), arrived(service.wire.frames));
        let result = match select(select(change, pause(bell)), news).await {
            Either::First(_) => Ok(()),
            Either::Second(Either::First(answers)) => {
                service.answer(answers);
                Ok(())
            }
            Either::Second(Either::Second(frames)) => service.deliver(&frames),
        };
        if let Err(lie) = result {
            return End::Lied(lie);
        }
    }
}

/// Waits for frames; none if the card failed a moment ago.
async fn arrived<F: FrameStream<Frame = Bytes>>(frames: &'static F) -> Vec<Bytes> {
    match frames.next().await {
        Ok(frames) => frames,
        Err(_) => {
            sleep_ns(LOOK_AGAIN_NS).await;
            Vec::new()
        }
    }
}

/// Takes frames that were for somebody else, or nobody.
async fn forget_old<F: FrameStream<Frame = Bytes>>(frames: &'static F) {
    for _ in 0..OLD_LOOKS {
        let mut next = pin!(frames.next());
        let is_one = poll_fn(|context| Poll::Ready(matches!(next.as_mut().poll(context), Poll::Ready(Ok(_))))).await;
        if !is_one {
            return;
        }
    }
}

impl<F: FrameStream<Frame = Bytes>, C: Cell> Service<'_, F, C> {
    /// Begins to send all frames that the card has room for; says who looks next.
    fn look(&mut self) -> Result<Bell, Lie> {
        let Service { wire, memory, rings, under_way, watch, cell } = self;
        watch.look(&mut rings.send, |queue| {
            let mut news = News::None;
            // The cell may add to the ring meanwhile: the rest comes with the next look.
            for _ in 0..ENTRIES_MAX {
                if under_way.len() >= UNDER_WAY_MAX || !(wire.has_room)(wire.frames) {
                    // Room comes without a bell.
                    return Ok(if queue.has_more() { News::Some } else { news });
                }
                let Some(chain) = queue.take_chain()? else { return Ok(news) };
                news = News::Some;
                match frame_of(wire, memory, &chain)? {
                    Some(frame) => under_way.push(Box::pin(send(wire.client, chain.head, frame))),
                    None => {
                        queue.answer(chain.head, 0);
                        cell.lost();
                        cell.tell();
                    }
                }
            }
            Ok(news)
        })
    }

    fn answer(&mut self, answers: Vec<Done>) {
        for done in answers {
            self.rings.send.answer(done.head, 0);
            match done.written_bytes {
                0 => self.cell.lost(),
                _ => self.cell.answered(done),
            }
        }
        self.cell.tell();
    }

    /// Gives the cell frames that have come for it.
    fn deliver(&mut self, frames: &[Bytes]) -> Result<(), Lie> {
        for frame in frames.iter().filter(|frame| is_for(frame.as_slice(), &self.wire.mac)) {
            let fits = frame.len() <= self.wire.frame_bytes_max;
            let chain = if fits { self.rings.receive.take_chain()? } else { None };
            let Some(chain) = chain else {
                self.cell.lost();
                continue;
            };
            fill(self.memory, &chain, frame.as_slice(), self.wire.frame_bytes_max)?;
            let read_bytes = u32::try_from(frame.len()).unwrap_or(0);
            self.rings.receive.answer(chain.head, read_bytes);
            let head = chain.head;
            self.cell.answered(Done { head, filled_bytes: read_bytes, read_bytes, written_bytes: 0 });
        }
        self.cell.tell();
        Ok(())
    }
}

/// Sends a frame.
async fn send(client: link::Client, head: u16, frame: Bytes) -> Done {
    let bytes = u32::try_from(frame.len()).unwrap_or(0);
    let frame = OutFrame { pieces: vec![frame], checksum: None, segment: None, receipt: None };
    let result: Result<(), LinkError> = client.transmit(frame).await;
    Done { head, filled_bytes: 0, read_bytes: 0, written_bytes: if result.is_ok() { bytes } else { 0 } }
}

/// Returns true if a frame is for the card of this address, or for a group.
fn is_for(frame: &[u8], mac: &[u8; 6]) -> bool {
    let to = frame.get(..mac.len());
    frame.len() >= FRAME_BYTES_MIN && to.is_some_and(|to| to == mac || to.first().is_some_and(|byte| byte & GROUP != 0))
}

/// Copies a frame that a cell wants to send; `None` if it is none that it may send, or there is no memory for it.
///
/// # Errors
/// [`Lie`]: a part that the device would write, or outside of the cell's lots.
fn frame_of<F>(wire: &Wire<F>, memory: &CellMemory, chain: &Chain) -> Result<Option<Bytes>, Lie> {
    let places = chain.parts.iter().map(|part| match part.device_writes() {
        true => Err(Lie::Shape),
        false => part.find(memory),
    });
    let places = places.collect::<Result<Vec<_>, Lie>>()?;
    let bytes = usize::try_from(chain.bytes()).unwrap_or(usize::MAX);
    if !(FRAME_BYTES_MIN..=wire.frame_bytes_max).contains(&bytes) {
        return Ok(None);
    }
    let mut frame = Vec::with_capacity(bytes);
    for (place, part) in places.iter().zip(&chain.parts) {
        place.append_to(&mut frame, part.bytes as usize);
    }
    let is_own = frame.get(6..12).is_some_and(|from| from == wire.mac);
    Ok(if is_own { Bytes::copy_from(&frame).ok() } else { None })
}

/// Writes a frame to a chain that the cell offers.
///
/// # Errors
/// [`Lie`]: a part that the device must not write, one outside of the cell's lots, or too little room.
fn fill(memory: &CellMemory, chain: &Chain, frame: &[u8], frame_bytes_max: usize) -> Result<(), Lie> {
    if chain.bytes() < frame_bytes_max as u64 || !chain.parts.iter().all(|part| part.device_writes()) {
        return Err(Lie::Shape);
    }
    let mut rest = frame;
    for part in &chain.parts {
        let place = part.find(memory)?;
        let (now, later) = rest.split_at_checked(part.bytes as usize).unwrap_or((rest, &[]));
        place.write(0, now);
        rest = later;
    }
    Ok(())
}
