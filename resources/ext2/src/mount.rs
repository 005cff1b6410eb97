//! Mounting: reads the superblock and the group descriptors, checks them, and makes the file system.
//!
//! * Protocol of use: `Ext2::mount` in the name of the tenant whose disk it is; that one pays, and its work is told from that of others
//!   ([`crate::visitors`]).
//! * A disk is read before it is believed: each number of it is checked against the size of the device, and sums can fail.
//! * The superblock says that the disk is in use until it is unmounted in order ([`crate::life`]).
//!
//! Left out: other features than those that the image's maker writes; a disk with an unknown one is refused.

use crate::allocate::Allocator;
use crate::geometry::{DESCRIPTOR_BYTES, Geometry, STATE_VALID, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use crate::lock::AsyncRwLock;
use crate::metadata::{Metadata, from_block};
use crate::names::Names;
use crate::node::Node;
use crate::shared::in_name_of;
use crate::visitors::Visitors;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use gyre_account::{ActivityId, current_activity};
use gyre_file_cache::{FileCache, Shelf, ShelfOptions};
use gyre_interface::BytesReport;
use gyre_interface::block::{SECTOR_BYTES, block};
use gyre_interface::files::FileError;
use gyre_message::WaitQueue;
use gyre_object::{Bytes, Page, TenantLock};

/// How to mount.
#[derive(Clone, Copy)]
pub struct MountOptions {
    /// Names the file system in the cache; unique in the instance.
    pub file_system_id: u32,
    /// Refuses all changes.
    pub read_only: bool,
    /// How long changes may stay in memory only, ms.
    pub age_ms: u64,
    /// Dirty blocks of metadata from which on writers wait for a commit.
    pub dirty_blocks_max: usize,
    /// Nodes in memory: in all and for each activity.
    pub nodes: ShelfOptions,
    /// Remembered names: in all and for each activity.
    pub names: ShelfOptions,
    /// The counter of bytes that requests move; `None` if they are not counted.
    pub report: Option<BytesReport>,
    /// The activity that pays for moving blocks that files share (inode tables, bitmaps, descriptors, superblock):
    /// one of this file system, a member of its tenant. `None`: the caller's.
    pub tables: Option<ActivityId>,
}

impl MountOptions {
    /// Returns the usual bounds, paid for by the activity that asks.
    pub fn new(file_system_id: u32) -> MountOptions {
        let bounds = |capacity| ShelfOptions { capacity, budget: capacity, payer: &|activity| activity };
        MountOptions {
            file_system_id,
            read_only: false,
            age_ms: 5_000,
            dirty_blocks_max: 1024,
            nodes: bounds(16 * 1024),
            names: bounds(32 * 1024),
            report: None,
            tables: None,
        }
    }
}

/// A mounted file system: serves `files::Server`.
pub struct Ext2 {
    pub(crate) disk: block::Client,
    pub(crate) cache: &'static FileCache,
    pub(crate) file_system: u32,
    pub(crate) geometry: Geometry,
    pub(crate) read_only: AtomicBool,
    /// True if contents of a file were lost since the last sync of everything.
    pub(crate) write_failed: AtomicBool,
    /// Requests that the device did not carry out, with which something of a file was lost or could not be read.
    pub(crate) failures: AtomicU64,
    pub(crate) nodes: Shelf<u64, Arc<Node>>,
    pub(crate) names: Names,
    pub(crate) metadata: TenantLock<Metadata>,
    pub(crate) metadata_changed: WaitQueue,
    pub(crate) allocator: TenantLock<Allocator>,
    /// Blocks of nodes that the running commit has reaped.
    pub(crate) reaped: TenantLock<BTreeSet<u32>>,
    pub(crate) rename_lock: AsyncRwLock,
    pub(crate) commit_lock: AsyncRwLock,
    /// Shared by tasks that take blocks away from files; exclusive while a commit copies the pointers to them.
    pub(crate) cut_lock: AsyncRwLock,
    pub(crate) commits_begun: AtomicU64,
    pub(crate) commits_done: AtomicU64,
    pub(crate) marked_unclean: AtomicBool,
    /// No commit changes the disk any more.
    pub(crate) unmounted: AtomicBool,
    /// The counts on the disk are older than the last commit.
    pub(crate) counts_stale: AtomicBool,
    pub(crate) large_files: AtomicBool,
    /// The superblock says that inodes may have extended attributes.
    pub(crate) has_extended: AtomicBool,
    /// The next node's generation: two nodes with the same number never have the same one.
    pub(crate) generations: AtomicU32,
    pub(crate) dirty_blocks_max: usize,
    pub(crate) dirty_nodes_max: usize,
    pub(crate) age_ns: u64,
    report: Option<BytesReport>,
    pub(crate) tables: Option<ActivityId>,
    /// Those who work here and are not its tenant.
    pub(crate) visitors: Visitors,
}

impl Ext2 {
    /// Mounts the file system on `disk`.
    ///
    /// # Errors
    /// [`FileError::Invalid`] if there is no ext2, [`FileError::Unsupported`] if it has features that are not known here,
    /// [`FileError::Damaged`] if its numbers make no sense, and errors of the device.
    pub async fn mount(
        disk: block::Client,
        options: MountOptions,
        cache: &'static FileCache,
    ) -> Result<&'static Ext2, FileError> {
        let device = disk.geometry().await.map_err(from_block)?;
        let page = Page::zeroed().map_err(|_| FileError::OutOfMemory)?;
        let view = Bytes::new(page, SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES);
        let first_sector = (SUPERBLOCK_OFFSET / SECTOR_BYTES) as u64;
        let payer = options.tables.unwrap_or_else(current_activity);
        let views = in_name_of(payer, || disk.read(first_sector, vec![view])).await.map_err(from_block)?;
        let raw = views.first().map_or(&[][..], Bytes::as_slice);
        let geometry = Geometry::parse(raw, device.sectors)?;
        let read_only = options.read_only || device.read_only || geometry.only_readable;
        if geometry.only_readable {
            log::warn!("ext2 {}: has unknown features and is mounted read-only", options.file_system_id);
        }
        if geometry.state & STATE_VALID == 0 {
            log::warn!("ext2 {}: was not unmounted in order: run e2fsck on its disk", options.file_system_id);
        }
        let has_extended = geometry.has_extended;
        let mut file_system = Box::new(Ext2 {
            disk,
            cache,
            file_system: options.file_system_id,
            geometry,
            read_only: AtomicBool::new(read_only),
            write_failed: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            nodes: Shelf::new(options.nodes),
            names: Names::new(options.names),
            metadata: TenantLock::default(),
            metadata_changed: WaitQueue::new(),
            allocator: TenantLock::new(Allocator::default()),
            reaped: TenantLock::default(),
            rename_lock: AsyncRwLock::default(),
            commit_lock: AsyncRwLock::default(),
            cut_lock: AsyncRwLock::default(),
            commits_begun: AtomicU64::new(0),
            commits_done: AtomicU64::new(0),
            marked_unclean: AtomicBool::new(false),
            unmounted: AtomicBool::new(false),
            counts_stale: AtomicBool::new(false),
            large_files: AtomicBool::new(false),
            has_extended: AtomicBool::new(has_extended),
            generations: AtomicU32::new(first_generation()),
            dirty_blocks_max: options.dirty_blocks_max,
            // Changed and removed nodes cannot give way: three quarters stay for others.
            dirty_nodes_max: options.nodes.budget.min(options.nodes.capacity) / 4,
            age_ns: options.age_ms.saturating_mul(1_000_000),
            report: options.report,
            tables: options.tables,
            visitors: Visitors::of(cache.payer_of(current_activity())),
        });
        file_system.read_groups().await?;
        *file_system.allocator.get_mut() = Allocator::new(&file_system.geometry);
        Ok(Box::leak(file_system))
    }

    /// Says that the request being handled, or the visit, has moved bytes of a file.
    #[inline]
    pub(crate) fn moved(&self, bytes: usize) {
        if let Some(report) = self.report {
            report(bytes as u64);
        }
    }

    async fn read_groups(&mut self) -> Result<(), FileError> {
        let per_block = self.geometry.block_bytes / DESCRIPTOR_BYTES;
        for index in 0..self.geometry.descriptor_blocks() {
            let page = Page::zeroed().map_err(|_| FileError::OutOfMemory)?;
            let view = Bytes::new(page, 0, self.geometry.block_bytes);
            let sector = self.sector(self.geometry.descriptors_start().saturating_add(index));
            let call = in_name_of(self.tables_payer(), || self.disk.read(sector, vec![view]));
            let views = call.await.map_err(from_block)?;
            let raw = views.first().map_or(&[][..], Bytes::as_slice);
            let missing = (self.geometry.group_count as usize).saturating_sub(self.geometry.groups.len());
            for descriptor in raw.chunks(DESCRIPTOR_BYTES).take(per_block.min(missing)) {
                self.geometry.add_group(descriptor)?;
            }
        }
        Ok(())
    }
}

/// Returns the first generation of a mount, at random: names made before have counts of their own.
fn first_generation() -> u32 {
    let mut bytes = [0; 4];
    gyre_machine::fill_random(&mut bytes);
    u32::from_le_bytes(bytes)
}
