use super::*;
use core::cell::{Cell, RefCell};

const ADDRESS: PciAddress = PciAddress { bus: 0, device: 4, function: 0 };
const MASTER: u16 = 1 << 2;

/// A function: its registers with the bits that can be written. It fails if they are written while it answers.
struct Function {
    header: u16,
    command: Cell<u16>,
    registers: RefCell<[u32; REGISTERS_MAX]>,
    writable: [u32; REGISTERS_MAX],
    writes: Cell<usize>,
}

impl Function {
    fn new(registers: [u32; REGISTERS_MAX], writable: [u32; REGISTERS_MAX]) -> Function {
        let command = Cell::new(COMMAND_MEMORY | MASTER);
        Function { header: 0x80, command, registers: RefCell::new(registers), writable, writes: Cell::new(0) }
    }

    fn lengths(&self) -> [u64; REGISTERS_MAX] {
        let registers = measure(ADDRESS, self);
        assert_eq!(registers.address, ADDRESS);
        core::array::from_fn(|number| registers.bytes(number))
    }
}

impl Space for Function {
    fn read16(&self, offset: u16) -> u16 {
        if offset == COMMAND { self.command.get() } else { self.header }
    }

    fn write16(&self, offset: u16, value: u16) {
        assert_eq!(offset, COMMAND);
        self.command.set(value);
    }

    fn read32(&self, offset: u16) -> u32 {
        self.registers.borrow()[usize::from((offset - FIRST_REGISTER) / 4)]
    }

    fn write32(&self, offset: u16, value: u32) {
        assert_eq!(self.command.get() & COMMAND_MEMORY, 0, "it answers while its register is written");
        let number = usize::from((offset - FIRST_REGISTER) / 4);
        let register = &mut self.registers.borrow_mut()[number];
        *register = *register & !self.writable[number] | value & self.writable[number];
        self.writes.set(self.writes.get() + 1);
    }
}

/// As QEMU's virtio functions: ports, a table of interrupts, and a wide register.
fn virtio() -> Function {
    Function::new([0xc001, 0xfebf_1000, 0, 0, 0x000c, 0x38], [0xffff_ffe0, 0xffff_f000, 0, 0, 0xffff_c000, u32::MAX])
}

#[test]
fn each_length_is_found_and_nothing_else_has_one() {
    assert_eq!(virtio().lengths(), [0, 4096, 0, 0, 16384, 0]);
}

#[test]
fn a_measured_function_is_as_it_was() {
    let function = virtio();
    let before = *function.registers.borrow();
    function.lengths();
    assert_eq!(*function.registers.borrow(), before);
    assert_eq!(function.command.get(), COMMAND_MEMORY | MASTER);
}

#[test]
fn a_wide_register_may_be_longer_than_an_address_of_32_bits() {
    let function = Function::new([0x0004, 0x40, 0, 0, 0, 0], [0, 0xffff_fffe, 0, 0, 0, 0]);
    assert_eq!(function.lengths(), [1 << 33, 0, 0, 0, 0, 0]);
}

#[test]
fn of_a_bridge_only_the_registers_are_written() {
    let bridge = Function { header: 1, ..Function::new([0; REGISTERS_MAX], [u32::MAX & !15; REGISTERS_MAX]) };
    assert_eq!(bridge.lengths(), [16, 16, 0, 0, 0, 0]);
    assert_eq!(bridge.writes.get(), 2 * BRIDGE_REGISTERS);
}

#[test]
fn a_register_past_the_last_has_no_kind() {
    assert_eq!(kind(&virtio(), 4), (RegisterKind::Wide, 0xc));
    assert_eq!(kind(&virtio(), REGISTERS_MAX).0, RegisterKind::NoMemory);
    assert_eq!(kind(&virtio(), usize::MAX).0, RegisterKind::NoMemory);
}

#[test]
fn the_table_tells_what_was_added_and_what_a_plan_tells() {
    let of = |device| FunctionRegisters::of(PciAddress { device, ..ADDRESS });
    let mut plan = [FunctionRegisters::NOTHING; FUNCTIONS_MAX];
    plan[0] = FunctionRegisters { length_bits: [0, 12, 0, 0, 14, 0], ..of(4) };
    plan[FUNCTIONS_MAX - 1] = of(5);
    let mut lengths = Lengths::told(&plan);
    lengths.add(of(6));
    assert_eq!(lengths.as_slice().len(), 3);
    assert_eq!(lengths.of(ADDRESS).map(|registers| registers.bytes(4)), Some(16384));
    assert!(lengths.of(of(6).address).is_some() && lengths.of(of(7).address).is_none());
    // The filler of the plan is no function.
    assert!(lengths.of(FunctionRegisters::NOTHING.address).is_none());
}

#[test]
fn a_full_table_takes_no_more() {
    let mut lengths = Lengths::NOTHING;
    (0..=FUNCTIONS_MAX as u8).for_each(|bus| lengths.add(FunctionRegisters::of(PciAddress { bus, ..ADDRESS })));
    assert_eq!(lengths.as_slice().len(), FUNCTIONS_MAX);
    assert!(lengths.of(PciAddress { bus: FUNCTIONS_MAX as u8, ..ADDRESS }).is_none());
}
