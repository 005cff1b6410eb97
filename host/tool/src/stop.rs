//! Ctrl-C and termination: a flag that everything which waits looks at.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::{Context as _, Result};

/// Set once; never cleared.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Sets the flag at Ctrl-C, hang-up and termination. A second Ctrl-C ends the tool at once.
    ///
    /// # Errors
    /// When the handlers cannot be set.
    pub fn on_signals() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone())
                .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
                .context(|| "cannot handle signals".into())?;
        }
        Ok(Self(flag))
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
