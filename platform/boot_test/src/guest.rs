//! A tiny guest: a page of code, of data, of stack, and a page table of its own.

use crate::program::Code;
use gyre_platform::{Events, MapFlags, MemoryRegion, Pa};
use gyre_x86_64::guest::{
    Core, DescriptorTable, Exit, Halt, Interrupts, Levels, LongMode, NestedTable, Options, Start, enter, levels,
};
use gyre_x86_64::{Frame, clear_timer, cycles_per_ms, now, set_timer, take_events};

/// The offset of the second part of the code: a handler, or the target of SYSCALL.
pub const HANDLER: usize = 0x800;
/// A word of the data page: the guest's counter, where its first argument points.
pub const COUNTER: usize = 0;
/// A word of the data page for its handlers.
pub const HANDLED: usize = 8;
/// A word of the data page for what a handler saw.
pub const SEEN: usize = 16;
const GDT: usize = 0x400;
const TASK_STATE: usize = 0x500;
const IDT: usize = 0x800;
const VECTORS: usize = 64;
/// Offsets of the top of both stacks in the stack page: the ordinary one, and that of handlers.
pub const STACK_TOP: u64 = 4096;
/// The stack of handlers.
pub const HANDLER_STACK_TOP: u64 = 2048;

/// The parts from which a guest is made.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Its code.
    pub main: Code,
    /// The code at [`HANDLER`].
    pub handler: Option<Code>,
    /// The things that it does by itself.
    pub options: Options<'static>,
}

/// Nothing is open, interrupts are the host's, HLT leaves.
pub const CLOSED: Options<'static> =
    Options { interrupts: Interrupts::Held, halt: Halt::Leaves, ports: &[], registers: &[] };

/// A plan without handler and with nothing open.
pub fn plan(main: Code) -> Plan {
    Plan { main, handler: None, options: CLOSED }
}

/// A guest of one core.
pub struct Guest {
    /// Its core.
    pub core: Core,
    /// The memory that it is granted.
    pub table: NestedTable,
    /// Its code: it may run it.
    pub code: Frame,
    /// Its data: it may write it.
    pub data: Frame,
    /// Its stacks.
    pub stack: Frame,
    _tables: Frame,
}

/// True if the checks of guests can run.
pub fn is_offered() -> bool {
    levels() == Levels::Nested
}

/// The memory of a frame.
pub fn region(frame: &Frame) -> MemoryRegion {
    MemoryRegion { start: frame.pa(), bytes: frame.bytes() as u64 }
}

fn put(frame: &Frame, offset: usize, value: u64) {
    frame.write_shared(offset, &value.to_le_bytes());
}

impl Guest {
    /// Makes a guest that has not run yet: interrupts lead to its handler on a stack of its own.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn new(plan: Plan) -> Guest {
        let page = || Frame::allocate(0).expect("memory");
        let (code, data, stack, tables) = (page(), page(), page(), Frame::allocate(1).expect("memory"));
        code.write_shared(0, (plan.main)());
        if let Some(handler) = plan.handler {
            code.write_shared(HANDLER, handler());
        }
        fill_page_table(&tables);
        fill_descriptors(&code, &data, &stack);
        let mut table = NestedTable::new().expect("memory");
        for (frame, rights) in [
            (&code, MapFlags::EXECUTE),
            (&data, MapFlags::WRITE),
            (&stack, MapFlags::WRITE),
            (&tables, MapFlags::WRITE),
        ] {
            table.map(region(frame), rights).expect("free");
        }
        let at = |frame: &Frame, offset: usize| frame.pa().0 + offset as u64;
        let start = Start::LongMode(LongMode {
            root: tables.pa(),
            rip: at(&code, 0),
            rsp: at(&stack, STACK_TOP as usize),
            argument: at(&data, 0),
            gdt: DescriptorTable { base: at(&data, GDT), limit: 8 * 8 - 1 },
            idt: DescriptorTable { base: at(&data, IDT), limit: (VECTORS * 16 - 1) as u16 },
            star: 0x0023 << 48 | 0x10 << 32,
            lstar: at(&code, HANDLER),
            flag_mask: 0x200,
            fs_base: 0,
            gs_base: 0,
        });
        let core = Core::new(&start, &plan.options).expect("guests and memory");
        Guest { core, table, code, data, stack, _tables: tables }
    }

    /// Runs until it leaves for something but an interrupt; gives up on it after two seconds.
    pub fn run(&mut self) -> Exit {
        let end = now() + 2000 * cycles_per_ms();
        loop {
            set_timer(now() + 5 * cycles_per_ms());
            let exit = enter(&mut self.core, &self.table);
            clear_timer();
            take_events();
            if exit != Exit::Interrupt || now() > end {
                return exit;
            }
        }
    }

    /// Runs until the timer goes off, once, and returns the exit and the events that came.
    pub fn run_for_ms(&mut self, ms: u64) -> (Exit, Events) {
        let mut events = Events::default();
        take_events();
        set_timer(now() + ms * cycles_per_ms());
        loop {
            let exit = enter(&mut self.core, &self.table);
            events.0 |= take_events().0;
            // A late wake-up of another core may come first.
            if exit != Exit::Interrupt || events.has(Events::TIMER) {
                clear_timer();
                return (exit, events);
            }
        }
    }

    /// A word of its data.
    pub fn word(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        self.data.read_shared(offset, &mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// 512 entries of 1 GiB, each address leading to itself, open to the guest's user mode.
fn fill_page_table(tables: &Frame) {
    put(tables, 0, (tables.pa().0 + 4096) | 0x27);
    for gibibyte in 0..512usize {
        put(tables, 4096 + gibibyte * 8, (gibibyte as u64) << 30 | 0xe7);
    }
}

/// Segments as the kernel's, a task state with one stack for handlers, and gates that all lead to the handler.
fn fill_descriptors(code: &Frame, data: &Frame, stack: &Frame) {
    let task = data.pa().0 + TASK_STATE as u64;
    let descriptors = [
        0,
        0,
        0x00af_9b00_0000_ffff,
        0x00cf_9300_0000_ffff,
        0x67 | (task & 0xff_ffff) << 16 | 0x89 << 40 | (task >> 24 & 0xff) << 56,
        task >> 32,
        0x00cf_f300_0000_ffff,
        0x00af_fb00_0000_ffff,
    ];
    for (index, descriptor) in descriptors.into_iter().enumerate() {
        put(data, GDT + index * 8, descriptor);
    }
    let top = stack.pa().0 + HANDLER_STACK_TOP;
    put(data, TASK_STATE + 4, top);
    put(data, TASK_STATE + 36, top);
    let entry = code.pa().0 + HANDLER as u64;
    let low = entry & 0xffff | 0x10 << 16 | 1 << 32 | 0x8e << 40 | (entry >> 16 & 0xffff) << 48;
    for vector in 0..VECTORS {
        put(data, IDT + vector * 16, low);
        put(data, IDT + vector * 16 + 8, entry >> 32);
    }
}

/// The range of one page.
pub fn page_at(pa: u64) -> MemoryRegion {
    MemoryRegion { start: Pa(pa), bytes: 4096 }
}
