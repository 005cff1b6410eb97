//! Native system calls: numbers from 0x1000 on, same registers as Linux calls (number in rax; arguments in rdi, rsi,
//! rdx, r10, r8, r9; result in rax, errors as negative errno). Every process may ask for its own figures ([`FIGURES`],
//! [`FIGURES_MAP`]); all else needs the rights of the system tenant, others get EPERM.

use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

use crate::{bounds::Floor, policy::Policy};

/// `snapshot(buffer, length) -> bytes`: writes the postcard form of [`crate::monitor::Snapshot`].
///
/// Returns the bytes of the whole snapshot. When that is more than `length`, nothing is written: call again with more.
pub const SNAPSHOT: u64 = 0x1000;

/// `spawn(request, length) -> pid`: starts a program in a tenant; `request` is the postcard form of [`SpawnRequest`].
///
/// Errors: EPERM (not the system tenant), ENOENT (no such tenant or program), EINVAL (does not decode), EBADF, and what
/// `execve` answers.
pub const SPAWN: u64 = 0x1001;

/// `wait(pid) -> status`: waits for the end of a program started by [`SPAWN`] and returns its status in the form of
/// `wait4` (exit code in bits 8 to 15, signal in bits 0 to 6). ECHILD when the pid is none of the caller's.
pub const WAIT: u64 = 0x1002;

/// `log(tenant, offset, buffer, length) -> bytes`: reads what a tenant (its index in the machine, 0 is the system tenant)
/// wrote to standard output and standard error.
///
/// The first 8 bytes of the buffer receive the offset (little endian) of the first byte that follows: the kernel keeps a
/// bounded tail, so it is more than `offset` when the reader was too slow. Returns 8 + bytes read; 8 means nothing new.
/// Never waits. Errors: EPERM, ENOENT (no such tenant), EINVAL (`length` < 8), EFAULT.
pub const LOG: u64 = 0x1003;

/// `terminate(pid, signal)`: sends a signal to a program started by [`SPAWN`], whatever its tenant.
pub const TERMINATE: u64 = 0x1004;

/// `set(request, length)`: changes the running machine; `request` is the postcard form of [`Change`].
///
/// Errors: EPERM (not the system tenant), ENOENT (no such tenant or resource), EINVAL (does not decode, or a value that makes no
/// sense), EBUSY (a limit below what is held now, see [`Floor`]), EDOM (one below what is reserved), ERANGE (one above what the machine has),
/// EOPNOTSUPP (a policy for a resource that has none of its own: it is part of the CPU's), ENODEV (no such core).
pub const SET: u64 = 0x1005;

/// `end(grace_ms)`: ends the machine in order. Programs get SIGTERM, after the grace time (at most [`END_GRACE_MS_MAX`]) SIGKILL; all
/// file systems are written back and marked clean, the disks flushed; then the machine switches itself off. Returns at once.
///
/// Errors: EPERM (not the system tenant), EALREADY (it is ending).
pub const END: u64 = 0x1006;

/// The machine's exit code after [`END`], where everything is on the disks.
pub const EXIT_ENDED: u8 = 4;
/// The same, where a file system could not be written back.
pub const EXIT_NOT_WRITTEN: u8 = 5;

/// The longest grace time of [`END`], ms.
pub const END_GRACE_MS_MAX: u64 = 60_000;

/// `figures(process, buffer, length) -> bytes`: writes [`crate::figures::Figures`] of a process of the caller's tenant, 0 for itself,
/// as they are now. At most `length` bytes are written; the whole size is returned.
///
/// Errors: ESRCH (no such process), EPERM (another process, and the tenant has no `monitor = true`), EFAULT.
pub const FIGURES: u64 = 0x1010;

/// `figures_map(process) -> address`: maps a page that holds [`crate::figures::Figures`] of a process, read-only; the kernel writes it
/// every `period_ns`, for as long as it is mapped and the process lives. A child does not inherit it.
///
/// Errors: as [`FIGURES`]; ENOMEM, also for more pages than a tenant may have.
pub const FIGURES_MAP: u64 = 0x1011;

/// `fail(kind, resource, after)`: has a step of the work for the calling process fail: `kind` is a position in [`FAIL_KINDS`], `resource` one
/// in [`FAIL_RESOURCES`], `after` the steps of it that succeed before. Only kernels that are built for tests of containment have it.
///
/// Errors: ENOSYS (all other kernels), EINVAL.
pub const FAIL: u64 = 0x10f0;
/// How a step fails.
pub const FAIL_KINDS: [&str; 6] = [
    "panic",
    "stack used up",
    "stack overflow",
    "under an object's lock",
    "under a tenant's lock",
    "under a machine's lock",
];
/// Of whose work; the first means any resource.
pub const FAIL_RESOURCES: [&str; 8] = ["", "process", "ext2", "tmpfs", "async_io", "io_stream", "file_cache", "tcp"];

/// Argument of [`SET`]: what is `None` stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// A tenant's share and limits.
    Tenant {
        /// Its name.
        name: String,
        /// Weight among its siblings.
        share: Option<u32>,
        /// Memory in bytes.
        memory_bytes: Option<u64>,
        /// Memory of each process in bytes; `u64::MAX` takes the limit away.
        process_memory_bytes: Option<u64>,
        /// Processes and threads.
        processes: Option<u32>,
        /// How low the limits may be.
        #[serde(default)]
        floor: Floor,
    },
    /// Share and limit of a group of tenants.
    Group {
        /// Its name.
        name: String,
        /// Weight among its siblings.
        share: Option<u32>,
        /// Memory of all its tenants in bytes; `u64::MAX` takes the limit away.
        memory_bytes: Option<u64>,
        /// How low the limit may be.
        #[serde(default)]
        floor: Floor,
    },
    /// A resource's scheduler and cores.
    Resource {
        /// Its name; `cpu` for the CPU's own policy and the cores of programs.
        name: String,
        /// Its policy.
        policy: Option<Policy>,
        /// Messages handled per decision.
        batch: Option<u16>,
        /// Cores, a bit each.
        cores: Option<u64>,
        /// Weight of its queues among those of the same tenant.
        weight: Option<u32>,
        /// Their priority, where a policy looks at it: 0 goes first.
        priority: Option<u8>,
    },
}

/// The tenant of the caller, where a call takes a tenant's index.
pub const OWN_TENANT: u64 = u64::MAX;

/// `checkpoint(tenant, path, length)`: makes a file of a tenant (its index in the machine) durable, or with `length` 0 all that
/// the tenant has written. Who is not the system tenant may name [`OWN_TENANT`] only.
///
/// Errors: EPERM, ENOENT (no such tenant or file), EFAULT, EIO, and what walking a path answers.
pub const CHECKPOINT: u64 = 0x1028;

/// `evict(tenant, path, length) -> bytes`: the same, and then drops what is cached of the file, or of the tenant. Pages that
/// programs have mapped and use stay.
pub const EVICT: u64 = 0x1029;

/// `flow(sink, share, cookie) -> descriptor`: a flow to what the descriptor `sink` names; `share` (1 to 2^20) is its part of what this
/// program's flows read, relative to the others. For every program, as the five that follow. Closing the descriptor ends it.
///
/// The descriptor becomes readable when the flow has ended; `read` gives its completion then, once: 8 bytes of `cookie`, and 8 of the
/// bytes that have arrived or a negative errno, the first one that a source or the sink had. Before that it waits, or answers EAGAIN.
///
/// Errors: EBADF, EINVAL, EMFILE, ENFILE. A program that has too much asynchronous work under way gets a flow that has ended with EAGAIN.
pub const FLOW: u64 = 0x1020;

/// `flow_source(flow, source, offset, bytes, sink_offset)`: one more source, behind those that are there: `bytes` from `offset` on, or
/// to the end where that comes first, to `sink_offset` on. Offsets are ignored by streams. Never waits.
///
/// Errors: EBADF, EINVAL (also for an offset beyond 2^63-1), EPIPE (the flow is closed or has failed).
pub const FLOW_SOURCE: u64 = 0x1021;

/// `flow_close(flow, how) -> bytes`: no more sources. Waits until everything has arrived (`how` 0), ends it now (1), or does not wait (2: its
/// completion tells); the bytes that have arrived.
///
/// Errors: EBADF, EINVAL, EINTR, and the first error that a source or the sink had.
pub const FLOW_CLOSE: u64 = 0x1022;

/// `stream(descriptors)`: a stream of bytes; two `int`s receive the end to read from and the end to write to. Both can be ends of flows,
/// and be read, written and polled as a pipe is. It holds 256 KiB; the reader meets the end when the last writer is gone.
pub const STREAM: u64 = 0x1023;

/// `stream_write(descriptor, address, bytes) -> bytes`: writes by copying, waits for room. EPIPE (and SIGPIPE) where nobody reads.
pub const STREAM_WRITE: u64 = 0x1024;

/// `stream_read(descriptor, &address, &bytes)`: reads without copying where that can be: what comes next is mapped read-only at an
/// address that the system chooses. `bytes` says how much at most, and receives how much; 0 is the end. `munmap` gives it back.
pub const STREAM_READ: u64 = 0x1025;

/// Argument of [`SPAWN`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// The tenant's name.
    pub tenant: String,
    /// Arguments. The first is a path in the tenant's root, or a bare name looked up in the PATH of `environment`.
    pub argv: Vec<String>,
    /// Environment, `NAME=value`; empty takes that of the tenant's program.
    pub environment: Vec<String>,
    /// The caller's descriptor that becomes standard input.
    pub stdin: i32,
    /// The caller's descriptor that becomes standard output.
    pub stdout: i32,
    /// The caller's descriptor that becomes standard error.
    pub stderr: i32,
}
