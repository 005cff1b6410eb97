//! Accounts of work on behalf of others: one for each pair of a payer and a service.
//!
//! The cycles themselves are in the payer's row of the ledger; the accounts say of them who spent them, so that a bill can show it. An account
//! lives for ever: there are at most as many as pairs of tenants.

use crate::kernel::Kernel;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_account::grant::Spent;
use gyre_contract::monitor;
use gyre_linux::file::calls::channel;
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use gyre_object::SpinLock;

/// See the module.
#[derive(Default)]
pub struct Accounts(SpinLock<BTreeMap<(ActivityId, String), Spent>>);

impl Accounts {
    fn of(&self, payer: ActivityId, service: &str) -> Spent {
        self.0.lock().entry((payer, service.into())).or_default().clone()
    }

    /// Returns all that have been used, as the bill has them.
    pub fn export(&self) -> Vec<monitor::OnBehalf> {
        let accounts = self.0.lock();
        let used = accounts.iter().map(|((payer, service), spent)| monitor::OnBehalf {
            payer: payer.0,
            service: service.clone(),
            cycles: spent.load(Ordering::Relaxed),
        });
        used.filter(|account| account.cycles > 0).collect()
    }
}

/// Serves `gyre_contract::native::GRANT`.
pub fn grant(kernel: &'static Kernel, thread: &alloc::sync::Arc<Thread>, arguments: Arguments) -> Outcome {
    let payer = kernel.base.tenant_of(thread.tenant().activity());
    let spent_by = |payer: ActivityId, service: &str| {
        let is_here = kernel.base.machine.tenants.iter().any(|tenant| tenant.name == service);
        is_here.then(|| kernel.behalf.of(payer, service)).ok_or(Errno::EHOSTUNREACH)
    };
    channel::grant(&spent_by, payer, thread, arguments)
}
