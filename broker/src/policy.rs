//! The contract between a broker and its policies.
//!
//! A broker makes a [`Plan`] of a [`Window`], lets each of its policies decide about the knobs that it owns, writes the
//! plan down, and asks the kernel for the changes. A policy sees measured numbers only; it reads no clock and allocates nothing.

use crate::plan::{Owner, Plan};
use crate::window::Window;

/// A policy: turns what was measured into allocations.
pub trait Policy {
    /// Names the policy.
    fn owner(&self) -> Owner;

    /// Writes into `plan` what the knobs of this policy should stand at from now on, each with its reason.
    ///
    /// The plan cuts what is above a limit or above what is left, and refuses knobs that another policy owns.
    fn decide(&mut self, window: &Window<'_>, plan: &mut Plan);
}
