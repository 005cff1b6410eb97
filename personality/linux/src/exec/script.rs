//! Scripts: `#!interpreter [argument]`.

use super::Request;
use crate::file::Executable;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// How many scripts may be interpreted by scripts (Linux: 4 further ones).
const DEPTH_MAX: usize = 4;
/// Bytes of the first line that count (BINPRM_BUF_SIZE).
const LINE_BYTES_MAX: usize = 256;

/// The program file to load, with its arguments and environment.
pub(super) struct Started {
    pub(super) file: Executable,
    pub(super) arguments: Vec<Vec<u8>>,
    pub(super) environment: Vec<Vec<u8>>,
}

/// Follows interpreters until there is a program that is no script.
pub(super) async fn resolve(thread: &Arc<Thread>, first: Executable, request: Request) -> Result<Started, Errno> {
    let mut file = first;
    let mut arguments = request.arguments;
    let mut path = request.path;
    if path.is_empty() || request.directory != super::CURRENT_DIRECTORY && !path.starts_with(b"/") {
        path = file.path.clone();
    }
    for _ in 0..=DEPTH_MAX {
        let head = super::load::read(&file, 0, LINE_BYTES_MAX).await?;
        if !head.starts_with(b"#!") {
            if arguments.is_empty() {
                arguments.push(Vec::new());
            }
            return Ok(Started { file, arguments, environment: request.environment });
        }
        let (interpreter, argument) = parse(&head)?;
        let rest = arguments.into_iter().skip(1);
        arguments = [interpreter.clone()].into_iter().chain(argument).chain([path]).chain(rest).collect();
        file = thread.process().files().open_executable(thread, super::CURRENT_DIRECTORY, &interpreter, 0).await?;
        path = interpreter;
    }
    Err(Errno::ELOOP)
}

/// Returns interpreter and optional argument of a first line.
fn parse(head: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>), Errno> {
    let line = head.get(2..).unwrap_or_default();
    let end = line.iter().position(|byte| *byte == b'\n' || *byte == 0);
    let line = line.get(..end.unwrap_or(line.len())).unwrap_or_default();
    let line = line.trim_ascii();
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let cut = line.iter().position(blank).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(cut);
    // A line that is cut off in the interpreter's name would run something else.
    if interpreter.is_empty() || end.is_none() && cut == line.len() && head.len() == LINE_BYTES_MAX {
        return Err(Errno::ENOEXEC);
    }
    let argument = argument.trim_ascii();
    Ok((interpreter.to_vec(), (!argument.is_empty()).then(|| argument.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_is_cut_into_interpreter_and_one_argument() {
        assert_eq!(parse(b"#!/bin/sh\necho").unwrap(), (b"/bin/sh".to_vec(), None));
        assert_eq!(parse(b"#! /bin/sh  -e x \n").unwrap(), (b"/bin/sh".to_vec(), Some(b"-e x".to_vec())));
        assert_eq!(parse(b"#!\n").unwrap_err(), Errno::ENOEXEC);
        assert_eq!(parse(&[b"#!".as_slice(), &[b'a'; 254]].concat()).unwrap_err(), Errno::ENOEXEC);
    }
}
