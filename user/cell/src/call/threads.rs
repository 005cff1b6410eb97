//! Threads: clone, exit and the thread pointer. New processes and programs belong outside of a cell.

use linux_raw_sys::general as nr;

use super::{Outcome, futex};
use crate::{
    error::Errno,
    fiber::{Call, FIBERS_MAX, Fiber, FiberId, State},
    machine::Machine,
    runtime::Runtime,
};

const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
/// Numbers of further threads lie above those that the kernel gives out.
const TID_FIRST: u32 = 1 << 23;
/// Flags that a clone has if it is to be a thread.
const THREAD: u64 = (nr::CLONE_VM | nr::CLONE_THREAD | nr::CLONE_SIGHAND) as u64;

/// Answers calls about threads; the rest goes to the kernel.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [first, second, ..] = call.arguments;
    match call.number {
        nr::__NR_arch_prctl => thread_pointer(runtime, first, second),
        nr::__NR_set_tid_address => {
            runtime.fiber().clear_at_end = first;
            Outcome::Value(runtime.fiber().tid.into())
        }
        nr::__NR_clone if call.arguments[0] & THREAD == THREAD => start(runtime, call),
        // A cell is one process with one program; libraries go on without these.
        nr::__NR_clone | nr::__NR_fork | nr::__NR_vfork => Outcome::refused(Errno::AGAIN),
        nr::__NR_clone3 | nr::__NR_execve | nr::__NR_execveat => Outcome::refused(Errno::NOSYS),
        nr::__NR_set_robust_list | nr::__NR_get_robust_list | nr::__NR_rseq => Outcome::refused(Errno::NOSYS),
        nr::__NR_exit => end(runtime, first),
        nr::__NR_exit_group => runtime.machine.exit(first & 0xff),
        _ => Outcome::Line,
    }
}

fn thread_pointer<M: Machine>(runtime: &mut Runtime<M>, code: u64, value: u64) -> Outcome {
    match code {
        ARCH_SET_FS => {
            runtime.fiber().fs = value;
            runtime.machine.set_fs(value);
            Outcome::Value(0)
        }
        ARCH_GET_FS => {
            let fs = runtime.fiber().fs;
            Outcome::done(runtime.write(value, &fs.to_le_bytes()))
        }
        _ => Outcome::refused(Errno::INVAL),
    }
}

fn start<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    Outcome::of(spawn(runtime, call))
}

/// Makes a thread with the registers of the one that runs.
fn spawn<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Result<u64, Errno> {
    let [flags, stack, parent_tid, child_tid, fs, _] = call.arguments;
    let id: FiberId = (0..FIBERS_MAX).find(|id| runtime.fibers[*id].state == State::Free).ok_or(Errno::AGAIN)?;
    let tid = TID_FIRST + id as u32;
    let has = |flag: u32| flags & u64::from(flag) != 0;
    if has(nr::CLONE_PARENT_SETTID) {
        runtime.write(parent_tid, &tid.to_le_bytes())?;
    }
    if has(nr::CLONE_CHILD_SETTID) {
        runtime.write(child_tid, &tid.to_le_bytes())?;
    }
    let parent = runtime.current;
    runtime.machine.save_extended(&mut runtime.fibers[parent]);
    let parent = &runtime.fibers[parent];
    let mut registers = parent.registers;
    (registers.rax, registers.rsp) = (0, stack);
    let child = Fiber {
        registers,
        fs: if has(nr::CLONE_SETTLS) { fs } else { parent.fs },
        state: State::Ready,
        tid,
        clear_at_end: if has(nr::CLONE_CHILD_CLEARTID) { child_tid } else { 0 },
        blocked: parent.blocked,
        extended: parent.extended,
        ..Fiber::FREE
    };
    runtime.fibers[id] = child;
    runtime.fibers_end = runtime.fibers_end.max(id + 1);
    runtime.add(id);
    Ok(tid.into())
}

/// Ends the thread that runs; with the last one the process ends.
fn end<M: Machine>(runtime: &mut Runtime<M>, status: u64) -> Outcome {
    let address = core::mem::take(&mut runtime.fiber().clear_at_end);
    if address != 0 && runtime.write(address, &0u32.to_le_bytes()).is_ok() {
        futex::wake(runtime, address, futex::ANYBODY, 1);
    }
    runtime.fiber().state = State::Free;
    if runtime.fibers.iter().all(|fiber| fiber.state == State::Free) {
        runtime.machine.exit(status & 0xff);
    }
    runtime.hold();
    Outcome::Wait(State::Free)
}
