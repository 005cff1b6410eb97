//! Bounds of the engine's tables, and how they relate.

/// Most tasks alive on one core: requests queued or being handled, and spawned tasks.
pub const TASKS_MAX: usize = 1 << 15;
/// Most threads (movable tasks) of an instance.
pub const THREADS_MAX: usize = 1 << 13;
/// Requests that a queue takes before it drops more, if the configuration says nothing.
pub const QUEUE_BOUND: u32 = 1024;
/// Handlers started inside each other at most; each takes stack.
pub const INLINE_DEPTH_MAX: u32 = 8;
/// Bytes of stack that a turn may have used for another handler to be started inside it. The kernel's stack is 256 KiB; what one handler
/// takes was seen to be up to 45 KiB.
pub const INLINE_STACK_BYTES: usize = 96 << 10;
/// Messages from other cores that need no memory but the inbox's own.
pub const INBOX_SLOTS: usize = 256;
/// Messages of gates served one after the other while the CPU's policy has a ready client.
pub const GATE_STREAK_MAX: u32 = 16;
/// Placements of affinity labels kept per resource at most, in two tables that each are full then: 8,192 places of 41 bytes. A table takes
/// entries for seven eighths of its places.
pub const PLACEMENTS_MAX: usize = 2 * (7 << 10);
/// A label that a thread has drawn to its core stays there so long at least, ns, also if others use it.
pub const DRAW_EVERY_NS: u64 = 20_000_000;
/// Time for which cores remember the core of a drawn label, ns; then they look it up again.
pub const DRAWN_NS: u64 = 1_000_000_000;
/// A queue that stayed empty for so long is forgotten, ns.
pub const QUEUE_IDLE_NS: u64 = 10_000_000_000;
/// Length of a turn of kernel work before the scheduler is asked again, ns.
pub const QUANTUM_NS: u64 = 100_000;
/// A program runs at least so long before another activity that is entitled to more gets the core, ns; the infrastructure's work and
/// gates do not wait. Bounds the switches between programs that make many system calls.
pub const GRANULARITY_NS: u64 = 200_000;
/// How often a core tells the others what it gave to whom, ns; one that idles more than a quarter of the time tells it every eighth time
/// (`balance`). A share is wrong meanwhile by at most the time given in between: 1 ms of a busy core, 8 ms of one
/// that has idled until then.
pub const BALANCE_NS: u64 = 1_000_000;
/// A tenant that was served on another core waits here at most until the others have caught up this much of it, ns of a core.
pub const DEBT_NS: u64 = 50_000_000;
/// A tenant that waited for a moment catches up at most this much, ns of a core.
pub const CREDIT_NS: u64 = 10_000_000;
/// Time slice of a user thread, ns, if the configuration says nothing.
pub const SLICE_NS: u64 = 2_000_000;

/// Timers that a core wakes at one look at the clock. A program may arm many thousands for one moment; what each wakes is short.
pub const TIMERS_AT_ONCE: usize = 64;

/// How often a core looks at the others while one of them works, ns.
pub const LOOK_NS: u64 = 500_000_000;
/// How often it does while all others idle: one may wake up, and hang. Seldom, so that an idle machine stays idle.
pub const GUARD_NS: u64 = 4_000_000_000;
/// A core that has been in one piece of work for so long is asked to end it, ns.
pub const ASK_NS: u64 = 1_000_000_000;
/// For so long of its own time it may go on after it has seen the question, ns: a core whose hypervisor let it stand still comes to its end
/// by itself.
pub const GRACE_NS: u64 = 200_000_000;
/// It is ended after its grace only if it has passed so many safe points meanwhile: a work that comes to its end passes fewer, however slow its
/// host is.
pub const GRACE_POINTS: u64 = 4096;
/// Work with fewer safe points is ended after so long of the core's own time, ns.
pub const LONG_GRACE_NS: u64 = 4_000_000_000;
/// How often a core that was asked to end its work is knocked at, ns: each answer shows that it has run meanwhile.
pub const KNOCK_NS: u64 = gyre_machine::own_time::SIGN_MS * 1_000_000;
/// One that has been for so long and shows that it runs says its place and ends the machine, ns.
pub const SHOW_NS: u64 = 10_000_000_000;
/// Looks before which a core answered a knock, after which it counts as one that really runs.
pub const PROOFS: u32 = 8;
/// How often one that answers nothing is told of, ns: a host that takes processors away for so long does more than share them.
pub const TELL_NS: u64 = 10_000_000_000;
/// One that has answered nothing for so long, in looks of another core, ends the machine unheard, ns. A host that shares its processors lets
/// one stand still for seconds, not for minutes; a core that takes no NMI for so long is broken.
pub const UNREACHABLE_NS: u64 = 120_000_000_000;

/// Weight of a queue of a resource of weight 1 within its activity: that of a process of nice value 0, so that lower ones have room.
pub const WEIGHT_UNIT: u32 = 1024;

const _: () = assert!(TASKS_MAX <= 1 << 24, "a task's index has 24 bits in a waker");
const _: () = assert!(INBOX_SLOTS.is_power_of_two());
