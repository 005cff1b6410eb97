//! Objects of the kernel: locks with a contention profile, pages and byte buffers that move by reference.
#![no_std]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod block;
pub mod budget;
pub mod buffer;
pub mod byte_queue;
pub mod census;
mod contention;
pub mod held;
mod instance;
pub mod lock;
pub mod oneshot;
pub mod patience;
pub mod pool;
pub mod promise;
pub mod registry;
pub mod set_once;
pub mod small;

pub use buffer::{Bytes, Page};
pub use byte_queue::ByteQueue;
pub use census::{Census, Counter};
pub use held::{Held, forget_locks_held, give_up_locks, locks_by_class, locks_held};
pub use instance::PerInstance;
pub use lock::{Lock, LockGuard, LockProfile, ObjectLock, Profiled, SpinLock, TenantLock};
pub use pool::{Counted, Pool, PoolFull, PoolStatistics, Pooled};
pub use registry::{lock_profiles, pool_statistics, register_lock, register_pool};
pub use set_once::{Installed, SetOnce};
pub use small::SmallCopies;
