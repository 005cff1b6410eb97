//! The key of a run: who shows it is the machine's owner. The tool makes it anew for each run and puts it into the boot module, of which
//! only the system tenant sees a part, and into a file of its own that only the owner reads.

use std::{io, path::Path};

use subtle::ConstantTimeEq as _;

/// Fewer bytes are no key.
const BYTES_MIN: usize = 32;

/// The key that requests must show. There is none if the agent runs outside of a machine (`--linux`, tests).
#[derive(Debug, Default)]
pub struct Key(Option<Vec<u8>>);

impl Key {
    /// Reads the key of this run.
    ///
    /// # Errors
    /// If there is none, or it is too short to be one: the agent must not serve then.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(path)?.trim_ascii().to_vec();
        match bytes.len() >= BYTES_MIN {
            true => Ok(Self(Some(bytes))),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "it is too short")),
        }
    }

    /// True for what shows the key, in a time that says nothing of it.
    pub fn admits(&self, shown: Option<&str>) -> bool {
        match (&self.0, shown) {
            (None, _) => true,
            (Some(key), Some(shown)) => shown.as_bytes().ct_eq(key).into(),
            (Some(_), None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_is_admitted() {
        let key = Key(Some(b"0123456789abcdef0123456789abcdef".to_vec()));
        assert!(key.admits(Some("0123456789abcdef0123456789abcdef")));
        for wrong in [None, Some(""), Some("0123456789abcdef"), Some("0123456789abcdef0123456789abcdeF")] {
            assert!(!key.admits(wrong), "{wrong:?}");
        }
        assert!(Key::default().admits(None));
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused() {
        let path = std::env::temp_dir().join(format!("gyre-agent-key-{}", std::process::id()));
        std::fs::write(&path, "short\n").unwrap();
        assert!(Key::read(&path).is_err());
        std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        assert!(Key::read(&path).unwrap().admits(Some("0123456789abcdef0123456789abcdef")));
        std::fs::remove_file(&path).unwrap();
        assert!(Key::read(&path).is_err());
    }
}
