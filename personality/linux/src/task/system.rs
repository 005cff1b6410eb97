//! Facts about the system: uname, sysinfo, random bytes.

use crate::credentials::Capability;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const FIELD_BYTES: usize = 65;
/// `struct utsname`.
const FIELDS_BYTES: usize = 6 * FIELD_BYTES;
/// The Linux release whose interface is offered, so that C libraries do not refuse to start.
const RELEASE: &[u8] = b"6.1.0-gyre";
/// The version that uname gives.
pub const VERSION: &str = concat!("#1 Gyre ", env!("CARGO_PKG_VERSION"));
/// Bytes of a name of the tenant, without the NUL.
pub const NAME_BYTES_MAX: usize = FIELD_BYTES - 1;
/// The commit, if whoever built the kernel said so.
const COMMIT: Option<&str> = option_env!("GYRE_COMMIT");
/// Most random bytes prepared at once.
const RANDOM_CHUNK_BYTES: usize = 4096;

/// `uname(buffer)`.
pub async fn uname(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let host_name = thread.tenant().host_name.lock().clone();
    let domain_name = thread.tenant().domain_name.lock().clone();
    let version = [VERSION, if COMMIT.is_some() { " " } else { "" }, COMMIT.unwrap_or("")].concat();
    let fields: [&[u8]; 6] = [b"Linux", &host_name, RELEASE, version.as_bytes(), b"x86_64", &domain_name];
    let mut all = [0; FIELDS_BYTES];
    for (slot, field) in all.chunks_exact_mut(FIELD_BYTES).zip(fields) {
        slot.iter_mut().take(FIELD_BYTES - 1).zip(field).for_each(|(slot, byte)| *slot = *byte);
    }
    thread.copy_out(a.word(0), &all).await?;
    Ok(0)
}

/// `sethostname(name, bytes)`.
pub async fn sethostname(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.needs(Capability::SysAdmin)?;
    if a.size(1) >= FIELD_BYTES {
        return Err(Errno::EINVAL);
    }
    let name = thread.read_vec(a.word(0), a.size(1)).await?;
    *thread.tenant().host_name.lock() = name;
    Ok(0)
}

/// `setdomainname(name, bytes)`.
pub async fn setdomainname(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.needs(Capability::SysAdmin)?;
    if a.size(1) > NAME_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let name = thread.read_vec(a.word(0), a.size(1)).await?;
    *thread.tenant().domain_name.lock() = name;
    Ok(0)
}

/// The numbers that must stand beside every wish of [`reboot`] (reboot(2)).
const REBOOT_MAGIC: u32 = 0xfee1_dead;
const REBOOT_MAGIC_SECOND: [u32; 4] = [672_274_793, 85_072_278, 369_367_448, 537_993_216];
const REBOOT_CONTROL_ALT_DELETE: [u32; 2] = [0x89ab_cdef, 0];
/// Restart, restart with a word, halt, power off.
const REBOOT_ENDS: [u32; 4] = [0x0123_4567, 0xa1b2_c3d4, 0xcdef_0123, 0x4321_fedc];

/// `reboot(magic, magic, wish, word)`: ends the processes of the caller's tenant and nothing else, as in a Linux
/// namespace of process numbers (reboot(2), "Behavior inside PID namespaces"). Tenants cannot end the machine.
pub fn reboot(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.needs(Capability::SysBoot)?;
    if a.unsigned(0) != REBOOT_MAGIC || !REBOOT_MAGIC_SECOND.contains(&a.unsigned(1)) {
        return Err(Errno::EINVAL);
    }
    let wish = a.unsigned(2);
    if REBOOT_CONTROL_ALT_DELETE.contains(&wish) {
        return Ok(0);
    }
    if !REBOOT_ENDS.contains(&wish) {
        return Err(Errno::EINVAL);
    }
    let all = thread.tenant().tree.lock().processes();
    all.iter().for_each(|process| process.end(crate::signal::number::SIGKILL));
    Ok(0)
}

/// `struct sysinfo`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SystemInfo {
    uptime_s: i64,
    loads: [u64; 3],
    total: u64,
    free: u64,
    shared: u64,
    buffers: u64,
    swap_total: u64,
    swap_free: u64,
    processes: u16,
    padding: u16,
    padding2: u32,
    high_total: u64,
    high_free: u64,
    unit: u32,
    padding3: u32,
}

const _: () = assert!(size_of::<SystemInfo>() == 112);

/// `sysinfo(buffer)`: figures of the tenant.
pub async fn sysinfo(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let memory = thread.tenant().kernel().memory(thread.tenant().activity());
    let processes = thread.tenant().tree.lock().thread_count();
    let info = SystemInfo {
        uptime_s: (crate::time::monotonic_ns() / 1_000_000_000) as i64,
        // 16 bits behind the point (SI_LOAD_SHIFT).
        loads: thread.tenant().load_averages().map(|average| average >> (crate::load::FRACTION_BITS - 16)),
        total: memory.total_bytes,
        free: memory.free_bytes,
        processes: u16::try_from(processes).unwrap_or(u16::MAX),
        unit: 1,
        ..SystemInfo::default()
    };
    thread.write_struct(a.word(0), &info).await?;
    Ok(0)
}

/// `getrandom(buffer, bytes, flags)`.
pub async fn getrandom(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    // GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE; the second and third exclude each other.
    if a.unsigned(2) & !7 != 0 || a.unsigned(2) & 6 == 6 {
        return Err(Errno::EINVAL);
    }
    let wanted = a.size(1).min(crate::user_memory::TRANSFER_MAX);
    let mut chunk = vec![0; wanted.min(RANDOM_CHUNK_BYTES)];
    let mut done = 0;
    while done < wanted && !(done > 0 && thread.has_signal()) {
        let part = chunk.get_mut(..wanted.saturating_sub(done).min(RANDOM_CHUNK_BYTES)).unwrap_or_default();
        gyre_machine::fill_random(part);
        match thread.copy_out(a.word(0).saturating_add(done as u64), part).await {
            Ok(()) => done = done.saturating_add(part.len()),
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
        gyre_message::yield_now().await;
    }
    Ok(done as u64)
}

/// `membarrier(command, flags)`: every core enters the kernel between two threads' accesses only by chance, so it is not offered.
pub fn membarrier(_thread: &Arc<Thread>, a: Arguments) -> Outcome {
    match a.int(0) {
        0 => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// `rseq(...)`: C libraries ask once and go on without.
pub fn not_offered(_thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Err(Errno::ENOSYS)
}
