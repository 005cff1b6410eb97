//! From the loader to `kernel_main`.

#[cfg(target_os = "none")]
pub(crate) mod early;
#[cfg(target_os = "none")]
mod entry;
pub(crate) mod pvh;
#[cfg(target_os = "none")]
pub mod start;
pub(crate) mod zone;
