//! The output of a program in a tenant: it goes to our own streams, or into one JSON document at its end.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use serde::Serialize;

use crate::{
    check::print_json,
    failure::{Context as _, Result},
    out,
};

/// The exit code if the reader of the program's output has gone: that of a program that SIGPIPE ended.
const UNREAD: u8 = 141;

/// The output of a program.
pub enum Streams {
    /// Ours.
    Own,
    /// Kept until its end.
    Kept(Kept),
}

/// A program's output, as `--json` writes it; bytes that are no UTF-8 are marked.
#[derive(Default, Serialize)]
pub struct Kept {
    exit_code: u8,
    stdout: String,
    stderr: String,
    #[serde(skip)]
    bytes: [Vec<u8>; 2],
}

impl Streams {
    /// Chooses.
    pub fn new(json: bool) -> Self {
        if json { Self::Kept(Kept::default()) } else { Self::Own }
    }

    /// Takes a piece of standard output; answers an exit code if its reader has gone.
    ///
    /// # Errors
    /// When our standard output does not take it.
    pub fn stdout(&mut self, bytes: &[u8]) -> Result<Option<ExitCode>> {
        match self {
            Self::Own => pass(bytes),
            Self::Kept(kept) => {
                kept.bytes[0].extend(bytes);
                Ok(None)
            }
        }
    }

    /// Takes a piece of standard error. Output may still be wanted if errors are not.
    pub fn stderr(&mut self, bytes: &[u8]) {
        match self {
            Self::Own => drop(io::stderr().write_all(bytes)),
            Self::Kept(kept) => kept.bytes[1].extend(bytes),
        }
    }

    /// The program has ended.
    ///
    /// # Errors
    /// When the JSON cannot be written.
    pub fn end(&mut self, code: u8) -> Result<ExitCode> {
        if let Self::Kept(kept) = self {
            let [stdout, stderr] = kept.bytes.each_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            print_json(&Kept { exit_code: code, stdout, stderr, ..Kept::default() })?;
        }
        Ok(ExitCode::from(code))
    }
}

fn pass(bytes: &[u8]) -> Result<Option<ExitCode>> {
    match io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()) {
        Err(error) if out::is_end(&error) => Ok(Some(ExitCode::from(UNREAD))),
        written => written.map(|()| None).context(|| "cannot write to standard output".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_both_streams_and_each_in_order() {
        let mut streams = Streams::new(true);
        assert!(streams.stdout(b"a").unwrap().is_none());
        streams.stderr(b"e");
        streams.stdout(b"b\n").unwrap();
        let Streams::Kept(kept) = &streams else { panic!("kept") };
        assert_eq!(kept.bytes, [b"ab\n".to_vec(), b"e".to_vec()]);
        assert_eq!(serde_json::to_string(&Kept::default()).unwrap(), r#"{"exit_code":0,"stdout":"","stderr":""}"#);
    }
}
