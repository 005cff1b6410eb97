use super::*;
use gyre_services::fractions::Fractions;
use gyre_services::protocol::{Join, WHOLE};
use std::cell::{Cell, RefCell};
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
    fn ask(&self) -> io::Result<()> {
        Ok(())
    }

    fn answer(&self) -> Answered {
        Ok(Some(self.0.borrow().fractions.lines()))
    }

    fn set(&self, wishes: &[(String, u32)]) -> io::Result<()> {
        let mut plant = self.0.borrow_mut();
        plant.changes += 1;
        let _refused = plant.fractions.set(wishes);
        Ok(())
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
    let mut lines = Vec::new();
    for window in 1..=windows {
        pass(plant);
        services.ask(window * WINDOW_NS, ["frames"].into_iter(), |_| Ok(Box::new(plant.clone())));
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

type Answered = io::Result<Option<Vec<Line>>>;

/// A service that says what it is told to.
#[derive(Clone)]
struct Says {
    answer: Rc<Cell<fn() -> Answered>>,
    asked: Rc<Cell<u64>>,
}

impl Service for Says {
    fn ask(&self) -> io::Result<()> {
        self.asked.set(self.asked.get() + 1);
        Ok(())
    }

    fn answer(&self) -> Answered {
        (self.answer.get())()
    }

    fn set(&self, _: &[(String, u32)]) -> io::Result<()> {
        Ok(())
    }
}

fn says(answer: fn() -> Answered) -> Says {
    Says { answer: Rc::new(Cell::new(answer)), asked: Rc::default() }
}

/// A machine of a service that works, and one that does not, before it in the alphabet.
struct Neighbours {
    services: Services,
    good: Shared,
    bad: Says,
    connected: Rc<Cell<u64>>,
    window: u64,
}

impl Neighbours {
    fn new(answer: fn() -> Answered) -> Neighbours {
        let good = plant(&[("shop", 100, 40_000, 1e9), ("batch", 900, 0, 1e9)]);
        Neighbours { services: Services::default(), good, bad: says(answer), connected: Rc::default(), window: 0 }
    }

    /// Lets windows pass; returns the lines of the last one.
    fn pass(&mut self, windows: u64) -> Vec<goals::Line> {
        let mut lines = Vec::new();
        for _ in 0..windows {
            pass(&self.good);
            self.window += 1;
            let now_ns = self.window * WINDOW_NS;
            self.services.ask(now_ns, ["bad", "frames"].into_iter(), |tenant| match tenant {
                "frames" => Ok(Box::new(self.good.clone())),
                _ => {
                    self.connected.set(self.connected.get() + 1);
                    Ok(Box::new(self.bad.clone()))
                }
            });
            lines = self.services.decide(now_ns, WINDOW_NS, Making::Changes);
        }
        lines
    }
}

fn strange(lines: &[goals::Line]) -> &str {
    lines.iter().find(|line| line.tenant == "bad:service").map_or("", |line| line.strange.as_str())
}

fn line(client: &str, fraction: u32) -> Line {
    Line { client: client.into(), fraction, goal_per_ks: 1, ..Line::default() }
}

fn said(lines: Vec<Line>) -> Answered {
    Ok(Some(lines))
}

#[test]
fn a_service_that_is_gone_is_forgotten_and_found_again() {
    let mut all = Neighbours::new(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let lines = all.pass(3);
    assert_eq!((all.connected.get(), strange(&lines)), (3, ""), "each window looks for the one that follows");
    assert!(!all.services.known.contains_key("bad"));
    all.services.ask(1, ["none"].into_iter(), |_| Err(io::ErrorKind::ConnectionRefused.into()));
    assert!(!all.services.known.contains_key("none"));
}

#[test]
fn a_silent_service_is_asked_once_left_alone_for_a_while_and_stops_nobody() {
    let mut all = Neighbours::new(|| Ok(None));
    assert_eq!(strange(&all.pass(4)), "", "2 s have not passed");
    let lines = all.pass(1);
    assert!(strange(&lines).starts_with("its service does not answer"), "{lines:?}");
    all.pass(55);
    assert_eq!((all.connected.get(), all.bad.asked.get()), (1, 1), "30 s are not over");
    all.pass(10);
    assert_eq!((all.connected.get(), all.bad.asked.get()), (2, 2));
    let shop = fraction(&all.good, 0);
    assert!((380..=480).contains(&shop), "the neighbour's clients have their goals: {shop}");
}

#[test]
fn a_machine_that_stood_still_makes_no_service_silent() {
    let mut all = Neighbours::new(|| Ok(None));
    all.pass(1);
    all.window += 1000;
    assert_eq!(strange(&all.pass(1)), "", "it had two windows only");
}

#[test]
fn lies_are_named_and_nothing_is_computed_with_them() {
    let lies: [(fn() -> Answered, &str); 8] = [
        (|| said(vec![line("a", u32::MAX), line("b", u32::MAX)]), "a fraction of 4294967295"),
        (|| said(vec![line("a", 0)]), "a fraction of 0"),
        (|| said(vec![line("a", 600), line("b", 401)]), "1001 thousandths together"),
        (|| said(vec![line("a", 1), line("a", 1)]), "the client a twice"),
        (|| said((0..65).map(|at| line(&at.to_string(), 1)).collect()), "65 clients"),
        (|| said(vec![line(&"n".repeat(65), 1)]), "no tenant's name"),
        (|| said(vec![line("a\x1b[2J", 1)]), "no tenant's name"),
        (|| Err(io::Error::from_raw_os_error(90)), "cannot be asked"),
    ];
    for (answer, words) in lies {
        let mut all = Neighbours::new(answer);
        let lines = all.pass(1);
        assert!(strange(&lines).contains(words), "{words}: {lines:?}");
        all.pass(59);
        assert_eq!(all.connected.get(), 1, "{words}: it is left alone");
        all.pass(1);
        assert_eq!(all.connected.get(), 2, "{words}: it has another chance");
    }
}

#[test]
fn numbers_without_sense_are_no_reason_to_fail() {
    let wild: [fn() -> Answered; 4] = [
        || said(vec![]),
        || said(vec![Line { goal_per_ks: u64::MAX, ..line("a", 1) }]),
        || said(vec![Line { goal_per_ks: u64::MAX, done: u64::MAX, used: u64::MAX, ..line("a", 1000) }]),
        || said(vec![line("a", 1), Line { goal_per_ks: 0, ..line("b", 999) }]),
    ];
    let (service, mut services) = (says(|| said(vec![])), Services::default());
    for (window, answer) in (1..).zip(wild) {
        service.answer.set(answer);
        services.ask(window, ["x"].into_iter(), |_| Ok(Box::new(service.clone())));
        let lines = services.decide(window, 0, Making::Changes);
        assert!(lines.iter().all(|line| line.strange.is_empty()), "{lines:?}");
    }
    assert!(services.alone.is_empty() && service.asked.get() == 4);
}
