//! The state of a core in words.

mod common;
use common::*;
use gyre_account::ResourceId;
use gyre_engine::ResourceConfig;
use gyre_engine::simulate::{Simulator, Stop};
use gyre_message::sleep_ns;

fn told(engine: &gyre_engine::Engine) -> String {
    let mut text = String::new();
    engine.tell_state(&mut |words| text.push_str(&format!("{words}\n")));
    text
}

#[test]
fn a_report_names_what_waits_and_the_next_timer() {
    let engine = engine(1, vec![ResourceConfig::new("device")]);
    let mut simulator = Simulator::new(engine, 1);
    simulator.run(1_000, || false);
    assert!(told(engine).contains("0 timers, next none"), "{}", told(engine));
    let payer = tenant(engine, 1);
    engine.spawn_for(resource(0), payer, std::future::pending());
    engine.spawn_for(ResourceId::RUNTIME, payer, async { sleep_ns(60_000_000_000).await });
    let before = told(engine);
    assert!(before.contains("2 queued") && before.contains("queue of device from device for"), "{before}");
    simulator.run(3, || false);
    let text = told(engine);
    assert!(text.contains("1 timers, next in ") && text.contains("0 queued"), "{text}");
    assert!(text.contains("of device for") && text.contains(": Waiting for "), "{text}");
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert!(told(engine).contains("1 tasks, 0 queued; 0 timers, next none"), "{}", told(engine));
}
