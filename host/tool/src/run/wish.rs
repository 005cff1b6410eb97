//! The wish for a report: SIGUSR1 to `gyre run` has the machine say on its console what it does and what waits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::consts::SIGUSR1;

use crate::failure::{Context as _, Result};

/// Set by the signal until it is taken.
pub struct ReportWish(Arc<AtomicBool>);

impl ReportWish {
    /// Listens to the signal.
    ///
    /// # Errors
    /// When the handler cannot be set.
    pub fn on_signal() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR1, flag.clone()).context(|| "cannot handle signals".into())?;
        Ok(Self(flag))
    }

    /// Returns whether the signal has come since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_one_wish() {
        let wish = ReportWish::on_signal().unwrap();
        assert!(!wish.take());
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGUSR1).unwrap();
        assert!(wish.take() && !wish.take());
    }
}
