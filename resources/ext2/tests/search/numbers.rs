//! Numbers and names that requests have as arguments.

/// Offsets and sizes: those at which blocks, pages, pointers and integers end.
pub const NUMBERS: [u64; 40] = [
    0,
    1,
    2,
    3,
    7,
    100,
    511,
    512,
    1023,
    1024,
    2048,
    3000,
    4095,
    4096,
    4097,
    8192,
    12 << 10,
    13 << 10,
    20_000,
    48 << 10,
    65_536,
    100_000,
    (12 + 256) << 10,
    300_000,
    600_000,
    1 << 20,
    (12 + 256 + 65_536) << 10,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 34,
    1 << 40,
    1 << 41,
    1 << 43,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_0000,
    u64::MAX - 4095,
    u64::MAX,
];

/// Most bytes that one request writes.
const DATA_BYTES_MAX: u64 = 40_000;

pub fn number(byte: u8) -> u64 {
    NUMBERS[usize::from(byte) % NUMBERS.len()]
}

/// Returns how many bytes a request writes.
pub fn count(byte: u8) -> usize {
    number(byte).min(DATA_BYTES_MAX) as usize
}

/// Returns a name: one of the image's, a new one, or none that there can be.
pub fn name(byte: u8) -> Vec<u8> {
    match byte % 24 {
        0 => b"a".to_vec(),
        1 => b"b".to_vec(),
        2 => b"c".to_vec(),
        3 => b"file".to_vec(),
        4 => b"large".to_vec(),
        5 => b"slow".to_vec(),
        6 => b"lost+found".to_vec(),
        7 => b".".to_vec(),
        8 => b"..".to_vec(),
        9 | 10 => format!("new{}", byte % 24).into_bytes(),
        11..18 => format!("name{}", byte % 41).into_bytes(),
        18 => vec![b'l'; 255],
        19 => vec![byte; 200],
        20 => vec![b'l'; 256],
        21 => b"x/y".to_vec(),
        22 => vec![0],
        _ => Vec::new(),
    }
}

/// Returns the name of an extended attribute: one of the image's, a new one, or none that there can be.
pub fn attribute(byte: u8) -> Vec<u8> {
    match byte % 8 {
        0 => b"user.5".to_vec(),
        1 => b"user.400".to_vec(),
        2..5 => format!("user.n{byte}").into_bytes(),
        5 => b"security.capability".to_vec(),
        6 => [b"trusted.", &[b't'; 240][..]].concat(),
        _ => b"unknown".to_vec(),
    }
}
