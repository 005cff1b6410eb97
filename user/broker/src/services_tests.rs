use super::*;
use gyre_services::fractions::Fractions;
use gyre_services::protocol::Join;
use std::cell::RefCell;
use std::rc::Rc;

const WINDOW_NS: u64 = 500_000_000;

/// A service whose clients are served in proportion to their fractions, at most `per_s` answers a second in all, and at most what each asks for.
struct Plant {
    fractions: Fractions,
    per_s: f64,
    asks: Vec<f64>,
    rest: Vec<f64>,
    changes: u64,
}

#[derive(Clone)]
struct Shared(Rc<RefCell<Plant>>);

impl Service for Shared {
    fn lines(&self) -> io::Result<Vec<Line>> {
        Ok(self.0.borrow().fractions.lines())
    }

    fn set(&self, wishes: &[(String, u32)]) -> io::Result<Result<(), Refused>> {
        let mut plant = self.0.borrow_mut();
        plant.changes += 1;
        Ok(plant.fractions.set(wishes))
    }
}

fn plant(clients: &[(&str, u32, u64, f64)]) -> Shared {
    let mut fractions = Fractions::default();
    for (name, fraction, goal_per_ks, _) in clients {
        fractions.join(name, &Join { fraction: *fraction, goal_per_ks: *goal_per_ks, response_ns: 0 }).unwrap();
    }
    let asks: Vec<f64> = clients.iter().map(|client| client.3).collect();
    let rest = vec![0.0; asks.len()];
    Shared(Rc::new(RefCell::new(Plant { fractions, per_s: 100.0, asks, rest, changes: 0 })))
}

/// Lets a window pass.
fn pass(plant: &Shared) {
    let plant = &mut *plant.0.borrow_mut();
    for number in 0..plant.asks.len() {
        let fraction = plant.fractions.line(number).map_or(0, |line| line.fraction);
        let rate = (plant.per_s * f64::from(fraction) / f64::from(WHOLE)).min(plant.asks[number]);
        plant.rest[number] += rate * WINDOW_NS as f64 / 1e9;
        while plant.rest[number] >= 1.0 {
            plant.rest[number] -= 1.0;
            plant.fractions.note(number, 1, 1);
        }
    }
}

fn follow(plant: &Shared, windows: u64, making: Making) -> Vec<goals::Line> {
    let mut services = Services::default();
    services.find(["frames"].into_iter(), |_| Ok(Box::new(plant.clone())));
    let mut lines = Vec::new();
    for window in 1..=windows {
        pass(plant);
        lines = services.decide(window * WINDOW_NS, WINDOW_NS, making);
    }
    lines
}

fn fraction(plant: &Shared, number: usize) -> u32 {
    plant.0.borrow().fractions.line(number).unwrap().fraction
}

#[test]
fn a_client_that_misses_its_goal_gets_more_of_the_service_from_one_without() {
    let plant = plant(&[("shop", 100, 40_000, 1e9), ("batch", 900, 0, 1e9)]);
    let lines = follow(&plant, 120, Making::Changes);
    let (shop, batch) = (fraction(&plant, 0), fraction(&plant, 1));
    assert!((380..=480).contains(&shop) && shop + batch <= WHOLE, "{shop} {batch} {lines:?}");
    assert_eq!((lines[0].tenant.as_str(), lines[0].goal.as_str()), ("frames:shop", "40/s"));
    assert!(batch >= 450, "{batch}");
}

#[test]
fn a_dry_run_moves_nothing_and_says_what_it_would() {
    let plant = plant(&[("shop", 100, 40_000, 1e9), ("batch", 900, 0, 1e9)]);
    let lines = follow(&plant, 20, Making::DryRun);
    assert_eq!((fraction(&plant, 0), plant.0.borrow().changes), (100, 0));
    assert!(lines[0].part > 0.1 && lines[0].is_met == Some(false), "{lines:?}");
}

#[test]
fn goals_beyond_the_service_leave_everybody_something() {
    let plant = plant(&[("a", 400, 900_000, 1e9), ("b", 400, 900_000, 1e9), ("batch", 200, 0, 1e9)]);
    follow(&plant, 60, Making::Changes);
    let all: Vec<u32> = (0..3).map(|number| fraction(&plant, number)).collect();
    assert!(all.iter().sum::<u32>() <= WHOLE && all.iter().all(|part| *part >= 1), "{all:?}");
}

/// A service that has gone.
struct Gone;

impl Service for Gone {
    fn lines(&self) -> io::Result<Vec<Line>> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn set(&self, _: &[(String, u32)]) -> io::Result<Result<(), Refused>> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn a_service_that_is_gone_is_forgotten_and_found_again() {
    let mut services = Services::default();
    services.find(["x"].into_iter(), |_| Ok(Box::new(Gone)));
    assert_eq!(services.decide(1, 1, Making::Changes), []);
    assert!(services.known.is_empty());
    services.find(["x"].into_iter(), |_| Err(io::ErrorKind::ConnectionRefused.into()));
    assert!(services.known.is_empty());
}
