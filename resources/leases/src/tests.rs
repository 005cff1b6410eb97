use crate::Leases;
use crate::pool::Pool;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use gyre_interface::leases::{Dirt, Goods, Holder, Kind, LeaseError, Lots, Move, Part, Parts, Terms, Wish, leases};
use gyre_machine::PciAddress;
use gyre_message::direct::{block_on, direct_link};
use proptest::prelude::*;

const A: Holder = Holder::Zone(0);
const B: Holder = Holder::Zone(1);

fn device(number: u8) -> PciAddress {
    PciAddress { bus: 0, device: number, function: 0 }
}

fn all() -> Parts {
    Parts {
        cores: vec![1, 2, 3],
        lots: vec![Lots { first: 256, count: 10 }, Lots { first: 300, count: 6 }],
        devices: vec![device(4), device(5)],
    }
}

fn wish(cores: u32, lots: u32) -> Wish {
    Wish { cores, lots, run: lots.min(2), ..Wish::default() }
}

/// Short words for single moves.
trait Short {
    fn take(&mut self, wishes: &[(Holder, Wish)], now: u64) -> Result<Vec<Parts>, LeaseError>;
    fn give(&mut self, holder: Holder, parts: &Parts, now: u64) -> Result<(), LeaseError>;
    fn lend(&mut self, from: Holder, to: Holder, parts: &Parts, now: u64) -> Result<(), LeaseError>;
}

impl Short for Pool {
    fn take(&mut self, wishes: &[(Holder, Wish)], now: u64) -> Result<Vec<Parts>, LeaseError> {
        let taken = |(to, wish): &(Holder, Wish)| Move {
            from: Holder::Free,
            to: *to,
            goods: Goods::Any(wish.clone()),
            terms: Terms::Kept,
        };
        self.exchange(&wishes.iter().map(taken).collect::<Vec<_>>(), now)
    }

    fn give(&mut self, from: Holder, parts: &Parts, now: u64) -> Result<(), LeaseError> {
        let goods = Goods::These(parts.clone());
        self.exchange(&[Move { from, to: Holder::Free, goods, terms: Terms::Kept }], now).map(drop)
    }

    fn lend(&mut self, from: Holder, to: Holder, parts: &Parts, now: u64) -> Result<(), LeaseError> {
        self.exchange(&[Move { from, to, goods: Goods::These(parts.clone()), terms: Terms::Lent }], now).map(drop)
    }
}

#[test]
fn a_wish_that_cannot_be_granted_leaves_those_before_it_ungranted() {
    let mut pool = Pool::new(all(), 100);
    let error = pool.take(&[(A, wish(2, 4)), (B, wish(2, 2))], 200);
    assert_eq!(error, Err(LeaseError::Lacking { kind: Kind::Core, wanted: 2, free: 1 }));
    assert_eq!(pool.parts(Holder::Free), all());
    assert_eq!(pool.held(A, 300), Default::default());
    assert_eq!(pool.held(Holder::Free, 300).core_cycles, 3 * 200);
}

#[test]
fn busy_says_who_holds_what() {
    let mut pool = Pool::new(all(), 0);
    let with = Wish { devices: vec![device(4)], ..wish(1, 10) };
    let granted = pool.take(&[(A, with.clone())], 10).unwrap();
    assert_eq!(granted[0].lots, [Lots { first: 256, count: 10 }]);
    let busy = LeaseError::Busy { part: Part::Device(device(4)), holder: A };
    assert_eq!(pool.take(&[(B, Wish { devices: vec![device(4)], ..Wish::default() })], 20), Err(busy));
    assert_eq!(
        pool.give(B, &Parts { lots: vec![Lots { first: 255, count: 2 }], ..Parts::default() }, 20),
        Err(LeaseError::Unknown { part: Part::Lot(255) })
    );
    let twice = Parts { lots: vec![Lots { first: 256, count: 2 }, Lots { first: 257, count: 1 }], ..Parts::default() };
    assert_eq!(pool.give(A, &twice, 20), Err(LeaseError::Unknown { part: Part::Lot(257) }));
    let twice = Parts { cores: vec![1, 1], ..Parts::default() };
    assert_eq!(pool.give(A, &twice, 20), Err(LeaseError::Unknown { part: Part::Core(1) }));
    let wild = Parts { lots: vec![Lots { first: u64::MAX, count: 2 }], ..Parts::default() };
    assert_eq!(pool.give(A, &wild, 20), Err(LeaseError::Unknown { part: Part::Lot(u64::MAX) }));
}

#[test]
fn lots_are_dirty_until_they_are_cleared() {
    let mut pool = Pool::new(all(), 0);
    let clean = Wish { dirt: Dirt::Refused, ..wish(0, 4) };
    assert!(matches!(pool.take(&[(A, clean.clone())], 1), Err(LeaseError::Lacking { free: 0, .. })));
    pool.cleaned(Lots { first: 300, count: 6 }).unwrap();
    let parts = pool.take(&[(A, clean)], 2).unwrap().remove(0);
    assert_eq!(parts.lots, [Lots { first: 300, count: 4 }]);
    assert_eq!(pool.cleaned(parts.lots[0]), Err(LeaseError::Busy { part: Part::Lot(300), holder: A }));
    pool.give(A, &parts, 3).unwrap();
    assert_eq!(pool.holders(4)[0].dirty_lots, 14);
}

#[test]
fn a_loan_names_its_lender() {
    let mut pool = Pool::new(all(), 0);
    let parts = pool.take(&[(A, wish(2, 0))], 1).unwrap().remove(0);
    let one = Parts { cores: vec![parts.cores[0]], ..Parts::default() };
    pool.lend(A, B, &one, 11).unwrap();
    let holders = pool.holders(21);
    let borrower = holders.iter().find(|holding| holding.holder == B).unwrap();
    assert_eq!(borrower.lent, [(Part::Core(1), A)]);
    assert_eq!((pool.held(A, 21).core_cycles, pool.held(B, 21).core_cycles), (10 + 20, 10));
    assert_eq!(pool.lend(A, Holder::Zone(99), &one, 30), Err(LeaseError::NoHolder));
}

#[test]
fn as_many_as_were_borrowed_pay_a_loan_back_whichever_they_are() {
    let mut pool = Pool::new(all(), 0);
    pool.take(&[(A, wish(2, 2)), (B, wish(1, 0))], 1).unwrap();
    let lent = pool.parts(A);
    let debts = |pool: &Pool, holder| pool.holders(9).into_iter().find(|one| one.holder == holder).unwrap().lent;
    pool.lend(A, B, &lent, 2).unwrap();
    assert_eq!(debts(&pool, B).len(), 4);
    let other = Parts { cores: vec![3], lots: vec![Lots { first: lent.lots[0].first, count: 1 }], ..Parts::default() };
    pool.lend(B, A, &other, 3).unwrap();
    assert_eq!((debts(&pool, A), debts(&pool, B).len()), (vec![], 2), "a core and a lot are paid back");
    // a refused change owes what was owed before
    let rest = pool.parts(B);
    let gift = |from, to, goods, terms| Move { from, to, goods, terms };
    let twice =
        [gift(B, A, Goods::These(rest.clone()), Terms::Lent), gift(B, A, Goods::These(rest.clone()), Terms::Lent)];
    assert!(pool.exchange(&twice, 4).is_err());
    assert_eq!((debts(&pool, A), debts(&pool, B).len()), (vec![], 2));
    pool.lend(B, A, &rest, 5).unwrap();
    let more: Vec<Part> = debts(&pool, A).into_iter().map(|(part, _)| part).collect();
    assert_eq!(more, [Part::Core(2)], "it gave one core more than it owed");
    let total: u128 = pool.holders(9).iter().map(|one| one.held.core_cycles).sum();
    assert_eq!(total, 9 * all().cores.len() as u128);
}

#[test]
fn the_resource_answers_by_messages() {
    let server: &'static Leases = Box::leak(Box::new(Leases::new(Pool::new(all(), gyre_machine::now()))));
    let client = leases::Client::new(direct_link(|request| Box::pin(leases::serve(server, request))));
    block_on(async {
        let taken = client.take(A, wish(1, 4)).await.unwrap();
        let goods = Goods::These(taken);
        let swap = [
            Move { from: A, to: Holder::Free, goods: Goods::All, terms: Terms::Kept },
            Move { from: Holder::Free, to: B, goods, terms: Terms::Kept },
        ];
        let granted = client.exchange(swap.to_vec()).await.unwrap();
        assert_eq!(granted[0], granted[1]);
        let lender = client.lend(A, B, granted[1].clone()).await;
        assert!(matches!(lender, Err(LeaseError::Busy { holder: B, .. })));
        let holders = client.holders().await.unwrap();
        assert!(holders.iter().any(|holding| holding.holder == B && holding.parts == granted[1]));
    });
}

/// A deed of somebody who may want anything.
#[derive(Clone, Debug)]
enum Deed {
    Take(u16, u32, u32, Vec<u8>),
    TakeTwo(u32, u32),
    Give(u16, usize, u32, u32),
    Lend(u16, u16, usize, u32),
    Crash(u16),
    Swap(u16, u16, u32, u32),
    Clean(u64, u32),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        (0u16..4, 0u32..4, 0u32..12, proptest::collection::vec(3u8..7, 0..3))
            .prop_map(|(z, c, l, d)| Deed::Take(z, c, l, d)),
        (0u32..3, 0u32..9).prop_map(|(c, l)| Deed::TakeTwo(c, l)),
        (0u16..4, 0usize..4, 0u32..12, 0u32..3).prop_map(|(z, c, l, skip)| Deed::Give(z, c, l, skip)),
        (0u16..4, 0u16..4, 0usize..3, 0u32..5).prop_map(|(a, b, c, l)| Deed::Lend(a, b, c, l)),
        (0u16..4).prop_map(Deed::Crash),
        (0u16..4, 0u16..4, 0u32..3, 0u32..9).prop_map(|(a, b, c, l)| Deed::Swap(a, b, c, l)),
        (250u64..310, 0u32..8).prop_map(|(first, count)| Deed::Clean(first, count)),
    ]
}

/// Parts of a holder: so many cores and lots of its.
fn some(pool: &Pool, zone: Holder, cores: usize, lots: u32, skip: u32) -> Parts {
    let mut parts = pool.parts(zone);
    parts.cores.truncate(cores);
    parts.lots.truncate(1);
    if let Some(run) = parts.lots.first_mut() {
        let skip = skip.min(run.count);
        *run = Lots { first: run.first + u64::from(skip), count: (run.count - skip).min(lots) };
    }
    parts
}

fn act(pool: &mut Pool, deed: &Deed, now: u64) {
    let zone = |number: &u16| Holder::Zone(*number);
    match deed {
        Deed::Take(z, cores, lots, devices) => {
            let devices = devices.iter().map(|number| device(*number)).collect();
            let _ = pool.take(&[(zone(z), Wish { devices, ..wish(*cores, *lots) })], now);
        }
        Deed::TakeTwo(cores, lots) => drop(pool.take(&[(A, wish(*cores, *lots)), (B, wish(*cores, *lots))], now)),
        Deed::Give(z, cores, lots, skip) => {
            let parts = some(pool, zone(z), *cores, *lots, *skip);
            pool.give(zone(z), &parts, now).unwrap();
        }
        Deed::Lend(from, to, cores, lots) => {
            let parts = some(pool, zone(from), *cores, *lots, 0);
            assert_eq!(pool.lend(zone(from), zone(to), &parts, now).is_ok(), from != to);
        }
        Deed::Crash(z) => {
            let parts = pool.parts(zone(z));
            pool.give(zone(z), &parts, now).unwrap();
        }
        Deed::Swap(a, b, cores, lots) => {
            let moved = |from, to, goods| Move { from, to, goods, terms: Terms::Kept };
            let before = pool.holders(now);
            let moves = [
                moved(zone(a), Holder::Free, Goods::All),
                moved(Holder::Free, zone(b), Goods::Any(wish(*cores, *lots))),
                moved(zone(b), Holder::Supervisor, Goods::These(Parts { cores: vec![1], ..Parts::default() })),
            ];
            if pool.exchange(&moves, now).is_err() {
                let state = |holders: &[gyre_interface::leases::Holding]| {
                    let one = |holding: &gyre_interface::leases::Holding| {
                        (holding.holder, holding.parts.clone(), holding.lent.clone(), holding.dirty_lots, holding.held)
                    };
                    holders.iter().map(one).collect::<Vec<_>>()
                };
                assert_eq!(state(&before), state(&pool.holders(now)), "a refused exchange leaves no trace");
            }
        }
        Deed::Clean(first, count) => drop(pool.cleaned(Lots { first: *first, count: *count })),
    }
}

fn check(pool: &Pool, now: u64) {
    let holders = pool.holders(now);
    let mut parts = Parts::default();
    holders.iter().for_each(|holding| parts.extend(holding.parts.clone()));
    parts.cores.sort_unstable();
    parts.devices.sort_unstable();
    assert_eq!((&parts.cores, &parts.devices), (&all().cores, &all().devices), "each part has one holder");
    let mut numbers: Vec<u64> = parts.lots.iter().flat_map(|run| run.first..run.first + u64::from(run.count)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (256..266).chain(300..306).collect::<Vec<u64>>());
    let elapsed = u128::from(now - 1_000);
    let sum =
        |of: fn(&gyre_interface::leases::Held) -> u128| holders.iter().map(|holding| of(&holding.held)).sum::<u128>();
    assert_eq!(sum(|held| held.core_cycles), 3 * elapsed);
    assert_eq!(sum(|held| held.lot_cycles), 16 * elapsed);
    assert_eq!(sum(|held| held.device_cycles), 2 * elapsed);
    for core in pool.cores(now) {
        assert_eq!(u128::from(core.elapsed), elapsed);
        assert_eq!(core.held.iter().map(|(_, cycles)| cycles).sum::<u64>(), core.elapsed);
    }
    let by_cores = |holder| {
        pool.cores(now)
            .iter()
            .flat_map(|core| core.held.clone())
            .filter(|(who, _)| *who == holder)
            .map(|(_, c)| u128::from(c))
            .sum::<u128>()
    };
    assert!(holders.iter().all(|one| one.held.core_cycles == by_cores(one.holder)));
}

proptest! {
    #[test]
    fn every_part_has_one_holder_and_the_times_are_the_elapsed_time(deeds in proptest::collection::vec((deed(), 0u64..50), 0..60)) {
        let mut pool = Pool::new(all(), 1_000);
        let mut now = 1_000;
        for (deed, pause) in &deeds {
            now += pause;
            // Clocks of two cores may differ by a little.
            act(&mut pool, deed, now - pause % 3);
            check(&pool, now);
        }
    }
}
