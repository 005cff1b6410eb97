//! One core of a guest, and its stay on a core of the host.
//!
//! Protocol of use: [`Core::new`] makes it, [`enter`] runs it, [`Core::park`] comes before it runs on another core of the host. After an
//! exit its registers are plain fields: the caller reads and changes them, answers a port or register, or [raises](Core::raise) a fault.
//! Exits that concern nobody else (EFER, memory types, components of the extended state) are settled here.
//!
//! Left out: the way in (`entry.rs`), the words of an exit (`exit.rs`), the layout of the control block (`vmcb.rs`), registers that are
//! exchanged by hand (`registers.rs`), guests of several cores (`machine.rs`).

use super::entry::{self, Areas, Stay};
use super::exit::{Exit, Fault, Forbidden, port_access, violation};
use super::nested_table::NestedTable;
use super::options::{Interrupts, Options};
use super::permissions::may_be_opened;
use super::registers::OwnRegisters;
use super::start::Start;
use super::stop::note_left;
use super::vmcb::{Block, VIRTUAL_INTERRUPT, code, field};
use super::{Levels, levels};
use crate::core_local::this_core;
use crate::extended::Extended;
use crate::instructions::{cpuid, write_cr8};
use crate::user::UserContext;
use crate::{debug, interrupt_window, mark_work, now};
use gyre_platform::{OutOfMemory, Pa, Registers};

/// Why there is no guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoGuest {
    /// The machine has none; see [`levels`].
    NotOffered,
    /// No memory for its pages.
    OutOfMemory,
    /// This model-specific register cannot be opened to a guest.
    Forbidden {
        /// Its number.
        register: u32,
    },
}

impl From<OutOfMemory> for NoGuest {
    fn from(_: OutOfMemory) -> NoGuest {
        NoGuest::OutOfMemory
    }
}

/// The answer to a virtual interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// The guest takes it when it is entered and has its interrupts on.
    Waits,
    /// Another one waits still: post this one when that was taken.
    Busy,
}

/// One core of a guest while it is out: 32 KiB of pages, charged to who made it. It runs on any core of the host, one at a time;
/// [`Core::park`] before it changes.
pub struct Core {
    /// General registers, instruction pointer, flags, and the bases of FS and GS.
    pub registers: Registers,
    block: Block,
    extended: Extended,
    own: OwnRegisters,
    interrupts: Interrupts,
    rip_of_exit: u64,
    tells_next_rip: bool,
}

impl Core {
    /// Makes a core that has not run yet.
    ///
    /// # Errors
    /// [`NoGuest`].
    pub fn new(start: &Start, options: &Options) -> Result<Core, NoGuest> {
        if levels() == Levels::None {
            return Err(NoGuest::NotOffered);
        }
        if let Some(&register) = options.registers.iter().find(|register| !may_be_opened(**register)) {
            return Err(NoGuest::Forbidden { register });
        }
        Ok(Core {
            registers: registers_of(start),
            block: Block::new(start, options)?,
            extended: Extended::new()?,
            own: OwnRegisters::new(start),
            interrupts: options.interrupts,
            rip_of_exit: 0,
            tells_next_rip: cpuid(0x8000_000a, 0)[3] >> 3 & 1 == 1,
        })
    }

    /// Begins anew in this state, with the options that it was made with. The core that is to run it calls; nothing is allocated.
    pub(crate) fn restart(&mut self, start: &Start) {
        self.registers = registers_of(start);
        self.block.restart(start);
        self.extended.reset();
        self.own = OwnRegisters::new(start);
        self.rip_of_exit = 0;
    }

    /// The instruction for which it left.
    pub(crate) fn rip_of_exit(&self) -> u64 {
        self.rip_of_exit
    }

    /// Raises an NMI in the guest at its next entry; false if another event goes first, so that the caller tries again later.
    pub(crate) fn raise_nmi(&mut self) -> bool {
        let is_free = self.block.read_half(field::EVENT) & EVENT_VALID == 0;
        if is_free {
            self.block.write_half(field::EVENT, EVENT_VALID | EVENT_NMI | 2);
        }
        is_free
    }

    /// Saves the extended registers (FPU, SSE, AVX) from the host core's if they lie there. Must be called before another core enters.
    pub fn park(&mut self) {
        self.extended.park();
    }

    /// Exchanges the extended registers with those of a program: one that comes in as it is, or goes out again.
    pub fn exchange_extended(&mut self, context: &mut UserContext) {
        ::core::mem::swap(&mut self.extended, context.extended_mut());
    }

    /// The root of the guest's own page table; what it says is the guest's.
    pub fn page_root(&self) -> Pa {
        Pa(self.block.read(field::CR3))
    }

    /// Sets the number that RDTSCP puts into rcx.
    pub fn set_core_number(&mut self, number: u32) {
        self.own.core_number = u64::from(number);
    }

    /// Lets a virtual interrupt wait for the guest.
    pub fn post_interrupt(&mut self, vector: u8) -> Posted {
        let control = self.block.read_half(field::INTERRUPT_CONTROL);
        if control & VIRTUAL_INTERRUPT == VIRTUAL_INTERRUPT {
            return Posted::Busy;
        }
        self.block.write_half(field::INTERRUPT_VECTOR, u32::from(vector));
        self.block.write_half(field::INTERRUPT_CONTROL, control | VIRTUAL_INTERRUPT);
        Posted::Waits
    }

    /// Raises an exception in the guest at the instruction for which it left, instead of what it wanted.
    pub fn raise(&mut self, fault: Fault) {
        self.registers.rip = self.rip_of_exit;
        match fault {
            Fault::InvalidOpcode => self.raise_vector(6, None),
            Fault::GeneralProtection => self.raise_vector(13, Some(0)),
        }
    }

    fn raise_vector(&mut self, vector: u32, code: Option<u32>) {
        self.block.write_half(field::EVENT_CODE, code.unwrap_or(0));
        self.block.write_half(field::EVENT, EVENT_VALID | u32::from(code.is_some()) << 11 | EVENT_EXCEPTION | vector);
    }

    /// Answers a read of a port of `bytes`: the rest of rax is kept as the processor does it.
    pub fn answer_port(&mut self, bytes: u8, value: u32) {
        let rax = self.registers.rax;
        self.registers.rax = match bytes {
            1 => rax & !0xff | u64::from(value & 0xff),
            2 => rax & !0xffff | u64::from(value & 0xffff),
            _ => u64::from(value),
        };
    }

    /// Answers a read of a model-specific register.
    pub fn answer_register(&mut self, value: u64) {
        self.registers.rax = value & 0xffff_ffff;
        self.registers.rdx = value >> 32;
    }

    fn run(&mut self, root: u64) -> Stay {
        let (block, host_save, host_state) = self.block.addresses();
        let fields = &mut self.registers;
        for (at, value) in [
            (field::RAX, fields.rax),
            (field::RSP, fields.rsp),
            (field::RIP, fields.rip),
            (field::RFLAGS, fields.rflags),
            (field::FS_BASE, fields.fs_base),
            (field::GS_BASE, fields.gs_base),
            (field::NESTED_ROOT, root),
        ] {
            self.block.write(at, value);
        }
        self.extended.load();
        debug::rest();
        self.own.load();
        // SAFETY: a `Core` exists only if the processor has guests; its block holds it back from all but its table's memory and
        // the ports and registers of its options; the areas are its own pages.
        let stay = unsafe { entry::run(&Areas { block, host_save, host_state }, &mut self.registers) };
        self.own.leave();
        if self.interrupts == Interrupts::Direct {
            // SAFETY: the kernel takes interrupts of every priority.
            unsafe { write_cr8(0) };
        }
        mark_work(now());
        if stay == Stay::Over {
            self.fetch();
        }
        stay
    }

    fn fetch(&mut self) {
        let read = |at| self.block.read(at);
        let fields = &mut self.registers;
        fields.rax = read(field::RAX);
        fields.rsp = read(field::RSP);
        fields.rip = read(field::RIP);
        fields.rflags = read(field::RFLAGS);
        fields.fs_base = read(field::FS_BASE);
        fields.gs_base = read(field::GS_BASE);
        self.rip_of_exit = fields.rip;
    }

    /// Gives back to the guest an event whose delivery was cut short; a software interrupt is executed again by itself.
    fn keep_interrupted_event(&mut self) {
        let event = self.block.read_half(field::INTERRUPTED_EVENT);
        if event & EVENT_VALID == 0 || event & EVENT_TYPE == EVENT_SOFTWARE {
            return;
        }
        let is_interrupt = event & EVENT_TYPE == EVENT_EXCEPTION && event & EVENT_VECTOR >= EXCEPTIONS;
        let event = if is_interrupt { event & !EVENT_TYPE } else { event };
        self.forget_virtual(event);
        self.block.write_half(field::EVENT_CODE, self.block.read_half(field::INTERRUPTED_EVENT + 4));
        self.block.write_half(field::EVENT, event);
    }

    /// A virtual interrupt whose delivery has begun does not wait any more, also if the emulator says that it does.
    fn forget_virtual(&self, event: u32) {
        let control = self.block.read_half(field::INTERRUPT_CONTROL);
        let vector = self.block.read_half(field::INTERRUPT_VECTOR) & EVENT_VECTOR;
        if event & EVENT_TYPE == 0 && event & EVENT_VECTOR == vector {
            self.block.write_half(field::INTERRUPT_CONTROL, control & !VIRTUAL_INTERRUPT);
        }
    }

    /// Goes on behind the instruction for which the guest left.
    fn skip(&mut self, bytes: u64) {
        let told = if self.tells_next_rip { self.block.read(field::NEXT_RIP) } else { 0 };
        self.registers.rip = if told == 0 { self.registers.rip.wrapping_add(bytes) } else { told };
        self.block.write(field::INTERRUPT_SHADOW, 0);
    }

    /// Says why the guest left; `None` if that was dealt with and it goes on.
    fn deal_with_exit(&mut self) -> Option<Exit> {
        let number = self.block.read(field::EXIT_CODE) as u32;
        let (info, address) = (self.block.read(field::EXIT_INFO_1), self.block.read(field::EXIT_INFO_2));
        self.keep_interrupted_event();
        match number {
            code::INTERRUPT => return pending(),
            code::NMI => {
                note_left();
                return Some(Exit::Nmi);
            }
            code::VIOLATION => return Some(violation(info, address)),
            code::SHUTDOWN => return Some(Exit::Shutdown),
            code::VMMCALL => return self.deal_with_call(),
            code::REGISTER => return self.deal_with_register(info),
            code::XSETBV => return self.deal_with_components(),
            code::PORT => {
                self.registers.rip = address;
                self.block.write(field::INTERRUPT_SHADOW, 0);
                return Some(port_access(info, self.registers.rax));
            }
            code::HALT => {
                self.skip(1);
                return Some(Exit::Halt);
            }
            code::EXCEPTION..=code::EXCEPTION_LAST => return self.deal_with_exception(number - code::EXCEPTION, info),
            _ => {}
        }
        Some(forbidden(number).map_or(Exit::BadState { code: number }, Exit::Instruction))
    }

    /// A call of the guest's own programs is none.
    fn deal_with_call(&mut self) -> Option<Exit> {
        if self.block.privilege() != 0 {
            self.raise(Fault::InvalidOpcode);
            return None;
        }
        self.skip(3);
        Some(Exit::Call)
    }

    fn deal_with_exception(&mut self, vector: u32, info: u64) -> Option<Exit> {
        match vector {
            1 => self.raise_vector(vector, None),
            17 => self.raise_vector(vector, Some(info as u32)),
            18 => return Some(Exit::MachineCheck),
            _ => return Some(Exit::BadState { code: code::EXCEPTION + vector }),
        }
        None
    }

    fn deal_with_register(&mut self, info: u64) -> Option<Exit> {
        let number = self.registers.rcx as u32;
        let access = match info {
            0 => super::RegisterAccess::Read,
            _ => super::RegisterAccess::Write(self.registers.rdx << 32 | self.registers.rax & 0xffff_ffff),
        };
        self.skip(2);
        let Some(answer) = self.own.access(&self.block, number, access) else {
            return Some(Exit::Register { number, access });
        };
        match answer {
            Ok(Some(value)) => self.answer_register(value),
            Ok(None) => {}
            Err(fault) => self.raise(fault),
        }
        None
    }

    fn deal_with_components(&mut self) -> Option<Exit> {
        let value = self.registers.rdx << 32 | self.registers.rax & 0xffff_ffff;
        let may = self.block.privilege() == 0 && self.registers.rcx as u32 == 0 && self.own.set_components(value);
        if may {
            self.skip(3);
        } else {
            self.raise(Fault::GeneralProtection);
        }
        None
    }
}

/// Runs a guest's core on this core until it leaves. Interrupts of the host wait, or end the stay, as the core's options say; a stay
/// does not begin while events wait to be taken on this core.
pub fn enter(core: &mut Core, table: &NestedTable) -> Exit {
    enter_at(core, table.root())
}

/// [`enter`] by the physical address of a table's root: for one that grows while other cores are in.
pub(crate) fn enter_at(core: &mut Core, root: u64) -> Exit {
    // Each turn lets pending interrupts end the stay, so a guest does not keep the loop to itself.
    loop {
        if this_core().events.get() != 0 {
            return Exit::Interrupt;
        }
        if core.run(root) == Stay::Refused {
            note_left();
            return Exit::Nmi;
        }
        if let Some(exit) = core.deal_with_exit() {
            return exit;
        }
    }
}

/// Lets in the interrupt that ended the stay.
fn pending() -> Option<Exit> {
    interrupt_window();
    (this_core().events.get() != 0).then_some(Exit::Interrupt)
}

fn registers_of(start: &Start) -> Registers {
    let rest = Registers { rflags: 2, ..Registers::default() };
    match start {
        Start::Flat32(start) => Registers { rip: start.rip, rbx: start.rbx, ..rest },
        Start::LongMode(start) => Registers {
            rip: start.rip,
            rsp: start.rsp,
            rdi: start.argument,
            fs_base: start.fs_base,
            gs_base: start.gs_base,
            ..rest
        },
    }
}

const EVENT_VALID: u32 = 1 << 31;
const EVENT_VECTOR: u32 = 0xff;
const EVENT_TYPE: u32 = 7 << 8;
const EVENT_NMI: u32 = 2 << 8;
const EVENT_EXCEPTION: u32 = 3 << 8;
const EVENT_SOFTWARE: u32 = 4 << 8;
/// Vectors of exceptions: an emulator calls interrupts so too.
const EXCEPTIONS: u32 = 32;

fn forbidden(number: u32) -> Option<Forbidden> {
    Some(match number {
        code::DEBUG_READ..=code::DEBUG_WRITE_LAST => Forbidden::UseBreakpoints,
        code::VMRUN => Forbidden::EnterGuest,
        code::VMLOAD | code::VMSAVE => Forbidden::ExchangeState,
        code::STGI | code::CLGI => Forbidden::HoldInterrupts,
        code::SKINIT => Forbidden::StartTrusted,
        code::INVLPGA => Forbidden::DropTranslations,
        code::INVD | code::WBINVD => Forbidden::DropCaches,
        _ => return None,
    })
}
