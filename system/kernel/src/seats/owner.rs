//! Whose a cell is, for lists and the log.

use super::image::Hash;
use alloc::string::String;
use alloc::vec::Vec;

/// Whose a cell is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The tenant.
    pub tenant: String,
    /// The process.
    pub process: i32,
    /// The name of the process when it asked.
    pub name: Vec<u8>,
    /// The runtime's image: `sha256:` and 64 digits.
    pub runtime: String,
    /// The hash itself, if the runtime lies in a file.
    pub hash: Option<Hash>,
}
