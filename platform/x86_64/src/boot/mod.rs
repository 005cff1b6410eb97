//! From the loader to `kernel_main`.

pub(crate) mod command_line;
#[cfg(target_os = "none")]
pub(crate) mod early;
#[cfg(target_os = "none")]
mod entry;
pub(crate) mod options;
pub(crate) mod parts;
pub(crate) mod pvh;
mod spelling;
#[cfg(target_os = "none")]
pub mod start;
pub(crate) mod zone;
