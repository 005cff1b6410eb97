//! A scheduler whose `tick` never returns: the kernel ends the program by SIGXCPU.

use std::time::Duration;

use gyre_pulse::{Error, Held, Options, Scheduler, Spin, Vcore, run};

struct Stuck(Spin<Option<Held>>);

impl Scheduler for Stuck {
    fn ready(&self, _core: Vcore, held: Held) {
        let before = self.0.with(|waiting| waiting.replace(held));
        assert!(before.is_none(), "there is one thread");
    }

    fn enter(&self, _core: Vcore) -> Option<Held> {
        self.0.with(Option::take)
    }

    fn tick(&self, _core: Vcore, _running: Held) -> Option<Held> {
        loop {
            std::hint::spin_loop();
        }
    }

    fn yielded(&self, _core: Vcore, running: Held) -> Option<Held> {
        Some(running)
    }
}

pub(crate) fn show() -> Result<(), Error> {
    let policy: &'static Stuck = Box::leak(Box::new(Stuck(Spin::new(None))));
    let options = Options { limit: Duration::from_millis(200), ..Options::new(1, Duration::from_millis(1)) };
    run(policy, options, || {
        loop {
            std::hint::spin_loop();
        }
    })
    .map(drop)
}
