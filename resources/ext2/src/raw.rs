//! Little-endian numbers in bytes from the disk. Reads beyond the end give 0, writes there do nothing: callers check lengths.

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().map_or(0, u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_le_bytes)
}

pub(crate) fn put_u16(bytes: &mut [u8], offset: usize, value: u16) {
    if let Some(part) = bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
        *part = value.to_le_bytes();
    }
}

pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    if let Some(part) = bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
        *part = value.to_le_bytes();
    }
}
