//! Renaming: the new name appears, in one write of a sector, before the old one disappears.
//!
//! Steps: (1) take the lock of renames, then the locks of both directories from the root downwards; (2) find both
//! names and check them (a directory must not come to lie below itself); (3) make room for the new name or redirect
//! the existing one; (4) write the new name before the old one goes, with an order if they lie in two sectors
//! ([`crate::moved_name`]); (5) drop the link of a replaced node. A crash leaves the node under both names, which
//! e2fsck mends.
//!
//! Left out here: the exchange of two names ([`RenameMode::Exchange`](gyre_interface::files::RenameMode)), which has a
//! module of its own. The caller has checked permissions; this file checks the tree.

use crate::Ext2;
use crate::change::now_ns;
use crate::directory;
use crate::geometry::ROOT;
use crate::lock::LockGuard;
use crate::names::Known;
use crate::namespace::{LINKS_MAX, Room, check_new_name};
use crate::node::Node;
use crate::server::check_name;
use crate::walk::DirectoryBlock;
use alloc::sync::Arc;
use gyre_interface::files::{FileError, NodeId, NodeKind, RenameMode};

/// One end of a rename.
pub(crate) struct End<'a> {
    pub(crate) directory: &'a Arc<Node>,
    pub(crate) name: &'a [u8],
}

impl Ext2 {
    pub(crate) async fn rename_node(
        &'static self,
        from: NodeId,
        from_name: &[u8],
        to: NodeId,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<(), FileError> {
        self.writable()?;
        check_name(from_name)?;
        if matches!(from_name, b"." | b"..") || matches!(to_name, b"." | b"..") {
            return Err(FileError::Invalid);
        }
        check_new_name(to_name)?;
        let (source, target) = (self.directory(from).await?, self.directory(to).await?);
        // One rename at a time: the tree above the two directories stands still while they are compared.
        let _renames = self.rename_lock.exclusive().await;
        let (_first, _second) = self.enter_both(&source, &target).await?;
        self.still_there(&source)?;
        self.still_there(&target)?;
        let from = End { directory: &source, name: from_name };
        let to = End { directory: &target, name: to_name };
        match mode {
            RenameMode::Replace => self.rename_held(from, to).await,
            RenameMode::Keep if self.find(&target, to_name).await?.is_some() => {
                self.find(&source, from_name).await?.ok_or(FileError::NotFound)?;
                Err(FileError::Exists)
            }
            RenameMode::Keep => self.rename_held(from, to).await,
            RenameMode::Exchange => self.exchange_held(from, to).await,
        }
    }

    /// Enters both directories: the upper one first, unrelated ones by number.
    async fn enter_both<'a>(
        &'static self,
        source: &'a Node,
        target: &'a Node,
    ) -> Result<(LockGuard<'a>, Option<LockGuard<'a>>), FileError> {
        if source.id == target.id {
            return Ok((source.lock.exclusive().await, None));
        }
        let target_above = self.is_above(target.id, source.id).await?;
        let source_above = self.is_above(source.id, target.id).await?;
        let source_first = source_above || (!target_above && source.id < target.id);
        let (first, second) = if source_first { (source, target) } else { (target, source) };
        Ok((first.lock.exclusive().await, Some(second.lock.exclusive().await)))
    }

    /// Returns whether `upper` is on the way from `lower` to the root.
    async fn is_above(&'static self, upper: u64, lower: u64) -> Result<bool, FileError> {
        let mut at = lower;
        for _ in 0..self.geometry.inodes {
            if at == upper {
                return Ok(true);
            }
            if at == ROOT {
                return Ok(false);
            }
            let directory = self.numbered_directory(at).await?;
            let _guard = directory.lock.shared().await;
            at = self.find(&directory, b"..").await?.ok_or(FileError::Damaged)?;
        }
        Err(FileError::Damaged)
    }

    async fn rename_held(&'static self, from: End<'_>, to: End<'_>) -> Result<(), FileError> {
        let (inode, _) = self.find_block(from.directory, from.name).await?.ok_or(FileError::NotFound)?;
        let moved = self.numbered(u64::from(inode)).await?;
        let is_directory = moved.kind == NodeKind::Directory;
        let across = from.directory.id != to.directory.id;
        if is_directory && (moved.id == ROOT || moved.id == from.directory.id) {
            return Err(FileError::Damaged);
        }
        if is_directory && across && self.is_above_held(moved.id, to.directory).await? {
            return Err(FileError::Invalid);
        }
        match self.find_block(to.directory, to.name).await? {
            Some((replaced, _)) if replaced == inode => Ok(()),
            Some((replaced, block)) => self.replace(from, to, &moved, u64::from(replaced), block).await,
            None => {
                if is_directory && across && to.directory.state.lock().inode.links >= LINKS_MAX {
                    return Err(FileError::TooManyLinks);
                }
                let room = self.room_for(to.directory, to.name).await?;
                self.move_name(from, to, &moved, Destination::New(room)).await
            }
        }
    }

    /// Returns as [`Ext2::is_above`] whether `upper` is above a directory whose lock is held here. It takes no locks:
    /// renames are serialised, only they change a parent entry, and directories above others are not removed.
    pub(crate) async fn is_above_held(&'static self, upper: u64, lower: &Node) -> Result<bool, FileError> {
        let mut at = lower.id;
        for _ in 0..self.geometry.inodes {
            if at == upper {
                return Ok(true);
            }
            if at == ROOT {
                return Ok(false);
            }
            let directory = self.numbered_directory(at).await?;
            at = self.find(&directory, b"..").await?.ok_or(FileError::Damaged)?;
        }
        Err(FileError::Damaged)
    }

    async fn replace(
        &'static self,
        from: End<'_>,
        to: End<'_>,
        moved: &Arc<Node>,
        replaced: u64,
        block: DirectoryBlock,
    ) -> Result<(), FileError> {
        let replaced = self.numbered(replaced).await?;
        match (moved.kind == NodeKind::Directory, replaced.kind == NodeKind::Directory) {
            (true, false) => return Err(FileError::NotDirectory),
            (false, true) => return Err(FileError::IsDirectory),
            (false, false) => {
                return self.move_name(from, to, moved, Destination::Replaces(block, replaced)).await;
            }
            (true, true) => {}
        }
        // The directory of the source, or one above it, holds at least the source; its lock is above ours and must not be entered now.
        if self.is_above_held(replaced.id, from.directory).await?
            || self.is_above_held(replaced.id, to.directory).await?
        {
            return Err(FileError::NotEmpty);
        }
        let _guard = replaced.lock.exclusive().await;
        self.expect_empty(&replaced).await?;
        self.move_name(from, to, moved, Destination::Replaces(block, replaced.clone())).await
    }

    async fn move_name(
        &'static self,
        from: End<'_>,
        to: End<'_>,
        moved: &Arc<Node>,
        destination: Destination,
    ) -> Result<(), FileError> {
        let across = from.directory.id != to.directory.id;
        let parent_entry = match moved.kind {
            NodeKind::Directory if across => {
                let guard = moved.lock.exclusive().await;
                Some((self.directory_block(moved, 0).await?, guard))
            }
            _ => None,
        };
        // Found again: making room may have changed nothing of it, but blocks are only compared here.
        let (_, source) = self.find_block(from.directory, from.name).await?.ok_or(FileError::NotFound)?;
        let change = self.plan_move(&from, &to, moved, destination.block(), destination.replaces(), &source)?;
        if self.metadata.lock().precedes(change.hidden_in, change.shown_in) {
            self.commit().await?;
        }
        // Nothing waits from here on.
        self.write_names(&from, &to, moved, &change, destination.block(), &source);
        let replaced = destination.replaced();
        if let Some((block, _guard)) = &parent_entry {
            self.set_parent(moved, block, to.directory)?;
        }
        let is_directory = moved.kind == NodeKind::Directory;
        if is_directory && (across || replaced.is_some()) {
            self.change(from.directory, |inode| inode.links = inode.links.saturating_sub(1).max(1));
        }
        if is_directory && across && replaced.is_none() {
            self.change(to.directory, |inode| inode.links = inode.links.saturating_add(1));
        }
        let now = now_ns();
        self.change(moved, |inode| inode.changed_ns = now);
        if let Some(replaced) = replaced {
            self.drop_link(&replaced);
            if replaced.kind == NodeKind::Directory {
                self.names.forget_directory(replaced.name);
            }
        }
        Ok(())
    }

    /// Makes ".." of a moved directory lead to its new parent.
    pub(crate) fn set_parent(&self, moved: &Node, block: &DirectoryBlock, parent: &Node) -> Result<(), FileError> {
        let mut contents = self.copy_of(&block.page);
        directory::redirect(&mut contents, b"..", parent.id as u32, self.code_of(NodeKind::Directory))?;
        self.write_blocks(&[], &[(block, &contents)]);
        self.names.set(moved.name, b"..", Known::Node(parent.id));
        Ok(())
    }
}

/// The place of the new name.
enum Destination {
    New(Room),
    Replaces(DirectoryBlock, Arc<Node>),
}

impl Destination {
    fn block(&self) -> &DirectoryBlock {
        match self {
            Destination::New(Room(block)) | Destination::Replaces(block, _) => block,
        }
    }

    fn replaces(&self) -> bool {
        matches!(self, Destination::Replaces(..))
    }

    fn replaced(self) -> Option<Arc<Node>> {
        match self {
            Destination::New(_) => None,
            Destination::Replaces(_, node) => Some(node),
        }
    }
}
