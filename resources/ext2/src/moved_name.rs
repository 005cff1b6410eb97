//! A name that moves: its new place is on the disk before its old one is gone. Both in one sector take one write;
//! else the sectors have an order (see [`crate::metadata::Metadata::order`]).

use crate::Ext2;
use crate::directory;
use crate::index::NamesChanged;
use crate::names::Known;
use crate::node::Node;
use crate::rename::End;
use crate::walk::DirectoryBlock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::FileError;

/// The blocks after a name has moved.
pub(crate) struct NamesMoved {
    /// A name that was not there.
    added: bool,
    /// The sector in which the new name becomes visible.
    pub(crate) shown_in: u64,
    /// The sector in which the old name disappears.
    pub(crate) hidden_in: u64,
    /// The longest entry that fits in the old place, bytes.
    room: usize,
    /// The block of the new name.
    contents: Vec<u8>,
    /// The block of the old name, if it is another one.
    old: Option<Vec<u8>>,
}

impl Ext2 {
    /// Returns the new contents of the two blocks, and the sectors that show the new name and hide the old one.
    pub(crate) fn plan_move(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        moved: &Node,
        target: &DirectoryBlock,
        replaces: bool,
        source: &DirectoryBlock,
    ) -> Result<NamesMoved, FileError> {
        let (inode, code) = (moved.id as u32, self.code_of(moved.kind));
        let mut contents = self.copy_of(&target.page);
        let shown_by = match replaces {
            true => directory::redirect(&mut contents, to.name, inode, code)?,
            false => directory::insert(&mut contents, inode, code, to.name)?.ok_or(FileError::Damaged)?,
        };
        let mut old = (target.block != source.block).then(|| self.copy_of(&source.page));
        let removed = directory::remove(old.as_mut().unwrap_or(&mut contents), from.name)?;
        Ok(NamesMoved {
            added: !replaces,
            shown_in: self.sector_at(target.block, shown_by),
            hidden_in: self.sector_at(source.block, removed.hidden_by),
            room: removed.room,
            contents,
            old,
        })
    }

    /// Writes the new name and removes the old one; in one sector both at once, else in the order that the disk must see.
    pub(crate) fn write_names(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        moved: &Arc<Node>,
        change: &NamesMoved,
        target: &DirectoryBlock,
        source: &DirectoryBlock,
    ) {
        let order = [(change.shown_in, change.hidden_in)];
        let added = change.added.then_some(to.name);
        let removed = Some((from.name, change.room));
        let new = &change.contents;
        match &change.old {
            None => {
                self.write_blocks(&order, &[(target, new)]);
                self.names_changed(to.directory, target, new, NamesChanged { added, removed });
            }
            Some(old) => {
                self.write_blocks(&order, &[(target, new), (source, old)]);
                self.names_changed(to.directory, target, new, NamesChanged { added, removed: None });
                self.names_changed(from.directory, source, old, NamesChanged { added: None, removed });
            }
        }
        self.names.set(from.directory.name, from.name, Known::Absent);
        self.names.set(to.directory.name, to.name, Known::Node(moved.id));
    }
}
