//! Files of a process: descriptors, directories, mask. The rest of the personality uses [`FileContext`].
//!
//! | module | holds |
//! |---|---|
//! | [`table`], [`calls`] | the system calls |
//! | [`context`], [`descriptors`], [`open_file`] | the open files of a process |
//! | [`object`] | the kinds of open objects, one module each beside it |
//! | [`mount`], [`filesystem`], [`walk`], [`near`], [`permission`] | names |
//! | [`tenant_files`] | the common state of a tenant's processes, and the file systems that the assembler gives |
//! | [`in_flight`], `remains` | files in sockets; things let go of, which are taken apart in pieces |
//! | [`buffer`] | buffers of programs |
//! | [`passage`], [`flow`] | moving data by reference |
//! | [`regular`], `cached` | regular files; the part of them in memory, without a message |
//! | `direct`, `direct_offer` | transfers past the file cache (O_DIRECT), and whether they are possible |
//! | [`begun_io`], [`transfer_limit`] | transfers without a task, and their bound |

pub mod async_lock;
pub mod attributes;
pub mod begun_io;
pub mod buffer;
mod cached;
pub mod calls;
mod channel;
pub mod checkpoint;
pub mod contents;
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
pub mod interfaces;
mod job_control;
pub mod locks;
pub mod log_ring;
pub mod losses;
pub mod mapped;
pub mod memory_file;
pub mod mount;
mod near;
pub mod notices;
pub mod object;
pub mod open_file;
pub mod outside;
pub mod owner;
pub(crate) mod pace;
pub mod passage;
pub mod permission;
pub mod pipe;
pub mod proc;
pub mod process_file;
pub mod regular;
mod remains;
pub mod signal_file;
pub(crate) mod size_limit;
mod slots;
pub mod socket;
pub mod table;
pub mod tenant_files;
pub mod terminal;
mod terminal_nodes;
pub mod termios;
pub mod timer_file;
pub mod transfer_limit;
pub mod walk;
mod watched_paths;
mod weak_map;

pub use context::{Executable, FileContext, FileMapping};
pub use tenant_files::{Setup, TenantFiles};

#[cfg(test)]
mod tests;

use crate::Thread;

/// Returns a thread's credentials as its peers see them.
pub(crate) fn credentials_of(thread: &Thread) -> socket::PeerCredentials {
    let process = thread.process().id();
    thread.with_credentials(|who| socket::PeerCredentials {
        process,
        user: who.user_effective,
        group: who.group_effective,
    })
}
