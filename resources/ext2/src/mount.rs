//! Mounting: reads the superblock and the group descriptors, checks them, and makes the file system.

use crate::geometry::{DESCRIPTOR_BYTES, Geometry, STATE_VALID, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use crate::metadata::{Metadata, from_block};
use crate::names::Names;
use crate::node::Node;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use core::sync::atomic::AtomicBool;
use gyre_file_cache::{FileCache, Shelf, ShelfOptions};
use gyre_interface::block::{SECTOR_BYTES, block};
use gyre_interface::files::FileError;
use gyre_message::WaitQueue;
use gyre_object::{Bytes, Page, SpinLock};

/// How to mount.
#[derive(Clone, Copy)]
pub struct MountOptions {
    /// Names the file system in the cache; unique in the instance.
    pub file_system_id: u32,
    /// Refuses all changes.
    pub read_only: bool,
    /// Nodes in memory: in all and for each activity.
    pub nodes: ShelfOptions,
    /// Remembered names: in all and for each activity.
    pub names: ShelfOptions,
}

impl MountOptions {
    /// The usual bounds, paid for by the activity that asks.
    pub fn new(file_system_id: u32) -> MountOptions {
        let bounds = |capacity| ShelfOptions { capacity, budget: capacity, payer: |activity| activity };
        MountOptions { file_system_id, read_only: false, nodes: bounds(16 * 1024), names: bounds(32 * 1024) }
    }
}

/// A mounted file system: serves `files::Server`.
pub struct Ext2 {
    pub(crate) disk: block::Client,
    pub(crate) cache: &'static FileCache,
    pub(crate) file_system: u32,
    pub(crate) geometry: Geometry,
    pub(crate) read_only: AtomicBool,
    pub(crate) nodes: Shelf<u64, Arc<Node>>,
    pub(crate) names: Names,
    pub(crate) metadata: SpinLock<Metadata>,
    pub(crate) metadata_changed: WaitQueue,
}

impl Ext2 {
    /// Mounts the file system on `disk`.
    ///
    /// # Errors
    /// [`FileError::Invalid`] where there is no ext2, [`FileError::Unsupported`] where it has features that are not known here,
    /// [`FileError::Damaged`] where its numbers make no sense, and errors of the device.
    pub async fn mount(disk: block::Client, options: MountOptions, cache: &'static FileCache) -> Result<&'static Ext2, FileError> {
        let device = disk.geometry().await.map_err(from_block)?;
        let page = Page::zeroed().map_err(|_| FileError::OutOfMemory)?;
        let view = Bytes::new(page, SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES);
        let first_sector = (SUPERBLOCK_OFFSET / SECTOR_BYTES) as u64;
        let views = disk.read(first_sector, vec![view]).await.map_err(from_block)?;
        let raw = views.first().map_or(&[][..], Bytes::as_slice);
        let geometry = Geometry::parse(raw, device.sectors)?;
        let read_only = options.read_only || device.read_only || geometry.only_readable;
        if geometry.only_readable {
            log::warn!("ext2 {}: unknown features, mounted read-only", options.file_system_id);
        }
        if geometry.state & STATE_VALID == 0 {
            log::warn!("ext2 {}: was not unmounted in order, e2fsck is advised", options.file_system_id);
        }
        let file_system = Box::leak(Box::new(Ext2 {
            disk,
            cache,
            file_system: options.file_system_id,
            geometry,
            read_only: AtomicBool::new(read_only),
            nodes: Shelf::new(options.nodes),
            names: Names::new(options.names),
            metadata: SpinLock::default(),
            metadata_changed: WaitQueue::new(),
        }));
        file_system.read_groups().await?;
        Ok(file_system)
    }

    async fn read_groups(&mut self) -> Result<(), FileError> {
        let per_block = self.geometry.block_bytes / DESCRIPTOR_BYTES;
        for index in 0..self.geometry.descriptor_blocks() {
            let page = Page::zeroed().map_err(|_| FileError::OutOfMemory)?;
            let view = Bytes::new(page, 0, self.geometry.block_bytes);
            let sector = self.sector(self.geometry.descriptors_start() + index);
            let views = self.disk.read(sector, vec![view]).await.map_err(from_block)?;
            let raw = views.first().map_or(&[][..], Bytes::as_slice);
            let missing = self.geometry.group_count as usize - self.geometry.groups.len();
            for descriptor in raw.chunks(DESCRIPTOR_BYTES).take(per_block.min(missing)) {
                self.geometry.add_group(descriptor)?;
            }
        }
        Ok(())
    }
}
