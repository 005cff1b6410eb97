//! A dump of every frame that Wireshark and tcpdump read (pcap with nanoseconds, link type Ethernet).

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::failure::{Context as _, Result};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINK_ETHERNET: u32 = 1;

/// A dump being written.
pub struct Pcap {
    file: Mutex<BufWriter<File>>,
}

impl Pcap {
    /// Creates the file and writes its header.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).context(|| format!("cannot write the dump {}", path.display()))?;
        let mut file = BufWriter::new(file);
        file.write_all(&header()).context(|| format!("cannot write the dump {}", path.display()))?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Appends a frame. A full disk ends the dump, not the wire.
    pub fn write(&self, frame: &[u8]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let length = frame.len() as u32;
        if let Ok(mut file) = self.file.lock() {
            let words = [now.as_secs() as u32, now.subsec_nanos(), length, length];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let _ = file.write_all(&bytes).and_then(|()| file.write_all(frame));
        }
    }
}

fn header() -> Vec<u8> {
    let version = 2u32 | 4 << 16;
    let words = [MAGIC_NANOSECONDS, version, 0, 0, 65_535, LINK_ETHERNET];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
