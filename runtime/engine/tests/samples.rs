//! Figures of all cores, for any asker: copying them is on the asker's bill on each core, and on no other bill.

mod common;
use common::*;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_engine::ResourceConfig;
use gyre_engine::simulate::{Simulator, Stop};

const SAMPLES: u64 = 50;
/// Each copy looks at the clock at its beginning and at its end, 20 ns each.
const COPY_NS_MIN: u64 = 40;

#[test]
fn a_sample_is_paid_by_its_asker_on_each_core() {
    let engine = engine(2, vec![ResourceConfig::new("one")]);
    let asker = tenant(engine, 100);
    engine.spawn_for(resource(0), asker, async move {
        for _ in 0..SAMPLES {
            let snapshot = engine.snapshot().await.unwrap();
            for core in &snapshot.cores {
                let rows: u64 = core.rows.iter().map(|row| row.columns[Column::Cycles as usize]).sum();
                assert_eq!(rows, core.partition.handling, "a copy is complete: core {}", core.core);
                assert_eq!(core.partition.unattributed(), 0);
            }
        }
    });
    assert_eq!(Simulator::new(engine, 7).run(1_000_000, || false), Stop::Quiet);
    let copying_ns = used(engine, 1, asker, Column::Cycles) * 1_000_000 / gyre_machine::cycles_per_ms();
    assert!(copying_ns >= SAMPLES * COPY_NS_MIN, "{copying_ns} ns on the other core");
    let runtime = engine.accounts().line(1).table().cell(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME);
    let infrastructure_ns = runtime.get(Column::Cycles) * 1_000_000 / gyre_machine::cycles_per_ms();
    assert!(infrastructure_ns <= copying_ns, "{infrastructure_ns} ns of the infrastructure, {copying_ns} of the asker");
    check_books(engine);
}
