//! Files of a process: descriptors, directories, mask. What the rest of the personality needs of it is [`FileContext`].
//!
//! | module | holds |
//! |---|---|
//! | [`table`], [`calls`] | the system calls |
//! | [`context`], [`descriptors`], [`open_file`] | what a process has open |
//! | [`object`] | the kinds of open things, one module each beside it |
//! | [`mount`], [`filesystem`], [`walk`], [`near`], [`permission`] | names |
//! | [`tenant_files`] | what a tenant's processes share, and what the assembler must give |
//! | [`in_flight`], `remains` | files in sockets; what is let go of and taken apart in pieces |
//! | [`transfer`] | buffers of programs |
//! | [`passage`], [`flow`] | what is moved by reference |
//! | [`regular`], `resident` | regular files; as far as they are in memory, without a message |
//! | `direct`, `direct_offer` | what goes past the file cache (O_DIRECT), and where it can |
//! | [`begun_transfer`], [`under_way`] | what no task waits for |

pub mod async_lock;
pub mod attributes;
pub mod begun_transfer;
mod bridge;
pub mod calls;
pub mod context;
pub mod descriptors;
pub mod device;
mod direct;
pub mod direct_offer;
pub mod directory;
mod endpoint;
pub mod epoll;
pub mod event_counter;
pub mod filesystem;
pub mod flow;
pub mod in_flight;
pub mod inotify;
pub mod keep;
pub mod locks;
pub mod log_ring;
pub mod mount;
mod near;
pub mod notices;
pub mod object;
pub mod open_file;
mod pace;
pub mod passage;
pub mod permission;
pub mod pipe;
pub mod proc;
pub mod regular;
mod remains;
mod resident;
pub mod signal_file;
pub(crate) mod size_limit;
pub mod socket;
pub mod table;
pub mod tenant_files;
pub mod terminal;
pub mod termios;
pub mod timer_file;
pub mod transfer;
pub mod under_way;
pub mod walk;

pub use context::{Executable, FileContext, FileMapping};
pub use tenant_files::{Setup, TenantFiles};

#[cfg(test)]
mod tests;

use crate::Thread;

/// Who a thread is for its peers.
pub(crate) fn credentials_of(thread: &Thread) -> socket::PeerCredentials {
    let credentials = thread.credentials();
    socket::PeerCredentials {
        process: thread.process().id(),
        user: credentials.user_effective,
        group: credentials.group_effective,
    }
}
