//! Functions at random: an input's bytes are what a card that lies shows, and what a driver asks it.
//!
//! The card's list of capabilities, its configuration space, the lengths of its base address registers and each answer of its registers
//! are the input's. A driver looks for its regions, starts it, gives it queues, rings, and reads its configuration at any offset.
//!
//! Whatever the card shows, no access lies outside of a base address register, and a doorbell lies in the region that the card named for
//! doorbells. The corpus is in `search/corpus`; how to look for longer is said in `gyre-mutate`.

use super::*;
use crate::{begin, finish};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::Pa;
use gyre_mutate::Input;
use gyre_pci::Registers;

const STEPS_MAX: usize = 40;
const CAPABILITIES_MAX: usize = 8;
const BARS: usize = 6;

/// Answers that are still to come; zeros behind them.
type Answers = Arc<SpinLock<Vec<u8>>>;

fn take(answers: &Answers, bytes: usize) -> u32 {
    let mut answers = answers.lock();
    (0..bytes).fold(0, |value, at| value | u32::from(answers.pop().unwrap_or(0)) << (8 * at))
}

/// The memory behind a base address register, whose every read is another answer.
#[derive(Clone)]
struct Bar {
    bytes: usize,
    answers: Answers,
}

impl Bar {
    fn check(&self, offset: usize, width: usize) {
        assert!(offset + width <= self.bytes, "{width} bytes at {offset} of {}", self.bytes);
    }

    fn read(&self, offset: usize, width: usize) -> u32 {
        self.check(offset, width);
        take(&self.answers, width)
    }
}

impl Registers for Bar {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn read8(&self, offset: usize) -> u8 {
        self.read(offset, 1) as u8
    }

    fn read16(&self, offset: usize) -> u16 {
        self.read(offset, 2) as u16
    }

    fn read32(&self, offset: usize) -> u32 {
        self.read(offset, 4)
    }

    fn write8(&self, offset: usize, _: u8) {
        self.check(offset, 1);
    }

    fn write16(&self, offset: usize, _: u16) {
        self.check(offset, 2);
    }

    fn write32(&self, offset: usize, _: u32) {
        self.check(offset, 4);
    }
}

/// A card that lies.
struct Liar {
    id: PciId,
    capabilities: Vec<(u8, usize)>,
    bars: [Option<usize>; BARS],
    config: Vec<u8>,
    answers: Answers,
}

impl Liar {
    fn new(input: &mut Input<'_>, answers: Answers) -> Liar {
        let device = if input.hits(8) { input.number() as u16 } else { DEVICE_BASE + 1 };
        let mut config: Vec<u8> = Vec::new();
        let mut capabilities = Vec::new();
        for _ in 0..input.below(CAPABILITIES_MAX) {
            let id = if input.hits(8) { input.byte() } else { CAPABILITY_VENDOR };
            let at = if input.hits(8) { input.number() as usize } else { config.len() };
            capabilities.push((id, at));
            let (kind, bar) = (input.byte() % 6, input.byte() % 8);
            config.extend([id, 0, 16, kind, bar, 0, 0, 0]);
            // where it begins, its length, and what follows
            (0..3).for_each(|_| config.extend((input.number() as u32).to_le_bytes()));
        }
        let bars = [0; BARS].map(|_: u8| (!input.hits(3)).then(|| 64 * (input.number() as usize % (1 << 14))));
        Liar { id: PciId { vendor: VENDOR, device, class: 0x0100 }, capabilities, bars, config, answers }
    }
}

impl PciFunction for Liar {
    type Registers = Bar;

    fn id(&self) -> PciId {
        self.id
    }

    fn read8(&self, offset: usize) -> u8 {
        self.config.get(offset).copied().unwrap_or(0xff)
    }

    fn read32(&self, offset: usize) -> u32 {
        (0..4).fold(0, |value, at| value | u32::from(self.read8(offset.saturating_add(at))) << (8 * at))
    }

    fn each_capability(&self, visit: &mut dyn FnMut(u8, usize)) {
        self.capabilities.iter().for_each(|(id, at)| visit(*id, *at));
    }

    fn bar(&self, index: u8) -> Result<Bar, DeviceError> {
        let bytes = self.bars.get(usize::from(index)).copied().flatten().ok_or(DeviceError::NoBar)?;
        Ok(Bar { bytes, answers: self.answers.clone() })
    }

    fn enable_bus_master(&self) {}

    fn attach_interrupt(&self, entry: u16, _: usize) -> Result<u32, DeviceError> {
        if entry < 8 { Ok(entry.into()) } else { Err(DeviceError::NoInterrupt) }
    }
}

fn ask(transport: &PciTransport<Liar>, input: &mut Input<'_>) {
    match input.byte() % 6 {
        0 => {
            if begin(transport, input.number()).is_ok() {
                finish(transport);
            }
        }
        1 => {
            let queue = input.number() as u16;
            let layout =
                QueueLayout { size: 64, descriptors: Pa(0x1_0000_1000), available: Pa(0x2000), used: Pa(0x3000) };
            let size = transport.queue_size_max(queue);
            if let Ok(doorbell) = transport.enable_queue(queue, layout, size) {
                assert!(transport.notify.holds(doorbell.offset, 2));
                transport.notify(doorbell);
            }
        }
        2 => _ = transport.config_u64(input.number() as usize),
        3 => _ = (transport.config_u8(input.number() as usize), transport.config_u16(input.number() as usize)),
        4 => _ = transport.attach_interrupt(input.number() as u16, 0),
        _ => transport.set_status(transport.status() | input.byte()),
    }
}

fn one(bytes: &[u8]) {
    // the second half of an input are answers, the last one first
    let (shown, answers) = bytes.split_at(bytes.len() / 2);
    let mut input = Input::new(shown);
    let card = Liar::new(&mut input, Arc::new(SpinLock::new(answers.to_vec())));
    let Ok(transport) = PciTransport::new(card) else { return };
    for _ in 0..STEPS_MAX {
        if input.is_over() {
            break;
        }
        ask(&transport, &mut input);
    }
}

#[test]
fn whatever_a_card_shows_no_access_lies_outside_of_its_registers() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pci/search/corpus");
    // three capabilities in two registers, then answers by which a queue is given and rung
    let card = [0, 3, 0, 0, 1, 4, 0, 64, 0, 0, 0, 2, 4, 128, 64, 4, 0, 0, 4, 4, 192, 64, 0, 2, 2, 2, 2, 0, 255, 2];
    let asks = [0, 255, 1, 0, 2, 4, 3, 1, 2, 4, 1, 1, 0, 1, 1, 2, 0, 3, 8, 5, 1, 0, 1, 0, 1, 2];
    let first = [&card[..], &asks, &[7; 56]].concat();
    gyre_mutate::run("virtio-pci", &corpus, &first, 20_000, one);
}
