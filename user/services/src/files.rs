//! A file service: reads and writes files of one folder. Names have no folders, so no client leaves it.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use crate::{
    protocol::{Refused, Work},
    service::Server,
};

/// Most bytes of a piece of work.
const BYTES_MAX: u32 = 48 << 10;
/// Bytes that a request without data counts.
const LEAST: u64 = 512;

/// See the module.
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// Serves the files of a folder.
    #[must_use]
    pub fn new(folder: &Path) -> Files {
        Files { folder: folder.to_owned() }
    }

    fn path(&self, name: &str) -> Result<PathBuf, Refused> {
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/') && !name.contains('\0');
        is_plain.then(|| self.folder.join(name)).ok_or_else(|| Refused::Invalid(format!("`{name}` is no plain name")))
    }
}

fn failed(error: std::io::Error) -> Refused {
    Refused::Invalid(error.to_string())
}

impl Server for Files {
    fn work(&mut self, _client: usize, work: &Work) -> Result<(Vec<u8>, u64), Refused> {
        match work {
            Work::Read { bytes, .. } if *bytes > BYTES_MAX => {
                Err(Refused::Invalid(format!("more than {BYTES_MAX} bytes")))
            }
            Work::Read { name, offset, bytes } => {
                let file = File::open(self.path(name)?).map_err(failed)?;
                let mut data = vec![0; *bytes as usize];
                let read = file.read_at(&mut data, *offset).map_err(failed)?;
                data.truncate(read);
                Ok((data, LEAST.max(read as u64)))
            }
            Work::Write { name, offset, data } => {
                let mut options = OpenOptions::new();
                let file = options.write(true).create(true).truncate(false).open(self.path(name)?).map_err(failed)?;
                file.write_all_at(data, *offset).map_err(failed)?;
                Ok((Vec::new(), LEAST.max(data.len() as u64)))
            }
            Work::Send { .. } | Work::Draw { .. } => Err(Refused::WrongService),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nobody_leaves_the_folder() {
        let folder = std::env::temp_dir().join(format!("gyre-services-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut files = Files::new(&folder);
        let write = Work::Write { name: "a".into(), offset: 3, data: vec![1, 2, 3] };
        assert_eq!(files.work(0, &write), Ok((vec![], 512)));
        let read = |name: &str, bytes| Work::Read { name: name.into(), offset: 2, bytes };
        assert_eq!(files.work(0, &read("a", 100)), Ok((vec![0, 1, 2, 3], 512)));
        for name in ["", "..", "../a", "/etc/passwd", ".hidden", "a\0"] {
            assert!(matches!(files.work(0, &read(name, 1)), Err(Refused::Invalid(_))), "{name}");
        }
        assert!(files.work(0, &read("a", BYTES_MAX + 1)).is_err() && files.work(0, &read("missing", 1)).is_err());
        assert_eq!(files.work(0, &Work::Draw { number: 1, pixels: 1 }), Err(Refused::WrongService));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
