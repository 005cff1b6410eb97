//! How much may be served inline between two choices, for policies whose order has no virtual time to measure it by.

/// An amount that inline service may use up before a choice must be made again.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    per_choice: u64,
    left: u64,
}

impl Allowance {
    /// Allows an amount per choice; 0 = no inline service while others wait.
    pub fn new(per_choice: u64) -> Self {
        Allowance { per_choice, left: per_choice }
    }

    /// Counts an amount; the consumption of a chosen client itself counts too.
    #[inline]
    pub fn spend(&mut self, amount: u64) {
        self.left = self.left.saturating_sub(amount);
    }

    /// Begins again, at a choice.
    #[inline]
    pub fn renew(&mut self) {
        self.left = self.per_choice;
    }

    /// Returns how much may be spent so that something is left still.
    #[inline]
    pub fn spare(&self) -> u64 {
        self.left.saturating_sub(1)
    }

    /// Says whether anything is left.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.left > 0
    }
}
