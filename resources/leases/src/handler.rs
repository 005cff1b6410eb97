//! The resource: the pool behind a lock, and the clock.

use crate::pool::Pool;
use crate::time::CoreUse;
use alloc::vec::Vec;
use gyre_interface::leases::{Goods, Held, Holder, Holding, LeaseError, Lots, Move, Parts, Terms, Wish, leases};
use gyre_object::SpinLock;

/// The pool of an instance that supervises others.
pub struct Leases {
    pool: SpinLock<Pool>,
}

impl Leases {
    /// Makes the resource of a pool.
    #[must_use]
    pub fn new(pool: Pool) -> Leases {
        Leases { pool: SpinLock::new(pool) }
    }

    fn one(&self, one: Move) -> Result<Parts, LeaseError> {
        let moved = self.pool.lock().exchange(&[one], gyre_machine::now())?;
        Ok(moved.into_iter().next().unwrap_or_default())
    }

    /// Returns how long each core of the pool was in whose hands, up to `now`, a cycle. For figures: short, without a message.
    #[must_use]
    pub fn cores(&self, now: u64) -> Vec<CoreUse> {
        self.pool.lock().cores(now)
    }

    /// Returns a holder's times up to `now`, and the lots that it holds.
    #[must_use]
    pub fn held(&self, holder: Holder, now: u64) -> (Held, u64) {
        let pool = self.pool.lock();
        (pool.held(holder, now), pool.parts(holder).lot_count())
    }

    /// Returns all holders that hold or have held something, up to `now`.
    #[must_use]
    pub fn holders_at(&self, now: u64) -> Vec<Holding> {
        self.pool.lock().holders(now)
    }
}

impl leases::Server for Leases {
    async fn exchange(&'static self, moves: Vec<Move>) -> Result<Vec<Parts>, LeaseError> {
        self.pool.lock().exchange(&moves, gyre_machine::now())
    }

    async fn take(&'static self, holder: Holder, wish: Wish) -> Result<Parts, LeaseError> {
        self.one(Move { from: Holder::Free, to: holder, goods: Goods::Any(wish), terms: Terms::Kept })
    }

    async fn give(&'static self, holder: Holder, parts: Parts) -> Result<(), LeaseError> {
        self.one(Move { from: holder, to: Holder::Free, goods: Goods::These(parts), terms: Terms::Kept }).map(drop)
    }

    async fn lend(&'static self, from: Holder, to: Holder, parts: Parts) -> Result<(), LeaseError> {
        self.one(Move { from, to, goods: Goods::These(parts), terms: Terms::Lent }).map(drop)
    }

    async fn cleaned(&'static self, lots: Lots) -> Result<(), LeaseError> {
        self.pool.lock().cleaned(lots)
    }

    async fn holders(&'static self) -> Result<Vec<Holding>, LeaseError> {
        Ok(self.holders_at(gyre_machine::now()))
    }
}
