//! The simulated machine. One operating system thread plays all cores; time stands still unless somebody advances it,
//! or follows the host's clock (the default, for unit tests and benchmarks).
//!
//! The functions are those of `gyre-x86-64`; a function that makes no sense on a host (entering a user program) is a
//! script here, see [`user`].
//!
//! [`disk`] and [`wire`] are what lies behind devices: sectors with a volatile cache, and frames on their way. Devices themselves belong to
//! their drivers' tests (`gyre_virtio::fake`) and to the simulator's runner.

pub mod console;
pub mod core;
pub mod disk;
pub mod dma;
pub mod entropy;
pub mod frame;
mod guard;
mod instance;
pub mod machine;
mod online;
pub mod page_table;
pub mod physical;
pub mod random;
mod shared;
pub mod time;
mod user;
pub mod watch;
pub mod wire;

pub use console::console_write;
pub use core::{end_instance, events_pending, idle, interrupt_window, post_event, take_events, wake_core};
pub use dma::{DmaBuffer, dma_fence};
pub use entropy::{fill_random, seed_random};
pub use frame::{Frame, set_memory_meter, viewing};
pub use guard::{guarded, last_failure, set_judge};
pub use instance::PerInstance;
pub use machine::{Machine, core_count, core_index, select_core, set_core_count};
pub use online::{come_online, go_offline, move_interrupts, online_cores, park_registers, return_interrupts};
pub use page_table::{PageTable, TableRoot, flush_all_local, flush_page_local};
pub use physical::{device_read, device_write, live_frame_bytes};
pub use shared::SharedMemory;
pub use time::{
    advance, advance_core_to, armed_timer, begin_virtual_time, clear_timer, clock_scale, cycles_per_ms, now, set_timer,
    set_virtual_tick, set_virtual_time, timer_arms, virtual_clock, wall_clock_ns,
};
pub use user::{UserContext, enter_user, has_breakpoints};
pub use watch::{
    answer_knock, ask_to_end, asked_to_end, end_unreachable, failure_point, forget_asked, knock, knocks_answered_by,
    mark_work, pass_safe_point, ran_since_asked, replace_turns, set_end_hook, show_stuck, take_turn, turns_left,
    work_mark, work_mark_of,
};
