//! The guide shows code that is compiled and tested.

const GUIDE: &str = include_str!("../../docs/guide/first-scheduler.md");
const CODE: &str = include_str!("../examples/first_scheduler.rs");

#[test]
fn every_code_block_of_the_guide_is_part_of_the_example() {
    let blocks: Vec<_> = GUIDE.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        assert!(CODE.contains(block), "not in the example:\n{block}");
    }
}
