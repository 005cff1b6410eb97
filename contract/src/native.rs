//! Native system calls: numbers from 0x1000 on, same registers as Linux calls (number in rax; arguments in rdi, rsi,
//! rdx, r10, r8, r9; result in rax, errors as negative errno).
//!
//! Each constant is the number of a call; its comment says arguments, answer, whether it waits, and errors. Requests
//! and answers that are no plain numbers are postcard forms of types in this crate.
//!
//! * Every process may call: its own figures ([`FIGURES`], [`FIGURES_MAP`]), goals, aggregates, flows, streams,
//!   channels, virtual cores (PULSE) and contexts.
//! * The system tenant alone may call: all that shows or changes the machine, its tenants, cells and zones. Others get
//!   EPERM.
//! * Kernels that are built for tests of containment alone know [`FAIL`] and [`ATTACK`]. Others answer ENOSYS.
//!
//! A call that writes a list takes a buffer and its length. [`SNAPSHOT`] and its like answer the whole size and write
//! nothing if the buffer is too small; logs write as many records as there is room for.
//!
//! Numbers are never given to another call. `system/kernel/src/native.rs` dispatches them; `user/native` calls them.

use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

pub use crate::change::{Change, Life};
pub use crate::trace::{TRACE_BEGIN, TRACE_END, TRACE_READ};

/// `snapshot(buffer, length) -> bytes`: writes the postcard form of [`crate::monitor::Snapshot`].
///
/// Returns the bytes of the whole snapshot. When that is more than `length`, nothing is written: call again with more.
pub const SNAPSHOT: u64 = 0x1000;

/// `spawn(request, length) -> pid`: starts a program in a tenant; `request` is the postcard form of [`SpawnRequest`].
///
/// If a terminal is asked for, it is the tenant's own (`/dev/pts/N`); its other end, the master, is a new descriptor of the caller, which
/// stands in the result's bits from [`SPAWN_MASTER_SHIFT`] on.
///
/// Errors: EPERM (not the system tenant), ENOENT (no such tenant or program), EINVAL (does not decode), EBADF, and those
/// of `execve`; for a terminal ENOSPC and EMFILE.
pub const SPAWN: u64 = 0x1001;

/// The place of the master's descriptor in the result of [`SPAWN`].
pub const SPAWN_MASTER_SHIFT: u32 = 32;

/// `wait(pid) -> status`: waits for the end of a program started by [`SPAWN`] and returns its status in the form of
/// `wait4` (exit code in bits 8 to 15, signal in bits 0 to 6). ECHILD when the pid is none of the caller's.
pub const WAIT: u64 = 0x1002;

/// `log(tenant, offset, buffer, length) -> bytes`: reads the standard output and standard error of a
/// tenant (its index in the machine, 0 is the system tenant).
///
/// The first 8 bytes of the buffer receive the offset (little endian) of the first byte that follows: the kernel keeps a
/// bounded tail, so it is more than `offset` when the reader was too slow. Returns 8 + bytes read; 8 means nothing new.
/// Never waits. Errors: EPERM, ENOENT (no such tenant), EINVAL (`length` < 8), EFAULT.
pub const LOG: u64 = 0x1003;

/// `terminate(pid, signal)`: sends a signal to a program started by [`SPAWN`], of any tenant.
pub const TERMINATE: u64 = 0x1004;

/// `set(request, length)`: changes the running machine; `request` is the postcard form of [`Change`].
///
/// Errors: EPERM (not the system tenant), ENOENT (no such tenant or resource), EINVAL (does not decode, or a value that makes no
/// sense), EBUSY (a limit below the present holdings, see [`Floor`]), EDOM (one below the reservations), ERANGE (one above the machine's memory),
/// EOPNOTSUPP (a policy for a resource that has none of its own: it is part of the CPU's), ENODEV (no such core).
pub const SET: u64 = 0x1005;

/// `end(grace_ms)`: ends the machine in order. Programs get SIGTERM, after the grace time (at most [`END_GRACE_MS_MAX`]) SIGKILL; all
/// file systems are written back and marked clean, the disks flushed; then the machine switches itself off. Returns at once.
///
/// Errors: EPERM (not the system tenant), EALREADY (it is ending).
pub const END: u64 = 0x1006;

/// `type(tenant, buffer, length) -> bytes`: types on the console of a tenant (its index in the machine), which is the standard input of its
/// first program. Returns the bytes taken; at most 4096 may be given.
///
/// Errors: EPERM (not the system tenant), ENOENT (no such tenant), EINVAL, EFAULT, EAGAIN (nobody has read what was typed before), ENOMEM.
pub const TYPE: u64 = 0x1007;

/// The machine's exit code after [`END`] if everything is on the disks.
pub const EXIT_ENDED: u8 = 4;
/// The machine's exit code after [`END`] if a file system could not be written back.
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

/// `goal(name, length, kind, number) -> address`: maps a page of the caller's own, a [`crate::goals::BeatsPage`], in which it counts its
/// heartbeats. `kind` is [`GOAL_NONE`], [`GOAL_RATE`] (`number` beats in 1,000 seconds) or [`GOAL_RESPONSE`] (99 % of the beats take at most
/// `number` nanoseconds). Every program may call it. A goal that the machine's owner has set counts more than the program's. A child does
/// not inherit the page. `munmap` of it, or the program's end, takes the goal back.
///
/// Errors: EINVAL (no such kind, a number of 0 or above 10^15, a name of more than 24 bytes), EFAULT; ENOMEM, also for more pages than a
/// tenant may have.
pub const GOAL: u64 = 0x1030;
/// No number: the owner's goal holds.
pub const GOAL_NONE: u64 = 0;
/// Beats in 1,000 seconds.
pub const GOAL_RATE: u64 = 1;
/// Nanoseconds that 99 % of the beats take at most.
pub const GOAL_RESPONSE: u64 = 2;

/// `goals(buffer, length) -> bytes`: writes the postcard form of [`crate::goals::Goals`]; as [`SNAPSHOT`] with regard to `length`. For the
/// system tenant.
///
/// Errors: EPERM, EFAULT, ENOMEM.
pub const GOALS: u64 = 0x1031;

/// `change(request, length, answer, room) -> bytes`: makes several changes as one; `request` is the postcard form of
/// [`crate::promise::Together`], and that of a [`crate::promise::Answer`] is written. As [`SET`], which takes one change and answers an errno.
///
/// Errors: EPERM (not the system tenant), EINVAL (does not decode), EFAULT, ENOSPC (`room` is too small; the change was made).
pub const CHANGE: u64 = 0x1032;

/// `changes(from, buffer, length) -> bytes`: writes the postcard form of a list of [`crate::promise::Record`] from that epoch on, as many as
/// there is room for. Never waits.
///
/// Errors: EPERM, EFAULT.
pub const CHANGES: u64 = 0x1034;

/// `aggregate(number, share, policy) -> number`: makes a CPU aggregate of the calling process (`number` is 0), or gives one another share
/// (`policy` is that of the aggregate, or [`AGGREGATE_SAME`]). Aggregates, and the threads in none together with a share of 1,024, divide
/// what the process gets by their shares (1 to 1,000,000); `policy` orders the aggregate's threads on a core. Flows that its threads
/// open stand together with its share beside other flows of the program. Every program may call it. A child has none; execve keeps them.
///
/// Errors: EINVAL (a share or policy that cannot be, or not its own), ENOENT (no such aggregate of this process), EAGAIN (the machine has 256, or
/// the process 64, or it is one process too many of its tenant to have a place in the tree).
pub const AGGREGATE: u64 = 0x1064;
/// In turn.
pub const AGGREGATE_ROUND_ROBIN: u64 = 0;
/// The most urgent thread, always; a larger number goes first.
pub const AGGREGATE_PRIORITY: u64 = 1;
/// In proportion to the threads' shares.
pub const AGGREGATE_SHARES: u64 = 2;
/// Budgets in periods, the nearest deadline first.
pub const AGGREGATE_DEADLINES: u64 = 3;
/// The policy stays.
pub const AGGREGATE_SAME: u64 = 4;
/// The largest share of an aggregate, and of a thread in one.
pub const AGGREGATE_SHARE_MAX: u64 = 1_000_000;
/// The shortest budget, and the longest period, ns.
pub const AGGREGATE_NS_MIN: u64 = 1_000;
/// See [`AGGREGATE_NS_MIN`].
pub const AGGREGATE_NS_MAX: u64 = 10_000_000_000;

/// `aggregate_join(number, first, second)`: the calling thread stands in that aggregate from now on, 0 in none. Threads that it starts stand
/// where it stands, with the same words: an urgency (0 to 255), a share (1 to 1,000,000), or a budget and a period in ns (1 us to 10 s, budget at
/// most period); 0 for those that the policy has no use for.
///
/// Errors: EINVAL, ENOENT.
pub const AGGREGATE_JOIN: u64 = 0x1065;

/// `aggregate_figures(number, buffer)`: writes [`AggregateFigures`].
///
/// Errors: ENOENT, EFAULT.
pub const AGGREGATE_FIGURES: u64 = 0x1066;

/// `aggregate_close(number)`: ends an aggregate in which no thread stands.
///
/// Errors: ENOENT, EBUSY.
pub const AGGREGATE_CLOSE: u64 = 0x1067;

pub use crate::aggregates::AggregateFigures;

/// `cell_list(buffer, length) -> bytes`: writes the postcard form of [`crate::seats::Seats`]; as [`SNAPSHOT`] with regard to `length`. (0x1050 is
/// the call by which a process becomes a cell, `gyre_cell_abi::ENTER`.)
///
/// Errors: EPERM (not the system tenant), ENOSYS (no memory is kept for cells), EFAULT.
pub const CELL_LIST: u64 = 0x1051;

/// `cell_log(number, buffer, length) -> bytes`: writes the postcard form of a list of [`crate::seats::Record`], from that number on, as many as
/// there is room for. Never waits.
///
/// Errors: as [`CELL_LIST`]; ENOSPC.
pub const CELL_LOG: u64 = 0x1052;

/// `cell_revoke(request, length, answer, room) -> bytes`: has a cell give parts back; `request` is the postcard form of
/// [`crate::seats::Revoke`]. The postcard form of [`crate::seats::Answer`] is written to `answer`. Waits until the parts are back or the cell
/// is ended.
///
/// Errors: as [`CELL_LIST`]; EINVAL (does not decode), ENOSPC.
pub const CELL_REVOKE: u64 = 0x1053;

/// `cell_offer(request, length, answer, room) -> bytes`: lets a cell have cores again in the place of those that it gave back; `request` is the postcard
/// form of [`crate::seats::Offer`]. That of [`crate::seats::OfferAnswer`] is written to `answer`. Waits until the cell has taken them or the time is
/// over.
///
/// Errors: as [`CELL_REVOKE`].
pub const CELL_OFFER: u64 = 0x105f;

pub use crate::leases::{CELL_LEASES, Lease};

/// `cell_pool(bytes) -> bytes`: keeps so much memory for cells, in whole lots. Lots that no cell has go back to the machine, or come from it, as far as
/// there are some; the answer is how much is kept now. Never waits.
///
/// Errors: as [`CELL_LIST`]; EINVAL for bytes that are no whole lots of 2 MiB.
pub const CELL_POOL: u64 = 0x1057;

/// `zone_control(request, length, answer, room, by) -> bytes`: changes the zones; `request` is the postcard form of a list of
/// [`crate::zones::Command`], done together or not at all. The postcard form of [`crate::zones::Answer`] is written to `answer`.
/// `by` is the place of a [`crate::zones::Orderer`] in the list of all: the log names it. Waits until the change is complete.
///
/// Errors: EPERM (not the system tenant of a supervisor), EINVAL (does not decode, or no such orderer), EFAULT, ENOSPC (`room` is too small).
pub const ZONE_CONTROL: u64 = 0x1058;

/// `zones(buffer, length) -> bytes`: writes the postcard form of [`crate::zones::Zones`]; as [`SNAPSHOT`] with regard to `length`.
///
/// Errors: EPERM, EFAULT.
pub const ZONES: u64 = 0x1059;

/// `zone_console(zone, offset, buffer, length) -> bytes`: reads what a zone (its index in the description) has printed; as [`LOG`].
pub const ZONE_CONSOLE: u64 = 0x105a;

/// `zone_log(number, buffer, length) -> bytes`: writes the postcard form of a list of [`crate::zones::Record`], from that number on, as many
/// as there is room for; an empty list if there is none yet. Never waits.
///
/// Errors: EPERM, EFAULT.
pub const ZONE_LOG: u64 = 0x105b;

/// `zone_wish(request, length, answer, room) -> bytes`: asks the supervisor to hand parts of this zone to another one; `request` is the postcard
/// form of [`crate::zones::Wish`]. That of [`crate::zones::WishAnswer`] is written to `answer`. Waits until it is done or refused.
///
/// Errors: EPERM (not the system tenant), ENOSYS (this is no zone), EINVAL (does not decode, or makes no sense), EBUSY (another wish is open),
/// ETIMEDOUT (the supervisor does not answer), EFAULT, ENOSPC (`room` is too small; it is done or refused).
pub const ZONE_WISH: u64 = 0x105c;

/// `zone_module(number, whole, offset, buffer, length) -> bytes`: hands over a piece of the boot module of a zone that is to come, for
/// [`crate::zones::Command::Describe`]. The caller chooses a `number` for the module, which has `whole` bytes. Pieces follow each other; that at
/// offset 0 begins, and the one that was handed over before goes, whole or not. Returns the bytes that there are.
///
/// Errors: EPERM (not the system tenant of a supervisor), EINVAL (a module of 0 bytes or more than [`crate::zones::MODULE_BYTES_MAX`], a
/// piece of more than 256 KiB), ESTALE (it does not follow what there is of this number: another one was begun meanwhile), ENOMEM (the
/// system tenant has no room for it), EFAULT.
pub const ZONE_MODULE: u64 = 0x105d;

/// `cells(request, length, answer, room) -> bytes`: changes the cells; `request` is the postcard form of [`crate::cells::Request`], done together or
/// not at all, and recorded as a change without a reason ([`CHANGE`] takes one); an empty list changes nothing. The postcard form of [`crate::cells::Answer`] is written to `answer`. Returns when every core is told,
/// and does not wait until all have changed over.
///
/// Errors: EPERM (not the system tenant), EINVAL (does not decode), EFAULT, ENOSPC (`room` is too small).
pub const CELLS: u64 = 0x1033;

/// `pulse(area, entry, stack, limit_ns, begin, end)`: makes the calling thread a virtual core of the program's own scheduler; an `area` of 0 makes it an ordinary
/// thread again. At a tick the kernel saves the context that [`crate::pulse::Area`] names, masks ticks and calls `entry(area, reason)` on `stack` (its
/// end). Ticks that stay masked for longer than `limit_ns` end the virtual core: it goes on as an ordinary thread, is told by `OVERRUN` in the
/// area, and gets SIGXCPU. So does one whose area or context cannot be written (SIGSEGV). A child does not inherit it; execve ends it.
///
/// With a `begin` other than 0 the program goes on in contexts by itself. A tick then saves the general registers only: the entry finds the
/// extended state as the context had it. From `begin` to `end` lie the last instructions of a resumption: all registers are the context's already,
/// and what is left is to clear `masked` and to go to `resume`, both in the area. The kernel does that if a tick or a signal finds the thread there.
///
/// Errors: EINVAL (an area that is no multiple of 8, an entry or stack outside of user memory, a limit of 0 or above a minute, an `end` before
/// `begin` or more than [`crate::pulse::RESUMPTION_BYTES_MAX`] behind it), EFAULT; EOPNOTSUPP (this processor's extended state does not fit into a
/// context).
pub const PULSE: u64 = 0x1035;

/// `pulse_tick(period_ns)`: has a tick come each `period_ns` (50 us to 10 s) from now on; 0 stops them. Ticks that are missed are not made up for.
///
/// Errors: EINVAL; ESRCH (the thread is no virtual core).
pub const PULSE_TICK: u64 = 0x1036;

/// `context_save(context) -> 0 | 1`: saves the caller's registers as [`crate::pulse::Context`]. Answers 0 now, and 1 each time that it is restored.
///
/// Errors: EINVAL (no multiple of 64), EFAULT; EOPNOTSUPP.
pub const CONTEXT_SAVE: u64 = 0x1037;

/// `context_restore(context, how)`: goes on as a context was saved, or as a program has filled it in. With [`CONTEXT_UNMASK`] in `how` and as a
/// virtual core, the context becomes the running one and ticks are let in as one step with it; a tick that waits comes at once.
///
/// Errors: EINVAL (it is no context, or says something that no registers may hold, or `how` is another number), EFAULT. Nothing has changed then.
pub const CONTEXT_RESTORE: u64 = 0x1038;

/// `context_switch(save, restore, how)`: both as one step. Errors: as both; nothing has changed then.
pub const CONTEXT_SWITCH: u64 = 0x1039;
/// Lets ticks in; see [`CONTEXT_RESTORE`].
pub const CONTEXT_UNMASK: u64 = 1;

/// `hand_over(thread)`: has another thread of the process run in the caller's place, if it waits in this call, or the next time that it does; then
/// waits until it is called itself. 0 calls nobody and waits. One call is kept for a thread that does not wait.
///
/// Errors: ESRCH, EINTR (a signal came first; who was called runs nevertheless).
pub const HAND_OVER: u64 = 0x103a;

/// `fail(kind, resource, length, after, whose)`: has a step of the work for a process fail: `kind` is a position in [`FAIL_KINDS`],
/// `resource` the name of one in the catalogue, or [`FAIL_ANY`], of `length` bytes; `after` the steps of it that succeed before; `whose` a
/// position in [`FAIL_WHOSE`]. Only kernels that are built for tests of containment have it.
///
/// Errors: ENOSYS (all other kernels), EINVAL (no such kind or process), ENODEV (no such resource), EFAULT.
pub const FAIL: u64 = 0x10f0;
/// The process for which a step fails.
pub const FAIL_WHOSE: [&str; 2] = ["the caller's", "the agent's"];
/// How a step fails.
pub const FAIL_KINDS: [&str; 7] = [
    "panic",
    "stack used up",
    "stack overflow",
    "under an object's lock",
    "under a tenant's lock",
    "under a machine's lock",
    "without an end",
];
/// The work of any resource.
pub const FAIL_ANY: &str = "any";

/// `attack(kind)`: has this kernel try what no zone may, or lose its mind; `kind` is a position in [`ATTACKS`]. It comes back if it is held
/// back without an end, or is not felt at once. Only kernels that are built for tests of containment have it.
///
/// Errors: ENOSYS (all other kernels), EINVAL.
pub const ATTACK: u64 = 0x10f1;
/// The attacks. The first four are ends of a kernel by itself; the rest reaches for memory, ports, registers, instructions and cores of others.
pub const ATTACKS: [&str; 21] = [
    "panic",
    "triple",
    "silence",
    "spin",
    "write",
    "read",
    "execute",
    "port",
    "power",
    "rdmsr",
    "wrmsr",
    "vmrun",
    "clgi",
    "breakpoint",
    "table",
    "apic-page",
    "init",
    "startup",
    "all",
    "vector",
    "message",
];

/// The tenant of the caller, for calls that take a tenant's index.
pub const OWN_TENANT: u64 = u64::MAX;

/// `checkpoint(tenant, path, length)`: makes a file of a tenant (its index in the machine) durable, or with `length`
/// 0 all that the tenant has written. Tenants other than the system tenant may name [`OWN_TENANT`] only.
///
/// Errors: EPERM, ENOENT (no such tenant or file), EFAULT, EIO, and those of walking a path.
pub const CHECKPOINT: u64 = 0x1028;

/// `evict(tenant, path, length) -> bytes`: does as [`CHECKPOINT`] does, then drops cached pages of the file, or of
/// the tenant. Pages that programs have mapped and use stay.
pub const EVICT: u64 = 0x1029;

/// `flow(sink, share, cookie) -> descriptor`: makes a flow to the object of the descriptor `sink`; `share` (1 to
/// 2^20) is its part of the bytes that this program's flows read, relative to the others. Every program may call it
/// and the five that follow. Closing the descriptor ends the flow.
///
/// The descriptor becomes readable when the flow has ended. `read` then gives its completion, once: 8 bytes of
/// `cookie`, and 8 of the bytes that have arrived or a negative errno, the first one of a source or the sink. Before
/// that it waits, or answers EAGAIN.
///
/// In a tenant with an overload controller (`[tenant.overload]`) flows above its limit are refused with EAGAIN, and flows that have begun may end
/// with EAGAIN before their time. [`FLOW_CLOSE`] with `how` 2 then tells the bytes that have arrived, and another flow may go on behind them.
///
/// Errors: EBADF, EINVAL, EMFILE, ENFILE, EAGAIN. A program that has too much asynchronous work under way gets a flow that
/// has ended with EAGAIN.
pub const FLOW: u64 = 0x1020;

/// `flow_source(flow, source, offset, bytes, sink_offset)`: adds one more source, behind those that are there:
/// `bytes` from `offset` on, or up to the end if that comes first, to `sink_offset` on. Offsets are ignored by
/// streams. Never waits.
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

/// `stream_write(descriptor, address, bytes) -> bytes`: writes by copying and waits for room. Answers EPIPE (and
/// sends SIGPIPE) if the stream has no reader.
pub const STREAM_WRITE: u64 = 0x1024;

/// `stream_read(descriptor, &address, &bytes)`: reads, without copying if possible: the next bytes are mapped
/// read-only at an address that the system chooses. `bytes` says how many at most, and receives how many; 0 is the
/// end. `munmap` gives them back.
pub const STREAM_READ: u64 = 0x1025;

/// `channel_open(name, length, pages, flags) -> descriptor`: opens a channel (R5). With the flag 1 the caller listens under a name of its own
/// tenant (`NAME`) and grants each connection up to `pages` shared pages (512 at most). Otherwise it connects to who listens under
/// `TENANT/NAME`, or `NAME` in its own tenant, with `pages` shared pages; what it sends waits until it is accepted. Flag 2: calls do not wait.
/// Letters of names are a-z, A-Z, 0-9, `-`, `_` and `.`, 64 at most.
///
/// The descriptor of an end is read and written a message at a time, at most 64 KiB each; poll and epoll know it. A peer that is gone reads as
/// the end (0 bytes) behind what it has sent; writing to it is EPIPE. 64 messages and 256 KiB wait at most.
///
/// The tenant may be one of another zone to which this one is linked. Then the call waits for the other kernel's answer, all channels that this zone
/// opens there share 16 pages, and a peer whose zone is gone reads as ECONNRESET.
///
/// Errors: EINVAL, EFAULT, EMFILE, ENFILE; EADDRINUSE and EACCES (another tenant's name) for a listener; ECONNREFUSED (nobody listens) and
/// EAGAIN (too many wait to be accepted) for who connects; EHOSTUNREACH (the zone is away) and ENOMEM (no pages left) between zones.
pub const CHANNEL_OPEN: u64 = 0x1040;

/// `channel_close(descriptor)`: as close. Errors: EBADF, EINVAL (no channel).
pub const CHANNEL_CLOSE: u64 = 0x1041;

/// `channel_read(descriptor, address, bytes) -> bytes`: reads a message, as read does. Errors: as read; EMSGSIZE if it is longer, and it stays.
pub const CHANNEL_READ: u64 = 0x1042;

/// `channel_write(descriptor, address, bytes) -> bytes`: writes a message, as write does. Errors: as write; EMSGSIZE beyond 64 KiB.
pub const CHANNEL_WRITE: u64 = 0x1043;

/// `channel_map(descriptor) -> address`: shows the channel's pages, which both ends may read and write; zeros at first. Errors: EBADF, EINVAL
/// (a listener, or a channel without pages), ENOMEM.
pub const CHANNEL_MAP: u64 = 0x1044;

/// `channel_unmap(descriptor, address)`: takes them away again. Errors: EBADF, EINVAL (they are not there).
pub const CHANNEL_UNMAP: u64 = 0x1045;

/// `channel_accept(listener, flags) -> descriptor`: waits for a connection; flag 2 is for the new end. Errors: EBADF, EINVAL, EAGAIN, EMFILE,
/// ENFILE, EINTR.
pub const CHANNEL_ACCEPT: u64 = 0x1046;

/// `channel_figures(descriptor, buffer, length) -> length`: tells the peer, and how much has passed ([`ChannelFigures`]). Errors: EBADF,
/// EINVAL, EFAULT.
pub const CHANNEL_FIGURES: u64 = 0x1047;

/// `on_behalf(channel) -> ns`: from here on the calling thread works at the expense of the tenant at the other end, as far as that has
/// granted ([`GRANT`]): the program's cycles and those of its calls are in the payer's row of the ledger. The thread keeps its place in the
/// schedule; memory and requests stay its own. Answers what is left of the grant, ns.
///
/// It ends with `on_behalf(-1)`, with the next call by which the thread waits for news (`channel_read`, `channel_accept`, read of a channel, poll,
/// select, epoll), with the grant, and with the thread. `on_behalf(-1)` answers what was spent since it began, ns.
///
/// Errors: EBADF, EINVAL (no end of a channel), EACCES (nothing was granted), EDQUOT (nothing is left of it), EPIPE (the peer is gone).
pub const ON_BEHALF: u64 = 0x103c;

/// `grant(channel, ns, from) -> ns`: the program at the other end may spend so much at this tenant's expense ([`ON_BEHALF`]). It replaces the
/// grant before, of which it answers the rest; 0 takes it back, [`GRANT_LOOK`] only looks. Closing the channel takes it back, too.
///
/// With `from`, the end of a channel by which somebody granted the caller something (-1: none), that is passed on: the work is paid by who granted that,
/// and bounded by both. Four grants in a row at most.
///
/// Errors: EBADF, EINVAL (no end of a channel, more than an hour), EACCES (`from` grants nothing), ELOOP (too many in a row), EPIPE (the peer
/// is gone), EHOSTUNREACH (the peer is in another zone).
pub const GRANT: u64 = 0x103d;

/// An amount of [`GRANT`] that changes nothing.
pub const GRANT_LOOK: u64 = u64::MAX;

/// The most that may be granted at once, ns.
pub const GRANT_NS_MAX: u64 = 3_600_000_000_000;

/// Bytes of [`ChannelFigures`].
pub const CHANNEL_FIGURES_BYTES: usize = 128;

/// The form of a channel's figures: numbers little endian, each of 8 bytes, behind the peer's name in 64 bytes that ends with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChannelFigures {
    /// Pages that both may map.
    pub pages: u64,
    /// Messages that this end has received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages that the peer has received.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages that wait here.
    pub waiting: u64,
    /// Bytes of the first of them.
    pub next_bytes: u64,
}

impl ChannelFigures {
    /// Writes them, with the name of the peer's tenant, cut to 63 bytes.
    #[must_use]
    pub fn encode(&self, peer: &str) -> [u8; CHANNEL_FIGURES_BYTES] {
        let mut bytes = [0; CHANNEL_FIGURES_BYTES];
        bytes.iter_mut().zip(peer.bytes().take(63)).for_each(|(place, byte)| *place = byte);
        let words =
            [self.pages, self.received, self.received_bytes, self.sent, self.sent_bytes, self.waiting, self.next_bytes];
        let numbers = words.into_iter().flat_map(u64::to_le_bytes);
        bytes.iter_mut().skip(64).zip(numbers).for_each(|(place, byte)| *place = byte);
        bytes
    }
}

/// Argument of [`SPAWN`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// The tenant's name.
    pub tenant: String,
    /// Arguments. The first is a path in the tenant's root, or a bare name looked up in the PATH of `environment`.
    pub argv: Vec<String>,
    /// Environment, `NAME=value`, in place of or beside that of the tenant's program.
    pub environment: Vec<String>,
    /// The caller's descriptor that becomes standard input.
    pub stdin: i32,
    /// The caller's descriptor that becomes standard output.
    pub stdout: i32,
    /// The caller's descriptor that becomes standard error.
    pub stderr: i32,
    /// Rows and columns of a terminal that becomes all three of them, and the program's controlling one.
    pub terminal: Option<[u16; 2]>,
}
