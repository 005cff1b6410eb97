//! The ends of a connection as a key.

use crate::tenant::Tenant;
use crate::wire::Ip;
use core::hash::{BuildHasher, Hash, Hasher};

/// Two words that name a connection within the machine.
pub(crate) type Words = [u64; 2];

/// Packs both ends. The tenant is part of it because loopback addresses are each tenant's own.
pub(crate) fn words(tenant: &Tenant, local: Ip, local_port: u16, remote: Ip, remote_port: u16) -> Words {
    let addresses = u64::from(u32::from_be_bytes(local)) << 32 | u64::from(u32::from_be_bytes(remote));
    let ports = u64::from(local_port) << 48 | u64::from(remote_port) << 32 | u64::from(tenant.index);
    [addresses, ports]
}

/// A key with its keyed hash, which is the connection's label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionKey {
    pub words: Words,
    pub label: u64,
}

impl PartialEq for ConnectionKey {
    fn eq(&self, other: &ConnectionKey) -> bool {
        self.words == other.words
    }
}

impl Eq for ConnectionKey {}

impl Hash for ConnectionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.label);
    }
}

/// Passes the keyed hash through.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hashed(u64);

impl BuildHasher for Hashed {
    type Hasher = Hashed;
    fn build_hasher(&self) -> Hashed {
        Hashed(0)
    }
}

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
