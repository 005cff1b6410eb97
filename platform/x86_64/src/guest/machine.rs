//! A guest of several cores, and why it ends.
//!
//! Protocol of use: each of the host's cores that the guest has is in [`Machine::run`] with one core of the guest. If one of them ends,
//! or somebody [revokes](Machine::revoke) the guest, all leave; the first reason is the guest's, and is data for the log.
//!
//! The end is written before anybody is told. A core that enters meanwhile sees it: it says that it is inside before it looks.
//!
//! Left out: whose cores these are, and what becomes of memory and devices afterwards.

use super::core::{Core, enter};
use super::exit::{Exit, Fault, PortAccess, RegisterAccess, Touched};
use super::nested_table::NestedTable;
use super::stop::stop;
use crate::lock::SpinLock;
use crate::{core_index, idle, take_events, wake_core};
use ::core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_platform::{Access, CORES_MAX, Events, Pa};

/// Why a guest ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It was taken back.
    Revoked,
    /// It said so itself by a call.
    Left {
        /// The code that it gave.
        code: u64,
    },
    /// It touched memory that it was not granted.
    Violation {
        /// The guest's physical address.
        address: Pa,
        /// The access that it tried.
        access: Access,
        /// Program or processor.
        touched: Touched,
    },
    /// It could not deliver an exception.
    Shutdown,
    /// The hardware reported a fault of its own.
    MachineCheck,
    /// The processor refused its state.
    BadState {
        /// The processor's number of the reason.
        code: u32,
    },
}

/// The end of a guest, for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Why.
    pub why: End,
    /// The core of the host on which it showed.
    pub core: usize,
    /// The instruction of the guest there; 0 if it was revoked.
    pub rip: u64,
}

/// The host, as a guest of several cores finds it.
pub trait Service {
    /// Answers a call; the registers hold arguments and take the answer.
    fn on_guest_call(&mut self, core: &mut Core) -> Answer;
    /// Is told of events that came to the host's core meanwhile, before the guest goes on.
    fn on_guest_events(&mut self, events: Events) -> Answer;
}

/// Whether a guest goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It does.
    GoOn,
    /// It ends, with this code.
    Leave {
        /// The code.
        code: u64,
    },
}

/// A guest of several cores.
pub struct Machine {
    table: NestedTable,
    ended: SpinLock<Option<Ended>>,
    is_over: AtomicBool,
    /// Cores of the host that are in it, a bit each.
    inside: AtomicU64,
    exits: [AtomicU64; CORES_MAX],
}

impl Machine {
    /// Makes one from the memory that it is granted.
    pub fn new(table: NestedTable) -> Machine {
        Machine {
            table,
            ended: SpinLock::new(None),
            is_over: AtomicBool::new(false),
            inside: AtomicU64::new(0),
            exits: [const { AtomicU64::new(0) }; CORES_MAX],
        }
    }

    /// Runs one core of it on this core until the guest ends, and returns why. Ports that it is not given read as ones and take
    /// nothing; of model-specific registers that it is not given see [`answer_register`].
    pub fn run(&self, core: &mut Core, service: &mut dyn Service) -> Ended {
        let bit = 1u64 << core_index();
        self.inside.fetch_or(bit, Ordering::SeqCst);
        let ended = loop {
            if self.is_over.load(Ordering::SeqCst) {
                break self.ended();
            }
            let exit = enter(core, &self.table);
            self.exits[core_index()].fetch_add(1, Ordering::Relaxed);
            if let Some(why) = deal_with_exit(exit, core, service) {
                self.end(Ended { why, core: core_index(), rip: core.registers.rip });
            }
        };
        core.park();
        self.inside.fetch_and(!bit, Ordering::SeqCst);
        ended.unwrap_or(Ended { why: End::Revoked, core: core_index(), rip: 0 })
    }

    /// Ends it from outside: all its cores leave. They are out when [`Machine::is_out`] says so.
    pub fn revoke(&self) {
        self.end(Ended { why: End::Revoked, core: core_index(), rip: 0 });
    }

    /// True if no core of the host is in it.
    pub fn is_out(&self) -> bool {
        self.inside.load(Ordering::SeqCst) == 0
    }

    /// Why it ended; `None` while it lives.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.with(|ended| *ended)
    }

    /// How often its cores have left.
    pub fn exits(&self) -> u64 {
        self.exits.iter().map(|exits| exits.load(Ordering::Relaxed)).sum()
    }

    /// Gives its memory table back, for changes or to be dropped; `None` while a core is in it.
    pub fn table(&mut self) -> Option<&mut NestedTable> {
        self.is_out().then_some(&mut self.table)
    }

    /// The first end counts. It is there before anybody is told.
    fn end(&self, why: Ended) {
        self.ended.with(|ended| *ended = ended.or(Some(why)));
        self.is_over.store(true, Ordering::SeqCst);
        let inside = self.inside.load(Ordering::SeqCst);
        for core in (0..CORES_MAX).filter(|core| inside >> core & 1 == 1 && *core != core_index()) {
            stop(core);
            // One that halts outside waits for an interrupt.
            wake_core(core);
        }
    }
}

fn deal_with_exit(exit: Exit, core: &mut Core, service: &mut dyn Service) -> Option<End> {
    match settle(exit, core)? {
        Exit::Call => end_of(service.on_guest_call(core)),
        Exit::Interrupt => end_of(service.on_guest_events(take_events())),
        Exit::Halt => {
            idle();
            end_of(service.on_guest_events(take_events()))
        }
        other => end_by(other),
    }
}

/// Deals with an exit that concerns only the guest: ports and registers that it is not given, instructions that no guest may execute. Returns
/// any other one.
pub fn settle(exit: Exit, core: &mut Core) -> Option<Exit> {
    match exit {
        Exit::Nmi => None,
        Exit::Port { bytes, access, .. } => {
            if access == PortAccess::Read {
                core.answer_port(bytes, u32::MAX);
            }
            None
        }
        Exit::Register { number, access } => {
            answer_register(core, number, access);
            None
        }
        Exit::Instruction(_) => {
            core.raise(Fault::InvalidOpcode);
            None
        }
        other => Some(other),
    }
}

/// The end of a guest that left in this way; `None` if it can go on.
pub fn end_by(exit: Exit) -> Option<End> {
    Some(match exit {
        Exit::Violation { address, access, touched } => End::Violation { address, access, touched },
        Exit::Shutdown => End::Shutdown,
        Exit::MachineCheck => End::MachineCheck,
        Exit::BadState { code } => End::BadState { code },
        _ => return None,
    })
}

fn end_of(answer: Answer) -> Option<End> {
    match answer {
        Answer::GoOn => None,
        Answer::Leave { code } => Some(End::Left { code }),
    }
}

const APIC_BASE: u32 = 0x1b;
/// Its address after reset, and that it is on.
const APIC_BASE_VALUE: u64 = 0xfee0_0000 | 1 << 11;
/// The mark of the boot core, and the mode of x2APIC, which stays as it is.
const APIC_BASE_FREE: u64 = 1 << 8 | 1 << 10;
const GUEST_CONTROL: u32 = 0xc001_0114;
/// Guests are switched off, and stay so: a kernel that asks finds that it has none.
const NO_GUESTS: u64 = 1 << 4 | 1 << 3;

/// True for an access that [`answer_register`] answers otherwise than by a fault.
pub(crate) fn answers_register(number: u32, access: RegisterAccess) -> bool {
    match (number, access) {
        (APIC_BASE | GUEST_CONTROL, RegisterAccess::Read) => true,
        (APIC_BASE, RegisterAccess::Write(value)) => value & !APIC_BASE_FREE == APIC_BASE_VALUE,
        _ => false,
    }
}

/// The APIC stays where reset puts it, and there are no guests in a guest; others do not exist.
pub fn answer_register(core: &mut Core, number: u32, access: RegisterAccess) {
    match (number, access) {
        (APIC_BASE, RegisterAccess::Read) => core.answer_register(APIC_BASE_VALUE),
        (APIC_BASE, RegisterAccess::Write(value)) if value & !APIC_BASE_FREE == APIC_BASE_VALUE => {}
        (GUEST_CONTROL, RegisterAccess::Read) => core.answer_register(NO_GUESTS),
        _ => core.raise(Fault::GeneralProtection),
    }
}
