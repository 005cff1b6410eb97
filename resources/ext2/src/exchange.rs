//! Exchanging the nodes of two names.
//!
//! Each name is redirected in its sector, one sector before the other. ext2 has no journal: a crash between the two writes leaves one
//! node under both names, and e2fsck puts the other one, whole, into lost+found; one without blocks it removes.

use crate::Ext2;
use crate::change::now_ns;
use crate::directory;
use crate::geometry::ROOT;
use crate::index::NamesChanged;
use crate::names::Known;
use crate::namespace::LINKS_MAX;
use crate::node::Node;
use crate::rename::End;
use crate::walk::DirectoryBlock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{FileError, NodeKind};

/// One of the two names, with its node.
struct Side {
    node: Arc<Node>,
    block: DirectoryBlock,
}

/// The blocks after the exchange.
struct Exchanged {
    /// The sector that is written first, of the second name.
    first_in: u64,
    last_in: u64,
    contents: Vec<u8>,
    /// The block of the first name, if it is another one.
    old: Option<Vec<u8>>,
}

impl Ext2 {
    /// Exchanges two names; the caller holds the locks of both directories and that of renames.
    pub(crate) async fn exchange_held(&'static self, from: End<'_>, to: End<'_>) -> Result<(), FileError> {
        let (first, second) = (self.side(&from).await?, self.side(&to).await?);
        if first.node.id == second.node.id {
            return Ok(());
        }
        let across = from.directory.id != to.directory.id;
        self.check_exchange(&first, &from, &to, across).await?;
        self.check_exchange(&second, &to, &from, across).await?;
        // The blocks with "..", and the locks of their directories: nothing waits once the first name has changed.
        let first_parent = self.parent_entry(&first.node, across).await?;
        let second_parent = self.parent_entry(&second.node, across).await?;
        let (_first_pass, _second_pass) = match (&first_parent, &second_parent) {
            (Some(_), Some(_)) if first.node.id < second.node.id => {
                let guard = first.node.lock.exclusive().await;
                (Some(guard), Some(second.node.lock.exclusive().await))
            }
            (Some(_), Some(_)) => {
                let guard = second.node.lock.exclusive().await;
                (Some(first.node.lock.exclusive().await), Some(guard))
            }
            (Some(_), None) => (Some(first.node.lock.exclusive().await), None),
            (None, Some(_)) => (None, Some(second.node.lock.exclusive().await)),
            (None, None) => (None, None),
        };
        let change = self.plan_exchange((&from, &first), (&to, &second))?;
        if self.metadata.lock().precedes(change.last_in, change.first_in) {
            self.commit().await?;
        }
        self.redirect_both((&from, &first), (&to, &second), &change);
        for (side, parent, above) in [(&first, &first_parent, &to), (&second, &second_parent, &from)] {
            if let Some(block) = parent {
                self.set_parent(&side.node, block, above.directory)?;
            }
        }
        if across {
            self.move_link(&first.node, from.directory, to.directory);
            self.move_link(&second.node, to.directory, from.directory);
        }
        let now = now_ns();
        for side in [&first, &second] {
            self.change(&side.node, |inode| inode.changed_ns = now);
        }
        Ok(())
    }

    async fn side(&'static self, end: &End<'_>) -> Result<Side, FileError> {
        let (inode, block) = self.find_block(end.directory, end.name).await?.ok_or(FileError::NotFound)?;
        Ok(Side { node: self.numbered(u64::from(inode)).await?, block })
    }

    /// Checks that no directory would come to lie below itself, and that its new parent has a link left.
    async fn check_exchange(
        &'static self,
        side: &Side,
        own: &End<'_>,
        other: &End<'_>,
        across: bool,
    ) -> Result<(), FileError> {
        if side.node.kind != NodeKind::Directory {
            return Ok(());
        }
        if side.node.id == ROOT || side.node.id == own.directory.id {
            return Err(FileError::Damaged);
        }
        if across && self.is_above_held(side.node.id, other.directory).await? {
            return Err(FileError::Invalid);
        }
        let full = across && other.directory.state.lock().inode.links >= LINKS_MAX;
        if full { Err(FileError::TooManyLinks) } else { Ok(()) }
    }

    async fn parent_entry(&'static self, node: &Node, across: bool) -> Result<Option<DirectoryBlock>, FileError> {
        if node.kind != NodeKind::Directory || !across {
            return Ok(None);
        }
        self.directory_block(node, 0).await.map(Some)
    }

    /// Returns the new contents of the blocks, and the sectors of the names.
    fn plan_exchange(&self, from: (&End<'_>, &Side), to: (&End<'_>, &Side)) -> Result<Exchanged, FileError> {
        let (first, second) = (from.1, to.1);
        let lead_to = |contents: &mut [u8], name: &[u8], node: &Node| {
            directory::redirect(contents, name, node.id as u32, self.code_of(node.kind))
        };
        let mut contents = self.copy_of(&second.block.page);
        let first_at = lead_to(&mut contents, to.0.name, &first.node)?;
        let mut old = (first.block.block != second.block.block).then(|| self.copy_of(&first.block.page));
        let last_at = lead_to(old.as_mut().unwrap_or(&mut contents), from.0.name, &second.node)?;
        let (first_in, last_in) =
            (self.sector_at(second.block.block, first_at), self.sector_at(first.block.block, last_at));
        Ok(Exchanged { first_in, last_in, contents, old })
    }

    fn redirect_both(&self, from: (&End<'_>, &Side), to: (&End<'_>, &Side), change: &Exchanged) {
        let (first, second) = (from.1, to.1);
        let blocks =
            [(&second.block, change.contents.as_slice()), (&first.block, change.old.as_deref().unwrap_or(&[]))];
        let changed = if change.old.is_some() { 2 } else { 1 };
        self.write_blocks(&[(change.first_in, change.last_in)], &blocks[..changed]);
        for (directory, (block, contents)) in [to.0.directory, from.0.directory].into_iter().zip(blocks).take(changed) {
            self.names_changed(directory, block, contents, NamesChanged::default());
        }
        self.names.set(from.0.directory.name, from.0.name, Known::Node(second.node.id));
        self.names.set(to.0.directory.name, to.0.name, Known::Node(first.node.id));
    }

    /// Moves the link of a directory's ".." with it.
    fn move_link(&self, node: &Node, from: &Node, to: &Node) {
        if node.kind == NodeKind::Directory {
            self.change(from, |inode| inode.links = inode.links.saturating_sub(1).max(1));
            self.change(to, |inode| inode.links = inode.links.saturating_add(1));
        }
    }
}
