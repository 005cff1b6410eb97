//! File systems of a tenant and the directories they are attached to.

use super::filesystem::FileSystem;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_interface::files::{FileError, NodeId};
use gyre_object::TenantLock;

/// An attached file system.
// recursion: at most as many as a tenant has file systems, because only the assembler mounts, one time each
pub struct Mount {
    /// Number, which is the minor part of `st_dev`.
    pub id: u32,
    /// The file system.
    pub system: FileSystem,
    /// The root node.
    pub root: NodeId,
    /// The directory that it covers; `None` for the tenant's root.
    pub covers: Option<Place>,
    /// Its path, as the tenant sees it.
    pub path: Vec<u8>,
    /// The name of its kind for /proc/mounts.
    pub kind: &'static str,
}

impl Mount {
    /// Returns whether its files are in memory alone.
    pub fn is_in_memory(&self) -> bool {
        self.kind == "tmpfs"
    }
}

/// A node of a mounted file system.
#[derive(Clone)]
pub struct Place {
    /// The mount that it is in.
    pub mount: Arc<Mount>,
    /// The node there.
    pub node: NodeId,
}

impl Place {
    /// Returns whether both are the same node.
    pub fn same(&self, other: &Place) -> bool {
        self.mount.id == other.mount.id && self.node == other.node
    }

    /// Returns a name for tables: mount and node.
    pub fn key(&self) -> (u32, NodeId) {
        (self.mount.id, self.node)
    }

    /// Returns the file system.
    pub fn system(&self) -> &FileSystem {
        &self.mount.system
    }

    /// Returns whether it is the root of its mount.
    pub fn is_mount_root(&self) -> bool {
        self.mount.root == self.node
    }
}

/// All mounts of a tenant, the root first.
pub struct MountTable {
    mounts: TenantLock<Vec<Arc<Mount>>>,
    next: AtomicU32,
}

impl MountTable {
    /// Makes a table whose root is `system`.
    ///
    /// # Errors
    /// Those of asking the file system for its root.
    pub async fn new(system: FileSystem, kind: &'static str) -> Result<MountTable, FileError> {
        let root = Mount { id: 1, root: system.root().await?, system, covers: None, path: b"/".to_vec(), kind };
        Ok(MountTable { mounts: TenantLock::new(alloc::vec![Arc::new(root)]), next: AtomicU32::new(2) })
    }

    /// Returns the tenant's root directory.
    pub fn root(&self) -> Option<Place> {
        let mount = self.mounts.lock().first()?.clone();
        let node = mount.root;
        Some(Place { mount, node })
    }

    /// Attaches a file system over a directory.
    ///
    /// # Errors
    /// Those of asking the file system for its root.
    pub async fn attach(
        &self,
        system: FileSystem,
        kind: &'static str,
        over: Place,
        path: &[u8],
    ) -> Result<(), FileError> {
        let mount = Mount {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            root: system.root().await?,
            system,
            covers: Some(over),
            path: path.to_vec(),
            kind,
        };
        self.mounts.lock().push(Arc::new(mount));
        Ok(())
    }

    /// Returns the root of the latest file system that is attached over a directory, if there is one.
    pub fn over(&self, place: &Place) -> Option<Place> {
        self.over_key(place.key())
    }

    /// Returns the same root as [`MountTable::over`], by mount and node.
    pub fn over_key(&self, key: (u32, NodeId)) -> Option<Place> {
        let mounts = self.mounts.lock();
        let covers = |mount: &&Arc<Mount>| mount.covers.as_ref().is_some_and(|covered| covered.key() == key);
        let mount = mounts.iter().rev().find(covers)?.clone();
        let node = mount.root;
        Some(Place { mount, node })
    }

    /// Returns all mounts.
    pub fn all(&self) -> Vec<Arc<Mount>> {
        self.mounts.lock().clone()
    }
}
