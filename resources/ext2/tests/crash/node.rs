//! A file, directory or symbolic link: its possible contents after a crash.

use super::cell::Cell;
use gyre_interface::block::SECTOR_BYTES;
use gyre_interface::files::NodeKind;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A node for good: its owner on the disk, by which it is known again.
pub type Id = u32;
/// A directory and a name there.
pub type Place = (Id, String);
/// Extended attributes by name.
pub type Extended = BTreeMap<String, Vec<u8>>;
/// A node's state besides contents: mode, group, extended attributes.
pub type Attributes = (u16, u32, Extended);

/// Contents of a sector; none if it has only zeroes.
type Sector = Option<Rc<[u8; SECTOR_BYTES]>>;

/// The node.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: NodeKind,
    pub target: Vec<u8>,
    pub attributes: Cell<Attributes>,
    /// From and to: a write that grows the file stops anywhere between.
    size: Cell<(usize, usize)>,
    block_bytes: usize,
    sectors: Vec<Cell<Sector>>,
    /// One of each of these places leads here; the last one does now.
    pub promises: Vec<Vec<Place>>,
    /// An exchange of names may leave it in lost+found.
    pub exchanged: bool,
    /// It had a name.
    pub named: bool,
    /// Its end is durable.
    pub gone: bool,
}

/// A node as it is found after a crash.
#[derive(Debug, PartialEq)]
pub struct Found {
    pub kind: NodeKind,
    pub target: Vec<u8>,
    pub attributes: Attributes,
    pub data: Vec<u8>,
}

impl Node {
    pub fn new(kind: NodeKind, target: &[u8], block_bytes: usize) -> Node {
        Node {
            kind,
            target: target.to_vec(),
            attributes: Cell::new((0o755, 0, Extended::new())),
            size: Cell::new((0, 0)),
            block_bytes,
            sectors: Vec::new(),
            promises: Vec::new(),
            exchanged: false,
            named: false,
            gone: false,
        }
    }

    pub fn size(&self) -> usize {
        self.size.now().1
    }

    /// Notes that bytes are about to be written.
    pub fn write(&mut self, at: usize, data: &[u8]) {
        self.fill(at, at + data.len(), |index| data[index - at]);
        self.place(at, at + data.len());
    }

    /// Notes that bytes are about to become zeroes, as far as the file reaches.
    pub fn punch(&mut self, at: usize, bytes: usize) {
        self.fill(at, (at + bytes).min(self.size()), |_| 0);
    }

    /// Notes that blocks are about to come if there are none between these bytes, and that the file will reach that
    /// far at least, by steps. An indirect block that the disk knows has the new pointers before the size, which may
    /// be any that the file had since it was synced: e2fsck then sets the size to that of all blocks, and bytes
    /// behind the end in the last one are zeroes.
    pub fn place(&mut self, at: usize, end: usize) {
        let until = end.next_multiple_of(self.block_bytes);
        let least = self.size.all().map(|(from, _)| *from).min().unwrap_or(0);
        if least < until {
            self.size.allow((least.max(at), until));
        }
        if end > self.size() {
            self.size.set((end, end));
        }
    }

    /// Notes that the file is about to have this size.
    pub fn resize(&mut self, size: usize) {
        self.fill(size, self.size().max(size), |_| 0);
        self.size.set((size, size));
    }

    /// Makes the present state the durable one.
    pub fn settle(&mut self) {
        self.attributes.settle();
        self.size.settle();
        self.sectors.iter_mut().for_each(Cell::settle);
    }

    /// Returns whether the file may be without blocks. e2fsck removes one that an exchange left without a name, and
    /// does not put it into lost+found.
    pub fn may_be_hollow(&self) -> bool {
        let is_zero = |sector: &Sector| sector.as_ref().is_none_or(|bytes| bytes.iter().all(|byte| *byte == 0));
        self.kind == NodeKind::File && self.sectors.iter().all(|sector| sector.may_be(is_zero))
    }

    /// Returns all bytes as they are now.
    pub fn data(&self) -> Vec<u8> {
        let mut data = vec![0; self.sectors.len() * SECTOR_BYTES];
        for (part, sector) in data.chunks_mut(SECTOR_BYTES).zip(&self.sectors) {
            sector.now().iter().for_each(|bytes| part.copy_from_slice(&bytes[..]));
        }
        data.resize(self.size(), 0);
        data
    }

    fn fill(&mut self, start: usize, end: usize, byte: impl Fn(usize) -> u8) {
        let sectors = end.div_ceil(SECTOR_BYTES);
        if self.sectors.len() < sectors {
            self.sectors.resize_with(sectors, || Cell::new(None));
        }
        for index in start / SECTOR_BYTES..sectors {
            let first = index * SECTOR_BYTES;
            let mut bytes = self.sectors[index].now().as_deref().map_or([0; SECTOR_BYTES], |bytes| *bytes);
            (start.max(first)..end.min(first + SECTOR_BYTES)).for_each(|at| bytes[at - first] = byte(at));
            self.sectors[index].set(Some(Rc::new(bytes)));
        }
    }

    /// Returns the fault of this node as it was found.
    pub fn fault(&self, found: &Found) -> Option<String> {
        if (found.kind, &found.target) != (self.kind, &self.target) {
            return Some(format!("a {:?} to {:?}, not {:?} to {:?}", found.kind, found.target, self.kind, self.target));
        }
        if !self.attributes.may_be(|one| *one == found.attributes) {
            return Some(format!("attributes {:?}, not {:?}", found.attributes, self.attributes));
        }
        let size = found.data.len();
        if self.kind == NodeKind::File && !self.size.may_be(|(from, to)| (*from..=*to).contains(&size)) {
            return Some(format!("{size} bytes, not {:?}", self.size));
        }
        let mut parts = found.data.chunks(SECTOR_BYTES).enumerate();
        let (index, part) = parts.find(|(index, part)| !self.may_hold(*index, part))?;
        let heads: Vec<_> = self.sectors.get(index).map_or(Vec::new(), Cell::heads);
        Some(format!("sector {index} of {size} bytes begins {:?}, not {heads:?}", &part[..part.len().min(8)]))
    }

    fn may_hold(&self, index: usize, part: &[u8]) -> bool {
        let is_zero = part.iter().all(|byte| *byte == 0);
        let fits = |sector: &Sector| sector.as_ref().map_or(is_zero, |bytes| bytes[..part.len()] == *part);
        self.sectors.get(index).map_or(is_zero, |sector| sector.may_be(fits))
    }
}

impl Cell<Sector> {
    /// Returns the first bytes of all that it may be, for a message.
    fn heads(&self) -> Vec<Vec<u8>> {
        let mut heads = Vec::new();
        self.may_be(|sector| {
            heads.push(sector.as_ref().map_or(vec![0], |bytes| bytes[..8].to_vec()));
            false
        });
        heads
    }
}
