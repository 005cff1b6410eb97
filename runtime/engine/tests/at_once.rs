//! Work that cannot wait for a turn reaches a core in the middle of a program.

mod common;
use common::*;
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, UserContext};
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn a_closure_reaches_a_core_that_runs_a_program_before_its_slice_ends() {
    let engine = engine(2, vec![ResourceConfig::new("linux")]);
    let hog = tenant(engine, 1);
    let params = ThreadParams { cores: 0b10, kernel: resource(0) };
    assert!(engine.spawn_thread(
        hog,
        params,
        Box::pin(async {
            let mut context = UserContext::new().unwrap();
            let table = PageTable::new().unwrap().root();
            loop {
                compute::run(&mut context, &table).await;
            }
        })
    ));
    let mut simulator = Simulator::new(engine, 2);
    assert_eq!(simulator.run_for(5_000_000, 100_000), Stop::TimeOver);
    gyre_machine::select_core(0);
    let answer = Rc::new(Cell::new(None));
    let got = answer.clone();
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        got.set(engine.at_once(1, gyre_machine::core_index).await.ok());
    });
    let got = answer.clone();
    assert_eq!(simulator.run(100, move || got.get().is_some()), Stop::Done);
    assert_eq!(answer.get(), Some(1));
    check_books(engine);
}
