//! Names: create, link, unlink, remove directories. The caller of each helper holds the directory's lock exclusively.
//!
//! A change of a name goes through the same steps: (1) find the block and sector of the name ([`crate::walk`],
//! [`crate::index`]); (2) make the node ready (a new inode, one link more or less); (3) copy the block, change one
//! sector of it ([`crate::directory`]), and put it back with the order that it demands ([`Ext2::write_blocks`]); (4)
//! correct the index, the cache of names and the directory's times. Nothing waits from (3) on, so that no reader sees
//! half of it.
//!
//! A link is counted before its name exists and taken away after the name is gone, so that a crash at any time leaves
//! a count that e2fsck can mend. A directory's name goes only when it is empty. Renames are in [`crate::rename`] and
//! [`crate::exchange`].

use crate::Ext2;
use crate::change::now_ns;
use crate::directory::{self, kind_code};
use crate::index::NamesChanged;
use crate::inode::{FLAG_HASHED, Inode};
use crate::metadata::Class;
use crate::names::Known;
use crate::node::Node;
use crate::server::check_name;
use crate::walk::DirectoryBlock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::files::*;
use gyre_object::Page;

/// Most links of a node, as Linux's ext2 has it.
pub(crate) const LINKS_MAX: u16 = 32_000;

/// A block of a directory in which a new name fits.
pub(crate) struct Room(pub(crate) DirectoryBlock);

impl Ext2 {
    /// Returns the directory, unless it was removed meanwhile.
    pub(crate) fn still_there(&self, directory: &Node) -> Result<(), FileError> {
        if directory.state.lock().deleted { Err(FileError::NotFound) } else { Ok(()) }
    }

    /// Returns the contents of a block of a directory, to be changed and put back.
    pub(crate) fn copy_of(&self, page: &Page) -> Vec<u8> {
        self.contents(page).to_vec()
    }

    /// Puts a changed block of a directory back.
    pub(crate) fn put_back(&self, directory: &Node, block: &DirectoryBlock, contents: &[u8], names: NamesChanged<'_>) {
        self.write_blocks(&[], &[(block, contents)]);
        self.names_changed(directory, block, contents, names);
    }

    /// Updates the index and the times of a directory after a block has changed.
    pub(crate) fn names_changed(
        &self,
        directory: &Node,
        block: &DirectoryBlock,
        contents: &[u8],
        names: NamesChanged<'_>,
    ) {
        self.reindex(directory, block, contents, names);
        let now = now_ns();
        self.change(directory, |inode| {
            (inode.modified_ns, inode.changed_ns) = (now, now);
            inode.flags &= !FLAG_HASHED;
        });
    }

    /// Finds a block with room for a name; the directory grows if there is none.
    pub(crate) async fn room_for(&'static self, directory: &Node, name: &[u8]) -> Result<Room, FileError> {
        loop {
            let mut corrected = false;
            for index in self.roomy_blocks(directory, name).await? {
                let block = self.directory_block(directory, index).await?;
                if directory::has_room(self.contents(&block.page), name.len())? {
                    return Ok(Room(block));
                }
                corrected |= self.correct_room(directory, &block)?;
            }
            // The index has named this block by mistake; its entry is right now.
            if !corrected {
                break;
            }
        }
        let blocks = self.directory_blocks(directory)?;
        if blocks == 1
            && let Some(room) = self.room_by_split(directory, name).await?
        {
            return Ok(room);
        }
        self.extend_directory(directory, blocks).await.map(Room)
    }

    /// Makes room in the only block of a directory that another system made: its free space may reach over sectors,
    /// so that no name can be put in one piece. The new entries are on the disk before they are used, so that each
    /// name is one write of one sector. This happens once for each such space.
    async fn room_by_split(&'static self, directory: &Node, name: &[u8]) -> Result<Option<Room>, FileError> {
        let block = self.directory_block(directory, 0).await?;
        let mut contents = self.copy_of(&block.page);
        let Some(split) = directory::split(&mut contents)? else {
            return Ok(None);
        };
        if !directory::has_room(&contents, name.len())? {
            return Ok(None);
        }
        // Space that is free in memory may still be in use on the disk.
        self.commit().await?;
        let shown_by = self.sector_at(block.block, split.shown_by);
        let order: Vec<_> = split.entries.iter().map(|at| (self.sector_at(block.block, *at), shown_by)).collect();
        self.write_blocks(&order, &[(&block, &contents)]);
        self.names_changed(directory, &block, &contents, NamesChanged::default());
        self.commit().await?;
        Ok(Some(Room(block)))
    }

    /// Adds an empty block to a directory.
    async fn extend_directory(&'static self, directory: &Node, index: u64) -> Result<DirectoryBlock, FileError> {
        let claimed = self.claim_block(directory).await?;
        let page = self.fresh_block(claimed.block).await?;
        let mut contents = self.copy_of(&page);
        directory::empty_block(&mut contents);
        page.write(0, &contents);
        let bytes = index.saturating_add(1).saturating_mul(self.geometry.block_bytes as u64);
        let block = DirectoryBlock { index, block: claimed.block, page };
        self.ensure_with(directory, index, claimed, || {
            self.touch(block.block, &block.page, Class::FreshDirectories);
            self.reindex(directory, &block, &contents, NamesChanged::default());
            self.change(directory, |inode| inode.size = bytes);
        })
        .await?;
        Ok(block)
    }

    /// Adds a name in its room.
    pub(crate) fn add_name(&self, directory: &Node, room: &Room, name: &[u8], node: &Node) -> Result<(), FileError> {
        let mut contents = self.copy_of(&room.0.page);
        directory::insert(&mut contents, node.id as u32, self.code_of(node.kind), name)?.ok_or(FileError::Damaged)?;
        let names = NamesChanged { added: Some(name), removed: None };
        self.put_back(directory, &room.0, &contents, names);
        self.names.set(directory.name, name, Known::Node(node.id));
        Ok(())
    }

    /// Removes a name from its block.
    pub(crate) fn remove_name(&self, directory: &Node, block: &DirectoryBlock, name: &[u8]) -> Result<(), FileError> {
        let mut contents = self.copy_of(&block.page);
        let removed = directory::remove(&mut contents, name)?;
        let names = NamesChanged { added: None, removed: Some((name, removed.room)) };
        self.put_back(directory, block, &contents, names);
        self.names.set(directory.name, name, Known::Absent);
        Ok(())
    }

    /// Returns the code of a kind in entries of this image.
    pub(crate) fn code_of(&self, kind: NodeKind) -> u8 {
        if self.geometry.has_file_type { kind_code(kind) } else { 0 }
    }

    /// Takes one link away; a node without links is deleted, and freed when it is not open any more.
    pub(crate) fn drop_link(&self, node: &Arc<Node>) {
        let now = now_ns();
        let last = self.change(node, |inode| {
            inode.links = inode.links.saturating_sub(if node.kind == NodeKind::Directory { inode.links } else { 1 });
            inode.changed_ns = now;
            inode.links == 0
        });
        if last {
            let unused = {
                let mut state = node.state.lock();
                state.deleted = true;
                state.opens == 0
            };
            if unused {
                self.doom(node.clone());
            }
        }
    }

    pub(crate) async fn create_node(
        &'static self,
        directory: NodeId,
        name: &[u8],
        new: &NewNode,
    ) -> Result<Attributes, FileError> {
        self.writable()?;
        check_new_name(name)?;
        self.check_new(new)?;
        let parent = self.directory(directory).await?;
        let _guard = parent.to_change().await?;
        self.still_there(&parent)?;
        if self.find(&parent, name).await?.is_some() {
            return Err(FileError::Exists);
        }
        let is_directory = new.kind == NodeKind::Directory;
        if is_directory && parent.state.lock().inode.links >= LINKS_MAX {
            return Err(FileError::TooManyLinks);
        }
        let mut taken = self.take_inode(parent.id, is_directory).await?;
        let inode = self.prepare(&parent, new, &mut taken).await?;
        let room = self.room_for(&parent, name).await?;
        if !self.nodes.make_room(&self.nodes.account(), &Node::may_go) {
            return Err(FileError::OutOfMemory);
        }
        // Nothing waits from here on, so no reader sees half of it.
        let node = Node::new(u64::from(taken.inode), inode);
        node.state.lock().fresh = true;
        let add = || (Some(node.clone()), true);
        if !self.nodes.with_or_add(node.id, self.nodes.account(), |_| false, add) {
            return Err(FileError::Damaged);
        }
        self.change(&node, |_| ());
        if let Err(error) = self.add_name(&parent, &room, name, &node) {
            self.forget_node(node.id);
            return Err(error);
        }
        if is_directory {
            self.change(&parent, |inode| inode.links = inode.links.saturating_add(1));
        }
        taken.keep();
        Ok(node.attributes())
    }

    fn check_new(&self, new: &NewNode) -> Result<(), FileError> {
        let is_link = new.kind == NodeKind::SymbolicLink;
        match new.target.len() {
            0 if is_link => Err(FileError::NotFound),
            bytes if is_link && bytes >= self.geometry.block_bytes => Err(FileError::NameTooLong),
            bytes if !is_link && bytes > 0 => Err(FileError::Invalid),
            _ => Ok(()),
        }
    }

    /// Makes the inode of a new node, with its first block if it needs one.
    async fn prepare(
        &'static self,
        parent: &Node,
        new: &NewNode,
        taken: &mut crate::allocate::Taken,
    ) -> Result<Inode, FileError> {
        let mut inode = Inode::new(new.kind, new.mode, new.user, new.group, now_ns());
        inode.generation = self.generations.fetch_add(1, Ordering::Relaxed);
        match new.kind {
            NodeKind::Directory => {
                inode.links = 2;
                let number = taken.inode;
                let code = self.code_of(NodeKind::Directory);
                let fill = |contents: &mut [u8]| directory::first_block(contents, number, parent.id as u32, code);
                self.give_block(parent, &mut inode, taken, Class::FreshDirectories, fill).await?;
                inode.size = self.geometry.block_bytes as u64;
            }
            NodeKind::SymbolicLink if new.target.len() < 60 => inode.set_fast_target(&new.target),
            NodeKind::SymbolicLink => {
                let fill =
                    |contents: &mut [u8]| contents.iter_mut().zip(&new.target).for_each(|(to, from)| *to = *from);
                self.give_block(parent, &mut inode, taken, Class::Fresh, fill).await?;
                inode.size = new.target.len() as u64;
            }
            NodeKind::CharacterDevice | NodeKind::BlockDevice => inode.set_device(new.device),
            NodeKind::File | NodeKind::Pipe | NodeKind::Socket => {}
        }
        Ok(inode)
    }

    async fn give_block(
        &'static self,
        near: &Node,
        inode: &mut Inode,
        taken: &mut crate::allocate::Taken,
        class: Class,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), FileError> {
        let claimed = self.claim_block(near).await?;
        let page = self.fresh_block(claimed.block).await?;
        let mut contents = self.copy_of(&page);
        fill(&mut contents);
        page.write(0, &contents);
        self.touch(claimed.block, &page, class);
        let block = claimed.keep();
        taken.block = Some(block);
        inode.sectors = self.geometry.sectors_per_block() as u32;
        if let Some(pointer) = inode.pointers.first_mut() {
            *pointer = block;
        }
        Ok(())
    }

    pub(crate) async fn link_node(
        &'static self,
        node: NodeId,
        directory: NodeId,
        name: &[u8],
    ) -> Result<(), FileError> {
        self.writable()?;
        check_new_name(name)?;
        let node = self.node(node).await?;
        if node.kind == NodeKind::Directory {
            return Err(FileError::IsDirectory);
        }
        let parent = self.directory(directory).await?;
        let _guard = parent.to_change().await?;
        self.still_there(&parent)?;
        if self.find(&parent, name).await?.is_some() {
            return Err(FileError::Exists);
        }
        let room = self.room_for(&parent, name).await?;
        let now = now_ns();
        let nameless = node.nameless.swap(false, Ordering::AcqRel);
        if nameless {
            // From here on commits write its inode.
            node.state.lock().deleted = false;
        }
        // Counted first, so that the last name is not removed meanwhile and the node freed.
        self.change(&node, |inode| match inode.links {
            0 if !nameless => Err(FileError::NotFound),
            LINKS_MAX.. => Err(FileError::TooManyLinks),
            _ => {
                inode.links = inode.links.saturating_add(1);
                inode.changed_ns = now;
                Ok(())
            }
        })?;
        self.add_name(&parent, &room, name, &node)
    }

    /// Creates a file without a name in the group of `directory`. On the disk its inode stays empty and its number taken until it gets a
    /// name or is freed; after a crash e2fsck gives both back.
    pub(crate) async fn create_without_name(
        &'static self,
        directory: NodeId,
        new: &NewNode,
    ) -> Result<Attributes, FileError> {
        self.writable()?;
        if new.kind != NodeKind::File {
            return Err(FileError::Invalid);
        }
        let parent = self.directory(directory).await?;
        self.still_there(&parent)?;
        let mut taken = self.take_inode(parent.id, false).await?;
        let mut inode = self.prepare(&parent, new, &mut taken).await?;
        inode.links = 0;
        if !self.nodes.make_room(&self.nodes.account(), &Node::may_go) {
            return Err(FileError::OutOfMemory);
        }
        let node = Node::new(u64::from(taken.inode), inode);
        {
            let mut state = node.state.lock();
            (state.fresh, state.deleted, state.opens) = (true, true, 1);
        }
        node.nameless.store(true, Ordering::Release);
        let add = || (Some(node.clone()), true);
        if !self.nodes.with_or_add(node.id, self.nodes.account(), |_| false, add) {
            return Err(FileError::Damaged);
        }
        taken.keep();
        Ok(node.attributes())
    }

    pub(crate) async fn unlink_name(&'static self, directory: NodeId, name: &[u8]) -> Result<(), FileError> {
        self.writable()?;
        check_name(name)?;
        let parent = self.directory(directory).await?;
        let _guard = parent.to_change().await?;
        let (inode, block) = self.find_block(&parent, name).await?.ok_or(FileError::NotFound)?;
        let node = self.numbered(u64::from(inode)).await?;
        if node.kind == NodeKind::Directory {
            return Err(FileError::IsDirectory);
        }
        self.remove_name(&parent, &block, name)?;
        self.drop_link(&node);
        Ok(())
    }

    pub(crate) async fn remove_empty(&'static self, directory: NodeId, name: &[u8]) -> Result<(), FileError> {
        self.writable()?;
        check_name(name)?;
        match name {
            b"." => return Err(FileError::Invalid),
            b".." => return Err(FileError::NotEmpty),
            _ => {}
        }
        let parent = self.directory(directory).await?;
        let _guard = parent.to_change().await?;
        let (inode, block) = self.find_block(&parent, name).await?.ok_or(FileError::NotFound)?;
        let child = self.numbered_directory(u64::from(inode)).await?;
        // A directory that holds itself, or a second name of one above: only damaged images have that.
        if child.id == parent.id || child.id == crate::geometry::ROOT {
            return Err(FileError::Damaged);
        }
        let _child_guard = child.lock.exclusive().await;
        self.expect_empty(&child).await?;
        self.remove_name(&parent, &block, name)?;
        self.change(&parent, |inode| inode.links = inode.links.saturating_sub(1).max(1));
        self.drop_link(&child);
        self.names.forget_directory(child.name);
        Ok(())
    }

    /// Checks that a directory has no names but its own two.
    pub(crate) async fn expect_empty(&'static self, directory: &Node) -> Result<(), FileError> {
        for index in 0..self.directory_blocks(directory)? {
            let block = self.directory_block(directory, index).await?;
            for entry in directory::entries(self.contents(&block.page)) {
                let entry = entry?;
                if entry.inode != 0 && !matches!(entry.name, b"." | b"..") {
                    return Err(FileError::NotEmpty);
                }
            }
        }
        Ok(())
    }
}

/// Checks a name that is to be created.
pub(crate) fn check_new_name(name: &[u8]) -> Result<(), FileError> {
    check_name(name)?;
    if matches!(name, b"." | b"..") { Err(FileError::Exists) } else { Ok(()) }
}
