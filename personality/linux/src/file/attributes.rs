//! `struct stat` and `struct statx` from a node's attributes (stat(2), statx(2)).

use super::buffer::half;
use super::mount::Place;
use gyre_interface::files::{Attributes, NodeId, NodeKind};
use linux_raw_sys::general as raw;

/// Returns the kind in the upper bits of `st_mode`.
pub fn mode_kind(kind: NodeKind) -> u32 {
    match kind {
        NodeKind::File => raw::S_IFREG,
        NodeKind::Directory => raw::S_IFDIR,
        NodeKind::SymbolicLink => raw::S_IFLNK,
        NodeKind::CharacterDevice => raw::S_IFCHR,
        NodeKind::BlockDevice => raw::S_IFBLK,
        NodeKind::Pipe => raw::S_IFIFO,
        NodeKind::Socket => raw::S_IFSOCK,
    }
}

/// Returns the kind that `mknod` wants.
pub fn kind_of_mode(mode: u32) -> Option<NodeKind> {
    match mode & raw::S_IFMT {
        0 | raw::S_IFREG => Some(NodeKind::File),
        raw::S_IFDIR => Some(NodeKind::Directory),
        raw::S_IFCHR => Some(NodeKind::CharacterDevice),
        raw::S_IFBLK => Some(NodeKind::BlockDevice),
        raw::S_IFIFO => Some(NodeKind::Pipe),
        raw::S_IFSOCK => Some(NodeKind::Socket),
        _ => None,
    }
}

/// Returns attributes of things without a node.
pub fn nameless(kind: NodeKind, mode: u16) -> Attributes {
    let now = gyre_machine::wall_clock_ns();
    Attributes {
        node: NodeId(1),
        number: 1,
        kind,
        mode,
        links: 1,
        user: 0,
        group: 0,
        size_bytes: 0,
        blocks_512: 0,
        device: 0,
        accessed_ns: now,
        modified_ns: now,
        changed_ns: now,
        losses: 0,
    }
}

/// Returns the device number of a mount: major 0, as Linux gives to file systems without a device.
pub fn device_of(place: Option<&Place>) -> u64 {
    place.map_or(15, |place| u64::from(place.mount.id))
}

const NS: u64 = 1_000_000_000;

/// `struct stat` of x86-64: 144 bytes.
pub fn stat_bytes(device: u64, attributes: &Attributes) -> [u8; 144] {
    let mut out = [0; 144];
    let mut put = |at: usize, value: u64| write(&mut out, at, &value.to_le_bytes());
    put(0, device);
    put(8, attributes.number);
    put(16, u64::from(attributes.links));
    let mode = mode_kind(attributes.kind) | u32::from(attributes.mode);
    put(24, u64::from(mode) | u64::from(attributes.user) << 32);
    put(32, u64::from(attributes.group));
    put(40, attributes.device);
    put(48, attributes.size_bytes);
    put(56, 4096);
    put(64, attributes.blocks_512);
    for (at, time) in [(72, attributes.accessed_ns), (88, attributes.modified_ns), (104, attributes.changed_ns)] {
        put(at, time / NS);
        put(at.saturating_add(8), time % NS);
    }
    out
}

/// `struct statx`: 256 bytes, with the basic fields.
pub fn statx_bytes(device: u64, attributes: &Attributes, is_mount_root: bool) -> [u8; 256] {
    let mut out = [0; 256];
    let mode = mode_kind(attributes.kind) | u32::from(attributes.mode);
    write(&mut out, 0, &raw::STATX_BASIC_STATS.to_le_bytes());
    write(&mut out, 4, &4096u32.to_le_bytes());
    let attribute_mask = u64::from(raw::STATX_ATTR_MOUNT_ROOT);
    write(&mut out, 8, &if is_mount_root { attribute_mask } else { 0 }.to_le_bytes());
    write(&mut out, 16, &attributes.links.to_le_bytes());
    write(&mut out, 20, &attributes.user.to_le_bytes());
    write(&mut out, 24, &attributes.group.to_le_bytes());
    write(&mut out, 28, &(mode as u16).to_le_bytes());
    write(&mut out, 32, &attributes.number.to_le_bytes());
    write(&mut out, 40, &attributes.size_bytes.to_le_bytes());
    write(&mut out, 48, &attributes.blocks_512.to_le_bytes());
    write(&mut out, 56, &attribute_mask.to_le_bytes());
    for (at, time) in [(64, attributes.accessed_ns), (96, attributes.changed_ns), (112, attributes.modified_ns)] {
        write(&mut out, at, &(time / NS).to_le_bytes());
        write(&mut out, at.saturating_add(8), &((time % NS) as u32).to_le_bytes());
    }
    write(&mut out, 128, &major(attributes.device).to_le_bytes());
    write(&mut out, 132, &minor(attributes.device).to_le_bytes());
    write(&mut out, 136, &major(device).to_le_bytes());
    write(&mut out, 140, &minor(device).to_le_bytes());
    out
}

/// Writes the alignment that O_DIRECT needs of addresses and offsets, bytes, into a `struct statx` (STATX_DIOALIGN).
pub fn add_direct_alignment(out: &mut [u8; 256], bytes: u32) {
    let mask = half(out, 0) | raw::STATX_DIOALIGN;
    write(out, 0, &mask.to_le_bytes());
    write(out, 152, &bytes.to_le_bytes());
    write(out, 156, &bytes.to_le_bytes());
}

fn write(out: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = out.get_mut(at..).and_then(|rest| rest.get_mut(..value.len())) {
        place.copy_from_slice(value);
    }
}

/// Returns the major part of a device number (makedev(3)).
pub fn major(device: u64) -> u32 {
    ((device >> 8 & 0xfff) | (device >> 32 & !0xfff)) as u32
}

/// Returns the minor part of a device number.
pub fn minor(device: u64) -> u32 {
    ((device & 0xff) | (device >> 12 & !0xff)) as u32
}

/// Returns a device number.
pub const fn device_number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}
