//! The machine as the broker sees it.

use std::io;

use gyre_contract::{
    goals::Goals,
    promise::{Answer, Together},
    zones::{Wish, WishAnswer},
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

    /// Asks the supervisor for cores of another zone, or to take some back; waits until it is done. A refusal is an answer.
    ///
    /// # Errors
    /// `Unsupported` in an instance that is no zone.
    fn wish(&self, wish: &Wish) -> io::Result<WishAnswer>;

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

    fn wish(&self, wish: &Wish) -> io::Result<WishAnswer> {
        gyre_native::zones::wish(wish)
    }

    fn service(&self, tenant: &str) -> io::Result<Box<dyn Service>> {
        Ok(Box::new(Inquiry::connect(tenant)?))
    }
}
