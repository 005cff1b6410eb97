//! The details of a signal: `siginfo_t`.

use super::number;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// From kill(2).
pub const SI_USER: i32 = 0;
/// From the kernel.
pub const SI_KERNEL: i32 = 0x80;
/// From tkill(2).
pub const SI_TKILL: i32 = -6;
/// From a timer.
pub const SI_TIMER: i32 = -2;
/// From a message queue.
const SI_MESGQ: i32 = -3;

/// From system call user dispatch.
const SYS_USER_DISPATCH: i32 = 2;
/// The machine of a call (linux/audit.h).
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// `siginfo_t`, 128 bytes; the union begins at byte 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SignalInfo {
    /// The signal.
    pub signal: i32,
    /// An error number, mostly 0.
    pub errno: i32,
    /// Why it was sent (SI_USER, SEGV_MAPERR ...).
    pub code: i32,
    padding: i32,
    /// The fields that depend on the signal: sender, address, child.
    pub detail: [u64; 14],
}

const _: () = assert!(size_of::<SignalInfo>() == 128);

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl SignalInfo {
    /// Makes a signal without details.
    pub fn new(signal: i32, code: i32) -> SignalInfo {
        SignalInfo { signal, errno: 0, code, padding: 0, detail: [0; 14] }
    }

    fn with(mut self, details: &[u64]) -> SignalInfo {
        self.detail.iter_mut().zip(details).for_each(|(slot, detail)| *slot = *detail);
        self
    }

    /// Makes a signal sent by a process.
    pub fn sent(signal: i32, code: i32, process: i32, user: u32) -> SignalInfo {
        SignalInfo::new(signal, code).with(&[pair(process as u32, user)])
    }

    /// Makes a signal caused by an address (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP).
    pub fn fault(signal: i32, code: i32, address: u64) -> SignalInfo {
        SignalInfo::new(signal, code).with(&[address])
    }

    /// Makes the SIGSYS of a call that its thread wants to have itself; `address` is that behind the call.
    pub fn of_call(address: u64, call: u32) -> SignalInfo {
        SignalInfo::new(number::SIGSYS, SYS_USER_DISPATCH).with(&[address, pair(call, AUDIT_ARCH_X86_64)])
    }

    /// Makes a SIGCHLD; `code` is CLD_EXITED and so on.
    pub fn child(code: i32, process: i32, user: u32, status: i32) -> SignalInfo {
        SignalInfo::new(number::SIGCHLD, code).with(&[pair(process as u32, user), u64::from(status as u32)])
    }

    /// Makes the signal of a timer that expired.
    pub fn timer(signal: i32, timer: i32, overrun: i32, value: u64) -> SignalInfo {
        SignalInfo::new(signal, SI_TIMER).with(&[pair(timer as u32, overrun as u32), value])
    }

    /// Makes the signal of a message queue that has got a message from a process.
    pub fn message(signal: i32, process: i32, user: u32, value: u64) -> SignalInfo {
        SignalInfo::new(signal, SI_MESGQ).with(&[pair(process as u32, user), value])
    }

    /// Makes the signal of a file that has become ready; `band` is in bits of poll.
    pub fn of_file(signal: i32, code: i32, band: u32, descriptor: i32) -> SignalInfo {
        SignalInfo::new(signal, code).with(&[u64::from(band), u64::from(descriptor as u32)])
    }

    /// Returns the number of the timer that sent it, if one did.
    pub fn timer_id(&self) -> Option<i32> {
        (self.code == SI_TIMER).then_some(self.detail[0] as u32 as i32)
    }

    /// Returns it with the number of expiries that were missed.
    pub fn with_overrun(self, overrun: i32) -> SignalInfo {
        self.with(&[pair(self.detail[0] as u32, overrun as u32)])
    }

    /// Returns the sending process, for codes that have one.
    pub fn sender(&self) -> i32 {
        self.detail[0] as u32 as i32
    }
}
