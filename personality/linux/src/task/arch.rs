//! `arch_prctl`: the bases of fs and gs.

use crate::run::Running;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_machine::USER_END;

const ARCH_SET_GS: u32 = 0x1001;
const ARCH_SET_FS: u32 = 0x1002;
const ARCH_GET_FS: u32 = 0x1003;
const ARCH_GET_GS: u32 = 0x1004;

/// `arch_prctl(code, address)`.
pub async fn arch_prctl(thread: &Arc<Thread>, running: &mut Running, a: Arguments) -> Outcome {
    let registers = &mut running.context.registers;
    let address = a.word(1);
    match a.unsigned(0) {
        ARCH_SET_FS | ARCH_SET_GS if address >= USER_END => return Err(Errno::EPERM),
        ARCH_SET_FS => registers.fs_base = address,
        ARCH_SET_GS => registers.gs_base = address,
        ARCH_GET_FS => thread.write_struct(address, &registers.fs_base).await?,
        ARCH_GET_GS => thread.write_struct(address, &registers.gs_base).await?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
