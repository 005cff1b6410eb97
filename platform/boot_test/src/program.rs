//! Small programs in assembly and what is needed to run them.

use gyre_platform::{Exit, MapFlags, PAGE_BYTES, Trap, Va};
use gyre_x86_64::{Frame, PageTable, UserContext, clear_timer, cycles_per_ms, enter_user, now, set_timer, take_events};

/// How often a program is entered before it counts as one that does not end. Counted, as a pause of the host is one entry.
const ENTRIES_MAX: u32 = 200;

/// A function that [`program!`] defines.
pub type Code = fn() -> &'static [u8];

/// The address at which programs begin.
pub const CODE: u64 = 0x40_0000;
/// A writable page.
pub const DATA: u64 = 0x50_0000;
/// Top of a stack of one page.
pub const STACK_TOP: u64 = 0x7000_0000_0000;

/// Defines a function that returns the machine code of a program.
#[macro_export]
macro_rules! program {
    ($name:ident, $($line:literal),+ $(,)?) => {
        core::arch::global_asm!(
            concat!(".section .rodata.", stringify!($name), ", \"a\""),
            concat!(".globl program_", stringify!($name), ", program_", stringify!($name), "_end"),
            concat!("program_", stringify!($name), ":"),
            $($line,)+
            concat!("program_", stringify!($name), "_end:"),
            ".text",
        );
        fn $name() -> &'static [u8] {
            unsafe extern "C" {
                #[link_name = concat!("program_", stringify!($name))]
                static START: u8;
                #[link_name = concat!("program_", stringify!($name), "_end")]
                static END: u8;
            }
            let (start, end) = (&raw const START, &raw const END);
            // SAFETY: the assembler put the program between the two.
            unsafe { core::slice::from_raw_parts(start, end as usize - start as usize) }
        }
    };
}

program!(spin, "2: jmp 2b");

/// A program that does nothing for ever.
pub fn endless() -> &'static [u8] {
    spin()
}

/// A program in an address space of its own.
pub struct Process {
    /// Its thread.
    pub context: UserContext,
    /// Its pages.
    pub table: PageTable,
    /// Its writable page.
    pub data: Frame,
    _code: Frame,
    _stack: Frame,
}

impl Process {
    /// Loads a program.
    pub fn new(code: &[u8]) -> Process {
        let mut table = PageTable::new().expect("memory");
        let frame = Frame::allocate(0).expect("memory");
        frame.write_shared(0, code);
        table.map(Va(CODE), frame.pa(), MapFlags::USER | MapFlags::EXECUTE).expect("free");
        let data = Frame::allocate(0).expect("memory");
        table.map(Va(DATA), data.pa(), MapFlags::USER | MapFlags::WRITE).expect("free");
        let stack = Frame::allocate(0).expect("memory");
        let bottom = STACK_TOP - PAGE_BYTES as u64;
        table.map(Va(bottom), stack.pa(), MapFlags::USER | MapFlags::WRITE).expect("free");
        let mut context = UserContext::new().expect("memory");
        context.registers.rip = CODE;
        context.registers.rsp = STACK_TOP - 64;
        Process { context, table, data, _code: frame, _stack: stack }
    }

    /// Runs until something but an interrupt happens; gives up on a program that was interrupted [`ENTRIES_MAX`] times, 5 ms each.
    pub fn run(&mut self) -> Trap {
        self.run_exit().trap
    }

    /// As [`Process::run`], with the time stamp.
    pub fn run_exit(&mut self) -> Exit {
        let mut entries = 0;
        loop {
            set_timer(now() + 5 * cycles_per_ms());
            let exit = enter_user(&mut self.context, &self.table.root());
            clear_timer();
            take_events();
            entries += 1;
            if exit.trap != Trap::Interrupt || entries >= ENTRIES_MAX {
                return exit;
            }
        }
    }
}
