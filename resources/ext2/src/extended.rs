//! Extended attributes of nodes: "user.", "security." and "trusted.", in the inode while there is room, else in a block.
//!
//! Changed attributes of a block go to a new block; the inode's write switches from one to the other, so that a crash leaves the old or
//! the new ones.

use crate::Ext2;
use crate::change::now_ns;
use crate::extended_list::{Attribute, decode_block, decode_inode, encode_all, split_name};
use crate::inode::{INODE_BYTES_MIN, Inode};
use crate::metadata::{Class, from_block};
use crate::node::Node;
use crate::raw::u16_at;
use crate::tables::{EXTRA_BYTES, Mark};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::files::{FileError, Name, NodeId, Presence};

impl Ext2 {
    pub(crate) async fn extended_value(&'static self, node: NodeId, name: &[u8]) -> Result<Vec<u8>, FileError> {
        let (prefix, name) = split_name(name)?;
        let node = self.node(node).await?;
        let _guard = node.to_read().await?;
        let all = self.attributes_of(&node).await?;
        let found = all.into_iter().find(|one| one.prefix == prefix && one.name == name);
        found.map(|one| one.value).ok_or(FileError::NoAttribute)
    }

    pub(crate) async fn extended_names(&'static self, node: NodeId) -> Result<Vec<Name>, FileError> {
        let node = self.node(node).await?;
        let _guard = node.to_read().await?;
        Ok(self.attributes_of(&node).await?.iter().filter_map(Attribute::full_name).collect())
    }

    /// Sets an attribute, or removes it.
    pub(crate) async fn change_extended(
        &'static self,
        node: NodeId,
        name: &[u8],
        value: Option<&[u8]>,
        demand: Presence,
    ) -> Result<(), FileError> {
        self.writable()?;
        let (prefix, name) = split_name(name)?;
        let node = self.node(node).await?;
        let _guard = node.to_change().await?;
        let mut all = self.attributes_of(&node).await?;
        let before = all.len();
        all.retain(|one| one.prefix != prefix || one.name != name);
        match (before > all.len(), demand) {
            (true, Presence::Absent) => return Err(FileError::Exists),
            (false, Presence::Present) => return Err(FileError::NoAttribute),
            _ => {}
        }
        all.extend(value.map(|value| Attribute { prefix, name: name.to_vec(), value: value.to_vec() }));
        self.store(&node, all).await
    }

    async fn attributes_of(&'static self, node: &Node) -> Result<Vec<Attribute>, FileError> {
        let inode = node.state.lock().inode.clone();
        let mut all = inode.attributes.as_deref().map_or(Ok(Vec::new()), decode_inode)?;
        if inode.attributes_block != 0 {
            let block = self.attributes_block(&inode)?;
            let page = self.block(block).await?;
            all.extend(decode_block(self.contents(&page))?);
        }
        Ok(all)
    }

    fn attributes_block(&self, inode: &Inode) -> Result<u32, FileError> {
        match self.checked(inode.attributes_block)? {
            0 => Err(FileError::Damaged),
            block => Ok(block),
        }
    }

    async fn store(&'static self, node: &Node, all: Vec<Attribute>) -> Result<(), FileError> {
        self.announce_extended().await?;
        let (inside, outside) = encode_all(all, self.attribute_room(node).await?, self.geometry.block_bytes)?;
        let fresh = match outside {
            None => None,
            Some(contents) => {
                let claimed = self.claim_block(node).await?;
                let page = self.fresh_block(claimed.block).await?;
                page.write(0, &contents);
                Some((claimed, page))
            }
        };
        let old = node.state.lock().inode.attributes_block;
        if old != 0 {
            self.release_attributes(node, old).await?;
        }
        // Nothing waits from here on.
        let sectors = self.geometry.sectors_per_block() as u32;
        let block = fresh.map_or(0, |(claimed, page)| {
            self.touch(claimed.block, &page, Class::Fresh);
            claimed.keep()
        });
        let now = now_ns();
        self.change(node, |inode| {
            inode.sectors = inode.sectors.saturating_sub(if old != 0 { sectors } else { 0 });
            inode.sectors = inode.sectors.saturating_add(if block != 0 { sectors } else { 0 });
            inode.attributes_block = block;
            inode.attributes = inside.map(Vec::into_boxed_slice);
            inode.changed_ns = now;
        });
        Ok(())
    }

    /// Returns the bytes behind the fields of a node's inode.
    async fn attribute_room(&'static self, node: &Node) -> Result<usize, FileError> {
        let bytes = self.geometry.inode_bytes;
        if bytes <= INODE_BYTES_MIN {
            return Ok(0);
        }
        let is_fresh = node.state.lock().fresh;
        let extra = if is_fresh {
            EXTRA_BYTES
        } else {
            let (block, offset) = self.geometry.inode_place(node.id).ok_or(FileError::Damaged)?;
            let page = self.block(block).await?;
            u16_at(self.contents(&page), offset.saturating_add(INODE_BYTES_MIN))
        };
        // As in `Inode::encode`: an inode from an older system without fields of its own keeps its attributes in a
        // block.
        let start = INODE_BYTES_MIN.saturating_add(usize::from(extra));
        let sound = extra >= 4 && start.is_multiple_of(4);
        Ok(bytes.checked_sub(start).filter(|room| sound && *room >= 8).unwrap_or(0))
    }

    /// Says in the superblock that inodes may have attributes, before the first one has any: e2fsck removes them otherwise.
    async fn announce_extended(&'static self) -> Result<(), FileError> {
        let _guard = self.commit_lock.exclusive().await;
        if self.unmounted.load(Ordering::Acquire) {
            return Err(FileError::ReadOnly);
        }
        if self.has_extended.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.marked_unclean.store(true, Ordering::Release);
        let written = async {
            self.write_superblock(Mark::InUse).await?;
            self.disk.flush().await.map_err(from_block)
        };
        written.await.inspect_err(|_| self.has_extended.store(false, Ordering::Release))
    }
}
