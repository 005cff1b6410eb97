//! The control block of a guest's core: its state while it is out, and what the processor holds back (APM vol. 2, appendix B).
//!
//! It lies at the start of eight pages, with the areas that the processor needs beside it: one for the host's state that the processor
//! saves, one for the rest of it, three for the map of ports, two for that of registers. Offsets are the manual's.
//!
//! All numbers of the hardware stand here; `core.rs` knows them by name.
//!
//! Left out: bits of the two maps (`permissions.rs`), states at the start (`start.rs`).

use super::options::{Halt, Interrupts, Options};
use super::permissions::{
    EXCHANGED, PORT_MAP_BYTES, Ports, READABLE, REGISTER_MAP_BYTES, Way, may_be_opened, port_bit, register_bit,
};
use super::start::{FLAT_32, LONG_64, LongMode, Segments, Start};
use crate::dma::DmaBuffer;
use gyre_platform::{OutOfMemory, PAGE_BYTES};

/// The area in which the processor saves the host by itself.
const HOST_SAVE: usize = PAGE_BYTES;
/// The area of the part of the host that is saved by an instruction.
const HOST_STATE: usize = 2 * PAGE_BYTES;
const PORT_MAP: usize = 3 * PAGE_BYTES;
const REGISTER_MAP: usize = PORT_MAP + PORT_MAP_BYTES;
const BYTES: usize = REGISTER_MAP + REGISTER_MAP_BYTES;

/// Offsets of fields that are used while the guest lives.
pub(super) mod field {
    pub(in super::super) const INTERRUPT_CONTROL: usize = 0x60;
    pub(in super::super) const INTERRUPT_VECTOR: usize = 0x64;
    pub(in super::super) const INTERRUPT_SHADOW: usize = 0x68;
    pub(in super::super) const EXIT_CODE: usize = 0x70;
    pub(in super::super) const EXIT_INFO_1: usize = 0x78;
    pub(in super::super) const EXIT_INFO_2: usize = 0x80;
    pub(in super::super) const INTERRUPTED_EVENT: usize = 0x88;
    pub(in super::super) const EVENT: usize = 0xa8;
    pub(in super::super) const EVENT_CODE: usize = 0xac;
    pub(in super::super) const NESTED_ROOT: usize = 0xb0;
    pub(in super::super) const NEXT_RIP: usize = 0xc8;
    pub(in super::super) const FS_BASE: usize = 0x448;
    pub(in super::super) const GS_BASE: usize = 0x458;
    pub(in super::super) const PRIVILEGE: usize = 0x4cb;
    pub(in super::super) const EFER: usize = 0x4d0;
    pub(in super::super) const CR3: usize = 0x550;
    pub(in super::super) const CR0: usize = 0x558;
    pub(in super::super) const DR6: usize = 0x568;
    pub(in super::super) const RFLAGS: usize = 0x570;
    pub(in super::super) const RIP: usize = 0x578;
    pub(in super::super) const RSP: usize = 0x5d8;
    pub(in super::super) const RAX: usize = 0x5f8;
    pub(in super::super) const PAT: usize = 0x668;
}

const HELD_DEBUG: usize = 0x04;
const HELD_EXCEPTIONS: usize = 0x08;
const HELD: usize = 0x0c;
const PORT_MAP_ADDRESS: usize = 0x40;
const REGISTER_MAP_ADDRESS: usize = 0x48;
const ADDRESS_SPACE: usize = 0x58;
const FORGET_TRANSLATIONS: usize = 0x5c;
const NESTED_PAGING: usize = 0x90;
/// The state of the guest, and its end.
const STATE: usize = 0x400;
const STATE_END: usize = 0x6a0;
const ES: usize = 0x400;
const CS: usize = 0x410;
const SS: usize = 0x420;
const DS: usize = 0x430;
const FS: usize = 0x440;
const GS: usize = 0x450;
const GDTR: usize = 0x460;
const LDTR: usize = 0x470;
const IDTR: usize = 0x480;
const TR: usize = 0x490;
const CR4: usize = 0x548;
const DR7: usize = 0x560;
const STAR: usize = 0x600;
const LSTAR: usize = 0x608;
const FLAG_MASK: usize = 0x618;

/// SVME: the processor refuses a guest without it.
pub(super) const EFER_GUEST: u64 = 1 << 12;
/// SCE, LME, LMA, NXE.
const EFER_LONG: u64 = 1 | 1 << 8 | 1 << 10 | 1 << 11;
/// PE, MP, ET, NE, WP, AM, PG.
const CR0_LONG: u64 = 0x8005_0033;
/// The memory types of reset.
const PAT_RESET: u64 = 0x0007_0406_0007_0406;

/// In [`field::INTERRUPT_CONTROL`]: a virtual interrupt is wanted, whatever the guest's task priority.
pub(super) const VIRTUAL_INTERRUPT: u32 = 1 << 8 | 1 << 20;
/// In the same: the interrupt flag of the host decides about physical interrupts, not the guest's.
const INTERRUPTS_MASKED: u32 = 1 << 24;

/// Reads and writes of DR0 to DR3: breakpoints on addresses would outlive the guest.
const DEBUG_REGISTERS: u32 = 0x000f_000f;
/// Debug, alignment check and machine check. The first two, met while they are delivered, would keep a core in its microcode for ever.
const EXCEPTIONS: u32 = 1 << 1 | 1 << 17 | 1 << 18;

/// Exit codes; those from [`code::INTERRUPT`] on are also the numbers of bits that ask for them, from 0.
pub(super) mod code {
    pub(in super::super) const DEBUG_READ: u32 = 0x20;
    pub(in super::super) const DEBUG_WRITE_LAST: u32 = 0x3f;
    pub(in super::super) const EXCEPTION: u32 = 0x40;
    pub(in super::super) const EXCEPTION_LAST: u32 = 0x5f;
    pub(in super::super) const INTERRUPT: u32 = 0x60;
    pub(in super::super) const NMI: u32 = 0x61;
    pub(in super::super) const INVD: u32 = 0x76;
    pub(in super::super) const HALT: u32 = 0x78;
    pub(in super::super) const INVLPGA: u32 = 0x7a;
    pub(in super::super) const PORT: u32 = 0x7b;
    pub(in super::super) const REGISTER: u32 = 0x7c;
    pub(in super::super) const SHUTDOWN: u32 = 0x7f;
    pub(in super::super) const VMRUN: u32 = 0x80;
    pub(in super::super) const VMMCALL: u32 = 0x81;
    pub(in super::super) const VMLOAD: u32 = 0x82;
    pub(in super::super) const VMSAVE: u32 = 0x83;
    pub(in super::super) const STGI: u32 = 0x84;
    pub(in super::super) const CLGI: u32 = 0x85;
    pub(in super::super) const SKINIT: u32 = 0x86;
    pub(in super::super) const WBINVD: u32 = 0x89;
    pub(in super::super) const XSETBV: u32 = 0x8d;
    pub(in super::super) const VIOLATION: u32 = 0x400;
}

/// Reasons for which every guest leaves.
const ALWAYS: [u32; 15] = [
    code::NMI,
    code::INVD,
    code::INVLPGA,
    code::PORT,
    code::REGISTER,
    code::SHUTDOWN,
    code::VMRUN,
    code::VMMCALL,
    code::VMLOAD,
    code::VMSAVE,
    code::STGI,
    code::CLGI,
    code::SKINIT,
    code::WBINVD,
    code::XSETBV,
];

/// The pages of one core of a guest.
pub(super) struct Block(DmaBuffer);

impl Block {
    /// Makes the block of a core that has not run yet.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn new(start: &Start, options: &Options) -> Result<Block, OutOfMemory> {
        let block = Block(DmaBuffer::allocate(BYTES)?);
        block.hold_back(options);
        block.open(options.ports, options.registers);
        block.begin(start);
        Ok(block)
    }

    /// Forgets the state and the pending events of the guest's core, and begins anew.
    pub(super) fn restart(&self, start: &Start) {
        let pending = [field::INTERRUPT_SHADOW, field::INTERRUPTED_EVENT, field::EVENT];
        (STATE..STATE_END).step_by(8).chain(pending).for_each(|at| self.write(at, 0));
        let control = self.read_half(field::INTERRUPT_CONTROL);
        self.write_half(field::INTERRUPT_CONTROL, control & INTERRUPTS_MASKED);
        self.begin(start);
    }

    fn begin(&self, start: &Start) {
        match start {
            Start::LongMode(start) => self.start_in_long_mode(start),
            Start::Flat32(start) => {
                self.set_segments(&FLAT_32);
                self.write(field::CR0, 0x11);
                self.write(field::EFER, EFER_GUEST);
                self.write(field::RIP, start.rip);
            }
        }
        self.write(field::PAT, PAT_RESET);
        self.write(DR7, 0x400);
        self.write(field::DR6, 0xffff_0ff0);
        self.write(field::RFLAGS, 2);
    }

    fn start_in_long_mode(&self, start: &LongMode) {
        self.set_segments(&LONG_64);
        self.write(field::CR0, CR0_LONG);
        self.write(field::CR3, start.root.0);
        self.write(CR4, cr4_of_start());
        self.write(field::EFER, EFER_GUEST | EFER_LONG);
        for (at, table) in [(GDTR, start.gdt), (IDTR, start.idt)] {
            self.0.write_u32(at + 4, u32::from(table.limit));
            self.write(at + 8, table.base);
        }
        self.write(STAR, start.star);
        self.write(LSTAR, start.lstar);
        self.write(FLAG_MASK, start.flag_mask);
    }

    fn set_segments(&self, segments: &Segments) {
        let data = (segments.data, segments.data_rights, u32::MAX);
        let places = [
            (ES, data),
            (CS, (segments.code, segments.code_rights, u32::MAX)),
            (SS, data),
            (DS, data),
            (FS, (0, segments.data_rights, u32::MAX)),
            (GS, (0, segments.data_rights, u32::MAX)),
            (LDTR, (0, 0x82, 0xffff)),
            (TR, (0, 0x8b, 0x67)),
        ];
        for (at, (selector, rights, limit)) in places {
            self.0.write_u16(at, selector);
            self.0.write_u16(at + 2, rights);
            self.0.write_u32(at + 4, limit);
        }
    }

    fn hold_back(&self, options: &Options) {
        let bit = |code: u32| 1u64 << (code - code::INTERRUPT);
        let mut held = ALWAYS.iter().fold(0, |held, code| held | bit(*code));
        if options.interrupts == Interrupts::Held {
            held |= bit(code::INTERRUPT);
            self.0.write_u32(field::INTERRUPT_CONTROL, INTERRUPTS_MASKED);
        }
        if options.halt == Halt::Leaves {
            held |= bit(code::HALT);
        }
        self.0.write_u32(HELD_DEBUG, DEBUG_REGISTERS);
        self.0.write_u32(HELD_EXCEPTIONS, EXCEPTIONS);
        self.0.write_u32(HELD, held as u32);
        self.0.write_u32(HELD + 4, (held >> 32) as u32);
        self.write(PORT_MAP_ADDRESS, self.0.pa().0 + PORT_MAP as u64);
        self.write(REGISTER_MAP_ADDRESS, self.0.pa().0 + REGISTER_MAP as u64);
        // One number for all guests: each entry forgets what was translated under it.
        self.0.write_u32(ADDRESS_SPACE, 1);
        self.0.write_u8(FORGET_TRANSLATIONS, 1);
        self.write(NESTED_PAGING, 1);
    }

    fn open(&self, ports: &[Ports], registers: &[u32]) {
        for at in (PORT_MAP..BYTES).step_by(8) {
            self.write(at, u64::MAX);
        }
        for port in ports.iter().flat_map(|range| range.first..=range.last) {
            let (byte, bit) = port_bit(port);
            self.clear_bit(PORT_MAP + byte, bit);
        }
        let listed = registers.iter().filter(|register| may_be_opened(**register));
        for register in EXCHANGED.iter().chain(listed) {
            self.open_register(*register, Way::Read);
            self.open_register(*register, Way::Write);
        }
        READABLE.iter().for_each(|register| self.open_register(*register, Way::Read));
    }

    fn open_register(&self, register: u32, way: Way) {
        if let Some((byte, bit)) = register_bit(register, way) {
            self.clear_bit(REGISTER_MAP + byte, bit);
        }
    }

    fn clear_bit(&self, at: usize, bit: u8) {
        self.0.write_u8(at, self.0.read_u8(at) & !bit);
    }

    /// Physical addresses of the block itself, of the processor's area for the host, and of the area for the rest of the host.
    pub(super) fn addresses(&self) -> (u64, u64, u64) {
        let start = self.0.pa().0;
        (start, start + HOST_SAVE as u64, start + HOST_STATE as u64)
    }

    /// Reads a field of 8 bytes.
    #[inline(always)]
    pub(super) fn read(&self, at: usize) -> u64 {
        self.0.read_u64(at)
    }

    /// Reads a field of 4 bytes.
    #[inline(always)]
    pub(super) fn read_half(&self, at: usize) -> u32 {
        self.0.read_u32(at)
    }

    /// Writes a field of 8 bytes.
    #[inline(always)]
    pub(super) fn write(&self, at: usize, value: u64) {
        self.0.write_u64(at, value);
    }

    /// Writes a field of 4 bytes.
    #[inline(always)]
    pub(super) fn write_half(&self, at: usize, value: u32) {
        self.0.write_u32(at, value);
    }

    /// The privilege level at which the guest was.
    pub(super) fn privilege(&self) -> u8 {
        self.0.read_u8(field::PRIVILEGE)
    }
}

/// PAE, PGE, OSFXSR, OSXMMEXCPT, and OSXSAVE if there is XSAVE. Pages of user code stay reachable: a program may come in as it is.
fn cr4_of_start() -> u64 {
    let has_xsave = crate::extended::components() != 0;
    1 << 5 | 1 << 7 | 1 << 9 | 1 << 10 | u64::from(has_xsave) << 18
}
