//! Archives in the "newc" form, which Linux takes as initial RAM disk (Documentation/driver-api/early-userspace).

/// An archive being written.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    count: u32,
}

impl Archive {
    /// Adds a folder, mode 0755.
    pub fn folder(&mut self, path: &str) {
        self.entry(path, 0o040_755, &[]);
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.entry(path, 0o100_000 | mode, contents);
    }

    /// Ends the archive and returns it.
    pub fn finish(mut self) -> Vec<u8> {
        self.count = 0;
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.count += 1;
        let name_bytes = path.len() as u32 + 1;
        // inode, mode, owner, group, links, time, size, device (2), special device (2), length of the name, check
        let fields = [self.count, mode, 0, 0, 1, 0, contents.len() as u32, 0, 0, 0, 0, name_bytes, 0];
        self.bytes.extend_from_slice(b"070701");
        fields.iter().for_each(|field| self.bytes.extend_from_slice(format!("{field:08X}").as_bytes()));
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_begins_at_a_multiple_of_four() {
        let mut archive = Archive::default();
        archive.folder("dev");
        archive.file("init", 0o755, b"12345");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.starts_with(b"07070100000001000041ED"));
        let headers: Vec<usize> =
            bytes.windows(6).enumerate().filter(|(_, word)| word == b"070701").map(|(at, _)| at).collect();
        assert_eq!(headers.len(), 3);
        assert!(headers.iter().all(|at| at % 4 == 0));
    }
}
