//! Inodes on disk: 128 bytes, or more with parts of seconds behind them.
//!
//! ```text
//!   0 mode | 2 user | 4 size | 8 accessed | 12 changed | 16 modified | 24 group | 26 links | 28 sectors | 40 pointers (15) | 100 generation
//!   104 attributes' block | 128 extra size | 132.. parts of seconds | extended attributes
//! ```
//!
//! [`Inode::decode`] reads one and believes nothing: kinds and sizes that make no sense are damage. [`Inode::encode`]
//! writes it over its place and leaves unknown fields. A short link's target lies in the pointers. Pure: it neither
//! reads nor writes the disk.

use crate::raw::{put_u16, put_u32, u16_at, u32_at};
use alloc::boxed::Box;
use gyre_interface::files::{FileError, NodeKind};

/// Bytes of an inode that every revision has.
pub(crate) const INODE_BYTES_MIN: usize = 128;
/// Pointers: 12 direct ones, then single, double and triple indirect.
pub(crate) const POINTERS: usize = 15;
/// The directory has a hash index.
pub(crate) const FLAG_HASHED: u32 = 0x1000;
/// Flags of formats that are not read here (extents, inline data).
const FLAGS_UNKNOWN_FORMAT: u32 = 0x8_0000 | 0x1000_0000;

const SECOND_NS: u64 = 1_000_000_000;

/// An inode in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) kind: NodeKind,
    pub(crate) permissions: u16,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) size: u64,
    pub(crate) accessed_ns: u64,
    pub(crate) changed_ns: u64,
    pub(crate) modified_ns: u64,
    pub(crate) deleted_seconds: u32,
    pub(crate) links: u16,
    pub(crate) sectors: u32,
    pub(crate) flags: u32,
    pub(crate) pointers: [u32; POINTERS],
    pub(crate) generation: u32,
    pub(crate) attributes_block: u32,
    /// Extended attributes in the inode's own space: everything from their magic number to the inode's end.
    pub(crate) attributes: Option<Box<[u8]>>,
}

/// Marks extended attributes, in a block and in an inode.
pub(crate) const ATTRIBUTES_MAGIC: u32 = 0xea02_0000;

/// Returns the offset of extended attributes in a raw inode, if it has room for any.
fn attributes_start(raw: &[u8]) -> Option<usize> {
    let start = INODE_BYTES_MIN.saturating_add(usize::from(u16_at(raw, INODE_BYTES_MIN)));
    let has_room = start >= INODE_BYTES_MIN + 4 && raw.len().saturating_sub(start) >= 8;
    (raw.len() > INODE_BYTES_MIN && has_room && start.is_multiple_of(4)).then_some(start)
}

/// Returns the type bits of a mode.
pub(crate) fn kind_bits(kind: NodeKind) -> u16 {
    match kind {
        NodeKind::Pipe => 0x1000,
        NodeKind::CharacterDevice => 0x2000,
        NodeKind::Directory => 0x4000,
        NodeKind::BlockDevice => 0x6000,
        NodeKind::File => 0x8000,
        NodeKind::SymbolicLink => 0xa000,
        NodeKind::Socket => 0xc000,
    }
}

fn kind_of(mode: u16) -> Option<NodeKind> {
    use NodeKind::*;
    [Pipe, CharacterDevice, Directory, BlockDevice, File, SymbolicLink, Socket]
        .into_iter()
        .find(|kind| kind_bits(*kind) == mode & 0xf000)
}

/// Reads seconds, and nanoseconds with two more bits of seconds (ext4's layout of the extra field).
#[expect(clippy::arithmetic_side_effects, reason = "34 bits of seconds and a second in 64")]
fn time_ns(seconds: u32, extra: u32) -> u64 {
    let seconds = i64::from(seconds as i32) + (i64::from(extra & 3) << 32);
    u64::try_from(seconds).unwrap_or(0) * SECOND_NS + u64::from(extra >> 2).min(SECOND_NS - 1)
}

#[expect(clippy::arithmetic_side_effects, reason = "34 bits of seconds and a second in 64")]
fn split_time(ns: u64) -> (u32, u32) {
    let seconds = (ns / SECOND_NS) as i64;
    let epoch = (seconds - i64::from(seconds as i32)) >> 32;
    (seconds as u32, ((ns % SECOND_NS) as u32) << 2 | (epoch as u32 & 3))
}

impl Inode {
    /// Makes an inode without contents.
    pub(crate) fn new(kind: NodeKind, permissions: u16, user: u32, group: u32, now_ns: u64) -> Inode {
        Inode {
            kind,
            permissions: permissions & 0xfff,
            user,
            group,
            size: 0,
            accessed_ns: now_ns,
            changed_ns: now_ns,
            modified_ns: now_ns,
            deleted_seconds: 0,
            links: 1,
            sectors: 0,
            flags: 0,
            pointers: [0; POINTERS],
            generation: 0,
            attributes_block: 0,
            attributes: None,
        }
    }

    /// Reads an inode in use.
    pub(crate) fn decode(raw: &[u8]) -> Result<Inode, FileError> {
        let mode = u16_at(raw, 0);
        if u16_at(raw, 26) == 0 {
            return Err(FileError::Stale);
        }
        let kind = kind_of(mode).ok_or(FileError::Damaged)?;
        let flags = u32_at(raw, 32);
        if flags & FLAGS_UNKNOWN_FORMAT != 0 {
            return Err(FileError::Damaged);
        }
        let size_high = if kind == NodeKind::File { u32_at(raw, 108) } else { 0 };
        let has_extra = |end: u16| raw.len() > INODE_BYTES_MIN && u16_at(raw, 128) >= end;
        let extra = |end: u16, offset| {
            if has_extra(end) { u32_at(raw, offset) } else { 0 }
        };
        let mut pointers = [0; POINTERS];
        pointers.iter_mut().zip((40..).step_by(4)).for_each(|(pointer, at)| *pointer = u32_at(raw, at));
        Ok(Inode {
            kind,
            permissions: mode & 0xfff,
            user: u32::from(u16_at(raw, 2)) | u32::from(u16_at(raw, 120)) << 16,
            group: u32::from(u16_at(raw, 24)) | u32::from(u16_at(raw, 122)) << 16,
            size: u64::from(u32_at(raw, 4)) | u64::from(size_high) << 32,
            accessed_ns: time_ns(u32_at(raw, 8), extra(16, 140)),
            changed_ns: time_ns(u32_at(raw, 12), extra(8, 132)),
            modified_ns: time_ns(u32_at(raw, 16), extra(12, 136)),
            deleted_seconds: 0,
            links: u16_at(raw, 26),
            sectors: u32_at(raw, 28),
            flags,
            pointers,
            generation: u32_at(raw, 100),
            attributes_block: u32_at(raw, 104),
            attributes: attributes_start(raw)
                .and_then(|start| raw.get(start..))
                .filter(|area| u32_at(area, 0) == ATTRIBUTES_MAGIC)
                .map(Box::from),
        })
    }

    /// Writes it over its place on the disk; fields that are not known here stay.
    pub(crate) fn encode(&self, raw: &mut [u8]) {
        let times = [(self.accessed_ns, 8, 140, 16), (self.changed_ns, 12, 132, 8), (self.modified_ns, 16, 136, 12)];
        let extra_end = if raw.len() > INODE_BYTES_MIN { u16_at(raw, 128) } else { 0 };
        put_u16(raw, 0, kind_bits(self.kind) | self.permissions);
        put_u16(raw, 2, self.user as u16);
        put_u16(raw, 24, self.group as u16);
        put_u16(raw, 120, (self.user >> 16) as u16);
        put_u16(raw, 122, (self.group >> 16) as u16);
        put_u32(raw, 4, self.size as u32);
        put_u32(raw, 20, self.deleted_seconds);
        put_u16(raw, 26, self.links);
        put_u32(raw, 28, self.sectors);
        put_u32(raw, 32, self.flags);
        self.pointers.iter().zip((40..).step_by(4)).for_each(|(pointer, at)| put_u32(raw, at, *pointer));
        put_u32(raw, 100, self.generation);
        put_u32(raw, 104, self.attributes_block);
        if let Some(area) = attributes_start(raw).and_then(|start| raw.get_mut(start..)) {
            match &self.attributes {
                Some(attributes) if attributes.len() == area.len() => area.copy_from_slice(attributes),
                Some(_) => {}
                None if u32_at(area, 0) == ATTRIBUTES_MAGIC => area.fill(0),
                None => {}
            }
        }
        if self.kind == NodeKind::File {
            put_u32(raw, 108, (self.size >> 32) as u32);
        }
        for (ns, offset, extra_offset, needed) in times {
            let (seconds, extra) = split_time(ns);
            put_u32(raw, offset, seconds);
            if extra_end >= needed {
                put_u32(raw, extra_offset, extra);
            }
        }
    }

    /// Returns whether it is a symbolic link whose target lies in the pointers. A block of extended attributes
    /// counts, but holds no contents.
    pub(crate) fn is_fast_link(&self, sectors_per_block: u64) -> bool {
        let attributes = if self.attributes_block == 0 { 0 } else { sectors_per_block };
        self.kind == NodeKind::SymbolicLink && self.size < 60 && u64::from(self.sectors) == attributes
    }

    /// Returns the target of a fast link.
    pub(crate) fn fast_target(&self) -> [u8; 60] {
        let mut target = [0; 60];
        for (place, pointer) in target.chunks_mut(4).zip(self.pointers) {
            place.copy_from_slice(&pointer.to_le_bytes());
        }
        target
    }

    /// Puts a target of less than 60 bytes into the pointers.
    pub(crate) fn set_fast_target(&mut self, target: &[u8]) {
        let mut padded = [0; 60];
        padded.iter_mut().zip(target).for_each(|(to, from)| *to = *from);
        for (pointer, bytes) in self.pointers.iter_mut().zip(padded.chunks(4)) {
            *pointer = u32_at(bytes, 0);
        }
        self.size = target.len() as u64;
    }

    /// Returns the device number: old format in the first pointer, new one in the second (Linux `old_decode_dev`,
    /// `new_decode_dev`), as Linux's 64-bit `dev_t` of user programs.
    pub(crate) fn device(&self) -> u64 {
        let (old, new) = (u64::from(self.pointers[0]), u64::from(self.pointers[1]));
        let (major, minor) = if old != 0 {
            (old >> 8 & 0xff, old & 0xff)
        } else {
            (new >> 8 & 0xfff, (new & 0xff) | (new >> 12 & 0xf_ff00))
        };
        (major & 0xfff) << 8 | (minor & 0xff) | (minor & !0xff) << 12 | (major & !0xfff) << 32
    }

    /// Stores a device number.
    pub(crate) fn set_device(&mut self, device: u64) {
        let major = (device >> 8 & 0xfff) as u32;
        let minor = (device & 0xff) as u32 | ((device >> 12) as u32 & 0xf_ff00);
        if major < 256 && minor < 256 {
            self.pointers[0] = major << 8 | minor;
        } else {
            self.pointers[1] = (minor & 0xff) | major << 8 | (minor & !0xff) << 12;
        }
    }

    /// Returns whether the pointers name blocks.
    pub(crate) fn has_blocks(&self, sectors_per_block: u64) -> bool {
        match self.kind {
            NodeKind::File | NodeKind::Directory => true,
            NodeKind::SymbolicLink => !self.is_fast_link(sectors_per_block),
            _ => false,
        }
    }
}
