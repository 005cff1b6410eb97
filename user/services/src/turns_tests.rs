use super::*;

const MS: u64 = 1_000_000;

fn line(fraction: u32, response_ns: u64) -> Line {
    Line { fraction, response_ns, ..Line::default() }
}

/// Plays a service in virtual time: each client asks again at once; a request takes `cost_ns` and counts `amount`. Answers what each got.
fn play(turns: &mut Turns<u64>, clients: usize, amount: u64) -> Vec<u64> {
    let mut got = vec![0; clients];
    let mut now_ns = 0;
    (0..clients).for_each(|number| (0..4).for_each(|_| turns.push(number, now_ns, now_ns)));
    while now_ns < 10_000 * MS {
        let Some((number, _)) = turns.take(now_ns) else {
            now_ns += MS / 10;
            continue;
        };
        now_ns += MS;
        got[number] += amount;
        turns.push(number, now_ns, now_ns);
        turns.charge(number, amount, now_ns);
    }
    got
}

#[test]
fn files_are_divided_by_fractions_of_bytes() {
    let mut turns = Turns::new(Division::Fair);
    turns.add(0, &line(750, 0), 0).unwrap();
    turns.add(1, &line(250, 0), 0).unwrap();
    let got = play(&mut turns, 2, 4096);
    assert!((got[0] as f64 / (got[0] + got[1]) as f64 - 0.75).abs() < 0.01, "{got:?}");
    turns.update(0, &line(100, 0), 0).unwrap();
    turns.update(1, &line(900, 0), 0).unwrap();
}

#[test]
fn a_reserved_rate_is_kept_beside_who_wants_everything() {
    let rate = 1_000_000;
    let mut turns = Turns::new(Division::Reserved(rate));
    turns.add(0, &line(300, 0), 0).unwrap();
    turns.add(1, &line(100, 0), 0).unwrap();
    turns.add(2, &line(100, 0), 0).unwrap();
    // a request of 1,000 bytes takes a millisecond: the rate of the whole
    let got = play(&mut turns, 3, 1000);
    let part = |bytes: u64| bytes as f64 / 10.0 / rate as f64;
    assert!(part(got[0]) >= 0.295 && part(got[1]) >= 0.098, "{got:?}");
}

#[test]
fn more_than_the_rate_cannot_be_reserved() {
    let mut turns = Turns::<u64>::new(Division::Reserved(1000));
    turns.add(0, &line(1000, 0), 0).unwrap();
    assert_eq!(turns.add(1, &line(1, 0), 0), Err(PolicyError::Overcommitted));
}

#[test]
fn frames_within_their_fraction_are_in_time_beside_who_draws_without_end() {
    let mut turns = Turns::new(Division::Deadlines);
    turns.add(0, &line(500, 20 * MS), 0).unwrap();
    turns.add(1, &line(100, 20 * MS), 0).unwrap();
    let (mut now_ns, mut next_ns, mut late, mut frames) = (0, 0, 0, 0);
    turns.push(1, 0, 0);
    while now_ns < 10_000 * MS {
        while next_ns <= now_ns {
            turns.push(0, next_ns, now_ns);
            next_ns += 20 * MS;
        }
        let Some((number, came_ns)) = turns.take(now_ns) else {
            now_ns += MS;
            continue;
        };
        // the one draws 8 ms of each 20, the other always, 3 ms at once
        let cost_ns = if number == 0 { 8 * MS } else { 3 * MS };
        now_ns += cost_ns;
        if number == 0 {
            frames += 1;
            late += u64::from(now_ns - came_ns > 20 * MS);
        } else {
            turns.push(1, now_ns, now_ns);
        }
        turns.charge(number, cost_ns, now_ns);
    }
    assert!(frames >= 495 && late == 0, "{late} of {frames}");
}
