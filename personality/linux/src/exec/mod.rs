//! Starting programs: ELF files, scripts, the initial stack.
//!
//! The new memory is built beside the old one; only when nothing can fail any more do the other threads end and the
//! new memory takes the old one's place. A program that cannot be started leaves its caller as it was.
//!
//! * `prepare` opens the file, follows `#!` lines (`script`), maps the segments and the interpreter (`load`), and
//!   builds the stack (`stack`). All may fail.
//! * `replace_program` then ends the other threads, which may still fail if this one is killed. From there on nothing
//!   fails. What the former program has submitted to rings ends next, then its descriptors that are not kept are closed.
//! * Meanwhile nobody begins to trace the process (`guard`). It has the new program's rights before it has its memory and
//!   files, so that nobody with the old rights sees those.
//! * `reset` drops the state that a program does not inherit (execve(2)): handlers, timers, the robust list.
//!
//! Bounds: a string has at most 128 KiB, there are at most 65,536, all together take at most a quarter of the stack's
//! limit. The old memory is left in the name of the process, after the new program has its registers.

pub mod elf;
pub(crate) mod guard;
mod load;
mod script;
mod stack;
pub mod vdso;

use crate::credentials::{Credentials, Identity};
use crate::exec::guard::{Executing, Takeover};
use crate::file::Executable;
use crate::file::context::Sharing;
use crate::file::pace::Pace;
use crate::file::permission::{Asker, READ};
use crate::process::Program;
use crate::ptrace::{access, halt, tracees};
use crate::run::Running;
use crate::task::prctl::set_comm;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_address_space::{AddressSpace, Layout};
use gyre_machine::Registers;
use linux_raw_sys::general as raw;

/// The current directory, as in openat.
pub const CURRENT_DIRECTORY: i32 = raw::AT_FDCWD;
/// Longest argument or environment string (Linux: 32 pages).
const STRING_BYTES_MAX: usize = 32 * 4096;
/// Most arguments or environment strings.
const STRINGS_MAX: usize = 1 << 16;
/// Most bytes of both together, if the stack's limit allows it (a quarter of it).
const STRINGS_BYTES_MAX: u64 = 2 << 20;
/// Interrupts on, and the bit that is always 1.
const FLAGS_AT_START: u64 = 0x202;

/// The arguments of execve.
pub struct Request {
    /// Directory of a relative path.
    pub directory: i32,
    /// The path.
    pub path: Vec<u8>,
    /// Flags of execveat.
    pub flags: u32,
    /// Arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Environment.
    pub environment: Vec<Vec<u8>>,
}

/// `execve(path, arguments, environment)`.
pub async fn execve(thread: &Arc<Thread>, running: &mut Running, a: Arguments) -> Outcome {
    let place = (CURRENT_DIRECTORY, a.word(0), 0);
    execute(thread, running, place, a.word(1), a.word(2)).await
}

/// `execveat(directory, path, arguments, environment, flags)`.
pub async fn execveat(thread: &Arc<Thread>, running: &mut Running, a: Arguments) -> Outcome {
    let flags = a.unsigned(4);
    if flags & !(raw::AT_EMPTY_PATH | raw::AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let place = (a.int(0), a.word(1), flags);
    execute(thread, running, place, a.word(2), a.word(3)).await
}

async fn execute(
    thread: &Arc<Thread>,
    running: &mut Running,
    (directory, path, flags): (i32, u64, u32),
    arguments: u64,
    environment: u64,
) -> Outcome {
    let path = thread.read_path(path).await?;
    let limit = (thread.process().limit(raw::RLIMIT_STACK) / 4).min(STRINGS_BYTES_MAX);
    let mut room = usize::try_from(limit).unwrap_or(usize::MAX);
    let request = Request {
        directory,
        path,
        flags,
        arguments: read_strings(thread, arguments, &mut room).await?,
        environment: read_strings(thread, environment, &mut room).await?,
    };
    replace_program(thread, running, request).await?;
    Ok(0)
}

/// Reads an array of string pointers that ends with null.
async fn read_strings(thread: &Thread, address: u64, room: &mut usize) -> Result<Vec<Vec<u8>>, Errno> {
    let mut strings = Vec::new();
    if address == 0 {
        return Ok(strings);
    }
    let mut at = address;
    loop {
        let pointer: u64 = thread.read_struct(at).await?;
        if pointer == 0 {
            break;
        }
        let string = thread.read_string(pointer, STRING_BYTES_MAX, Errno::E2BIG).await?;
        let needed = string.len().saturating_add(const { 1 + size_of::<u64>() });
        *room = room.checked_sub(needed).ok_or(Errno::E2BIG)?;
        strings.push(string);
        if strings.len() >= STRINGS_MAX {
            return Err(Errno::E2BIG);
        }
        at = at.checked_add(size_of::<u64>() as u64).ok_or(Errno::EFAULT)?;
    }
    Ok(strings)
}

/// A program ready to take over.
struct Prepared {
    space: Arc<AddressSpace>,
    registers: Registers,
    program: Arc<Program>,
    name: Vec<u8>,
    rights: Rights,
}

/// The rights that come with a program.
#[derive(Clone, Copy)]
struct Rights {
    /// Set-user-id and set-group-id of the file.
    identity: Identity,
    /// The process gave up new privileges, or a tracer without rights would get them.
    gains_nothing: bool,
    /// The program gains rights: it does not trust its surroundings.
    is_secure: bool,
    /// Its user may read the file.
    is_readable: bool,
}

/// Replaces the program of the thread's process.
///
/// # Errors
/// Those of execve; the process is as it was then.
pub async fn replace_program(thread: &Arc<Thread>, running: &mut Running, request: Request) -> Result<(), Errno> {
    let executing = Executing::begin(thread);
    let mut prepared = prepare(thread, request, running.context.extended_bytes()).await?;
    let former_id = thread.id();
    end_other_threads(thread).await?;
    // From here on nothing fails.
    let process = thread.process();
    // The new program's rights and descriptors are not for what the former one has submitted.
    process.under_way.end().await;
    let directories = if prepared.rights.is_secure { Sharing::Ends } else { Sharing::Stays };
    let files = process.files().executed(process.id(), directories).await;
    let shows_itself = take_rights(thread, prepared.rights);
    process.set_files(files);
    let former = process.replace_space(prepared.space.clone());
    thread.set_space(prepared.space.clone());
    let former_program = core::mem::replace(&mut *process.program.lock(), core::mem::take(&mut prepared.program));
    drop(former_program);
    // Not before the former program's memory, files and words are gone.
    if shows_itself {
        process.dumpable.store(1, Ordering::Release);
    }
    reset(thread, &prepared);
    drop(executing);
    process.timers.end().await;
    running.context.reset_extended();
    running.forget_debug_registers();
    running.context.registers = prepared.registers;
    process.stop_borrowing();
    former.leave().await;
    if thread.tracee.is_on() {
        Box::pin(halt::in_new_program(thread, running, former_id)).await;
    }
    Ok(())
}

/// Gives the process the rights of its new program; returns whether it shows itself to others: if nothing was gained before or now (Linux,
/// `begin_new_exec`). Until then it does not.
fn take_rights(thread: &Thread, rights: Rights) -> bool {
    let process = thread.process();
    let was_itself = thread.with_credentials(|who| (who.user_effective, who.group_effective) == (who.user, who.group));
    process.dumpable.store(0, Ordering::Release);
    let before = thread.with_credentials(Credentials::power);
    thread.change_credentials(|who| who.execute(rights.identity, rights.gains_nothing));
    if rights.is_secure {
        process.persona.secure();
        process.parent_death_signal.store(0, Ordering::Relaxed);
    }
    was_itself && rights.is_readable && thread.with_credentials(Credentials::power).is_within(&before)
}

/// Resets the state that a new program does not inherit.
fn reset(thread: &Thread, prepared: &Prepared) {
    let process = thread.process();
    process.signals.lock().actions.reset_for_new_program();
    thread.signals.lock().stack = Default::default();
    thread.clear_at_end.store(0, Ordering::Release);
    thread.robust_list.store(0, Ordering::Release);
    thread.dispatch.clear();
    set_comm(thread, &prepared.name);
    process.tenant().tree.lock().note_executed(process.id());
}

/// Ends all threads of the process but this one, which becomes the first.
async fn end_other_threads(thread: &Arc<Thread>) -> Result<(), Errno> {
    let process = thread.process();
    let Some(_takeover) = Takeover::begin(thread) else {
        // Another thread was faster, and ends this one.
        thread.death().await;
        return Err(Errno::EINTR);
    };
    let others = || -> Vec<Arc<Thread>> {
        let threads = process.threads.lock();
        threads.iter().filter(|other| !Arc::ptr_eq(other, thread)).cloned().collect()
    };
    let mut pace = Pace::new();
    for other in others() {
        other.kill();
        pace.step().await;
    }
    process.threads_changed.until(|| (process.threads.lock().len() <= 1).then_some(())).await;
    if thread.is_dying() {
        return Err(Errno::EINTR);
    }
    if thread.id() != process.id() {
        tracees::first_replaced(process);
        let mut tree = process.tenant().tree.lock();
        tree.remove_thread(thread.id());
        let former = thread.id();
        thread.set_id(process.id());
        tree.add_thread(thread.clone());
        drop(tree);
        if let Some(tracer) = thread.tracee.tracer() {
            tracer.tracees.rename(thread, former);
        }
    }
    Ok(())
}

async fn prepare(thread: &Arc<Thread>, request: Request, extended_bytes: usize) -> Result<Prepared, Errno> {
    let process = thread.process();
    let files = process.files();
    let first = files.open_executable(thread, request.directory, &request.path, request.flags).await?;
    let given_path = request.path.clone();
    let started = script::resolve(thread, first, request).await?;
    let flush = thread.tenant().kernel().flush();
    let (rights, credentials) = rights_of(thread, &started.file);
    let is_secure = rights.is_secure;
    let layout = if is_secure { Layout::random() } else { process.persona.layout() };
    let limits = process.limits().of_memory(&credentials);
    let space = AddressSpace::with_layout(flush, limits, layout, process.activity())?;
    let loaded = load::load(thread, &space, &started.file).await?;
    let vdso = thread.tenant().vdso.map(&space).await?;
    let start = stack::Start {
        arguments: &started.arguments,
        environment: &started.environment,
        path: &given_path,
        loaded: &loaded,
        vdso,
        credentials: &credentials,
        is_secure,
        frame_bytes_min: crate::signal::frame::stack_bytes_min(extended_bytes),
    };
    let stack = stack::build(&space, &start).await?;
    let name = given_path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    Ok(Prepared {
        space,
        registers: Registers { rip: loaded.start, rsp: stack.pointer, rflags: FLAGS_AT_START, ..Registers::default() },
        program: Arc::new(Program {
            path: started.file.path.clone(),
            arguments: stack::joined(&started.arguments),
            environment: stack::joined(&started.environment),
            auxiliary: stack.auxiliary.into(),
        }),
        name,
        rights,
    })
}

/// Returns the rights of a program, and the credentials with them.
fn rights_of(thread: &Thread, file: &Executable) -> (Rights, Credentials) {
    let no_new = thread.process().no_new_privileges.load(Ordering::Relaxed);
    let gains_nothing = no_new || !access::may_gain_rights(thread);
    let identity = if gains_nothing { Identity::default() } else { identity_of(file) };
    let before = thread.credentials();
    let mut credentials = before.clone();
    credentials.execute(identity, gains_nothing);
    let is_secure = credentials.is_secure_after(&before);
    let is_readable = Asker::of(thread).check(&file.attributes, READ).is_ok();
    (Rights { identity, gains_nothing, is_secure, is_readable }, credentials)
}

/// Returns the identity by set-user-id and set-group-id bits; those of a script do not count.
fn identity_of(file: &Executable) -> Identity {
    let attributes = &file.attributes;
    Identity {
        user: (attributes.mode & 0o4000 != 0).then_some(attributes.user),
        group: (attributes.mode & 0o2010 == 0o2010).then_some(attributes.group),
    }
}
