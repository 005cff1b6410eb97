//! Options that every kind of socket keeps (socket(7)).

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Options of one socket: plain values, which take effect in the code that reads them.
#[derive(Default)]
pub struct Options {
    /// SO_REUSEADDR.
    pub reuse_address: AtomicBool,
    /// SO_REUSEPORT.
    pub reuse_port: AtomicBool,
    /// SO_KEEPALIVE.
    pub keep_alive: AtomicBool,
    /// SO_BROADCAST.
    pub broadcast: AtomicBool,
    /// SO_PASSCRED.
    pub pass_credentials: AtomicBool,
    /// SO_LINGER: 0 off, else seconds + 1.
    pub linger: AtomicU32,
    /// SO_SNDBUF, bytes; 0 for the default.
    pub send_bytes: AtomicU32,
    /// SO_RCVBUF, bytes; 0 for the default.
    pub receive_bytes: AtomicU32,
    /// SO_SNDTIMEO in ns; 0 waits for ever.
    pub send_timeout_ns: AtomicU64,
    /// SO_RCVTIMEO in ns; 0 waits for ever.
    pub receive_timeout_ns: AtomicU64,
    /// The user who made it.
    pub owner: AtomicU32,
    /// Its number, which /proc and stat show.
    pub number: AtomicU64,
    /// SO_RCVLOWAT, SO_PRIORITY, SO_MARK, IP_TOS, IP_TTL and the like: kept and told, without effect.
    pub kept: gyre_object::ObjectLock<alloc::collections::BTreeMap<(u32, u32), u32>>,
}

impl Options {
    /// Reads a flag.
    pub fn flag(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Relaxed)
    }
}
