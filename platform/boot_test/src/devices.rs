//! PCI, device memory and MSI-X, by means of a virtio entropy device (virtio 1.2, 4.1 and 5.4). Without one the checks that need it
//! say so and pass: `platform.sh` gives the machine one wherever it has PCI.

use crate::check;
use crate::suite::{Check, Verdict};
use alloc::format;
use alloc::string::String;
use gyre_platform::{DeviceError, PciAddress};
use gyre_x86_64::{
    DmaBuffer, Mmio, PciDevice, attach_interrupt, core_count, cycles_per_ms, detach_interrupt, dma_fence, idle,
    interrupt_entries, now, pci_devices, set_timer, take_events,
};

/// Looks for an interrupt, 10 ms apart at least. Counted, as a pause of the host is one look.
const LOOKS_MAX: u32 = 3000;

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("pci_functions_are_found_once_each", pci_functions_are_found_once_each),
    ("bars_that_are_not_there_are_errors", bars_that_are_not_there_are_errors),
    ("lines_of_a_core_run_out_and_return", lines_of_a_core_run_out_and_return),
    ("a_device_writes_memory_and_interrupts", a_device_writes_memory_and_interrupts),
];

fn pci_functions_are_found_once_each() -> Verdict {
    let list = pci_devices();
    for (number, device) in list.iter().enumerate() {
        check!(device.id.vendor != 0xffff, "{:?} is not there", device.address);
        check!(!list[..number].iter().any(|other| other.address == device.address), "{:?} twice", device.address);
        check!(device.config_read16(0) == device.id.vendor, "{:?} changed", device.address);
        check!(device.config_read32(0) as u16 == device.id.vendor, "widths differ");
        let count = device.capabilities().count();
        check!(count < 48, "{:?} has a list without end", device.address);
    }
    let absent = PciDevice {
        address: PciAddress { bus: 0, device: 29, function: 7 },
        ..list.first().copied().unwrap_or_else(nobody)
    };
    check!(absent.config_read32(0) == u32::MAX, "something answers where nothing is");
    Ok(())
}

fn nobody() -> PciDevice {
    PciDevice {
        address: PciAddress { bus: 0, device: 29, function: 7 },
        id: gyre_platform::PciId { vendor: 0xffff, device: 0xffff, class: 0xffff },
    }
}

/// The entropy device, if this instance has it.
pub fn entropy_device() -> Option<PciDevice> {
    pci_devices()
        .iter()
        .copied()
        .find(|device| device.id.vendor == 0x1af4 && matches!(device.id.device, 0x1044 | 0x1005))
}

fn bars_that_are_not_there_are_errors() -> Verdict {
    let Some(device) = entropy_device() else {
        log::info!("no entropy device");
        return Ok(());
    };
    for number in [2, 3, 6, 255] {
        check!(device.bar(number).err() == Some(DeviceError::NoBar), "bar {number}");
    }
    let memory = device.bar(4).map_err(|error| format!("{error:?}"))?;
    check!(memory.read32(memory.bytes()) == u32::MAX && memory.read32(usize::MAX) == u32::MAX, "read beyond the end");
    check!(memory.part(0, memory.bytes() + 1).is_none(), "a part beyond the end");
    Ok(())
}

fn lines_of_a_core_run_out_and_return() -> Verdict {
    let Some(device) = entropy_device() else {
        log::info!("no entropy device");
        return Ok(());
    };
    let entries = interrupt_entries(&device);
    check!(attach_interrupt(&device, entries, 0) == Err(DeviceError::NoInterrupt), "an entry beyond the table");
    check!(attach_interrupt(&device, 0, core_count()) == Err(DeviceError::NoInterrupt), "a core that does not run");
    for _ in 0..2 {
        for expected in 8..64 {
            let line = attach_interrupt(&device, 0, 0).map_err(|error| format!("line {expected}: {error:?}"))?;
            check!(line == expected, "line {line} for {expected}");
        }
        check!(attach_interrupt(&device, 0, 0) == Err(DeviceError::NoLine), "a line too many");
        (8..64).for_each(|line| detach_interrupt(&device, 0, 0, line));
    }
    Ok(())
}

/// The registers of a modern virtio device: common, and the notification register of queue 0.
fn find_registers(device: &PciDevice) -> Result<(Mmio, Mmio), String> {
    let (mut common, mut notify) = (None, None);
    for (_, place) in device.capabilities().filter(|(identity, _)| *identity == 9) {
        let kind = device.config_read8(place + 3);
        if kind != 1 && kind != 2 {
            continue;
        }
        let bar = device.bar(device.config_read8(place + 4)).map_err(|error| format!("{error:?}"))?;
        let part = bar.part(device.config_read32(place + 8) as usize, device.config_read32(place + 12) as usize);
        if kind == 1 { common = part } else { notify = part }
    }
    Ok((common.ok_or("no common registers")?, notify.ok_or("no notification registers")?))
}

fn a_device_writes_memory_and_interrupts() -> Verdict {
    let Some(device) = entropy_device() else {
        log::info!("no entropy device");
        return Ok(());
    };
    let target = core_count() - 1;
    let rings = DmaBuffer::allocate(4096).map_err(|_| "no memory")?;
    let bytes = DmaBuffer::allocate(4096).map_err(|_| "no memory")?;
    device.enable_bus_master();
    let (common, notify) = find_registers(&device)?;
    common.write8(20, 0);
    for status in [1, 3] {
        common.write8(20, status);
    }
    common.write32(8, 1);
    common.write32(12, 1);
    common.write8(20, 11);
    let line = attach_interrupt(&device, 1, 0).map_err(|error| format!("{error:?}"))?;
    common.write16(22, 0);
    common.write16(24, 8);
    common.write16(26, 1);
    check!(common.read16(26) == 1, "the device refuses the entry");
    let pa = rings.pa().0;
    for (register, place) in [(32, pa), (40, pa + 1024), (48, pa + 2048)] {
        common.write32(register, place as u32);
        common.write32(register + 4, (place >> 32) as u32);
    }
    common.write16(28, 1);
    common.write8(20, 15);
    // One descriptor, device-writable, made available.
    rings.write_u64(0, bytes.pa().0);
    rings.write_u32(8, 64);
    rings.write_u16(12, 2);
    rings.write_u16(1028, 0);
    dma_fence();
    rings.write_u16(1026, 1);
    dma_fence();
    take_events();
    notify.write16(0, 0);
    let seen = (0..LOOKS_MAX).any(|_| {
        set_timer(now() + 10 * cycles_per_ms());
        idle();
        take_events().lines().any(|found| found == line)
    });
    let used = rings.read_u16(2050);
    let mut drawn = [0; 64];
    bytes.read_bytes(0, &mut drawn);
    // Other cores get lines too; the entry is only changed there.
    let moved = attach_interrupt(&device, 1, target).map_err(|error| format!("{error:?}"));
    common.write8(20, 0);
    detach_interrupt(&device, 1, 0, line);
    if let Ok(line) = moved {
        detach_interrupt(&device, 1, target, line);
    }
    check!(seen, "no interrupt on line {line}; used index {used}");
    check!(used == 1 && drawn.iter().filter(|byte| **byte == 0).count() < 16, "used {used}, bytes {drawn:?}");
    moved.map(|_| ())
}
