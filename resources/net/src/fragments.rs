//! Reassembly of fragments (RFC 791 section 3.2, RFC 815), bounded: overlaps drop the whole packet (RFC 5722 in spirit).

use crate::limits::{FRAGMENTED_PACKETS_MAX, FRAGMENTS_MAX};
use crate::wire::{Ip, ipv4};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_object::Bytes;

/// How long an incomplete packet is kept (RFC 1122: 60 to 120 s; less is kinder to memory), ns.
const KEPT_NS: u64 = 30_000_000_000;
/// Longest payload of an IP packet.
const PAYLOAD_BYTES_MAX: usize = 0xffff - ipv4::HEADER_BYTES;

/// Source, destination, protocol, identification.
type Name = (Ip, Ip, u8, u16);

struct Partial {
    since_ns: u64,
    /// By offset, not overlapping.
    parts: Vec<(usize, Bytes)>,
    total: Option<usize>,
}

/// Incomplete packets of one tenant.
#[derive(Default)]
pub(crate) struct Fragments(BTreeMap<Name, Partial>);

impl Fragments {
    /// Returns how many packets are incomplete.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a fragment and returns the whole packet once it is complete.
    pub(crate) fn insert(
        &mut self,
        header: &ipv4::Header,
        data: Bytes,
        now_ns: u64,
    ) -> Result<Option<(ipv4::Header, Bytes)>, ()> {
        self.0.retain(|_, partial| now_ns.saturating_sub(partial.since_ns) < KEPT_NS);
        let name = (header.source, header.destination, header.protocol, header.identification);
        if !self.0.contains_key(&name) && self.0.len() >= FRAGMENTED_PACKETS_MAX {
            let oldest = self.0.iter().min_by_key(|entry| entry.1.since_ns).map(|entry| *entry.0);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let partial = self.0.entry(name).or_insert(Partial { since_ns: now_ns, parts: Vec::new(), total: None });
        if partial.add(header, data).is_err() {
            self.0.remove(&name);
            return Err(());
        }
        if !partial.is_complete() {
            return Ok(None);
        }
        let partial = self.0.remove(&name).ok_or(())?;
        let body = partial.join()?;
        let whole = ipv4::Header {
            total_bytes: header.header_bytes.checked_add(body.len()).ok_or(())?,
            fragment_offset: 0,
            more_fragments: false,
            ..*header
        };
        Ok(Some((whole, body)))
    }
}

impl Partial {
    fn add(&mut self, header: &ipv4::Header, data: Bytes) -> Result<(), ()> {
        let start = header.fragment_offset;
        let end = start.checked_add(data.len()).ok_or(())?;
        let ragged = header.more_fragments && !data.len().is_multiple_of(8);
        let beyond = end > PAYLOAD_BYTES_MAX || self.total.is_some_and(|total| end > total);
        if data.is_empty() || ragged || beyond || self.parts.len() >= FRAGMENTS_MAX {
            return Err(());
        }
        if !header.more_fragments {
            let shorter =
                self.total.is_some_and(|total| total != end) || self.parts.iter().any(|part| end_of(part) > end);
            if shorter {
                return Err(());
            }
            self.total = Some(end);
        }
        let index = self.parts.partition_point(|part| part.0 < start);
        let same = self.parts.get(index).is_some_and(|part| part.0 == start && part.1.len() == data.len());
        if same {
            return Ok(());
        }
        let before = index.checked_sub(1).and_then(|index| self.parts.get(index));
        let overlaps =
            before.is_some_and(|part| end_of(part) > start) || self.parts.get(index).is_some_and(|part| part.0 < end);
        if overlaps {
            return Err(());
        }
        self.parts.insert(index, (start, data));
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let held: usize = self.parts.iter().map(|part| part.1.len()).sum();
        self.total == Some(held)
    }

    fn join(self) -> Result<Bytes, ()> {
        let mut flat = Vec::with_capacity(self.total.unwrap_or(0));
        self.parts.iter().for_each(|part| flat.extend_from_slice(part.1.as_slice()));
        Bytes::copy_from(&flat).map_err(|_| ())
    }
}

/// Returns the first byte behind a part, which lies within the longest packet.
fn end_of(part: &(usize, Bytes)) -> usize {
    part.0.saturating_add(part.1.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(offset: usize, more: bool, id: u16) -> ipv4::Header {
        ipv4::Header {
            identification: id,
            fragment_offset: offset,
            more_fragments: more,
            ..ipv4::Header::new([10, 0, 0, 9], [10, 0, 0, 1], 17, 0)
        }
    }

    proptest! {
        #[test]
        fn fragments_in_any_order_yield_the_packet(len in 1usize..4000, step in 1usize..100, seed: u64) {
            let data: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let mut parts: Vec<(usize, &[u8])> = data.chunks(step * 8).enumerate().map(|(index, part)| (index * step * 8, part)).collect();
            prop_assume!(parts.len() <= FRAGMENTS_MAX);
            let count = parts.len();
            for index in (1..count).rev() {
                parts.swap(index, (seed.rotate_left(index as u32 * 7) % (index as u64 + 1)) as usize);
            }
            let mut fragments = Fragments::default();
            for (position, (offset, part)) in parts.iter().enumerate() {
                let more = offset + part.len() < len;
                let whole = fragments.insert(&header(*offset, more, 5), Bytes::copy_from(part).unwrap(), 1).unwrap();
                prop_assert_eq!(whole.is_some(), position + 1 == count);
                if let Some((_, body)) = whole {
                    prop_assert_eq!(body.as_slice(), &data[..]);
                }
            }
        }

        #[test]
        fn hostile_fragments_are_bounded(pieces in proptest::collection::vec((0usize..9000, any::<bool>(), 0u16..40, 0usize..200), 0..400)) {
            let mut fragments = Fragments::default();
            for (offset, more, id, len) in pieces {
                let _ = fragments.insert(&header(offset * 8 % 65536, more, id), Bytes::copy_from(&vec![1; len]).unwrap(), 1);
                prop_assert!(fragments.0.len() <= FRAGMENTED_PACKETS_MAX);
                prop_assert!(fragments.0.values().all(|partial| partial.parts.len() <= FRAGMENTS_MAX));
            }
        }
    }

    #[test]
    fn an_overlap_drops_the_packet() {
        let mut fragments = Fragments::default();
        let data = Bytes::copy_from(&[1; 16]).unwrap();
        assert!(fragments.insert(&header(0, true, 1), data.clone(), 1).unwrap().is_none());
        assert!(fragments.insert(&header(8, false, 1), data, 1).is_err());
        assert!(fragments.0.is_empty());
    }
}
