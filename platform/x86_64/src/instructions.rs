//! One function per privileged instruction that this crate uses.

use core::arch::asm;

/// Reads the time stamp counter.
#[inline(always)]
pub(crate) fn rdtsc() -> u64 {
    // SAFETY: reading the counter has no effect; CR4.TSD is clear.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads a model-specific register.
///
/// # Safety
/// The register must exist.
#[inline(always)]
pub(crate) unsafe fn rdmsr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller says that the register exists.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Writes a model-specific register.
///
/// # Safety
/// The register must exist and the value must keep the kernel's assumptions.
#[inline(always)]
pub(crate) unsafe fn wrmsr(register: u32, value: u64) {
    // SAFETY: the caller answers for register and value.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack, preserves_flags));
    }
}

macro_rules! ports {
    ($($input:ident $output:ident $t:ty, $register:tt);*) => {$(
        /// Reads an I/O port.
        ///
        /// # Safety
        /// Reading it must not break a device that others use.
        #[inline(always)]
        pub(crate) unsafe fn $input(port: u16) -> $t {
            let value: $t;
            // SAFETY: as the caller says.
            unsafe { asm!(concat!("in ", $register, ", dx"), out($register) value, in("dx") port, options(nomem, nostack, preserves_flags)) };
            value
        }
        /// Writes an I/O port.
        ///
        /// # Safety
        /// The device behind it must be ours.
        #[inline(always)]
        pub(crate) unsafe fn $output(port: u16, value: $t) {
            // SAFETY: as the caller says.
            unsafe { asm!(concat!("out dx, ", $register), in("dx") port, in($register) value, options(nomem, nostack, preserves_flags)) };
        }
    )*};
}
ports!(inb outb u8, "al"; inw outw u16, "ax"; inl outl u32, "eax");

macro_rules! read_registers {
    ($($read:ident $name:literal),*) => {$(
        /// Reads the control register.
        #[inline(always)]
        pub(crate) fn $read() -> u64 {
            let value: u64;
            // SAFETY: reading a control register has no effect.
            unsafe { asm!(concat!("mov {}, ", $name), out(reg) value, options(nomem, nostack, preserves_flags)) };
            value
        }
    )*};
}
read_registers!(read_cr0 "cr0", read_cr2 "cr2", read_cr3 "cr3", read_cr4 "cr4");

macro_rules! write_registers {
    ($($write:ident $name:literal),*) => {$(
        /// Writes the control register.
        ///
        /// # Safety
        /// The value must keep all mappings and modes that the kernel relies on.
        #[inline(always)]
        pub(crate) unsafe fn $write(value: u64) {
            // SAFETY: as the caller says.
            unsafe { asm!(concat!("mov ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
        }
    )*};
}
write_registers!(write_cr0 "cr0", write_cr3 "cr3", write_cr4 "cr4", write_cr8 "cr8");

/// Drops everything from this core's TLB, global pages too: a change of CR4.PGE does (SDM vol. 3, 4.10.4.1).
pub(crate) fn flush_global() {
    // SAFETY: the bit has its old value at the end, and no page is reached by a right that only the bit gives.
    unsafe {
        asm!("mov {0}, cr4", "btc {0}, 7", "mov cr4, {0}", "btc {0}, 7", "mov cr4, {0}", out(reg) _, options(nostack))
    };
}

/// Drops one page from this core's TLB.
#[inline(always)]
pub(crate) fn invlpg(address: u64) {
    // SAFETY: dropping a cached translation changes no memory.
    unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

/// Stops this core for good.
pub(crate) fn halt_forever() -> ! {
    loop {
        // SAFETY: interrupts are off; only an NMI returns, and then it halts again.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// CPUID leaf and subleaf: eax, ebx, ecx, edx; zeros if the leaf does not exist.
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let limit = core::arch::x86_64::__cpuid(leaf & 0xffff_0000).eax;
    if limit < leaf {
        return [0; 4];
    }
    let result = core::arch::x86_64::__cpuid_count(leaf, subleaf);
    [result.eax, result.ebx, result.ecx, result.edx]
}

/// Reads the extended control register XCR0.
///
/// # Safety
/// CR4.OSXSAVE must be set.
pub(crate) unsafe fn xgetbv0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: as the caller says.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Sets the extended control register XCR0.
///
/// # Safety
/// CR4.OSXSAVE must be set and the mask supported.
pub(crate) unsafe fn xsetbv0(mask: u64) {
    // SAFETY: as the caller says.
    unsafe {
        asm!("xsetbv", in("ecx") 0, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(nomem, nostack))
    };
}
