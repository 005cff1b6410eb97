//! Numbers of those whom a policy learns about: each has one while it is there, and no number is given twice. So nobody inherits what was
//! learnt of somebody who has gone.

use std::collections::BTreeMap;

use gyre_broker::TenantId;

/// See the module.
#[derive(Debug, Default)]
pub struct Numbers {
    given: u64,
    present: BTreeMap<String, TenantId>,
}

impl Numbers {
    /// Returns the numbers of those who are there now, in their order; everybody else has gone.
    pub fn of<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Vec<TenantId> {
        let before = std::mem::take(&mut self.present);
        let number = |name: &'a str| {
            let id = before.get(name).copied().unwrap_or_else(|| self.fresh());
            self.present.insert(name.to_owned(), id);
            id
        };
        names.map(number).collect()
    }

    fn fresh(&mut self) -> TenantId {
        let id = TenantId(self.given);
        self.given = self.given.wrapping_add(1);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stays_keeps_its_number_and_who_comes_gets_one_that_nobody_had() {
        let mut numbers = Numbers::default();
        let mut of = |names: &[&str]| -> Vec<u64> { numbers.of(names.iter().copied()).iter().map(|id| id.0).collect() };
        assert_eq!(of(&["a", "b"]), [0, 1]);
        assert_eq!(of(&["b", "c"]), [1, 2]);
        assert_eq!(of(&["a", "c", "b"]), [3, 2, 1], "`a` came again: it begins anew");
    }
}
