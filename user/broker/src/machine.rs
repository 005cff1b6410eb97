//! The machine as the broker sees it.

use std::io;

use gyre_contract::{
    goals::Goals,
    promise::{Answer, Together},
};
use gyre_services::inquiry::Inquiry;

use crate::services::Service;

/// Tells goals and takes changes.
pub trait Machine {
    /// Reads all goals and measures.
    ///
    /// # Errors
    /// The kernel's error.
    fn goals(&self) -> io::Result<Goals>;

    /// Asks for a change; a refusal is an answer.
    ///
    /// # Errors
    /// The kernel's error.
    fn change(&self, together: &Together) -> io::Result<Answer>;

    /// Connects to the service of a tenant; waits for nothing.
    ///
    /// # Errors
    /// `ConnectionRefused` if it has none.
    fn service(&self, tenant: &str) -> io::Result<Box<dyn Service>>;
}

/// The machine that the broker runs in, by native calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Machine for Native {
    fn goals(&self) -> io::Result<Goals> {
        gyre_native::goals::goals()
    }

    fn change(&self, together: &Together) -> io::Result<Answer> {
        gyre_native::goals::change(together)
    }

    fn service(&self, tenant: &str) -> io::Result<Box<dyn Service>> {
        Ok(Box::new(Inquiry::connect(tenant)?))
    }
}
