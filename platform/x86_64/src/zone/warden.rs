//! The warden of one core of a walled zone: the supervisor's code that enters the zone's core and comes back when the zone leaves its wall.
//!
//! It runs on a core of the pool that no engine has, on a stack and with a block of its own, in the parking loop's crossing table. So it takes
//! no lock, no memory and no interrupt, and logs nothing: the supervisor reads what it noted. In normal work of a zone nothing leaves but
//! calls, and accesses to interrupt controllers behind the wall.
//!
//! Protocol of use: the supervisor gets it ready ([`Wall::expect_core`]), then sends a core by the parking loop or lets the zone call one.
//! From the parking loop: [`gyre_warden`]. Back there: when the zone's core leaves, when the zone broke out, or when the supervisor says so.

use super::breach::{Breach, Deed};
use super::parking;
use super::wall::Wall;
use super::wall_apic::{self, Ruling};
use super::wall_calls::{CALL_CORE, Called, DONE, LEAVE, ON_ITS_WAY, REFUSED, RING};
use super::warden_code::{self, NMI_CAME};
use crate::apic;
use crate::core_local::CoreBlock;
use crate::guest::{self, Exit, LongMode, PortAccess, RegisterAccess, Start, enter_at};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use gyre_platform::{Access, Pa};

const STACK_BYTES: usize = 16 << 10;

/// An order: leave the zone.
const STOP: u32 = 1;
/// An order: come out once, so that what the core remembers of the nested table is forgotten.
const COME_OUT: u32 = 2;
/// In a core's word of `guest/stop.rs`: it is to leave its guest.
const LEAVE_GUEST: u64 = 1;

/// A core's warden. It lies in frames of its own.
#[repr(C, align(4096))]
pub(super) struct Warden {
    block: CoreBlock,
    stack: UnsafeCell<[u8; STACK_BYTES]>,
    /// The zone's core. Only the core that runs the warden opens it.
    core: UnsafeCell<guest::Core>,
    wall: *const Wall,
    slot: usize,
    orders: AtomicU32,
    is_inside: AtomicBool,
    exits: AtomicU64,
    /// The zone's instruction at which an order to stop found the core; 0 if none has.
    stopped_at: AtomicU64,
}

/// The step after an exit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Leave,
}

impl Warden {
    /// Makes the warden of a slot; nobody is in it.
    pub(super) fn new(wall: *const Wall, slot: usize, core: guest::Core) -> Warden {
        Warden {
            block: CoreBlock::new(0),
            stack: UnsafeCell::new([0; STACK_BYTES]),
            core: UnsafeCell::new(core),
            wall,
            slot,
            orders: AtomicU32::new(0),
            is_inside: AtomicBool::new(false),
            exits: AtomicU64::new(0),
            stopped_at: AtomicU64::new(0),
        }
    }

    /// The end of its stack.
    pub(super) fn stack_end(&self) -> u64 {
        self.stack.get() as u64 + STACK_BYTES as u64
    }

    /// True if a core is in it that takes NMIs.
    pub(super) fn is_inside(&self) -> bool {
        self.is_inside.load(Ordering::Acquire)
    }

    /// Counts how often the zone has left its wall here.
    pub(super) fn exits(&self) -> u64 {
        self.exits.load(Ordering::Acquire)
    }

    /// The zone's instruction at which the core was stopped, if it was.
    pub(super) fn stopped_at(&self) -> Option<u64> {
        Some(self.stopped_at.load(Ordering::Acquire)).filter(|place| *place != 0)
    }

    /// Forgets former orders: another core is about to come.
    pub(super) fn get_ready(&self) {
        self.stopped_at.store(0, Ordering::Relaxed);
        self.orders.store(0, Ordering::Relaxed);
        self.block.leave_guest.store(0, Ordering::Release);
    }

    /// Orders the core out for good, once an NMI tells it.
    pub(super) fn order_stop(&self) {
        self.order(STOP);
    }

    /// Orders the core out once, as soon as an NMI tells it.
    pub(super) fn order_out(&self) {
        self.order(COME_OUT);
    }

    fn order(&self, order: u32) {
        self.orders.fetch_or(order, Ordering::AcqRel);
        self.block.leave_guest.fetch_or(LEAVE_GUEST, Ordering::SeqCst);
    }

    fn wall(&self) -> &Wall {
        // SAFETY: a wall outlives its wardens and the stay of every core in them.
        unsafe { &*self.wall }
    }

    /// Holds the zone's core until it leaves. Each stay ends by the zone's deed, or by an order of the supervisor.
    fn hold(&self, core: &mut guest::Core) {
        let wall = self.wall();
        loop {
            if self.orders.load(Ordering::Acquire) & STOP != 0 || wall.breach.is_there() {
                self.stopped_at.store(core.registers.rip, Ordering::Release);
                return;
            }
            let exit = enter_at(core, wall.root());
            self.exits.fetch_add(1, Ordering::Release);
            if self.deal_with_exit(core, exit) == Next::Leave {
                return;
            }
            self.pass_nmi(core);
        }
    }

    /// An NMI that no order has sent is the zone's own.
    fn pass_nmi(&self, core: &mut guest::Core) {
        let word = &self.block.leave_guest;
        if word.load(Ordering::Acquire) & NMI_CAME == 0 {
            return;
        }
        let is_order = self.orders.fetch_and(!COME_OUT, Ordering::AcqRel) != 0;
        if is_order || core.raise_nmi() {
            word.fetch_and(!NMI_CAME, Ordering::AcqRel);
        }
    }

    fn deal_with_exit(&self, core: &mut guest::Core, exit: Exit) -> Next {
        match exit {
            Exit::Nmi | Exit::Interrupt | Exit::Halt => Next::GoOn,
            Exit::Call => self.answer_call(core),
            Exit::Register { number, access } => self.answer_register(core, number, access),
            Exit::Port { port, access: PortAccess::Read | PortAccess::Write(_) | PortAccess::String, .. } => {
                self.end(core, Deed::Port, u64::from(port))
            }
            Exit::Violation { address, access, .. } => self.end(core, deed_of(access), address.0),
            Exit::Instruction(_) => self.end(core, Deed::Instruction, 0),
            Exit::Shutdown => self.end(core, Deed::Shutdown, 0),
            Exit::MachineCheck => self.end(core, Deed::MachineCheck, 0),
            Exit::BadState { code } => self.end(core, Deed::State, u64::from(code)),
        }
    }

    fn end(&self, core: &guest::Core, deed: Deed, number: u64) -> Next {
        self.wall().note(Breach { deed, number, rip: core.rip_of_exit(), slot: self.slot as u32 }, self.slot);
        Next::Leave
    }

    fn answer_call(&self, core: &mut guest::Core) -> Next {
        let (number, argument) = (core.registers.rax, core.registers.rdi);
        core.registers.rax = match number {
            LEAVE => return Next::Leave,
            CALL_CORE => answer_to(self.wall().call_core(argument)),
            RING => {
                self.wall().ring();
                DONE
            }
            _ => REFUSED,
        };
        Next::GoOn
    }

    fn answer_register(&self, core: &mut guest::Core, number: u32, access: RegisterAccess) -> Next {
        if !(wall_apic::FIRST..=wall_apic::LAST).contains(&number) {
            let is_write = matches!(access, RegisterAccess::Write(_));
            let deed = if is_write { Deed::WriteRegister } else { Deed::ReadRegister };
            return match guest::answers_register(number, access) {
                true => {
                    guest::answer_register(core, number, access);
                    Next::GoOn
                }
                false => self.end(core, deed, u64::from(number)),
            };
        }
        let ruling = match access {
            RegisterAccess::Read => wall_apic::read(number),
            RegisterAccess::Write(value) => wall_apic::write(number, value),
        };
        match ruling {
            Ruling::Read(register) => core.answer_register(u64::from(apic::read_for_zone(register))),
            Ruling::Write(register, value) => apic::write_for_zone(register, value),
            Ruling::SendHere(command) => apic::command_for_zone(0, command),
            Ruling::Send { target, command } => self.wall().send(target, command),
            Ruling::Breach(deed) => return self.end(core, deed, said(number, deed, access)),
        }
        Next::GoOn
    }

    /// The state in which the zone's core begins: that of a loader the first time, later what the zone wrote in its box.
    fn start(&self) -> Start {
        let wall = self.wall();
        if let Some(first) = wall.take_first(self.slot) {
            return Start::Flat32(first);
        }
        let place = wall.place(self.slot);
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Start::LongMode(LongMode {
            root: Pa(word(&place.root)),
            rip: word(&place.entry),
            rsp: word(&place.stack),
            argument: word(&place.argument),
            gdt: guest::DescriptorTable::default(),
            idt: guest::DescriptorTable::default(),
            star: 0,
            lstar: 0,
            flag_mask: 0,
            fs_base: 0,
            gs_base: 0,
        })
    }
}

fn answer_to(called: Called) -> u64 {
    match called {
        Called::Coming => DONE,
        Called::OnItsWay => ON_ITS_WAY,
        Called::Nobody => REFUSED,
    }
}

/// The number of a deed at an interrupt controller: the command itself, or the register.
fn said(number: u32, deed: Deed, access: RegisterAccess) -> u64 {
    match access {
        RegisterAccess::Write(value) if deed == Deed::Command => value,
        _ => u64::from(number),
    }
}

fn deed_of(access: Access) -> Deed {
    match access {
        Access::Read => Deed::Read,
        Access::Write => Deed::Write,
        Access::Execute => Deed::Execute,
    }
}

/// A core that the parking loop sent comes in; the argument is the address of its warden.
pub(super) extern "C" fn gyre_warden(argument: u64) -> ! {
    // SAFETY: the supervisor gave this core the address, and keeps the warden until the core is back.
    let warden = unsafe { &*(argument as *const Warden) };
    let block = &warden.block;
    block.this.set(&raw const *block as u64);
    // SAFETY: the block is this warden's, and the core its only one.
    unsafe { warden_code::settle(&raw const *block as u64) };
    warden.is_inside.store(true, Ordering::Release);
    // SAFETY: this core is the only one in the warden.
    let core = unsafe { &mut *warden.core.get() };
    core.restart(&warden.start());
    warden.hold(core);
    core.park();
    warden.wall().tell_parked(warden.slot);
    warden.is_inside.store(false, Ordering::Release);
    match parking::parking() {
        // SAFETY: the loop's own address; nothing of the warden is in use any more.
        Some(parking) => unsafe { warden_code::leave(parking.way_back_held()) },
        None => crate::instructions::halt_forever(),
    }
}
