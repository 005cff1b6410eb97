//! The console: standard error of the host.

use std::io::Write;

/// Writes bytes to the console.
pub fn console_write(bytes: &[u8]) {
    let _ = std::io::stderr().write_all(bytes);
}
