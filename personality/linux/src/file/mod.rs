//! Files of a process: descriptors, directories, mask. What the rest of the personality needs of it is [`FileContext`].

pub mod context;
pub mod table;

pub use context::{Executable, FileContext, FileMapping};
