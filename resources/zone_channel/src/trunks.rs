//! The trunks of an instance, found by the names of tenants behind them.

use crate::trunk::Trunk;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_channel::{Abroad, Connecting, Name};

/// All trunks of an instance.
#[derive(Default)]
pub struct Trunks(pub Vec<&'static Trunk>);

impl Abroad for Trunks {
    fn connect(&self, name: &Name, own: String, pages: usize) -> Option<Connecting> {
        let is_there = |trunk: &&&'static Trunk| trunk.setup.tenants.iter().any(|tenant| tenant == name.tenant());
        let trunk: &'static Trunk = self.0.iter().find(is_there)?;
        Some(Box::pin(trunk.connect(name.clone(), own, pages)))
    }
}
