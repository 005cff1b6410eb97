use super::*;
extern crate std;
use std::vec::Vec;

struct Memory(Vec<u8>);

impl PhysicalView for Memory {
    fn bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(address).ok()?;
        self.0.get(start..start.checked_add(length)?)
    }
}

fn put(memory: &mut Memory, address: usize, bytes: &[u8]) {
    memory.0[address..address + bytes.len()].copy_from_slice(bytes);
}

fn put_table(memory: &mut Memory, address: usize, signature: &[u8; 4], body: &[u8]) {
    let mut table = Vec::new();
    table.extend_from_slice(signature);
    table.extend_from_slice(&(36 + body.len() as u32).to_le_bytes());
    table.resize(36, 0);
    table.extend_from_slice(body);
    table[9] = sum(&table).wrapping_neg();
    put(memory, address, &table);
}

fn put_root(memory: &mut Memory, address: usize, table: u32) {
    let mut pointer = Vec::from(*b"RSD PTR \0GYRE  \0");
    pointer.extend_from_slice(&table.to_le_bytes());
    pointer[8] = sum(&pointer).wrapping_neg();
    put(memory, address, &pointer);
}

fn machine() -> Memory {
    let mut memory = Memory(std::vec![0; 1 << 20]);
    let mut madt = Vec::from(0xfee0_0000u32.to_le_bytes());
    madt.extend_from_slice(&[0; 4]);
    for (id, enabled) in [(0u8, 1u8), (2, 1), (4, 0)] {
        madt.extend_from_slice(&[0, 8, id, id, enabled, 0, 0, 0]);
    }
    madt.extend_from_slice(&[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
    madt.extend_from_slice(&[2, 10, 0, 4, 20, 0, 0, 0, 0x0f, 0]);
    put_table(&mut memory, 0x2000, b"APIC", &madt);
    let mut mcfg = std::vec![0; 8];
    mcfg.extend_from_slice(&0xb000_0000u64.to_le_bytes());
    mcfg.extend_from_slice(&[0, 0, 0, 255, 0, 0, 0, 0]);
    put_table(&mut memory, 0x3000, b"MCFG", &mcfg);
    let mut fadt = std::vec![0; 64];
    fadt[4..8].copy_from_slice(&0x5000u32.to_le_bytes());
    fadt[28..32].copy_from_slice(&0x604u32.to_le_bytes());
    put_table(&mut memory, 0x4000, b"FACP", &fadt);
    put_table(&mut memory, 0x5000, b"DSDT", b"xx\x08_S5_\x12\x06\x04\x0a\x05\0\0\0");
    let entries: Vec<u8> = [0x2000u32, 0x3000, 0x4000].iter().flat_map(|entry| entry.to_le_bytes()).collect();
    put_table(&mut memory, 0x1000, b"RSDT", &entries);
    put_root(&mut memory, 0xe_0040, 0x1000);
    memory
}

#[test]
fn cores_controllers_configuration_space_and_power_are_found_by_search() {
    let tables = read(&machine(), 0);
    assert_eq!(&tables.cores[..tables.core_count], &[0, 2]);
    assert_eq!(tables.local_apic, 0xfee0_0000);
    assert_eq!(tables.io_apic, Some((0xfec0_0000, 0)));
    assert_eq!(tables.serial_interrupt, (20, true, true));
    assert_eq!(tables.configuration, Some((0xb000_0000, 0, 255)));
    assert_eq!(tables.soft_off, Some((0x604, 5)));
}

#[test]
fn a_table_with_a_wrong_checksum_counts_as_absent() {
    let mut memory = machine();
    memory.0[0x2000 + 50] ^= 1;
    let tables = read(&memory, 0xe_0040);
    assert_eq!(tables.core_count, 0);
    assert!(tables.configuration.is_some());
}

#[test]
fn any_damaged_byte_is_survived() {
    let whole = machine().0;
    for place in
        (0xe_0040..0xe_0060).chain(0x1000..0x1060).chain(0x2000..0x2060).chain(0x3000..0x3060).chain(0x4000..0x5040)
    {
        for value in [0, 1, 0x7f, 0xff] {
            let mut memory = Memory(whole.clone());
            memory.0[place] = value;
            // The checksums are made right again if that is easy, so that the damage gets past them.
            for table in [0x1000, 0x2000, 0x3000, 0x4000, 0x5000] {
                let length = u32_at(&memory.0, table + 4).unwrap() as usize;
                if length >= 36 && table + length < memory.0.len() && place != table + 9 {
                    memory.0[table + 9] = 0;
                    memory.0[table + 9] = sum(&memory.0[table..table + length]).wrapping_neg();
                }
            }
            let _ = read(&memory, 0);
        }
    }
}
