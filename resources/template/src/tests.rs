use crate::protocol::{TallyError, tally};
use crate::state::COUNTERS_MAX;
use crate::{Tally, state::Counters};
use alloc::boxed::Box;
use gyre_account::ActivityId;
use gyre_message::direct::{block_on, direct_link};

fn client() -> tally::Client {
    let server: &'static Tally = Box::leak(Box::default());
    tally::Client::new(direct_link(|request| Box::pin(tally::serve(server, request))))
}

#[test]
fn a_waiter_hears_of_the_count_it_waits_for() {
    let client = client();
    let answer = block_on(async {
        let waiting = client.reached(7, 5);
        assert_eq!(client.add(7, 3).await, Ok(3));
        assert_eq!(client.add(7, 4).await, Ok(7));
        waiting.await
    });
    assert_eq!(answer, Ok(7));
}

#[test]
fn a_count_that_would_overflow_is_refused_and_kept() {
    let client = client();
    block_on(async {
        assert_eq!(client.add(1, u64::MAX).await, Ok(u64::MAX));
        assert_eq!(client.add(1, 1).await, Err(TallyError::Overflow));
        assert_eq!(client.reached(1, u64::MAX).await, Ok(u64::MAX));
    });
}

#[test]
fn an_activity_that_fills_its_counters_leaves_those_of_others() {
    let (greedy, modest) = (ActivityId(1), ActivityId(2));
    let mut counters = Counters::default();
    for counter in 0..COUNTERS_MAX as u64 {
        assert_eq!(counters.add(greedy, counter, 1), Ok(1));
    }
    assert_eq!(counters.add(greedy, u64::MAX, 1), Err(TallyError::TooMany));
    assert_eq!(counters.add(modest, u64::MAX, 1), Ok(1));
}
