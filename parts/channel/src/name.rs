//! Names of channels: `TENANT/NAME`, or `NAME` for one of the tenant's own.

use crate::ChannelError;
use alloc::string::{String, ToString};

/// Bytes of a name within its tenant.
pub const NAME_BYTES_MAX: usize = 64;
/// Bytes of a tenant's name before it.
const TENANT_BYTES_MAX: usize = 64;

/// The full name of a channel.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name {
    tenant: String,
    within: String,
}

impl Name {
    /// Reads a name as `own`, a tenant, writes it: without a tenant's name it is one of its own.
    ///
    /// # Errors
    /// [`ChannelError::Invalid`] if it is empty, too long, or has other letters than a-z, A-Z, 0-9, `-`, `_` and `.`.
    pub fn read(text: &[u8], own: &str) -> Result<Name, ChannelError> {
        let text = core::str::from_utf8(text).map_err(|_| ChannelError::Invalid)?;
        let (tenant, within) = text.split_once('/').unwrap_or((own, text));
        let is_good = |part: &str, most: usize| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            (1..=most).contains(&part.len()) && part.bytes().all(letter)
        };
        if !is_good(tenant, TENANT_BYTES_MAX) || !is_good(within, NAME_BYTES_MAX) {
            return Err(ChannelError::Invalid);
        }
        Ok(Name { tenant: tenant.to_string(), within: within.to_string() })
    }

    /// Returns the name within its tenant.
    pub fn within(&self) -> &str {
        &self.within
    }

    /// Returns the tenant that may listen under it.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }
}
