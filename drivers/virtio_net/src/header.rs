//! The header before each frame (virtio 1.2 §5.1.6): flags u8, segmentation u8, header bytes u16, segment bytes u16,
//! checksum start u16, checksum offset u16, buffers u16.

/// Bytes of the header with version 1.
pub(crate) const HEADER_BYTES: usize = 12;

const NEEDS_CHECKSUM: u8 = 1;
const SEGMENT_TCP4: u8 = 1;

/// The header of a frame to send: what the device must sum, and how it must cut it.
pub(crate) fn header_of(checksum: Option<(u16, u16)>, segment: Option<(u16, u16)>) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let mut put = |at: usize, value: u16| {
        header.iter_mut().skip(at).zip(value.to_le_bytes()).for_each(|(place, byte)| *place = byte);
    };
    if let Some((payload, headers)) = segment {
        put(2, headers);
        put(4, payload);
    }
    if let Some((start, offset)) = checksum {
        put(6, start);
        put(8, offset);
    }
    header[0] = if checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
    header[1] = if segment.is_some() { SEGMENT_TCP4 } else { 0 };
    header
}
