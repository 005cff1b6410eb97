//! The ext2 file system, revisions 0 and 1, as mke2fs makes it: serves the files protocol over a block device.
//!
//! ```text
//!   files::Request --> server --> names (cache), nodes (in-memory inodes, one lock each)
//!                                   |               |
//!                              directory          data --> FileCache (pages of files)
//!                                   |               |
//!                                 metadata (blocks, also in the FileCache, dirty ones pinned here)
//!                                   |
//!                                 commit: writes in an order that e2fsck can repair --> block::Client
//! ```
//!
//! Reads and writes past the cache (`direct`, `overwrite`) go from the pointers to the device at once, and agree with what the cache has.
//!
//! The disk's contents are never trusted: every number is checked before it is used, damage answers
//! [`gyre_interface::files::FileError::Damaged`], and no walk is longer than the device.
//!
//! Order of writes (see `commit`): contents before the pointers to them, inodes before names, new names before the removal of old ones,
//! removal of names before the release of inodes, release on disk before reuse. A crash at any time leaves an image that
//! `e2fsck -fy` repairs without losing what was synced.
//!
//! Locks: a node's lock (a queue, held across waits) for its contents; locks are taken from the root downwards, two
//! directories of one rename under the rename lock, unrelated ones by number. Spin locks guard single changes and are never held across a wait.
//! No task waits for a commit or a write-back while it holds a lock.
//!
//! Left out: journals, extents, access control lists, hashed directories on the disk (see `index`; their index is dropped when one is
//! changed), blocks kept behind a file's end, access times (as mounted with `noatime`), fragments, quotas.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;

mod allocate;
mod around;
mod bitmap;
mod change;
mod commit;
mod commit_write;
mod direct;
mod directory;
mod exchange;
mod extended;
mod extended_list;
mod fetch;
mod geometry;
mod grow;
mod index;
mod inode;
mod life;
mod lock;
mod losses;
mod map;
mod metadata;
mod mount;
mod moved_name;
mod names;
mod namespace;
mod near;
mod node;
mod overwrite;
mod raw;
mod read;
mod reclaim;
mod rename;
mod server;
mod shared;
mod space;
mod tables;
mod truncate;
mod visitors;
mod walk;
mod wanted;
mod write;
mod write_back;

pub use mount::{Ext2, MountOptions};
